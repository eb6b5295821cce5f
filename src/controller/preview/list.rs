//! Complete lists of a cluster's objects.

use std::sync::Arc;

use anyhow::Context as _;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::{
    client::requests::list_all,
    mirror::{Indexed, Store},
};

/// A store of these objects.
pub(super) fn filed<T: Indexed>(items: impl Iterator<Item = T>) -> Store<T> {
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
    list_all(api, labels.unwrap_or_default())
        .await
        .with_context(|| format!("cannot list {}", K::plural(&())))
}
