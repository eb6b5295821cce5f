//! Takes the [`FullSnapshot`] of one cluster. Reads only (reviews of access are created, but never stored).
//!
//! One list for each kind, in pages, never a request for each mirror. All requests run concurrently.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Pod, Secret},
    networking::v1::{IPAddress, ServiceCIDR},
};
use kube::{Api, Client, api::PartialObjectMeta};
use serde_json::Value;

use super::{
    access::{controller_denied, is_permitted},
    cluster_client::ClusterClient,
    collect::{Depth, snapshot_of},
    confinement::confined,
    foreign_endpoints::{self, ForeignEndpoints},
    own_routes::OwnRoute,
    service_range,
    snapshot::{
        Crd, Destination, Endpoints, FullSnapshot, Known, LinkSnapshot, MeshedPod, ServiceRange,
        Workload,
    },
    workloads::{ParseArgs, is_service_mirror, linkerd_credentials, meshed_pod, started, workload},
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels,
        routes::{Route, RouteKind},
        wire::Wire,
    },
    client::{
        IP_FAMILY,
        requests::{explain, is_served, list_all},
        service_range as range,
    },
    mirror::slices_of,
};

/// Label of pods that have a proxy; the value is the namespace of its control plane.
const CONTROL_PLANE_NS: &str = "linkerd.io/control-plane-ns";
/// Selects the Pods of Linkerd's destination controller.
const DESTINATION: &str = "linkerd.io/control-plane-component=destination";
/// ConfigMap with the trust anchors for proxies.
const TRUST_ROOTS: (&str, &str) = ("linkerd-identity-trust-roots", "ca-bundle.crt");
/// Lists of slices that are requested concurrently.
const LISTS_AT_ONCE: usize = 8;
/// Path of the Link CRD.
const CRD_PATH: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.multicluster.linkerd.io";

/// Takes the snapshot of one cluster and the target clusters of its Links.
pub(crate) async fn full_snapshot_of(
    cluster: &ClusterClient,
    now: Timestamp,
    version: &str,
    parse: ParseArgs,
) -> FullSnapshot {
    let client = &cluster.client;
    let mirrored = format!("{}=true", labels::MIRRORED_SERVICE);
    let gateways = format!("{}=true", labels::MIRRORED_GATEWAY);
    let (
        extension_namespaces,
        snapshot,
        serves_links,
        may_list_links,
        crd,
        deployments,
        mirrors,
        probes,
        slices,
        destination,
        trust_roots,
    ) = futures::join!(
        extension_namespaces(client),
        snapshot_of(cluster, Depth::Targets),
        serves_links(client),
        is_permitted(client, "multicluster.linkerd.io", "links", "list"),
        crd(client),
        deployments(client, parse),
        services(client, &mirrored),
        services(client, &gateways),
        slices(client),
        destination(cluster),
        trust_roots(client, &cluster.linkerd_namespace),
    );

    let mut namespaces: BTreeSet<_> = extension_namespaces.iter().flatten().cloned().collect();
    let links = snapshot.links.as_deref().unwrap_or_default();
    namespaces.extend(links.iter().map(LinkSnapshot::namespace).map(str::to_owned));
    let controller = deployments.iter().flatten().find(|w| w.is_ours());
    let local_members = controller.and_then(|w| w.local_members.as_deref());
    let controller_namespace = controller
        .map(|w| w.id.namespace.clone())
        .or_else(|| namespaces.first().cloned());
    let known = mirrors.as_deref().unwrap_or_default();
    let waiting = links
        .iter()
        .map(|link| service_range::waiting(link, known))
        .sum();
    let no_namespace = || "extension namespace not found".to_owned();
    let controller_namespace = controller_namespace.as_deref();
    let mut controllers = deployments.iter().flatten().filter(|w| w.is_ours());
    let all_write_routes = controller.is_some() && controllers.all(|w| w.heeds_preferences);
    let (local_members, routes, foreign, range, pods, controller_denied, confinement) = futures::join!(
        async {
            match local_members {
                Some(selector) => services(client, selector).await,
                None => Ok(vec![]),
            }
        },
        async {
            if all_write_routes {
                Ok(vec![]) // none of them is left over
            } else {
                own_routes(client).await
            }
        },
        foreign(client, &mirrors, &probes, &slices),
        service_range(client, waiting),
        // After a failure, these requests would only wait for the same timeout again.
        async {
            match &extension_namespaces {
                Ok(_) => pods(client, &namespaces).await,
                Err(why) => Err(why.clone()),
            }
        },
        async {
            match controller_namespace {
                Some(namespace) => controller_denied(client, namespace).await,
                None => Err(no_namespace()),
            }
        },
        async {
            match controller_namespace {
                Some(namespace) => confined(client, namespace).await,
                None => Err(no_namespace()),
            }
        }
    );
    FullSnapshot {
        now,
        version: version.to_owned(),
        extension_namespaces,
        cluster: snapshot,
        serves_links,
        may_list_links,
        crd,
        deployments,
        controller_denied,
        confinement,
        mirrors,
        local_members,
        routes,
        probes,
        endpoints: slices.map(|slices| Endpoints::count(&slices)),
        foreign,
        range,
        pods,
        destination,
        trust_roots,
    }
}

