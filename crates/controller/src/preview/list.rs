//! Complete lists of a cluster's objects, and of its routes.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use client::requests::{list_all, served_version};
use mirror_core::{
    api::{
        route::{Route, RouteKind},
        wire::Wire,
    },
    mirror::{Indexed, Store},
};

/// A store of these objects.
pub fn filed<T: Indexed>(items: impl Iterator<Item = T>) -> Store<T> {
    let mut objects = Store::default();
    for item in items {
        objects.put(Arc::new(item));
    }
    objects
}

/// Lists all objects, page by page.
pub async fn list<K>(api: &Api<K>, labels: Option<&str>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    list_all(api, labels.unwrap_or_default())
        .await
        .with_context(|| format!("cannot list {}", K::plural(&())))
}

/// Routes by kind; `None` if the API server does not serve the kind.
pub type Routes = BTreeMap<RouteKind, Option<Store<Route>>>;

/// Lists routes of all kinds.
pub async fn routes(client: &Client) -> anyhow::Result<Routes> {
    let mut routes = Routes::new();
    for kind in RouteKind::ALL {
        routes.insert(kind, of_kind(client, kind).await?);
    }
    Ok(routes)
}

async fn of_kind(client: &Client, kind: RouteKind) -> anyhow::Result<Option<Store<Route>>> {
    let failed = || format!("cannot list {}", kind.plural());
    let version = served_version(client, kind).await.with_context(failed)?;
    let Some(version) = version else {
        return Ok(None);
    };
    let api: Api<Wire<Route>> = Api::all_with(client.clone(), &kind.resource_in(version));
    let listed = list_all(&api, "").await.with_context(failed)?;
    Ok(Some(filed(listed.into_iter().map(Route::from))))
}
