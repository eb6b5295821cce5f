//! Reads what `traffic` computes with: the mirrors and federated Services of a cluster, which cluster has which of their
//! endpoints, the Pods that may be clients, and samples of their proxies. Reads only.

pub mod sample;
mod services;

use client::{Cluster, requests::list_all};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

pub use self::{
    sample::{Bound, Measure, TrafficKey, TrafficSample},
    services::{ServiceWanted, TrafficService, TrafficServices, traffic_services},
};
use super::{
    proxies::{MESHED, PodProxy, ProxyError},
    snapshot::Known,
};

/// Maximum number of proxies that are read concurrently.
const PROXIES_AT_ONCE: usize = 16;

/// The Pods that may be clients: all that are in the mesh.
#[derive(Clone, Debug, Default)]
pub struct TrafficClients {
    /// The proxies to read.
    pub proxies: Vec<PodProxy>,
    /// Number of all running Pods in the mesh.
    pub meshed: usize,
}

/// Lists the running Pods that are in the mesh, of one namespace or of all. Returns the proxies of at most `max` of them.
pub async fn clients(
    cluster: &Cluster,
    namespace: Option<&str>,
    max: usize,
) -> Known<TrafficClients> {
    let client = cluster.client.clone();
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let pods = list_all(&api, MESHED).await?;
    let mut proxies: Vec<_> = pods
        .iter()
        .filter_map(|pod| PodProxy::of(pod).ok())
        .collect();
    let meshed = proxies.len();
    proxies.truncate(max);
    Ok(TrafficClients { proxies, meshed })
}

/// Reads the proxies side by side. Each has its own result, in the same order.
pub async fn samples(
    client: &Client,
    proxies: &[PodProxy],
    services: &TrafficServices,
    deadline: std::time::Duration,
) -> Vec<Result<TrafficSample, ProxyError>> {
    let reads = proxies
        .iter()
        .map(|proxy| TrafficSample::read(client, proxy, services, deadline));
    stream::iter(reads)
        .buffered(PROXIES_AT_ONCE)
        .collect()
        .await
}
