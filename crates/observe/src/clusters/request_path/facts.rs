//! What is known about the way of a request.

use std::{collections::BTreeMap, net::IpAddr};

use client::Identity;
use ipnet::IpNet;
use jiff::Timestamp;
use mirror_core::api::{
    k8s::{EndpointSlice, Service},
    link::LinkerdConfig,
    metadata::ResourceId,
    route::Route,
};

use crate::{
    clusters::{
        leader::Leaders,
        linkerd_api::{ClientPolicy, DiscoveredEndpoint, DiscoveredProfile, ServerPolicy},
        skipped_ports::{SkippedPorts, SkippedSubnets},
        snapshot::{Destination, Known, LinkSnapshot, Proxy, Workload},
    },
    timeline::Happened,
};

/// The Deployment of Linkerd's destination controller.
pub const DESTINATION: &str = "linkerd-destination";

/// All that is known about the way of a request.
#[derive(Clone, Debug)]
pub struct RequestPath {
    /// The current time.
    pub now: Timestamp,
    /// The Service that is called.
    pub service: ResourceId,
    /// The port that is called, if it was named.
    pub port: Option<u16>,
    /// The source cluster.
    pub source: SourceFacts,
    /// The Pod that calls; `None` if none was named.
    pub client: Option<Known<ClientPod>>,
    /// Its proxy; `None` if no Pod was named.
    pub proxy: Option<Known<ClientProxy>>,
    /// What Linkerd tells its proxy about the Service; `None` if no Pod was named.
    pub view: Option<Known<ClientView>>,
    /// The target cluster; `None` if no context was named.
    pub target: Option<TargetFacts>,
}

/// Facts of the source cluster.
#[derive(Clone, Debug)]
pub struct SourceFacts {
    /// Whether the namespace of the Service exists.
    pub namespace_exists: Known<bool>,
    /// The Service; `None` if it does not exist.
    pub service: Known<Option<Service>>,
    /// The other Services of its namespace.
    pub neighbours: Known<BTreeMap<String, Neighbour>>,
    /// The slices of the Service.
    pub slices: Known<Vec<EndpointSlice>>,
    /// Routes of all kinds in the namespace that apply to the Service.
    pub routes: Known<Vec<Route>>,
    /// The Links, with their credentials.
    pub links: Known<Vec<LinkSnapshot>>,
    /// The Leases of the controllers.
    pub leaders: Leaders,
    /// The Deployments of our controllers, in all namespaces.
    pub controllers: Known<Vec<Workload>>,
    /// The Pods of our controllers, by namespace of the Links.
    pub controller_pods: Known<BTreeMap<String, Vec<PodState>>>,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
    /// Linkerd's configuration.
    pub config: Known<LinkerdConfig>,
    /// Linkerd's credentials for target clusters.
    pub destination: Known<Destination>,
    /// How many Pods Linkerd's destination controller should have; `None` if its Deployment does not exist.
    pub destination_replicas: Known<Option<i32>>,
    /// The Pods of Linkerd's destination controller.
    pub destination_pods: Known<Vec<PodState>>,
    /// The networks of Pods, by node.
    pub pod_networks: Known<Vec<IpNet>>,
    /// What happened to the Service, to its slices and routes, and to Linkerd's destination controller.
    pub history: Vec<Happened>,
}

/// Another Service of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// Whether it is a mirror or a federated Service.
    pub is_mirror: bool,
    /// The clusters that it prefers, as in its annotation.
    pub prefers: String,
}

/// Whether a Pod is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// Namespace and name.
    pub id: ResourceId,
    /// Phase: `Running`, `Pending`, …
    pub phase: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Its address, once it has one.
    pub address: Option<IpAddr>,
    /// The workload whose template it has, as kubectl names it: `deployment/web`. `None` for a Pod of its own.
    pub workload: Option<String>,
    /// What happened to it.
    pub history: Vec<Happened>,
}

