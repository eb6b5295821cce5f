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

/// Changes within this time of each other are handled together.
const TOGETHER: Duration = Duration::from_millis(200);
/// Interval of looks without a change of a Link: ages grow, and mirrors get endpoints.
const REDRAW: Duration = Duration::from_secs(5);

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

/// Waits for the next change, and for those that come with it; no longer than [`REDRAW`].
pub async fn next_change(changes: &mut LinkChanges) {
    if tokio::time::timeout(REDRAW, changes.next()).await.is_ok() {
        while tokio::time::timeout(TOGETHER, changes.next()).await.is_ok() {}
    }
}
