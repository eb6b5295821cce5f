//! Reads the facts of a [`FullSnapshot`](super::snapshot::FullSnapshot). Reads only (reviews of access are created, but
//! never stored).
//!
//! One list for each kind, in pages, never a request for each mirror.

use std::{collections::BTreeSet, fmt::Debug};

use client::{
    ReadError, allocated_ips,
    requests::{is_served, list_all},
    service_range as range,
};
use futures::future::try_join_all;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod, Secret},
    networking::v1::ServiceCIDR,
};
use kube::{Api, Client, Resource, api::PartialObjectMeta, core::NamespaceResourceScope};
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels,
        route::{Route, RouteKind},
        wire::Wire,
    },
    mirror::{Names, local_queries, slices_of},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    access::is_permitted,
    foreign_endpoints::{self, ForeignEndpoints},
    linkerd_secrets::linkerd_secrets,
    own_routes::OwnRoute,
    served_routes::in_served_version,
    snapshot::{Crd, Destination, Endpoints, Known, ServiceRange, Workload},
    workloads::{
        DESTINATION_PODS, ParseArgs, is_service_mirror, linkerd_credentials, started, workload,
    },
};

/// Label of pods that have a proxy; the value is the namespace of its control plane.
const CONTROL_PLANE_NS: &str = "linkerd.io/control-plane-ns";
/// Path of the Link CRD.
const CRD_PATH: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.multicluster.linkerd.io";

/// Linkerd's credentials, and when its destination controller started. `clusters`: see [`linkerd_secrets`].
pub async fn destination(
    client: &Client,
    namespace: &str,
    clusters: &BTreeSet<String>,
) -> Known<Destination> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let (secrets, pods) = futures::try_join!(
        linkerd_secrets(&secrets, labels::CREDENTIALS_CLUSTER, clusters),
        list_all(&pods, DESTINATION_PODS)
    )?;
    let mut credentials: Vec<_> = secrets.iter().filter_map(linkerd_credentials).collect();
    let running = || pods.iter().filter_map(started);
    // The last one of a cluster is kept: one that Linkerd uses, if there is one.
    credentials.sort_by_key(|(_, credentials)| credentials.lacks.is_empty());
    Ok(Destination {
        namespace: namespace.to_owned(),
        credentials: credentials.into_iter().collect(),
        started: running().min(),
        pods: running().count(),
    })
}

/// Selects objects of the extension, ours and Linkerd's.
pub fn of_extension() -> String {
    format!(
        "{} in ({},{})",
        labels::EXTENSION,
        labels::EXTENSION_NAME,
        labels::EXTENSION_NAME_LEGACY
    )
}

/// Namespaces of the extension, by the label that Linkerd's own commands use.
pub async fn extension_namespaces(client: &Client) -> Known<Vec<String>> {
    let selector = of_extension();
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    Ok(list(&api, &selector)
        .await?
        .into_iter()
        .filter_map(|ns| ns.metadata.name)
        .collect())
}

/// Mirrors of all Links and federated Services.
pub async fn mirrors(client: &Client, namespace: Option<&str>) -> Known<Vec<Service>> {
    services(client, namespace, &mirrored()).await
}

/// Selects mirrors, as the controller does.
fn mirrored() -> String {
    local_queries().mirrors.labels.unwrap_or_default()
}

/// EndpointSlices of mirrors and probe Services.
pub async fn endpoints(client: &Client, namespace: Option<&str>) -> Known<Endpoints> {
    // Slices of mirrors and probe Services have the label with the name of a cluster. Of a federated Service, slices to
    // gateways of target clusters have it; slices to local members do not.
    let slices = list_slices(client, namespace, labels::CLUSTER_NAME).await?;
    Ok(Endpoints::count(&slices))
}

/// The routes that controllers wrote, of all installations.
pub async fn own_routes(client: &Client) -> Known<Vec<OwnRoute>> {
    let written = RouteKind::ALL.into_iter().filter(|kind| kind.is_written());
    let routes = try_join_all(written.map(|kind| routes(client, kind)));
    Ok(routes.await?.concat())
}

