//! Watches: what a cluster holds, as whole lists and single changes. Errors are reported and waited out.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{Api, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::clock::jitter;
use crate::api::metadata::NEVER_KEPT;

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

/// Watches until nobody listens any more. What comes over the wire as `K` is told, and kept, as `T`.
pub(super) async fn watch<K, T>(watched: Watched<K>, mut listener: impl Listener<T>)
where
    T: From<K>,
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
                    // No news, unless it has to be had again and again.
                    Verdict::Broken => break None,
                    Verdict::Lost => break Some(explain(&error)),
                },
                None => break Some("the watch has ended".to_owned()),
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
                        listed.push(kept(object));
                    } else {
                        more = true;
                    }
                    if more && seen / ENDLESS > watched.limit {
                        failures = u32::MAX;
                        break Some(format!("its list is longer than {seen} objects"));
                    }
                    true
                }
                watcher::Event::InitDone => {
                    let objects = std::mem::take(&mut listed);
                    listener.tell(Change::List { objects, more }).await
                }
                watcher::Event::Apply(object) => {
                    restarts = 0;
                    listener.tell(Change::Apply(kept(object))).await
                }
                watcher::Event::Delete(object) => {
                    restarts = 0;
                    listener.tell(Change::Delete(kept(object))).await
                }
            };
            if !goes_on {
                return;
            }
        };
        if let Some(lost) = lost {
            listener.contact(Contact::Lost(lost)).await;
            sleep(pause(failures)).await;
            failures = failures.saturating_add(1);
        } else {
            sleep(pause(restarts)).await;
            restarts = u32::min(restarts + 1, 8);
        }
    }
}

/// What an error of a watch means. Either way all is listed again; only a watch whose time was up goes on where it ended.
/// An API server that was away may have been put back to an older state, and then who asks for what follows the newest
/// version that he knows is never told what differs, nor what comes until that version is reached again.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The connection broke, and may be had again at once; or what is known is too old to go on from.
    Broken,
    /// No answer, or no.
    Lost,
}

fn verdict(error: &watcher::Error) -> Verdict {
    match error {
        watcher::Error::WatchError(status) if status.code == 410 => Verdict::Broken,
        watcher::Error::WatchFailed(_) => Verdict::Broken,
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

/// As it is kept, already while the rest of its list is on its way. Objects that are kept as they come lose what nobody
/// here reads and what can be as large as all the rest: who set which field, and a copy of the whole object.
fn kept<K: Resource, T: From<K>>(mut object: K) -> Arc<T> {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !NEVER_KEPT.contains(&key.as_str()));
    }
    Arc::new(object.into())
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
    use std::sync::Mutex;

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{client::Body, core::Status};

    use super::*;

    #[test]
    fn a_connection_that_breaks_is_no_loss_and_a_refusal_is() {
        let refused = |code| {
            let status = Status::failure("no", "No").with_code(code);
            watcher::Error::WatchError(status.boxed())
        };
        let start = |code| {
            let status = Status::failure("no", "No").with_code(code);
            watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed()))
        };
        assert_eq!(verdict(&refused(410)), Verdict::Broken);
        // Kubernetes may also say it at the start, where the watcher would ask for the same again and again.
        assert_eq!(verdict(&start(410)), Verdict::Lost);
        assert_eq!(verdict(&start(401)), Verdict::Lost);
        assert_eq!(verdict(&refused(500)), Verdict::Lost);
        let broken = watcher::Error::WatchFailed(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert_eq!(verdict(&broken), Verdict::Broken);
    }

    /// Notes what a watch tells.
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl Listener<ConfigMap> for Notes {
        async fn tell(&mut self, change: Change<ConfigMap>) -> bool {
            let mut notes = self.0.lock().unwrap();
            notes.push(match change {
                Change::List { objects, .. } => format!("{} objects", objects.len()),
                Change::Apply(_) | Change::Delete(_) => "a change".to_owned(),
            });
            true
        }

        async fn contact(&mut self, contact: Contact) {
            if let Contact::Lost(message) = contact {
                self.0.lock().unwrap().push(message);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_break_all_is_listed_again_and_nothing_is_said_of_it() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let server = tower::service_fn(move |request: http::Request<Body>| {
            let watches = request.uri().query().is_some_and(|q| q.contains("watch="));
            let mut asked = seen.lock().unwrap();
            asked.push(if watches { "watch" } else { "list" });
            async move {
                let list = serde_json::json!({
                    "kind": "ConfigMapList", "apiVersion": "v1", "items": [],
                    "metadata": { "resourceVersion": "7" },
                });
                let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                let frames = if watches {
                    vec![Err(broken)]
                } else {
                    vec![Ok(Frame::data(Bytes::from(list.to_string())))]
                };
                let body = StreamBody::new(stream::iter(frames));
                Ok::<_, std::convert::Infallible>(http::Response::new(body))
            }
        });
        let api: Api<ConfigMap> = Api::all(kube::Client::new(server, "default"));
        let notes = Arc::<Mutex<Vec<String>>>::default();
        let watching = watch(Watched::all(api), Notes(notes.clone()));
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, watching).await.unwrap_err();
        let asked = asked.lock().unwrap();
        assert_eq!(asked[..6], ["list", "watch"].repeat(3));
        // Not as fast as it can.
        assert!(asked.len() < 20, "{}", asked.len());
        let notes = notes.lock().unwrap();
        assert_eq!(*notes, vec!["0 objects"; asked.len() / 2]);
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
