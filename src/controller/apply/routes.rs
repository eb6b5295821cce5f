//! Writes of routes. The kind of a route selects its API.

use kube::{
    Api, Client,
    api::{DeleteParams, Patch as KubePatch, PatchParams, PostParams},
};
use serde_json::Value;

use crate::{
    api::routes::{Route, RouteKind, WireRoute},
    client::requests::{RequestError, request},
};

/// Creates a route.
pub(super) async fn create(client: Client, route: Route) -> Result<Route, RequestError> {
    match route.kind {
        RouteKind::Http => create_as::<0>(client, route).await,
        RouteKind::Tcp => create_as::<1>(client, route).await,
        RouteKind::Grpc => create_as::<2>(client, route).await,
        RouteKind::Policy => create_as::<3>(client, route).await,
        RouteKind::Tls => create_as::<4>(client, route).await,
        RouteKind::Profile => create_as::<5>(client, route).await,
    }
}

/// Changes a route.
pub(super) async fn patch(
    client: Client,
    kind: RouteKind,
    id: &Id<'_>,
    body: &Value,
) -> Result<Route, RequestError> {
    match kind {
        RouteKind::Http => patch_as::<0>(client, id, body).await,
        RouteKind::Tcp => patch_as::<1>(client, id, body).await,
        RouteKind::Grpc => patch_as::<2>(client, id, body).await,
        RouteKind::Policy => patch_as::<3>(client, id, body).await,
        RouteKind::Tls => patch_as::<4>(client, id, body).await,
        RouteKind::Profile => patch_as::<5>(client, id, body).await,
    }
}

/// Deletes a route.
pub(super) async fn delete(
    client: Client,
    kind: RouteKind,
    id: &Id<'_>,
    parameters: &DeleteParams,
) -> Result<(), RequestError> {
    match kind {
        RouteKind::Http => delete_as::<0>(client, id, parameters).await,
        RouteKind::Tcp => delete_as::<1>(client, id, parameters).await,
        RouteKind::Grpc => delete_as::<2>(client, id, parameters).await,
        RouteKind::Policy => delete_as::<3>(client, id, parameters).await,
        RouteKind::Tls => delete_as::<4>(client, id, parameters).await,
        RouteKind::Profile => delete_as::<5>(client, id, parameters).await,
    }
}

/// Namespace and name.
pub(super) type Id<'a> = (&'a str, &'a str);

async fn create_as<const KIND: usize>(client: Client, route: Route) -> Result<Route, RequestError> {
    let api: Api<WireRoute<KIND>> = Api::namespaced(client, route.metadata.namespace());
    let created = request(api.create(&PostParams::default(), &route.into())).await;
    created.map(Route::from)
}

async fn patch_as<const KIND: usize>(
    client: Client,
    id: &Id<'_>,
    body: &Value,
) -> Result<Route, RequestError> {
    let api: Api<WireRoute<KIND>> = Api::namespaced(client, id.0);
    let patched = request(api.patch(id.1, &PatchParams::default(), &KubePatch::Merge(body))).await;
    patched.map(Route::from)
}

async fn delete_as<const KIND: usize>(
    client: Client,
    id: &Id<'_>,
    parameters: &DeleteParams,
) -> Result<(), RequestError> {
    let api: Api<WireRoute<KIND>> = Api::namespaced(client, id.0);
    request(api.delete(id.1, parameters)).await.map(|_| ())
}