async fn routes(client: &Client, kind: RouteKind) -> Known<Vec<OwnRoute>> {
    let found = in_served_version(kind, async |resource| {
        let api: Api<Wire<Route>> = Api::all_with(client.clone(), &resource);
        list_all(&api, &mirrored()).await
    });
    let routes = found.await?.into_iter().map(Route::from);
    Ok(routes.map(|route| OwnRoute::of(&route)).collect())
}

/// The Services that a selector matches, of a namespace or of all.
pub async fn services(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Known<Vec<Service>> {
    let api: Api<Wire<Service>> = api_in(client, namespace);
    let services = list(&api, selector).await?.into_iter();
    let mut services: Vec<Service> = services.map(Service::from).collect();
    services.sort_by_cached_key(|service| service.metadata.resource_id());
    Ok(services)
}

/// The EndpointSlices that a selector matches, of a namespace or of all.
pub async fn list_slices(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Known<Vec<EndpointSlice>> {
    let api: Api<Wire<EndpointSlice>> = api_in(client, namespace);
    let slices = list(&api, selector).await?.into_iter();
    Ok(slices.map(EndpointSlice::from).collect())
}

/// The objects of a namespace, or of all.
fn api_in<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

async fn list<K>(api: &Api<K>, selector: &str) -> Known<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    Ok(list_all(api, selector).await?)
}

/// Endpoints of mirrors that somebody else created.
pub fn foreign(own: &OwnObjects) -> Known<Vec<ForeignEndpoints>> {
    let mirrors = own.mirrors.as_ref().map_err(Clone::clone)?;
    let probes = own.probes.as_ref().map_err(Clone::clone)?;
    let slices = own.slices.as_ref().map_err(Clone::clone)?;
    Ok(foreign_endpoints::find(
        mirrors.iter().chain(probes),
        slices,
    ))
}

/// Selects the slices of Services with these names, whoever made them: in one list, because the API server looks at each
/// slice for each list. Of many Services, all slices are listed.
fn slices_query(names: &Names) -> Option<String> {
    let mut queries = slices_of(names).into_iter();
    match (queries.next(), queries.next()) {
        (only, None) => only,
        (_, Some(_)) => Some(labels::SLICE_SERVICE.to_owned()),
    }
}

/// The range of `ClusterIP`s, if Services wait for some, and the API server returns it.
pub async fn service_range(client: &Client, waiting: usize) -> Known<Option<ServiceRange>> {
    if waiting == 0 {
        return Ok(None);
    }
    let ranges: Vec<ServiceCIDR> = match list_all(&Api::all(client.clone()), "").await {
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return Ok(None),
        answer => answer?,
    };
    let networks = range::networks(&ranges);
    let Some(first) = networks.first() else {
        return Ok(None);
    };
    let used = allocated_ips(client, first).await?;
    Ok(Some(ServiceRange { networks, used }))
}

/// Whether Links are served and may be listed, and the features of their CRD.
pub async fn link_api(client: &Client) -> (Known<bool>, Known<bool>, Known<Crd>) {
    let (is_served, may_list, crd) = futures::join!(
        is_served(client, "multicluster.linkerd.io/v1alpha3", "Link"),
        is_permitted(client, "multicluster.linkerd.io", "links", "list"),
        crd(client),
    );
    (is_served.map_err(ReadError::from), may_list, crd)
}

/// The objects of the controller, in all namespaces.
pub struct OwnObjects {
    /// Mirrors and federated Services.
    pub mirrors: Known<Vec<Service>>,
    /// The Services whose endpoints are gateways to probe.
    pub probes: Known<Vec<Service>>,
    /// The slices of both, whoever made them.
    pub slices: Known<Vec<EndpointSlice>>,
}

/// Reads what controllers of this installation and others wrote.
pub async fn own_objects(client: &Client) -> OwnObjects {
    let gateways = local_queries().gateways.labels.unwrap_or_default();
    let (mirrors, probes) =
        futures::join!(mirrors(client, None), services(client, None, &gateways));
    let found = mirrors.iter().chain(&probes).flatten();
    let slices = match slices_query(&found.map(|service| service.metadata.id()).collect()) {
        Some(query) => list_slices(client, None, &query).await,
        None => Ok(Vec::new()),
    };
    OwnObjects {
        mirrors,
        probes,
        slices,
    }
}

async fn crd(client: &Client) -> Known<Crd> {
    let request = http::Request::get(CRD_PATH).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let crd: Value = client.request(request).await?;
    Ok(crd_of(&crd))
}

fn crd_of(crd: &Value) -> Crd {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let version = versions
        .into_iter()
        .flatten()
        .find(|version| version["name"] == "v1alpha3");
    let Some(version) = version else {
        return Crd::default();
    };
    let status = version.pointer("/schema/openAPIV3Schema/properties/status/properties");
    let columns = version["additionalPrinterColumns"].as_array();
    Crd {
        status_fields: status
            .and_then(Value::as_object)
            .map(|fields| fields.keys().cloned().collect())
            .unwrap_or_default(),
        has_columns: columns.is_some_and(|columns| !columns.is_empty()),
    }
}

/// The Deployments of controllers and gateways; `parse` reads a controller's arguments.
pub async fn deployments(client: &Client, parse: ParseArgs) -> Known<Vec<Workload>> {
    let selector = format!(
        "{} in (controller,service-mirror,local-service-mirror)",
        labels::COMPONENT
    );
    let deployments = list::<Deployment>(&Api::all(client.clone()), &selector).await?;
    Ok(deployments
        .iter()
        .map(|deployment| workload(deployment, parse))
        .filter(is_service_mirror)
        .collect())
}

/// What the CRD of Links lacks of ours; everything if there is none.
pub async fn missing_in_crd(client: &Client) -> Known<Vec<String>> {
    let served = is_served(client, "multicluster.linkerd.io/v1alpha3", "Link").await;
    if served? {
        return Ok(crd(client).await?.missing());
    }
    Ok(Crd::default().missing())
}

/// The Deployments of all service mirrors, ours and Linkerd's, in all namespaces.
pub async fn service_mirrors(client: &Client) -> Known<Vec<Workload>> {
    deployments(client, |_| None).await
}

/// Our controllers, in all namespaces.
pub async fn controllers(client: &Client) -> Known<Vec<Workload>> {
    let mut found = service_mirrors(client).await?;
    found.retain(Workload::is_ours);
    Ok(found)
}

/// Meshed pods of these namespaces.
pub async fn pods(client: &Client, namespaces: impl IntoIterator<Item = &str>) -> Known<Vec<Pod>> {
    let pods = try_join_all(namespaces.into_iter().map(async |namespace| {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        list(&api, CONTROL_PLANE_NS).await
    }));
    Ok(pods.await?.concat())
}

#[cfg(test)]
mod tests {
    use manifests::{install::install, values::Values};
    use serde_json::json;

    use super::*;

    #[test]
    fn slices_of_all_mirrors_are_one_list() {
        let names = |count: usize| -> Names {
            let names = (0..count).map(|number| ("shop".to_owned(), format!("web-{number}")));
            names.collect()
        };
        assert_eq!(slices_query(&names(0)), None);
        let few = slices_query(&names(2)).unwrap();
        assert!(few.contains("in (web-0,web-1)"), "{few}");
        assert_eq!(slices_query(&names(10_000)).unwrap(), labels::SLICE_SERVICE);
    }

    #[test]
    fn our_crd_is_up_to_date() {
        let manifest = install("mc", &Values::default()).unwrap();
        let crd = manifest
            .objects()
            .unwrap()
            .iter()
            .find(|o| o["kind"] == "CustomResourceDefinition");
        let crd = crd_of(crd.unwrap());
        assert!(crd.has_columns);
        assert!(crd.status_fields.contains("observedGeneration"), "{crd:?}");
        assert_eq!(crd_of(&json!({})), Crd::default());
    }
}
