//! Watches: what a cluster holds, as whole lists and single changes. Errors are reported and waited out.

mod backoff;
mod life;
mod list;

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch as latest,
    time::{Instant, sleep_until},
};

use self::{
    backoff::{Backoff, Failure},
    life::Life,
    list::{Pages, list},
};
use crate::{
    api::metadata::NEVER_KEPT,
    hint::in_brief,
    mirror::{LeftOut, Limit, Weight},
};

/// What a watch tells.
#[derive(Clone, Debug)]
pub(super) enum Change<T> {
    /// All objects there are; what is not in it is not there.
    List {
        /// The objects.
        objects: Vec<Arc<T>>,
        /// What was left out because there were more than the limit.
        left_out: LeftOut,
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
/// Time between a list and the next one, at least, that only what is left out asks for.
const RELIST: Duration = Duration::from_secs(5);

/// What to watch.
pub(super) struct Watched<K> {
    pub(super) api: Api<K>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    /// Objects beyond it are left out.
    pub(super) limit: Limit,
    /// Changes when the server answers again after it had not: then no pause is waited for to its end.
    pub(super) recovered: Option<latest::Receiver<u64>>,
}

impl<K> Watched<K> {
    /// All objects of an API.
    pub(super) fn all(api: Api<K>) -> Self {
        Self {
            api,
            labels: None,
            fields: None,
            limit: Limit::default(),
            recovered: None,
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

    /// At most so many objects as it says.
    pub(super) fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// Pauses end early when this changes.
    pub(super) fn recovered(self, recovered: latest::Receiver<u64>) -> Self {
        Self {
            recovered: Some(recovered),
            ..self
        }
    }
}

/// Who listens to a watch. Both calls may wait: a watch whose listener is slow is slow itself, and holds at
/// most one list in memory.
pub(super) trait Listener<T>: Send {
    /// Takes a change. `false`: nobody listens any more.
    fn tell(&mut self, change: Change<T>) -> impl Future<Output = bool> + Send;
    /// Takes what became of the connection.
    fn contact(&mut self, contact: Contact) -> impl Future<Output = ()> + Send;
    /// Whether it wants to know of this object: what no selector can say.
    fn keeps(&self, _: &T) -> bool {
        true
    }
    /// What is held of an object.
    fn trimmed(&self, object: T) -> T {
        object
    }
    /// What an object takes of the limit, where there is one.
    fn weight(&self, _: &T) -> Weight {
        Weight::default()
    }
    /// Namespace and name of the Service that an object is, or belongs to: how it is called when it is left out.
    fn service(&self, _: &T) -> (String, String) {
        Default::default()
    }
}

/// Watches until nobody listens any more. What comes over the wire as `K` is told, and kept, as `T`.
///
/// Each round begins with a list. Only a watch whose time was up is resumed where it ended: an API server that was away
/// may have been put back to an older state, and then who asks for what follows the newest version that he knows is
/// never told what differs, nor what comes until that version is reached again.
pub(super) async fn watch<K, T>(mut watched: Watched<K>, mut listener: impl Listener<T>)
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
    let mut backoff = Backoff::default();
    let mut pages = Pages::default();
    let mut limit = std::mem::take(&mut watched.limit);
    loop {
        if let Some(recovered) = &mut watched.recovered {
            recovered.mark_unchanged();
        }
        let listed = list(
            &watched,
            &mut limit,
            &mut pages,
            &mut listener,
            &mut backoff,
        )
        .await;
        let ended = match listed {
            Ok(listed) => follow(&watched, listed, &mut limit, &mut listener, &mut backoff).await,
            Err(failure) => Err(failure),
        };
        let Err(failure) = ended else { return };
        let (pause, news) = backoff.after(&failure);
        if news {
            listener.contact(Contact::Lost(failure.to_string())).await;
        }
        pause.wait(watched.recovered.as_mut()).await;
    }
}

/// Tells a list, and watches from there. `Ok` when nobody listens any more.
async fn follow<K, T>(
    watched: &Watched<K>,
    (change, mut version): (Change<T>, String),
    limit: &mut Limit,
    listener: &mut impl Listener<T>,
    backoff: &mut Backoff,
) -> Result<(), Failure>
where
    T: From<K>,
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + 'static,
{
    if !listener.tell(change).await {
        return Ok(());
    }
    let mut look = Instant::now() + RELIST;
    let parameters = WatchParams {
        label_selector: watched.labels.clone(),
        field_selector: watched.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        ..WatchParams::default()
    };
    loop {
        let events = watched.api.watch(&parameters, &version).await;
        let mut events = pin!(events.map_err(|error| Failure::of("watch", error))?);
        let mut life = Life::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sleep_until(look), if limit.is_stale() || limit.waits_for_room() => {
                    if limit.is_stale() {
                        return Err(Failure::Stale);
                    }
                    look = Instant::now() + RELIST;
                    continue;
                }
                () = sleep_until(life.next_sign()) => {
                    if life.is_silent() {
                        return Err(Failure::Broken("the watch was silent".to_owned(), life.settled));
                    }
                    life.stayed(listener, backoff).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            let event = match event {
                Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status)) => {
                    return Err(Failure::said("watch", status));
                }
                Err(error) => return Err(Failure::Broken(explain(&error), life.settled)),
                Ok(event) => event,
            };
            life.shown(listener, backoff).await;
            let (object, is_there) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(_) => continue,
            };
            version = object.resource_version().unwrap_or_default();
            let number = number(&object, |namespace, name| limit.number(namespace, name));
            let object = kept(object, listener);
            let change = if is_there && listener.keeps(&object) {
                if !limit.admits(number, listener.weight(&object)) {
                    continue;
                }
                Change::Apply(object)
            } else {
                limit.gone(number);
                Change::Delete(object)
            };
            if !listener.tell(change).await {
                return Ok(());
            }
        }
        if !life.was_long() {
            return Err(Failure::Broken(
                "the watch ended early".to_owned(),
                life.settled,
            ));
        }
    }
}

/// The number by which a limit knows an object.
fn number(object: &impl Resource, of: impl Fn(&str, &str) -> u64) -> u64 {
    let metadata = object.meta();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    of(namespace, metadata.name.as_deref().unwrap_or_default())
}

/// As it is kept, already while the rest of its list is on its way. Objects that are kept as they come lose what nobody
/// here reads and what can be as large as all the rest: who set which field, and a copy of the whole object.
fn kept<K: Resource, T: From<K>>(mut object: K, listener: &impl Listener<T>) -> Arc<T> {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !NEVER_KEPT.contains(&key.as_str()));
    }
    Arc::new(listener.trimmed(object.into()))
}

/// An error and what caused it, on one short line. Errors of the client hold addresses, never credentials.
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
    in_brief(&text)
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;
