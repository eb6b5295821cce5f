//! Reads Services, slices and routes, and notes what happened to them.

use std::cell::RefCell;

use client::{ReadError, requests::list_all};
use futures::future::join_all;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        metadata::ResourceId,
        route::{Route, RouteKind},
        wire::Wire,
    },
    mirror::slices_of,
};
use serde::de::DeserializeOwned;

use crate::{
    clusters::{served_routes::in_served_version, snapshot::Known},
    timeline::{Happened, history},
};

/// What happened to the objects that were read. Their stored types have no times.
pub type Noted = RefCell<Vec<Happened>>;

/// The stored form of an object, whose history is noted.
fn kept<T>(kind: &ApiResource, object: DynamicObject, noted: &Noted) -> kube::Result<T>
where
    T: From<Wire<T>>,
    Wire<T>: DeserializeOwned,
{
    noted.borrow_mut().extend(history(&kind.kind, &object));
    let whole = serde_json::to_value(object).and_then(serde_json::from_value::<Wire<T>>);
    Ok(whole.map_err(kube::Error::SerdeError)?.into())
}

/// A Service, if it exists.
pub async fn get_service(
    client: &Client,
    id: &ResourceId,
    noted: &Noted,
) -> Known<Option<Service>> {
    let kind = ApiResource::erase::<Wire<Service>>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &id.namespace, &kind);
    let found = api.get_opt(&id.name).await?;
    let found = found.map(|found| kept(&kind, found, noted));
    Ok(found.transpose()?)
}

/// The slices of a Service.
pub async fn slices(
    client: &Client,
    service: &ResourceId,
    noted: &Noted,
) -> Known<Vec<EndpointSlice>> {
    let kind = ApiResource::erase::<Wire<EndpointSlice>>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &service.namespace, &kind);
    let names = [(service.namespace.clone(), service.name.clone())].into();
    let query = slices_of(&names).concat();
    let found = list_all(&api, &query).await?.into_iter();
    let kept = found.map(|slice| kept(&kind, slice, noted));
    Ok(kept.collect::<kube::Result<_>>()?)
}

/// The routes that apply to a Service, of all kinds that the API server has.
pub async fn routes(client: &Client, service: &ResourceId, noted: &Noted) -> Known<Vec<Route>> {
    let lists = RouteKind::ALL.map(async |kind| {
        let found = routes_of_kind(client, service, kind, noted).await;
        found.map_err(|error| ReadError::from(error).context(kind.kind()))
    });
    let lists: Known<Vec<Vec<Route>>> = join_all(lists).await.into_iter().collect();
    Ok(lists?.concat())
}

/// The routes of a kind that apply to a Service, in the first version that the API server serves.
async fn routes_of_kind(
    client: &Client,
    service: &ResourceId,
    kind: RouteKind,
    noted: &Noted,
) -> kube::Result<Vec<Route>> {
    in_served_version(kind, async |resource| {
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &service.namespace, &resource);
        let mut routes = Vec::new();
        for object in list_all(&api, "").await? {
            let own = Noted::default();
            let route: Route = kept(&resource, object, &own)?;
            if route.services().any(|(name, _)| name == service.name) {
                noted.borrow_mut().extend(own.into_inner());
                routes.push(route);
            }
        }
        Ok(routes)
    })
    .await
}

#[cfg(test)]
mod tests {
    use client::of_test_server;
    use futures::{FutureExt as _, StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn routes_are_read_in_the_version_in_which_the_api_server_serves_them() {
        let group = "/apis/gateway.networking.k8s.io/v1alpha2";
        let client = of_test_server(move |request: http::Request<_>| {
            let path = request.uri().path();
            let (code, answer) = if path == format!("{group}/namespaces/shop/tlsroutes") {
                let route = |name: &str, service: &str| {
                    json!({
                        "metadata": { "namespace": "shop", "name": name, "creationTimestamp": "2026-11-26T00:00:00Z" },
                        "spec": { "parentRefs": [{ "group": "", "kind": "Service", "name": service }] },
                    })
                };
                let items = [route("mine", "web"), route("other", "db")];
                (200, json!({ "metadata": {}, "items": items }))
            } else {
                (
                    404,
                    json!({ "kind": "Status", "status": "Failure", "message": "not found", "code": 404 }),
                )
            };
            let frame = Ok(Frame::data(Bytes::from(answer.to_string())));
            let body = StreamBody::new(stream::iter([frame]).boxed());
            let answered = http::Response::builder().status(code).body(body);
            async move { Ok(answered?) }.boxed()
        });
        let noted = Noted::default();
        let found = routes(&client, &ResourceId::new("shop", "web"), &noted).await;
        let names: Vec<_> = found
            .unwrap()
            .iter()
            .map(|route| route.metadata.name().to_owned())
            .collect();
        assert_eq!(names, ["mine"]);
        let noted: Vec<_> = noted.take().into_iter().map(|one| one.about).collect();
        assert_eq!(noted, ["TLSRoute shop/mine"]);
    }
}