impl PodState {
    /// The workload whose template kubectl can change, which starts its Pods again; `None` if there is none, such as for a
    /// Job, for a `ReplicaSet` of another controller, and for a Pod of its own.
    pub fn restartable(&self) -> Option<&str> {
        let workload = self.workload.as_deref()?;
        let (kind, _) = workload.split_once('/')?;
        ["deployment", "statefulset", "daemonset"]
            .contains(&kind)
            .then_some(workload)
    }
}

/// The Pod that calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientPod {
    /// Whether it is meshed and ready.
    pub state: PodState,
    /// Its node; empty if it has none.
    pub node: String,
    /// Its ServiceAccount.
    pub account: String,
    /// Its proxy; `None` if it has none.
    pub proxy: Option<Proxy>,
    /// Ports of connections that bypass its proxy.
    pub skipped: Option<SkippedPorts>,
    /// The same, as its annotation says, which may be a copy of that of its namespace.
    pub annotated: Option<SkippedPorts>,
    /// Subnets to which connections bypass its proxy.
    pub subnets: Option<SkippedSubnets>,
}

/// What Linkerd's controllers tell the proxy of the calling Pod about the Service.
#[derive(Clone, Debug)]
pub struct ClientView {
    /// The port of the Service that was asked for.
    pub port: u16,
    /// What the Service's address is.
    pub profile: Known<DiscoveredProfile>,
    /// The routes and backends of requests to it.
    pub policy: Known<ClientPolicy>,
    /// Its endpoints, as each Pod of the destination controller tells them; at least one. A proxy has asked one of these, and
    /// nothing says which.
    pub endpoints: Vec<ToldEndpoints>,
}

/// The endpoints of a Service, as a Pod of the destination controller tells them.
#[derive(Clone, Debug)]
pub struct ToldEndpoints {
    /// The Pod; empty if the controller was asked at an address.
    pub by: String,
    /// The endpoints; `None` if it knows no such Service.
    pub endpoints: Known<Option<Vec<DiscoveredEndpoint>>>,
}

/// Who may connect to a port of a Pod, as Linkerd's policy controller tells the Pod's proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundPort {
    /// The Pod that serves.
    pub pod: PodState,
    /// The port of the Pod.
    pub port: u16,
    /// Who may connect.
    pub policy: Known<ServerPolicy>,
}

/// What the proxy of the calling Pod says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientProxy {
    /// Whether it has its identity, and has heard from Linkerd's control plane.
    pub ready: bool,
    /// What it has counted for the ports of the Service at first.
    pub before: BTreeMap<u16, ProxyCounts>,
    /// The same a moment later.
    pub after: BTreeMap<u16, ProxyCounts>,
}

/// What a proxy counts for a port of a Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyCounts {
    /// The endpoints for requests.
    pub requests: EndpointCounts,
    /// The endpoints for connections in which it sees no requests.
    pub connections: EndpointCounts,
    /// Connections that it has refused because the Service does not declare the port.
    pub undefined: f64,
    /// Answers to requests, and connections that ended.
    pub answers: BTreeMap<ProxyAnswer, f64>,
}

/// The endpoints that a proxy knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndpointCounts {
    /// Those to which it is connected.
    pub ready: f64,
    /// Those to which it is not.
    pub pending: f64,
}

/// How a request or a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProxyAnswer {
    /// What the proxy took the port for.
    pub protocol: Protocol,
    /// The status of HTTP or gRPC, such as `503` or `UNAVAILABLE`; empty if there was no answer.
    pub status: String,
    /// The error of the proxy, such as `FAIL_FAST`; empty if there was none.
    pub error: String,
}

/// What a proxy sees in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1 and HTTP/2.
    Http,
    /// gRPC.
    Grpc,
    /// Connections whose content the proxy does not read.
    Tcp,
}

impl ProxyCounts {
    /// The endpoints of the protocol that is used.
    pub fn endpoints(&self) -> EndpointCounts {
        let EndpointCounts { ready, pending } = self.requests;
        if ready + pending > 0.0 {
            self.requests
        } else {
            self.connections
        }
    }
}

