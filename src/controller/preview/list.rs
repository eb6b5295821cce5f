//! Whole lists of what a cluster holds.

use std::sync::Arc;

use anyhow::Context as _;
use kube::{Api, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use crate::mirror::{Grouped, Store};

/// Objects per page.
const PAGE: u32 = 500;

/// All of them, to be found by name.
pub(super) fn filed<T: Grouped>(items: impl Iterator<Item = T>) -> Store<T> {
    let mut objects = Store::default();
    for item in items {
        objects.put(Arc::new(item));
    }
    objects
}

/// Lists all objects, page by page.
pub(super) async fn list<K>(api: &Api<K>, labels: Option<&str>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut parameters = ListParams::default().limit(PAGE);
    if let Some(labels) = labels {
        parameters = parameters.labels(labels);
    }
    let mut items = Vec::new();
    loop {
        let page = api
            .list(&parameters)
            .await
            .with_context(|| format!("cannot list {}", K::plural(&())))?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters.continue_token = Some(next),
            None => return Ok(items),
        }
    }
}
