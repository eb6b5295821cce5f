//! Writes of routes. The kind of a route selects its API.

use kube::{
    Api, Client,
    api::{DeleteParams, Patch as KubePatch, PatchParams, PostParams},
};
use serde_json::Value;

use crate::{
    api::{
        routes::{Route, RouteKind},
        wire::Wire,
    },
    client::requests::{RequestError, request},
};

/// Namespace and name.
pub(super) type Id<'a> = (&'a str, &'a str);

fn api(client: Client, kind: RouteKind, namespace: &str) -> Api<Wire<Route>> {
    Api::namespaced_with(client, namespace, &kind.resource())
}

/// Creates a route.
pub(super) async fn create(client: Client, route: Route) -> Result<Route, RequestError> {
    let api = api(client, route.kind, route.metadata.namespace());
    let created = request(api.create(&PostParams::default(), &route.into())).await;
    created.map(Route::from)
}

/// Changes a route.
pub(super) async fn patch(
    client: Client,
    kind: RouteKind,
    id: &Id<'_>,
    body: &Value,
) -> Result<Route, RequestError> {
    let api = api(client, kind, id.0);
    let patched = request(api.patch(id.1, &PatchParams::default(), &KubePatch::Merge(body))).await;
    patched.map(Route::from)
}

/// Deletes a route.
pub(super) async fn delete(
    client: Client,
    kind: RouteKind,
    id: &Id<'_>,
    parameters: &DeleteParams,
) -> Result<(), RequestError> {
    let api = api(client, kind, id.0);
    request(api.delete(id.1, parameters)).await.map(|_| ())
}