impl ClientProxy {
    /// What was counted for each port at first and a moment later.
    pub fn ports(&self) -> impl Iterator<Item = (u16, ProxyCounts, &ProxyCounts)> {
        self.after.iter().map(|(port, after)| {
            let before = self.before.get(port).cloned().unwrap_or_default();
            (*port, before, after)
        })
    }
}

impl ProxyAnswer {
    /// Whether it is a failure: an error of the proxy, or of what answered it.
    pub fn is_failure(&self) -> bool {
        let by_status = match self.protocol {
            Protocol::Http => self.status.parse::<u16>().is_ok_and(|status| status >= 500),
            Protocol::Grpc => ["UNAVAILABLE", "INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED"]
                .contains(&self.status.as_str()),
            Protocol::Tcp => false,
        };
        !self.error.is_empty() || by_status
    }

    /// Whether it is a refusal, which an application may also mean.
    pub fn is_refusal(&self) -> bool {
        let refusals = ["403", "PERMISSION_DENIED"];
        self.protocol != Protocol::Tcp && refusals.contains(&self.status.as_str())
    }
}

/// `with status 503 (FAIL_FAST)`.
impl std::fmt::Display for ProxyAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            protocol,
            status,
            error,
        } = self;
        match (protocol, status.as_str()) {
            (Protocol::Tcp, _) => f.write_str("connections")?,
            (_, "") => f.write_str("requests without an answer")?,
            (Protocol::Http, status) => write!(f, "answers with status {status}")?,
            (Protocol::Grpc, status) => write!(f, "answers with gRPC status {status}")?,
        }
        match error.as_str() {
            "" => Ok(()),
            error => write!(f, " ({error})"),
        }
    }
}

/// Facts of a target cluster, as a person sees them in a context of the kubeconfig.
#[derive(Clone, Debug)]
pub struct TargetFacts {
    /// The context of the kubeconfig.
    pub context: String,
    /// Where its API server is.
    pub identity: Identity,
    /// The UID of its Namespace kube-system; `None` if it is not known.
    pub uid: Option<String>,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
    /// Name of the target cluster that the context is for, by the Links.
    pub cluster: String,
    /// The Service that is mirrored, or is a member; `None` if it does not exist. Its name is in [`Self::remote`].
    pub service: Known<Option<Service>>,
    /// Namespace and name of that Service.
    pub remote: ResourceId,
    /// The slices of the Service.
    pub slices: Known<Vec<EndpointSlice>>,
    /// Who may connect to one of its ready Pods; `None` if there is none.
    pub serving: Option<Known<InboundPort>>,
    /// The gateways, as the cluster has them.
    pub gateways: Known<Vec<GatewayFacts>>,
    /// Linkerd's configuration.
    pub config: Known<LinkerdConfig>,
    /// What happened to the Service, to its slices and to the Services of the gateways.
    pub history: Vec<Happened>,
}

/// The gateway of a target cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayFacts {
    /// Namespace and name of its Service.
    pub id: ResourceId,
    /// Addresses and host names of its load balancer, and external addresses.
    pub addresses: Vec<String>,
    /// Its TLS identity, from its annotation.
    pub identity: String,
    /// The port for traffic.
    pub port: Option<u16>,
    /// The port of its probes.
    pub probe_port: Option<u16>,
    /// Its Pods.
    pub pods: Known<Vec<PodState>>,
    /// Who may connect to one of its ready Pods; `None` if there is none.
    pub inbound: Option<InboundPort>,
}

impl RequestPath {
    /// The Link to a target cluster; `None` if there is none, or Links are unknown.
    pub fn link_to(&self, cluster: &str) -> Option<&LinkSnapshot> {
        let mut links = self.source.links.iter().flatten();
        links.find(|link| link.cluster() == cluster)
    }

    /// The facts of this target cluster, if they were read.
    pub fn target_of(&self, cluster: &str) -> Option<&TargetFacts> {
        self.target
            .as_ref()
            .filter(|target| target.cluster == cluster)
    }
}
