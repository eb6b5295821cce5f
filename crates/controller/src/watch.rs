//! Watches: report a cluster's objects as complete lists and single changes. Errors are reported, and requests retried.

mod backoff;
mod handler;
mod life;
mod list;
mod page;
mod watched;

use std::{pin::pin, time::Duration};

use client::requests::explain;
use futures::StreamExt as _;
use kube::{Resource, ResourceExt as _, api::WatchEvent};
use mirror_core::mirror::Limit;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use self::{
    backoff::{Failure, WatchBackoff},
    handler::{kept, number},
    life::Life,
    list::{Pages, list},
};
pub use self::{
    handler::{ConnectionStatus, Event, EventHandler},
    watched::{Watched, notice_recovery},
};

/// Maximum duration of a watch request in seconds. Then the watch is resumed where it ended. As by default in kube.
const WATCH_SECONDS: u32 = 290;
/// Minimum time between two lists, if the only reason for the second one is that objects were omitted.
const RELIST: Duration = Duration::from_secs(5);

/// Watches until the handler stops listening. Objects are decoded as `K`, and reported and kept as `T`.
///
/// After each failure, it lists again. Only a watch that was open for a while, and then ended without an error, is
/// resumed where it ended. An API server that was unreachable may have been restored to an older state. A watch from a
/// newer version would then miss the differences, and all changes until that version is reached again.
pub async fn watch<K, T>(mut watched: Watched<K>, mut handler: impl EventHandler<T>)
where
    T: From<K>,
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let mut backoff = WatchBackoff::default();
    let mut pages = Pages::default();
    let mut limit = std::mem::take(&mut watched.limit);
    loop {
        if let Some(recovered) = &mut watched.recovered {
            recovered.mark_unchanged();
        }
        let listed = list(&watched, &mut limit, &mut pages, &mut handler, &mut backoff).await;
        let ended = match listed {
            Ok(listed) => follow(&watched, listed, &mut limit, &mut handler, &mut backoff).await,
            Err(failure) => Err(failure),
        };
        let Err(failure) = ended else { return };
        let (pause, news) = backoff.after(&failure);
        if news {
            handler
                .on_connection(ConnectionStatus::Lost(failure.loss()))
                .await;
        }
        pause.wait(watched.recovered.as_mut()).await;
    }
}

/// Reports a list, and watches from its resourceVersion. `Ok` if the handler stops listening.
async fn follow<K, T>(
    watched: &Watched<K>,
    (change, mut version): (Event<T>, String),
    limit: &mut Limit,
    handler: &mut impl EventHandler<T>,
    backoff: &mut WatchBackoff,
) -> Result<(), Failure>
where
    T: From<K>,
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + 'static,
{
    if !handler.on_event(change).await {
        return Ok(());
    }
    let mut look = Instant::now() + RELIST;
    let parameters = watched.watch_params(WATCH_SECONDS);
    loop {
        let events = watched.api.watch(&parameters, &version).await;
        let mut events = pin!(events.map_err(|error| Failure::of("watch", error))?);
        let mut life = Life::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sleep_until(look), if limit.is_stale() || limit.waits() => {
                    if limit.is_stale() {
                        return Err(Failure::Stale);
                    }
                    look = Instant::now() + RELIST;
                    continue;
                }
                () = sleep_until(life.next_sign()) => {
                    if life.is_silent() {
                        return Err(Failure::Broken("the watch stalled".to_owned(), life.settled));
                    }
                    life.stayed(handler, backoff).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            let (next_version, object) = read(event, life.settled)?;
            version = next_version;
            life.shown(handler, backoff).await;
            if let Some((object, is_there)) = object
                && let Some(change) = change_of(object, is_there, limit, handler)
                && !handler.on_event(change).await
            {
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

/// The resourceVersion after an event, and its object with whether it still exists. A bookmark has no object.
fn read<K: Resource>(
    event: kube::Result<WatchEvent<K>>,
    is_settled: bool,
) -> Result<(String, Option<(K, bool)>), Failure> {
    let (object, is_there) = match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, true),
        Ok(WatchEvent::Deleted(object)) => (object, false),
        Ok(WatchEvent::Bookmark(bookmark)) => {
            return Ok((bookmark.metadata.resource_version, None));
        }
        Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status)) => {
            return Err(Failure::said("watch", status));
        }
        Err(error) => return Err(Failure::Broken(explain(&error), is_settled)),
    };
    let version = object.resource_version().unwrap_or_default();
    Ok((version, Some((object, is_there))))
}

/// What the handler gets for an object that has changed; `None` if the limit leaves the object out.
fn change_of<K: Resource, T: From<K>>(
    object: K,
    is_there: bool,
    limit: &mut Limit,
    handler: &impl EventHandler<T>,
) -> Option<Event<T>> {
    let number = number(&object, |namespace, name| limit.number(namespace, name));
    let object = kept(object, handler);
    if is_there && handler.keeps(&object) {
        let is_admitted = limit.admits(number, handler.cost(&object));
        return is_admitted.then_some(Event::Apply(object));
    }
    limit.gone(number);
    Some(Event::Delete(object))
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;
