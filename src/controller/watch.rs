//! Watches: what a cluster holds, as whole lists and single changes. Errors are reported and waited out.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;

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
    let mut stream = pin!(watcher(watched.api, config).default_backoff());
    let (mut listed, mut more, mut seen) = (Vec::new(), false, 0_usize);
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                listener.contact(Contact::Lost(explain(&error))).await;
                continue;
            }
        };
        listener.contact(Contact::Alive).await;
        let goes_on = match event {
            watcher::Event::Init => {
                (listed, more, seen) = (Vec::new(), false, 0);
                true
            }
            watcher::Event::InitApply(object) => {
                seen += 1;
                if listed.len() < watched.limit {
                    listed.push(Arc::new(trim(object)));
                } else {
                    more = true;
                }
                if more && seen / ENDLESS > watched.limit {
                    let message = format!("its list is longer than {seen} objects");
                    listener.contact(Contact::Lost(message)).await;
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    seen = 0;
                }
                true
            }
            watcher::Event::InitDone => {
                let objects = std::mem::take(&mut listed);
                listener.tell(Change::List { objects, more }).await
            }
            watcher::Event::Apply(object) => {
                listener.tell(Change::Apply(Arc::new(trim(object)))).await
            }
            watcher::Event::Delete(object) => {
                listener.tell(Change::Delete(Arc::new(trim(object)))).await
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Drops what nobody here reads before it is kept.
fn trim<K: Resource>(mut object: K) -> K {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    metadata.generate_name = None;
    metadata.self_link = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
    }
    object
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
