//! Reads the facts of the source cluster. Reads only, side by side, each within the deadline of the client.

use std::collections::BTreeMap;

use client::{
    Cluster, ReadError,
    requests::{list_all, within},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod},
};
use kube::{Api, Client};
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        members::remote_members,
        metadata::ResourceId,
        route::Route,
        wire::Wire,
    },
    mirror::FEDERATED_SUFFIX,
};
use tokio::time::timeout;

use super::{
    facts::{ClientPod, DESTINATION, Neighbour, PodState, SourceFacts},
    objects::{Noted, get_service, routes, slices},
    pod,
};
use crate::{
    clusters::{
        collect::{Depth, add_credentials, snapshot_of},
        collect_full, collect_mesh,
        snapshot::{ClusterSnapshot, Known, LinkSnapshot},
        workloads::DESTINATION_PODS,
    },
    timeline::history,
};

/// Reads what concerns a Service of the source cluster.
pub async fn source_facts(cluster: &Cluster, service: &ResourceId) -> SourceFacts {
    let (client, deadline) = (&cluster.client, cluster.deadline);
    let linkerd = &cluster.linkerd_namespace;
    let of_controllers = async {
        let links = timeout(2 * deadline, snapshot_of(cluster, Depth::Links)).await;
        let links = links.unwrap_or_else(|_| {
            ClusterSnapshot::unreachable(&cluster.name, &ReadError::late(deadline))
        });
        let known = links.links.iter().flatten();
        let clusters = known.map(|link| link.cluster().to_owned()).collect();
        let destination = collect_full::destination(client, linkerd, &clusters);
        let destination = within(deadline, destination).await;
        (links, destination)
    };
    let noted = Noted::default();
    let replicas = within(deadline, destination_replicas(client, linkerd, &noted));
    let of_linkerd = futures::future::join4(
        within(deadline, collect_full::controllers(client)),
        within(deadline, controller_pods(client)),
        within(deadline, pods(client, Some(linkerd), DESTINATION_PODS)),
        within(deadline, collect_mesh::of_nodes(client)),
    );
    let (of_service, (mut links, destination), of_linkerd, destination_replicas) = futures::join!(
        of_service(cluster, service, &noted),
        of_controllers,
        of_linkerd,
        replicas
    );
    let id = service;
    let (namespace_exists, service, neighbours, slices, routes) = of_service;
    read_credentials(cluster, id, &service, &mut links.links).await;
    let (controllers, controller_pods, destination_pods, pod_networks) = of_linkerd;
    SourceFacts {
        namespace_exists,
        service,
        neighbours,
        slices,
        routes,
        leaders: links.leaders,
        links: links.links,
        linkerd_namespace: linkerd.clone(),
        config: links.config,
        controllers,
        controller_pods,
        destination,
        destination_replicas,
        destination_pods,
        pod_networks,
        history: noted.into_inner(),
    }
}

/// The same for another Service of the cluster. Reads only what concerns that one.
pub async fn facts_of_another(
    facts: &SourceFacts,
    cluster: &Cluster,
    service: &ResourceId,
) -> SourceFacts {
    let (id, noted) = (service, Noted::default());
    let (namespace_exists, service, neighbours, slices, routes) =
        of_service(cluster, service, &noted).await;
    let mut links = facts.links.clone();
    read_credentials(cluster, id, &service, &mut links).await;
    SourceFacts {
        namespace_exists,
        service,
        neighbours,
        slices,
        routes,
        links,
        history: noted.into_inner(),
        ..facts.clone()
    }
}

/// Reads the credentials Secrets of the Links that concern a Service, unless they are known.
async fn read_credentials(
    cluster: &Cluster,
    id: &ResourceId,
    service: &Known<Option<Service>>,
    links: &mut Known<Vec<LinkSnapshot>>,
) {
    let service = service.as_ref().ok().and_then(Option::as_ref);
    let wanted = links.iter_mut().flatten();
    let wanted = wanted.filter(|link| link.credentials.is_none() && concerns(link, id, service));
    let mut wanted: Vec<&mut LinkSnapshot> = wanted.collect();
    let read = wanted.iter_mut().map(|link| &mut **link).collect();
    if timeout(cluster.deadline, add_credentials(cluster, read))
        .await
        .is_err()
    {
        for link in wanted.iter_mut().filter(|link| link.credentials.is_none()) {
            link.credentials = Some(Err(ReadError::late(cluster.deadline)));
        }
    }
}

/// Whether a Service leads to the cluster of a Link, would lead there by its name, or is reported by the Link. A fleet has
/// hundreds of Links, and each Secret is a request.
fn concerns(link: &LinkSnapshot, id: &ResourceId, service: Option<&Service>) -> bool {
    let cluster = link.cluster();
    let by_name = id.name.strip_suffix(cluster);
    if by_name.is_some_and(|rest| rest.ends_with('-')) {
        return true;
    }
    if let Some(service) = service {
        let metadata = &service.metadata;
        let annotation = |key: &str| metadata.annotations.get(key);
        let labels = [l::CLUSTER_NAME, l::REMOTE_DISCOVERY].map(|key| metadata.label(key));
        if labels.contains(&cluster) || remote_members(annotation).any(|(_, of)| of == cluster) {
            return true;
        }
    }
    let member = id.name.strip_suffix(FEDERATED_SUFFIX).unwrap_or_default();
    let reported = link.status().map(|status| &status.federated_services);
    let mut reported = reported.into_iter().flatten().map(|one| &one.remote_ref);
    reported.any(|one| one.namespace == id.namespace && one.name == member)
}

