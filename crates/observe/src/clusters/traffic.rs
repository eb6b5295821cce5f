//! Reads what `traffic` computes with: the mirrors and federated Services of a cluster, which cluster has which of their
//! endpoints, the Pods that may be clients, and samples of their proxies. Reads only.

pub mod sample;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use client::{Cluster, requests::list_all};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::time::Instant;

pub use self::{
    sample::{Bound, Measure, TrafficKey, TrafficSample},
    services::{ServiceWanted, TrafficService, TrafficServices, traffic_services},
};
use super::{
    counters::{ReadTwice, read_twice},
    proxies::{MESHED, PodProxy, ProxyError},
    snapshot::Known,
};

/// Maximum number of proxies that are read concurrently.
const PROXIES_AT_ONCE: usize = 16;
/// How many timeouts a round of samples takes at most: nodes that are gone have many Pods, and each is waited for.
const TIMEOUTS: u32 = 2;

/// A Pod that may be a client: it runs, and is in the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TrafficClient {
    proxy: PodProxy,
    /// Whether it is ready. Of a node that is gone, no Pod is.
    ready: bool,
    /// What its Pods have in common: the name of their owner.
    workload: String,
}

/// The Pods that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficClients {
    /// The proxies to read.
    pub proxies: Vec<PodProxy>,
    /// Number of all running Pods in the mesh.
    pub meshed: usize,
}

/// Lists the wanted Services, and the Pods that may be their clients: at most `max` of one namespace or of all.
pub async fn list(
    cluster: &Cluster,
    wanted: &ServiceWanted,
    namespace: Option<&str>,
    max: usize,
) -> Known<(TrafficServices, TrafficClients)> {
    let (services, clients) = futures::join!(
        traffic_services(cluster, wanted),
        clients(cluster, namespace)
    );
    let services = services.map_err(|why| why.context("cannot list Services"))?;
    let clients = clients.map_err(|why| why.context("cannot list Pods"))?;
    let clients = TrafficClients::of(clients, &services, max);
    Ok((services, clients))
}

/// Lists the Pods that may be clients of these Services: at most `max` of all namespaces.
pub async fn chosen_clients(
    cluster: &Cluster,
    services: &TrafficServices,
    max: usize,
) -> Known<TrafficClients> {
    let all = clients(cluster, None).await;
    let all = all.map_err(|why| why.context("cannot list Pods"))?;
    Ok(TrafficClients::of(all, services, max))
}

/// Samples the proxies of these Pods, and once more after an interval.
pub async fn sampled_twice(
    cluster: &Cluster,
    services: &TrafficServices,
    clients: &TrafficClients,
    interval: Duration,
) -> ReadTwice<TrafficSample> {
    let proxies = &clients.proxies;
    let sample = async || samples(&cluster.client, proxies, services, cluster.deadline).await;
    read_twice(proxies, interval, sample).await
}

/// Lists the running Pods that are in the mesh, of one namespace or of all.
async fn clients(cluster: &Cluster, namespace: Option<&str>) -> Known<Vec<TrafficClient>> {
    let client = cluster.client.clone();
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let pods = list_all(&api, MESHED).await?;
    Ok(pods.iter().filter_map(TrafficClient::of).collect())
}

impl TrafficClient {
    fn of(pod: &Pod) -> Option<Self> {
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.map(|owner| owner.name.clone()).next();
        let status = pod.status.as_ref();
        let mut conditions = status
            .into_iter()
            .flat_map(|s| s.conditions.iter().flatten());
        Some(Self {
            proxy: PodProxy::of(pod).ok()?,
            ready: conditions.any(|c| c.type_ == "Ready" && c.status == "True"),
            workload: owner.unwrap_or_default(),
        })
    }
}

