//! Asks Linkerd's controllers what they tell the proxy of the calling Pod, and who may connect to Pods of the target
//! cluster. Reads only.

use std::net::{IpAddr, SocketAddr};

use client::{Cluster, ReadError};
use futures::future::{join_all, select_ok};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use mirror_core::api::{
    k8s::{EndpointSlice, Service, TargetRef},
    metadata::ResourceId,
};

use super::{
    facts::{ClientPod, ClientView, InboundPort, PodState, SourceFacts, ToldEndpoints},
    pod,
};
use crate::clusters::{
    linkerd_api::{ControllerAddresses, LinkerdApi, LinkerdApiError, ProxyWorkload},
    snapshot::Known,
};

/// What Linkerd tells the proxy of a Pod about a port of a Service, or about its first one.
pub async fn client_view(
    cluster: &Cluster,
    addresses: &ControllerAddresses,
    client: &ClientPod,
    facts: &SourceFacts,
    (id, port): (&ResourceId, Option<u16>),
) -> Known<ClientView> {
    let service = facts.service.as_ref().map_err(Clone::clone)?.as_ref();
    let service = service.ok_or_else(|| format!("Service {id} does not exist"))?;
    let port = port.or_else(|| first_port(service));
    let port = port.ok_or_else(|| format!("Service {id} has no port"))?;
    let address = service
        .spec
        .cluster_ip
        .as_deref()
        .and_then(|ip| ip.parse().ok());
    let address: IpAddr = address.ok_or_else(|| {
        format!(
            "Service {id} has no ClusterIP: clients connect to its hosts, which are Services too"
        )
    })?;
    let domain = match &facts.config {
        Ok(config) if !config.cluster_domain.is_empty() => &config.cluster_domain,
        _ => "cluster.local",
    };
    let replicas = api(cluster, addresses).await?;
    let proxy = ProxyWorkload {
        pod: client.state.id.clone(),
        node: client.node.clone(),
    };
    let target = SocketAddr::from((address, port));
    let (by_address, authority) = (
        target.to_string(),
        format!("{}.{}.svc.{domain}:{port}", id.name, id.namespace),
    );
    let endpoints = replicas.iter().map(async |api| ToldEndpoints {
        by: api.pod().to_owned(),
        endpoints: api.endpoints(&proxy, &authority).await.map_err(told),
    });
    let (policy, profile, endpoints) = futures::join!(
        first(&replicas, async |api| api
            .client_policy(&proxy, target)
            .await),
        first(&replicas, async |api| api
            .profile(&proxy, &by_address)
            .await),
        join_all(endpoints),
    );
    Ok(ClientView {
        port,
        profile,
        policy,
        endpoints,
    })
}

/// The first answer of one of them: the node of another may be gone.
async fn first<T>(
    replicas: &[LinkerdApi],
    ask: impl AsyncFn(&LinkerdApi) -> Result<T, LinkerdApiError>,
) -> Known<T> {
    let asked = replicas.iter().map(|api| Box::pin(ask(api)));
    let answer = select_ok(asked).await;
    answer.map(|(answer, _)| answer).map_err(told)
}

async fn api(cluster: &Cluster, addresses: &ControllerAddresses) -> Known<Vec<LinkerdApi>> {
    let (client, namespace) = (&cluster.client, &cluster.linkerd_namespace);
    let api = LinkerdApi::reach(client, namespace, addresses, cluster.deadline).await;
    api.map_err(told)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
fn told(error: LinkerdApiError) -> ReadError {
    error.to_string().into()
}

fn first_port(service: &Service) -> Option<u16> {
    let first = service.spec.ports.first()?;
    u16::try_from(first.port).ok()
}

/// Linkerd's policy controller of a target cluster.
pub struct InboundPolicies {
    api: Known<Vec<LinkerdApi>>,
}

impl InboundPolicies {
    pub async fn of(cluster: &Cluster, addresses: &ControllerAddresses) -> Self {
        Self {
            api: api(cluster, addresses).await,
        }
    }

    /// Who may connect to a port of a Pod.
    pub async fn of_pod(&self, pod: PodState, port: u16) -> InboundPort {
        let policy = match &self.api {
            Err(why) => Err(why.clone()),
            Ok(api) => {
                let workload = ProxyWorkload {
                    pod: pod.id.clone(),
                    node: String::new(),
                };
                first(api, async |api| api.server_policy(&workload, port).await).await
            }
        };
        InboundPort { pod, port, policy }
    }

    /// Who may connect to a ready Pod of a Service by this port of the Service, or by its first one. `None` if there is no
    /// such Pod.
    pub async fn of_service(
        &self,
        client: &Client,
        service: &Service,
        slices: &[EndpointSlice],
        port: Option<u16>,
    ) -> Option<Known<InboundPort>> {
        let (id, port) = serving(service, slices, port)?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
        Some(match pods.get(&id.name).await {
            Ok(found) => Ok(self.of_pod(pod::state(&found), port).await),
            Err(error) => Err(error.into()),
        })
    }
}

/// A ready Pod of a Service, and its port for this port of the Service.
fn serving(
    service: &Service,
    slices: &[EndpointSlice],
    port: Option<u16>,
) -> Option<(ResourceId, u16)> {
    let mut ports = service.spec.ports.iter();
    let called = ports.find(|own| port.is_none_or(|port| own.port == i32::from(port)))?;
    slices.iter().find_map(|slice| {
        let mut ports = slice.ports.iter();
        let name = called.name.as_deref().unwrap_or_default();
        let of_pod = ports.find(|port| port.name.as_deref().unwrap_or_default() == name)?;
        let number = u16::try_from(of_pod.port?).ok()?;
        let mut ready = slice
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.is_ready());
        let pod = ready.find_map(|endpoint| pod_of(endpoint.pod.as_ref()?.target.as_ref()?))?;
        let namespace = slice.metadata.namespace();
        Some((ResourceId::new(namespace, pod), number))
    })
}

fn pod_of(target: &TargetRef) -> Option<&str> {
    let is_pod = target.kind.as_deref() == Some("Pod");
    target.name.as_deref().filter(|_| is_pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn serving_pod_is_a_ready_one_with_the_port_that_is_called() {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": { "ports": [{ "name": "http", "port": 80 }, { "name": "more", "port": 81 }] },
        }))
        .unwrap();
        let endpoint = |pod: &str, kind: &str, ready: bool| {
            json!({
                "addresses": ["10.2.0.7"], "conditions": { "ready": ready },
                "targetRef": { "kind": kind, "namespace": "shop", "name": pod },
            })
        };
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web-x" },
            "addressType": "IPv4",
            "endpoints": [endpoint("web-0", "Pod", false), endpoint("vm", "ExternalWorkload", true), endpoint("web-1", "Pod", true)],
            "ports": [{ "name": "more", "port": 9090 }, { "name": "http", "port": 8080 }],
        }))
        .unwrap();
        let found = |port| serving(&service, std::slice::from_ref(&slice), port);
        let pod = || ResourceId::new("shop", "web-1");
        for (port, expected) in [
            (Some(80), Some((pod(), 8080))),
            (Some(81), Some((pod(), 9090))),
            (None, Some((pod(), 8080))),
            (Some(82), None),
        ] {
            assert_eq!(found(port), expected, "{port:?}");
        }
    }
}
