//! Complete lists of a cluster's objects, and of its routes.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::{
    api::{
        route::{Route, RouteKind},
        wire::Wire,
    },
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

/// Routes by kind; `None` if the API server does not serve the kind.
pub(super) type Routes = BTreeMap<RouteKind, Option<Store<Route>>>;

/// Lists routes of all kinds.
pub(super) async fn routes(client: &Client) -> anyhow::Result<Routes> {
    let mut routes = Routes::new();
    for kind in RouteKind::ALL {
        routes.insert(kind, of_kind(client, kind).await?);
    }
    Ok(routes)
}

async fn of_kind(client: &Client, kind: RouteKind) -> anyhow::Result<Option<Store<Route>>> {
    let api: Api<Wire<Route>> = Api::all_with(client.clone(), &kind.resource());
    match list_all(&api, "").await {
        Ok(listed) => Ok(Some(filed(listed.into_iter().map(Route::from)))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot list {}", kind.plural())),
    }
}
