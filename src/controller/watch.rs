//! Watches: what a cluster holds, as whole lists and single changes. Errors are reported and waited out.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{Api, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::clock::jitter;
use crate::mirror::trim;

/// What a watch tells.
#[derive(Clone, Debug)]
pub(super) enum Change<T> {
    /// All objects there are; what is not in it is not there.
    List {
        /// The objects.
        objects: Vec<Arc<T>>,
        /// Whether there were more than the limit, and the rest was left out.
        more: bool,
    },
    /// An object is there, in this state.
    Apply(Arc<T>),
    /// An object is no longer there; its last known state.
    Delete(Arc<T>),
}

/// What a watch tells about itself.
#[derive(Clone, Debug)]
pub(super) enum Contact {
    /// The API server answers.
    Alive,
    /// It does not, or not as it should.
    Lost(String),
}

/// The longest a watch request lasts, seconds; then it is resumed where it ended. Kubernetes' default.
const WATCH_SECONDS: u32 = 290;
/// Objects per page of a list.
const PAGE: u32 = 500;
/// A list that goes on beyond so many times its limit is not one to wait for.
const ENDLESS: usize = 20;

/// Time until such a list is tried again.
const ENDLESS_PAUSE: Duration = Duration::from_secs(120);
/// Time until the first try after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
/// The longest time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What to watch.
pub(super) struct Watched<K> {
    pub(super) api: Api<K>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    /// Objects beyond so many are left out.
    pub(super) limit: usize,
}

impl<K> Watched<K> {
    /// All objects of an API.
    pub(super) fn all(api: Api<K>) -> Self {
        Self {
            api,
            labels: None,
            fields: None,
            limit: usize::MAX,
        }
    }

    /// Only objects that this label selector takes.
    pub(super) fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// Only objects that this field selector takes.
    pub(super) fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            fields: Some(selector.into()),
            ..self
        }
    }

    /// At most so many objects.
    pub(super) fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Who listens to a watch. Both calls may wait: a watch whose listener is slow is slow itself, and holds at
/// most one list in memory.
pub(super) trait Listener<T>: Send {
    /// Takes a change. `false`: nobody listens any more.
    fn tell(&mut self, change: Change<T>) -> impl Future<Output = bool> + Send;
    /// Takes what became of the connection.
    fn contact(&mut self, contact: Contact) -> impl Future<Output = ()> + Send;
}

/// Watches until nobody listens any more.
pub(super) async fn watch<K>(watched: Watched<K>, mut listener: impl Listener<K>)
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let mut config = watcher::Config::default()
        .timeout(WATCH_SECONDS)
        .page_size(PAGE);
    config.label_selector = watched.labels;
    config.field_selector = watched.fields;
    let (mut failures, mut restarts) = (0, 0);
    // Each round begins with a list.
    loop {
        let mut stream = pin!(watcher(watched.api.clone(), config.clone()));
        let (mut listed, mut more, mut seen) = (Vec::new(), false, 0_usize);
        let lost = loop {
            let event = match stream.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) => match verdict(&error) {
                    // It lists again, or goes on where it ended, by itself: no news, unless it has to again and again.
                    Verdict::Relist | Verdict::Resume => {
                        sleep(pause(restarts)).await;
                        restarts = u32::min(restarts + 1, 8);
                        continue;
                    }
                    Verdict::Lost => break explain(&error),
                },
                None => break "the watch has ended".to_owned(),
            };
            // The beginning of a list is an intention, not an answer.
            if !matches!(event, watcher::Event::Init) {
                failures = 0;
                listener.contact(Contact::Alive).await;
            }
            let goes_on = match event {
                watcher::Event::Init => {
                    (listed, more, seen) = (Vec::new(), false, 0);
                    true
                }
                watcher::Event::InitApply(object) => {
                    seen += 1;
                    if listed.len() < watched.limit {
                        listed.push(trimmed(object));
                    } else {
                        more = true;
                    }
                    if more && seen / ENDLESS > watched.limit {
                        failures = u32::MAX;
                        break format!("its list is longer than {seen} objects");
                    }
                    true
                }
                watcher::Event::InitDone => {
                    let objects = std::mem::take(&mut listed);
                    listener.tell(Change::List { objects, more }).await
                }
                watcher::Event::Apply(object) => {
                    restarts = 0;
                    listener.tell(Change::Apply(trimmed(object))).await
                }
                watcher::Event::Delete(object) => {
                    restarts = 0;
                    listener.tell(Change::Delete(trimmed(object))).await
                }
            };
            if !goes_on {
                return;
            }
        };
        listener.contact(Contact::Lost(lost)).await;
        sleep(pause(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// What an error of a watch asks for.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// What is known is too old to go on from; the watcher lists again.
    Relist,
    /// The connection broke, and may be had again: the watch goes on where it ended.
    Resume,
    /// No answer, or no. Once that is over, all is listed again: an API server that comes back may know less than it
    /// did, and would never say so to a watch that goes on where it ended.
    Lost,
}

fn verdict(error: &watcher::Error) -> Verdict {
    match error {
        watcher::Error::WatchError(status) if status.code == 410 => Verdict::Relist,
        watcher::Error::WatchFailed(_) => Verdict::Resume,
        _ => Verdict::Lost,
    }
}

/// Time until the next try, after so many failures in a row: doubles, and stays short enough that a cluster that is
/// back is seen to be within seconds.
fn pause(failures: u32) -> Duration {
    let most = if failures == u32::MAX {
        ENDLESS_PAUSE
    } else {
        LONGEST_PAUSE.min(FIRST_PAUSE * (1 << failures.min(8)))
    };
    most / 2 + jitter(most / 2)
}

/// As it is kept, already while the rest of its list is on its way.
fn trimmed<K: Resource>(mut object: K) -> Arc<K> {
    trim(&mut object);
    Arc::new(object)
}

/// An error and what caused it, on one line. Errors of the client hold addresses, never credentials.
pub(super) fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_what_is_lost_is_told_and_listed_again() {
        let refused = |code| {
            let status = Status::failure("no", "No").with_code(code);
            watcher::Error::WatchError(status.boxed())
        };
        let start = |code| {
            let status = Status::failure("no", "No").with_code(code);
            watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed()))
        };
        assert_eq!(verdict(&refused(410)), Verdict::Relist);
        // Kubernetes may also say it at the start, where the watcher would ask for the same again and again.
        assert_eq!(verdict(&start(410)), Verdict::Lost);
        assert_eq!(verdict(&start(401)), Verdict::Lost);
        assert_eq!(verdict(&refused(500)), Verdict::Lost);
        let broken = watcher::Error::WatchFailed(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert_eq!(verdict(&broken), Verdict::Resume);
    }

    #[test]
    fn tries_become_rarer_but_never_rare() {
        for (failures, least, most) in [(0, 400, 800), (1, 800, 1600), (9, 2500, 5000)] {
            let pause = pause(failures).as_millis();
            assert!(pause >= least && pause <= most, "{failures}: {pause} ms");
        }
        assert!(pause(u32::MAX) >= Duration::from_secs(60));
    }
}