impl TrafficClients {
    /// At most `max` Pods: first those of the namespaces of the Services, and of each workload some before all of one. Those
    /// that are not ready are read last.
    fn of(mut all: Vec<TrafficClient>, services: &TrafficServices, max: usize) -> Self {
        let meshed = all.len();
        if meshed > max {
            let namespaces: BTreeSet<&str> =
                services.services.keys().map(|id| &*id.namespace).collect();
            let mut of_workload = BTreeMap::<_, usize>::new();
            all.sort_by_cached_key(|client| (!client.ready, client.proxy.pod.clone()));
            all.sort_by_cached_key(|client| {
                let namespace = client.proxy.pod.namespace.clone();
                let is_elsewhere = !namespaces.contains(namespace.as_str());
                let before = of_workload
                    .entry((namespace, client.workload.clone()))
                    .or_default();
                *before += 1;
                (is_elsewhere, *before)
            });
            all.truncate(max);
        }
        all.sort_by_key(|client| !client.ready);
        let proxies = all.into_iter().map(|client| client.proxy);
        Self {
            proxies: proxies.collect(),
            meshed,
        }
    }
}

/// Reads the proxies side by side. Each has its own result, in the same order.
pub async fn samples(
    client: &Client,
    proxies: &[PodProxy],
    services: &TrafficServices,
    deadline: Duration,
) -> Vec<Result<TrafficSample, ProxyError>> {
    let end = Instant::now() + deadline * TIMEOUTS;
    let reads = proxies.iter().map(async |proxy| {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let why = "it was not read: too many others did not answer in time";
            return Err(ProxyError::Unanswered(why.to_owned()));
        }
        TrafficSample::read(client, proxy, services, deadline.min(left)).await
    });
    stream::iter(reads)
        .buffered(PROXIES_AT_ONCE)
        .collect()
        .await
}

#[cfg(test)]
mod tests {
    use mirror_core::api::metadata::ResourceId;
    use serde_json::json;

    use super::*;

    fn client(namespace: &str, workload: &str, number: usize, ready: bool) -> TrafficClient {
        let pod = json!({
            "metadata": {
                "namespace": namespace, "name": format!("{workload}-{number:04}"),
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": "u" }],
            },
            "spec": { "containers": [{ "name": "linkerd-proxy" }] },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
            },
        });
        TrafficClient::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn chosen(all: Vec<TrafficClient>, max: usize) -> (Vec<String>, usize) {
        let mut services = TrafficServices::default();
        let web = ResourceId::new("shop", "web-east");
        services.services.insert(web, TrafficService::default());
        let TrafficClients { proxies, meshed } = TrafficClients::of(all, &services, max);
        let names = proxies.iter().map(|proxy| proxy.pod.to_string());
        (names.collect(), meshed)
    }

    #[test]
    fn clients_of_the_services_and_some_of_each_workload_are_read_first() {
        let many = (0..5000).map(|number| client("app", "batch", number, true));
        let own = (0..3).flat_map(|number| {
            ["cart", "front"].map(|workload| client("shop", workload, number, true))
        });
        let other = client("zoo", "lion", 0, true);
        let all: Vec<TrafficClient> = many.chain(own).chain([other]).collect();
        let (names, meshed) = chosen(all.clone(), 8);
        assert_eq!(meshed, 5007);
        assert_eq!(
            names,
            [
                "shop/cart-0000",
                "shop/front-0000",
                "shop/cart-0001",
                "shop/front-0001",
                "shop/cart-0002",
                "shop/front-0002",
                "app/batch-0000",
                "zoo/lion-0000",
            ]
        );
        assert_eq!(chosen(all, 5007).0.len(), 5007);
    }

    /// A Pod that is not ready may be a client that suffers, so it is read, and delays no other.
    #[test]
    fn pods_of_dead_nodes_are_read_last() {
        let all = vec![
            client("shop", "cart", 0, false),
            client("shop", "cart", 1, true),
            client("shop", "front", 0, false),
        ];
        let (names, _) = chosen(all.clone(), 9);
        assert_eq!(
            names,
            ["shop/cart-0001", "shop/cart-0000", "shop/front-0000"]
        );
        assert_eq!(chosen(all, 2).0, ["shop/cart-0001", "shop/front-0000"]);
    }
}
