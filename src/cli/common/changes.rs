//! Waits for changes of Links, for commands that look again whenever something may have changed.

use std::{pin::Pin, time::Duration};

use client::Cluster;
use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api,
    runtime::{WatchStreamExt as _, watcher},
};
use mirror_core::api::link::LinkObject;
use observe::clusters::kube_context::WATCH;
use tokio::time::{sleep, timeout};

/// Changes within this time of each other are handled together.
const TOGETHER: Duration = Duration::from_millis(200);
/// Maximum time that changes are waited for together: many Links may change all the time.
const AT_MOST: Duration = Duration::from_secs(1);
/// Interval of looks without a change of a Link: ages grow, and mirrors get endpoints.
pub const REDRAW: Duration = Duration::from_secs(5);

/// Something that yields whenever a Link may have changed.
pub type LinkChanges = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// The changes of all Links of these clusters. It never ends: a watch that breaks is opened again.
pub fn link_changes<'c>(clusters: impl IntoIterator<Item = &'c Cluster>) -> LinkChanges {
    let mut streams: Vec<LinkChanges> = Vec::new();
    for cluster in clusters {
        let api: Api<LinkObject> = Api::all(cluster.client.clone());
        let seconds = u32::try_from(WATCH.as_secs()).unwrap_or(u32::MAX);
        let events = watcher(api, watcher::Config::default().timeout(seconds));
        // An error is a change too: the cluster is no longer reachable.
        streams.push(events.default_backoff().map(|_| ()).boxed());
    }
    stream::select_all(streams).boxed()
}

/// Waits for the next change, but no longer than [`REDRAW`], and then for those that come with it, but no longer than
/// [`AT_MOST`].
pub async fn next_change(changes: &mut LinkChanges) {
    next_change_within(changes, REDRAW).await;
}

/// The same for those who look again after another time.
pub async fn next_change_within(changes: &mut LinkChanges, redraw: Duration) {
    match timeout(redraw, changes.next()).await {
        Err(_) => {}
        // There is no cluster to watch.
        Ok(None) => sleep(redraw).await,
        Ok(Some(())) => {
            let together =
                async { while let Ok(Some(())) = timeout(TOGETHER, changes.next()).await {} };
            let _ = timeout(AT_MOST, together).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// A change each 100 ms, as of many Links that report.
    fn restless() -> LinkChanges {
        let each = stream::unfold((), async |()| {
            sleep(Duration::from_millis(100)).await;
            Some(((), ()))
        });
        each.boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn changes_without_end_do_not_hold_a_look_up() {
        let start = Instant::now();
        let mut changes = restless();
        let waited = timeout(Duration::from_secs(60), async {
            for _ in 0..5 {
                next_change(&mut changes).await;
            }
        });
        assert!(waited.await.is_ok(), "no look in a minute");
        assert!(
            start.elapsed() <= 5 * (AT_MOST + TOGETHER),
            "{:?}",
            start.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn looks_go_on_without_changes_and_without_a_cluster() {
        for mut changes in [stream::pending().boxed(), stream::empty().boxed()] {
            let start = Instant::now();
            next_change(&mut changes).await;
            assert_eq!(start.elapsed(), REDRAW);
        }
    }
}