/// What concerns a Service: whether its namespace exists, itself, its neighbours, its slices, and routes.
type OfService = (
    Known<bool>,
    Known<Option<Service>>,
    Known<BTreeMap<String, Neighbour>>,
    Known<Vec<EndpointSlice>>,
    Known<Vec<Route>>,
);

async fn of_service(cluster: &Cluster, service: &ResourceId, noted: &Noted) -> OfService {
    let (client, deadline) = (&cluster.client, cluster.deadline);
    futures::future::join5(
        within(deadline, namespace_exists(client, &service.namespace)),
        within(deadline, get_service(client, service, noted)),
        within(deadline, neighbours(client, service)),
        within(deadline, slices(client, service, noted)),
        within(deadline, routes(client, service, noted)),
    )
    .await
}

/// Reads the Pod that calls. If there is none of this name, the error of the `Result` inside has the names of the
/// namespace's Pods.
pub async fn client_pod(
    cluster: &Cluster,
    id: &ResourceId,
) -> Known<Result<ClientPod, Vec<String>>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &id.namespace);
    let read = async {
        if let Some(found) = api.get_opt(&id.name).await? {
            return Ok(Ok(pod::client(&found)));
        }
        let others = list_all(&api, "").await?;
        let names = others.into_iter().filter_map(|pod| pod.metadata.name);
        Known::Ok(Err(names.collect()))
    };
    within(cluster.deadline, read).await
}

async fn namespace_exists(client: &Client, name: &str) -> Known<bool> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get_opt(name).await?;
    Ok(found.is_some())
}

async fn neighbours(client: &Client, service: &ResourceId) -> Known<BTreeMap<String, Neighbour>> {
    let api: Api<Wire<Service>> = Api::namespaced(client.clone(), &service.namespace);
    let found = list_all(&api, "").await?;
    let found = found.into_iter().map(Service::from).map(|service| {
        let neighbour = Neighbour {
            is_mirror: !service.metadata.label(l::MIRRORED_SERVICE).is_empty(),
            prefers: service.metadata.annotation(l::PREFER).to_owned(),
        };
        (service.metadata.name().to_owned(), neighbour)
    });
    Ok(found.filter(|(name, _)| *name != service.name).collect())
}

/// How many Pods the destination controller should have.
async fn destination_replicas(
    client: &Client,
    namespace: &str,
    noted: &Noted,
) -> Known<Option<i32>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(DESTINATION).await?;
    let changes = found.iter().flat_map(|found| history("Deployment", found));
    noted.borrow_mut().extend(changes);
    Ok(found.map(|found| found.spec.and_then(|spec| spec.replicas).unwrap_or(1)))
}

/// The Pods of our controllers, by namespace.
async fn controller_pods(client: &Client) -> Known<BTreeMap<String, Vec<PodState>>> {
    let selector = format!("{}={}", l::COMPONENT, l::COMPONENT_CONTROLLER);
    let mut by_namespace = BTreeMap::<_, Vec<_>>::new();
    for pod in pods(client, None, &selector).await? {
        let of = by_namespace.entry(pod.id.namespace.clone()).or_default();
        of.push(pod);
    }
    Ok(by_namespace)
}

/// Pods, of one namespace or of all.
pub async fn pods(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Known<Vec<PodState>> {
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let found = list_all(&api, selector).await?;
    Ok(found.iter().map(pod::state).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clusters::fixtures::link;

    /// Of 500 Links, the Secrets of those that a Service is about are read.
    #[test]
    fn secrets_are_those_of_the_clusters_of_the_service() {
        let links: Vec<LinkSnapshot> = (0..500)
            .map(|number| link(&format!("c{number}"), &json!({})))
            .collect();
        let read = |name: &str, service: Option<Value>, links: &[LinkSnapshot]| {
            let service: Option<Service> =
                service.map(|service| serde_json::from_value(service).unwrap());
            let id = ResourceId::new("shop", name);
            let concerned = links
                .iter()
                .filter(|link| concerns(link, &id, service.as_ref()));
            concerned
                .map(|link| link.cluster().to_owned())
                .collect::<Vec<_>>()
        };
        let metadata = |labels: Value, annotations: Value| json!({ "metadata": { "namespace": "shop", "name": "x", "labels": labels, "annotations": annotations } });
        let mirror = metadata(json!({ l::CLUSTER_NAME: "c7" }), json!({}));
        let members = metadata(json!({}), json!({ l::REMOTE_DISCOVERY: "web@c1,web@c9" }));
        let by_slices = metadata(json!({}), json!({ l::MEMBERS: "web@c3" }));
        for (name, service, expected) in [
            ("web-c7", Some(mirror), &["c7"][..]),
            ("web-c12", None, &["c12"]),
            ("web-federated", Some(members), &["c1", "c9"]),
            ("web-federated", Some(by_slices), &["c3"]),
            ("web-federated", None, &[]),
            ("webc1", None, &[]),
        ] {
            assert_eq!(read(name, service, &links), expected, "{name}");
        }
        let said = json!({ "federatedServices": [{
            "controllerName": "c", "remoteRef": { "name": "web", "namespace": "shop" }, "conditions": [],
        }] });
        let reporting = [link("north", &said), link("east", &json!({}))];
        assert_eq!(read("web-federated", None, &reporting), ["north"]);
    }
}
