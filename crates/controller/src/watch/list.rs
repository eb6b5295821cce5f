//! Lists: page by page, with the largest pages that succeed.

use std::{sync::Arc, time::Duration};

use client::requests::{PAGE, exceeded_limit, explain, next_page};
use kube::{Resource, api::ListParams};
use mirror_core::mirror::Limit;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{
    backoff::{Failure, WatchBackoff},
    handler::{ConnectionStatus, Event, EventHandler, kept, number},
    page::Page,
    watched::Watched,
};

/// A list is given up when it has more objects than this number times its limit.
const ENDLESS: usize = 20;
/// A list that takes longer is reported, although it may still complete.
const LONG: Duration = Duration::from_secs(60);

/// The number of objects in a page. It is halved if a page is too large or takes too long.
#[derive(Debug)]
pub struct Pages(u32);

impl Default for Pages {
    fn default() -> Self {
        Self(PAGE)
    }
}

impl Pages {
    /// Doubles the size for a new list, because larger pages may succeed now.
    fn begin(&mut self) {
        self.0 = (self.0 * 2).min(PAGE);
    }

    /// Halves the size. Returns `false` if it was one already.
    fn halve(&mut self) -> bool {
        let was = self.0;
        self.0 = (was / 2).max(1);
        was > 1
    }

    /// Requests a page. `None` if it was too much, and a smaller one has to be requested.
    async fn request<K>(
        &mut self,
        watched: &Watched<K>,
        parameters: &mut ListParams,
    ) -> Result<Option<Page<K>>, Failure>
    where
        K: Resource + Clone + DeserializeOwned + Send + 'static,
    {
        parameters.limit = Some(self.0);
        match Page::request(&watched.api, parameters).await {
            Err(error) if exceeded_limit(&error) && self.halve() => {
                tracing::debug!(
                    objects = self.0,
                    "reduced the page size: {}",
                    explain(&error)
                );
                Ok(None)
            }
            page => page.map(Some).map_err(|error| Failure::of("list", error)),
        }
    }
}

/// Maximum number of pages in a row without an object. A real API server fills each page but the last.
const EMPTY: usize = 8;

/// Lists all pages. Also returns the resourceVersion that a watch can start from.
pub async fn list<K, T>(
    watched: &Watched<K>,
    limit: &mut Limit,
    pages: &mut Pages,
    handler: &mut impl EventHandler<T>,
    backoff: &mut WatchBackoff,
) -> Result<(Event<T>, String), Failure>
where
    T: From<K>,
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut parameters = watched.list_params();
    pages.begin();
    let max = limit.max();
    let (mut listing, mut seen) = (limit.list(), 0_usize);
    let (began, mut is_reported) = (Instant::now(), false);
    let mut empty = 0;
    loop {
        let page = pages.request(watched, &mut parameters).await?;
        if !is_reported && began.elapsed() >= LONG {
            is_reported = true;
            let message = format!("a list takes longer than {} s", LONG.as_secs());
            handler
                .on_connection(ConnectionStatus::Lost(message.into()))
                .await;
        }
        let Some(page) = page else { continue };
        backoff.answered();
        empty = if page.items.is_empty() { empty + 1 } else { 0 };
        if empty > EMPTY {
            return Err(Failure::Empty);
        }
        for object in page.items {
            seen += 1;
            let number = number(&object, |namespace, name| listing.number(namespace, name));
            let object: Arc<T> = kept(object, handler);
            if handler.keeps(&object) {
                let cost = handler.cost(&object);
                listing.put(number, cost, object, |object| handler.service(object));
            }
        }
        if listing.is_over() && seen / ENDLESS > max {
            return Err(Failure::Endless(seen));
        }
        let version = page.metadata.resource_version.clone();
        parameters.continue_token = next_page(page.metadata);
        if parameters.continue_token.is_none() {
            let version = version.unwrap_or_default();
            let (objects, omitted) = listing.end(|object| handler.service(object));
            return Ok((Event::List { objects, omitted }, version));
        }
    }
}

#[cfg(test)]
mod tests;