/// Linkerd's credentials, and when its destination controller started.
pub(crate) async fn destination(cluster: &ClusterClient) -> Known<Destination> {
    let (client, namespace) = (&cluster.client, &cluster.linkerd_namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let (secrets, pods) = futures::try_join!(
        list_all(&secrets, labels::CREDENTIALS_CLUSTER),
        list_all(&pods, DESTINATION)
    )
    .map_err(|error| explain(&error))?;
    let mut credentials: Vec<_> = secrets.iter().filter_map(linkerd_credentials).collect();
    // The last one of a cluster is kept: one that Linkerd uses, if there is one.
    credentials.sort_by_key(|(_, credentials)| credentials.lacks.is_empty());
    Ok(Destination {
        namespace: namespace.clone(),
        credentials: credentials.into_iter().collect(),
        started: pods.iter().filter_map(started).min(),
    })
}

/// Namespaces of the extension, by the label that Linkerd's own commands use.
pub(crate) async fn extension_namespaces(client: &Client) -> Known<Vec<String>> {
    let selector = format!(
        "{} in ({},{})",
        labels::EXTENSION,
        labels::EXTENSION_NAME,
        labels::EXTENSION_NAME_LEGACY
    );
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let namespaces = list_all(&api, &selector)
        .await
        .map_err(|error| explain(&error))?;
    Ok(namespaces
        .into_iter()
        .filter_map(|ns| ns.metadata.name)
        .collect())
}

/// Mirrors of all Links and federated Services.
pub(crate) async fn mirrors(client: &Client) -> Known<Vec<Service>> {
    services(client, &format!("{}=true", labels::MIRRORED_SERVICE)).await
}

/// EndpointSlices of mirrors and probe Services.
pub(crate) async fn endpoints(client: &Client) -> Known<Endpoints> {
    Ok(Endpoints::count(&slices(client).await?))
}

/// The routes that controllers wrote, of all installations.
pub(crate) async fn own_routes(client: &Client) -> Known<Vec<OwnRoute>> {
    let written = RouteKind::ALL.into_iter().filter(|kind| kind.is_written());
    let routes = try_join_all(written.map(|kind| routes(client, kind)));
    Ok(routes.await?.concat())
}

async fn routes(client: &Client, kind: RouteKind) -> Known<Vec<OwnRoute>> {
    let api: Api<Wire<Route>> = Api::all_with(client.clone(), &kind.resource());
    match list_all(&api, &format!("{}=true", labels::MIRRORED_SERVICE)).await {
        // The API server does not serve the kind.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(explain(&error)),
        Ok(found) => Ok(found
            .into_iter()
            .map(|found| OwnRoute::of(&Route::from(found)))
            .collect()),
    }
}

async fn services(client: &Client, selector: &str) -> Known<Vec<Service>> {
    let api: Api<Wire<Service>> = Api::all(client.clone());
    let services = list_all(&api, selector).await;
    let services = services.map_err(|error| explain(&error))?;
    let mut services: Vec<Service> = services.into_iter().map(Service::from).collect();
    services.sort_by_cached_key(|service| service.metadata.resource_id());
    Ok(services)
}

async fn slices(client: &Client) -> Known<Vec<EndpointSlice>> {
    // Slices of mirrors and probe Services have the label with the name of a cluster. Of a federated Service, slices to
    // gateways of target clusters have it; slices to local members do not.
    let api: Api<Wire<EndpointSlice>> = Api::all(client.clone());
    let slices = list_all(&api, labels::CLUSTER_NAME).await;
    let slices = slices.map_err(|error| explain(&error))?;
    Ok(slices.into_iter().map(EndpointSlice::from).collect())
}

/// Endpoints of mirrors that somebody else created. `slices` are those that name a cluster.
async fn foreign(
    client: &Client,
    mirrors: &Known<Vec<Service>>,
    probes: &Known<Vec<Service>>,
    slices: &Known<Vec<EndpointSlice>>,
) -> Known<Vec<ForeignEndpoints>> {
    let (mirrors, probes) = (mirrors.clone()?, probes.clone()?);
    let all = || mirrors.iter().chain(&probes);
    let queries = slices_of(&foreign_endpoints::names(all())).into_iter();
    let lists: Vec<Vec<EndpointSlice>> = stream::iter(queries)
        .map(async |query| {
            let api: Api<Wire<EndpointSlice>> = Api::all(client.clone());
            let found = list_all(&api, &format!("{query},!{}", labels::CLUSTER_NAME)).await;
            let found = found.map_err(|error| explain(&error))?;
            Ok::<_, String>(found.into_iter().map(EndpointSlice::from).collect())
        })
        .buffered(LISTS_AT_ONCE)
        .try_collect()
        .await?;
    let slices = [slices.clone()?, lists.concat()].concat();
    Ok(foreign_endpoints::find(all(), &slices))
}

/// The range of `ClusterIP`s, if Services wait for some, and the API server returns it.
async fn service_range(client: &Client, waiting: usize) -> Known<Option<ServiceRange>> {
    if waiting == 0 {
        return Ok(None);
    }
    let ranges: Vec<ServiceCIDR> = match list_all(&Api::all(client.clone()), "").await {
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return Ok(None),
        answer => answer.map_err(|error| explain(&error))?,
    };
    let networks = range::networks(&ranges);
    let Some(first) = networks.first() else {
        return Ok(None);
    };
    let family = if range::is_v4(first) { "IPv4" } else { "IPv6" };
    let api: Api<PartialObjectMeta<IPAddress>> = Api::all(client.clone());
    let used = list_all(&api, &format!("{IP_FAMILY}={family}")).await;
    let used = used.map_err(|error| explain(&error))?.len();
    Ok(Some(ServiceRange { networks, used }))
}

async fn serves_links(client: &Client) -> Known<bool> {
    let is_served = is_served(client, "multicluster.linkerd.io/v1alpha3", "Link").await;
    is_served.map_err(|error| explain(&error))
}

async fn crd(client: &Client) -> Known<Crd> {
    let request = http::Request::get(CRD_PATH).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let crd: Value = client
        .request(request)
        .await
        .map_err(|error| explain(&error))?;
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

async fn deployments(client: &Client, parse: ParseArgs) -> Known<Vec<Workload>> {
    let selector = format!(
        "{} in (controller,service-mirror,local-service-mirror)",
        labels::COMPONENT
    );
    let deployments = list_all::<Deployment>(&Api::all(client.clone()), &selector).await;
    let deployments = deployments.map_err(|error| explain(&error))?;
    Ok(deployments
        .iter()
        .map(|deployment| workload(deployment, parse))
        .filter(is_service_mirror)
        .collect())
}

async fn trust_roots(client: &Client, namespace: &str) -> Known<Option<String>> {
    let (name, key) = TRUST_ROOTS;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = api.get_opt(name).await.map_err(|error| explain(&error))?;
    Ok(map
        .and_then(|map| map.data)
        .and_then(|mut data| data.remove(key)))
}

async fn pods(client: &Client, namespaces: &BTreeSet<String>) -> Known<Vec<MeshedPod>> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pods = list_all(&api, CONTROL_PLANE_NS)
            .await
            .map_err(|error| explain(&error))?;
        all.extend(pods.iter().map(meshed_pod));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifests::{install::install, values::Values};

    #[test]
    fn our_crd_is_up_to_date() {
        let manifest = install("mc", &Values::default()).unwrap();
        let crd = manifest
            .objects()
            .iter()
            .find(|o| o["kind"] == "CustomResourceDefinition");
        let crd = crd_of(crd.unwrap());
        assert!(crd.has_columns);
        assert!(crd.status_fields.contains("observedGeneration"), "{crd:?}");
        assert_eq!(crd_of(&json!({})), Crd::default());
    }
}
