//! Watches: what a cluster holds, as whole lists and single changes. Errors are reported and waited out.

mod backoff;

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch as latest,
    time::{Instant, sleep_until},
};

use self::backoff::{Backoff, Failure};
use crate::{
    api::metadata::NEVER_KEPT,
    hint::in_brief,
    mirror::{LeftOut, Limit},
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
/// A watch that is silent for longer has outlived its request: its end was lost.
const SILENT: Duration = Duration::from_secs(295);
/// Objects per page of a list.
const PAGE: u32 = 500;
/// A list that goes on beyond so many times its limit is not one to wait for.
const ENDLESS: usize = 20;
/// Time between a list and the next one, at least, that only what is left out asks for.
const RELIST: Duration = Duration::from_secs(5);
/// A watch that was open for so long counts as contact, also without an event.
const SETTLED: Duration = Duration::from_secs(1);
/// A watch that was open for so long has lived: after it the backoff starts anew.
const LIVED: Duration = Duration::from_secs(10);

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
    let mut limit = std::mem::take(&mut watched.limit);
    loop {
        if let Some(recovered) = &mut watched.recovered {
            recovered.mark_unchanged();
        }
        let failure = match round(&watched, &mut limit, &mut listener, &mut backoff).await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let (pause, news) = backoff.after(&failure);
        if news {
            listener.contact(Contact::Lost(failure.to_string())).await;
        }
        pause.wait(watched.recovered.as_mut()).await;
    }
}

/// A list, and the watch that goes on from there. `Ok` when nobody listens any more.
async fn round<K, T>(
    watched: &Watched<K>,
    limit: &mut Limit,
    listener: &mut impl Listener<T>,
    backoff: &mut Backoff,
) -> Result<(), Failure>
where
    T: From<K>,
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + 'static,
{
    let (change, mut version) = list(watched, limit, listener, backoff).await?;
    if !listener.tell(change).await {
        return Ok(());
    }
    let listed = Instant::now();
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
                () = sleep_until(listed + RELIST), if limit.is_stale() => {
                    return Err(Failure::Stale);
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
            let object = kept(object);
            let change = if is_there && listener.keeps(&object) {
                if !limit.admits(number) {
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

/// Lists all pages. Returns also the version that a watch goes on from.
async fn list<K, T>(
    watched: &Watched<K>,
    limit: &mut Limit,
    listener: &impl Listener<T>,
    backoff: &mut Backoff,
) -> Result<(Change<T>, String), Failure>
where
    T: From<K>,
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut parameters = ListParams {
        label_selector: watched.labels.clone(),
        field_selector: watched.fields.clone(),
        limit: Some(PAGE),
        ..ListParams::default()
    };
    let most = limit.most();
    let (mut listing, mut seen) = (limit.list(), 0_usize);
    let service = |object: &T| listener.service(object);
    loop {
        let page = watched.api.list(&parameters).await;
        let page = page.map_err(|error| Failure::of("list", error))?;
        backoff.answered();
        for object in page.items {
            seen += 1;
            let number = number(&object, |namespace, name| listing.number(namespace, name));
            let object = kept(object);
            if listener.keeps(&object) {
                listing.put(number, object, service);
            }
        }
        if listing.is_over() && seen / ENDLESS > most {
            return Err(Failure::Endless(seen));
        }
        parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if parameters.continue_token.is_none() {
            let version = page.metadata.resource_version.unwrap_or_default();
            let (objects, left_out) = listing.end(service);
            return Ok((Change::List { objects, left_out }, version));
        }
    }
}

/// What one watch request has shown of itself.
struct Life {
    opened: Instant,
    last: Instant,
    /// Whether it counts as contact.
    settled: bool,
    /// Whether it showed an event, or stayed for [`LIVED`].
    lived: bool,
}

impl Life {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            opened: now,
            last: now,
            settled: false,
            lived: false,
        }
    }

    fn was_long(&self) -> bool {
        self.opened.elapsed() >= LIVED
    }

    fn is_silent(&self) -> bool {
        self.last.elapsed() >= SILENT
    }

    /// When to look again, if no event comes.
    fn next_sign(&self) -> Instant {
        if !self.settled {
            self.opened + SETTLED
        } else if !self.was_long() {
            self.opened + LIVED
        } else {
            self.last + SILENT
        }
    }

    /// An event or a bookmark came.
    async fn shown<T>(&mut self, listener: &mut impl Listener<T>, backoff: &mut Backoff) {
        self.last = Instant::now();
        self.lived = true;
        self.stayed(listener, backoff).await;
    }

    /// It is open, for as long as it is.
    async fn stayed<T>(&mut self, listener: &mut impl Listener<T>, backoff: &mut Backoff) {
        if !self.settled {
            self.settled = true;
            listener.contact(Contact::Alive).await;
        }
        if self.was_long() {
            self.lived = true;
        }
        if self.lived {
            backoff.lived(self.was_long());
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
fn kept<K: Resource, T: From<K>>(mut object: K) -> Arc<T> {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !NEVER_KEPT.contains(&key.as_str()));
    }
    Arc::new(object.into())
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
