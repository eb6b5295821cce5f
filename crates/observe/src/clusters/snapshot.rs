//! Facts about clusters. Plain values, so that rules need no client.
//!
//! The error of a `Result` says why a fact is unknown.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use client::Identity;
pub use client::{ReadError, ReadErrorKind};
use hints::suggest::ClusterFlags;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use mirror_core::api::{
    gateway_suffixes::GatewaySuffixes,
    k8s::{EndpointSlice, Service},
    labels,
    link::{Link, LinkSpec, LinkStatus, LinkerdConfig},
    metadata::ResourceId,
    tls::InsecureTls,
};

use super::{
    certificates::{IssuerCertificate, ProxyCertificates},
    foreign_endpoints::ForeignEndpoints,
    gateway_permits::{Export, GatewayPermits},
    leader::{Leader, Leaders},
    misspelled::ServiceLabels,
    own_routes::OwnRoute,
    pod_networks::PodNetworks,
    skipped_ports::SkippedPorts,
};
use crate::timeline::Happened;

/// A fact, or the reason why it is unknown.
pub type Known<T> = Result<T, ReadError>;

/// One cluster: its Links and its trust anchors.
#[derive(Clone, Debug)]
pub struct ClusterSnapshot {
    /// What the user calls the cluster: its kubeconfig context.
    pub name: String,
    /// Flags with which commands use it.
    pub flags: ClusterFlags,
    /// Where its API server is.
    pub identity: Identity,
    /// The UID of its Namespace kube-system; `None` if it is not known.
    pub uid: Option<String>,
    /// Its Links, by namespace and name.
    pub links: Known<Vec<LinkSnapshot>>,
    /// Linkerd's configuration.
    pub config: Known<LinkerdConfig>,
    /// Whether the controllers of its Links report.
    pub leaders: Leaders,
}

impl ClusterSnapshot {
    /// The controller of a Link's installation, if it is known.
    pub fn leader_of(&self, link: &LinkSnapshot) -> Option<&Leader> {
        self.leaders.get(link.namespace())?.as_ref().ok()?.as_ref()
    }

    /// The snapshot of a cluster that cannot be reached.
    pub fn unreachable(name: &str, why: &ReadError) -> Self {
        Self {
            name: name.to_owned(),
            flags: ClusterFlags::default(),
            identity: Identity::default(),
            uid: None,
            links: Err(why.clone()),
            config: Err(why.clone()),
            leaders: Leaders::new(),
        }
    }
}

/// One Link.
#[derive(Clone, Debug)]
pub struct LinkSnapshot {
    /// The Link.
    pub link: Link,
    /// Why it cannot be decoded, if so. Then most of its fields are unknown.
    pub unreadable: Option<String>,
    /// Its credentials Secret; `None` if not requested.
    pub credentials: Option<Known<LinkCredentials>>,
    /// Facts from its target cluster; `None` if not requested.
    pub target: Option<Known<TargetSnapshot>>,
}

impl LinkSnapshot {
    /// Name of the target cluster.
    pub fn cluster(&self) -> &str {
        &self.link.spec.target_cluster_name
    }

    /// Namespace and name of the Link.
    pub fn id(&self) -> ResourceId {
        ResourceId::new(self.namespace(), self.name())
    }

    /// Name of the Link.
    pub fn name(&self) -> &str {
        self.link.metadata.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the Link.
    pub fn namespace(&self) -> &str {
        self.link.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Whether the Link has a gateway that is probed.
    pub fn has_gateway(&self) -> bool {
        let LinkSpec {
            gateway_address,
            probe_spec,
            ..
        } = &self.link.spec;
        !gateway_address.is_empty() && !probe_spec.path.is_empty()
    }

    /// What the controller reports about the Link.
    pub fn status(&self) -> Option<&LinkStatus> {
        self.link.status.as_ref()
    }

    /// The status of a condition of the Link, `True`, `False` or `Unknown`, and its message.
    pub fn condition(&self, type_: &str) -> Option<(&str, &str)> {
        let found = self.status()?.condition(type_)?;
        Some((&found.status, &found.message))
    }

    /// Since when a condition of the Link has its status.
    pub fn since(&self, type_: &str) -> Option<Timestamp> {
        Some(self.status()?.condition(type_)?.last_transition_time.0)
    }

    /// The reason and the message of a condition that the Link has only while there is a problem.
    pub fn problem_condition(&self, type_: &str) -> Option<(&str, &str)> {
        let conditions = &self.status()?.conditions;
        let mut found = conditions.iter().filter(|c| c.type_ == type_);
        let found = found.find(|c| c.status == "True")?;
        Some((&found.reason, &found.message))
    }
}

/// The content of a credentials Secret, without token and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCredentials {
    /// The cluster that it is for.
    pub identity: Identity,
    /// When its token expires, if ever.
    pub expiry: Option<Timestamp>,
    /// The namespace of its account, if its token never expires.
    pub endless_in: Option<String>,
    /// The start of the SHA-256 of its token.
    pub token: Option<String>,
    /// Why its connection is not secure, if so.
    pub insecure: Option<InsecureTls>,
}

/// The credentials of Linkerd's destination controller, which reads them when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Namespace of Linkerd's control plane.
    pub namespace: String,
    /// Its credentials, by name of the target cluster.
    pub credentials: BTreeMap<String, LinkerdCredentials>,
    /// When the oldest of its running Pods started; `None` if none runs.
    pub started: Option<Timestamp>,
    /// Number of its running Pods.
    pub pods: usize,
}

impl Destination {
    /// Whether it started before its credentials for this cluster were changed.
    pub fn is_outdated(&self, cluster: &str) -> bool {
        let changed = self
            .credentials
            .get(cluster)
            .and_then(|known| known.changed);
        let times = changed.zip(self.started);
        times.is_some_and(|(changed, started)| changed > started)
    }

    /// Whether all of its Pods certainly read the credentials for this cluster after they were last changed. It reads those
    /// that are created while it runs.
    pub fn is_current(&self, cluster: &str) -> bool {
        let known = self.credentials.get(cluster);
        known.is_some_and(|known| match known.changed {
            None => true,
            Some(changed) => self.started.is_some_and(|started| started > changed),
        })
    }
}

/// A credentials Secret in the namespace of Linkerd's control plane, without token and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkerdCredentials {
    /// Name of the Secret.
    pub name: String,
    /// What the Secret lacks, if so; Linkerd ignores such a Secret.
    pub lacks: Vec<String>,
    /// What its kubeconfig uses of the machine that reads it, such as a program. Linkerd uses that, and our controller
    /// refuses it.
    pub uses: Option<&'static str>,
    /// The API server that it leads to, and the way; `None` if it cannot be used.
    pub identity: Option<Identity>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its token expires, if ever.
    pub expiry: Option<Timestamp>,
    /// The start of the SHA-256 of its token.
    pub token: Option<String>,
    /// When it was last changed, if after its creation.
    pub changed: Option<Timestamp>,
    /// The trust domain in which Linkerd expects the workloads of the cluster.
    pub trust_domain: String,
}

/// Facts that a target cluster returns for the credentials of a Link.
#[derive(Clone, Debug)]
pub struct TargetSnapshot {
    /// Requests of the controller that are not permitted, such as `list services`.
    pub denied: Known<Vec<String>>,
    /// What the credentials permit, cluster-wide and in the namespace of the control plane.
    pub rules: Known<Vec<AccessRule>>,
    /// Linkerd's configuration there.
    pub config: Known<LinkerdConfig>,
    /// Labels of its Services, some of which may be misspelled.
    pub labels: Known<ServiceLabels>,
    /// How far the clock of its API server is ahead of this machine's.
    pub ahead: SignedDuration,
    /// Addresses of some of its Pods.
    pub pods: Known<Vec<IpAddr>>,
}

/// One rule of permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRule {
    /// API groups; `*` is all.
    pub groups: Vec<String>,
    /// Resources; `*` is all.
    pub resources: Vec<String>,
    /// Names of objects; none is all.
    pub names: Vec<String>,
    /// Verbs; `*` is all.
    pub verbs: Vec<String>,
}

/// A part of a [`FullSnapshot`]. All that belongs to it becomes known at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The extension, its CRD, the Links and Linkerd's configuration.
    Installation,
    /// The controllers, their Leases and permissions.
    Controller,
    /// Mirrors, probe Services, their endpoints, and routes.
    Services,
    /// The credentials of the Links, and those of Linkerd.
    Credentials,
    /// Meshed Pods of the extension.
    Proxies,
    /// What the target clusters answer.
    Targets,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 6] = [
        Self::Installation,
        Self::Controller,
        Self::Services,
        Self::Credentials,
        Self::Proxies,
        Self::Targets,
    ];
}

/// The input of the rules: one cluster, and the target clusters of its Links.
#[derive(Clone, Debug)]
pub struct FullSnapshot {
    /// The current time, by the clock of the API server once that is known.
    pub now: Timestamp,
    /// How far that clock is ahead of this machine's.
    pub ahead: SignedDuration,
    /// Version of this program.
    pub version: String,
    /// Namespaces of the extension, by their label.
    pub extension_namespaces: Known<Vec<String>>,
    /// Links and Linkerd's configuration.
    pub cluster: ClusterSnapshot,
    /// Whether the API server serves Links.
    pub serves_links: Known<bool>,
    /// Whether the user may list Links everywhere.
    pub may_list_links: Known<bool>,
    /// Features of the Link CRD.
    pub crd: Known<Crd>,
    /// Deployments of service mirrors, ours and Linkerd's, in all namespaces.
    pub deployments: Known<Vec<Workload>>,
    /// Permissions that our controller needs and does not have, such as `list namespaces`.
    pub controller_denied: Known<Vec<String>>,
    /// Whether admission policies restrict our controller's account.
    pub confinement: Known<Confinement>,
    /// Mirrors, endpoint mirrors and federated Services, in all namespaces.
    pub mirrors: Known<Vec<Service>>,
    /// Services of this cluster that our controller makes members of federated Services, in all namespaces.
    pub local_members: Known<Vec<Service>>,
    /// Routes that controllers wrote; empty if all controllers write routes.
    pub routes: Known<Vec<OwnRoute>>,
    /// Probe Services, in all namespaces.
    pub probes: Known<Vec<Service>>,
    /// EndpointSlices of mirrors and probe Services, by namespace and Service.
    pub endpoints: Known<Endpoints>,
    /// Endpoints of mirrors and probe Services that no service mirror created.
    pub foreign: Known<Vec<ForeignEndpoints>>,
    /// The range of `ClusterIP`s; `None` if unknown, or if no Service waits for one.
    pub range: Known<Option<ServiceRange>>,
    /// Meshed pods of the extension's namespaces and of the Links' namespaces.
    pub pods: Known<Vec<MeshedPod>>,
    /// Services that other clusters may mirror; empty if the gateway forwards to all anyway.
    pub exports: Known<Vec<Export>>,
    /// What the policy of a gateway permits that does not forward to all.
    pub permits: Known<GatewayPermits>,
    /// The credentials of Linkerd's destination controller.
    pub destination: Known<Destination>,
    /// Trust anchors for proxies, PEM; `None` if the ConfigMap does not exist.
    pub trust_roots: Known<Option<String>>,
    /// The certificate with which Linkerd signs those of proxies.
    pub issuer: Known<IssuerCertificate>,
    /// The certificates of some proxies: of the extension, and of Linkerd's control plane.
    pub certificates: Known<ProxyCertificates>,
    /// Number of Pods in the mesh; of very many, only some are counted.
    pub meshed: Known<usize>,
    /// The networks of this cluster's Pods.
    pub pod_networks: Known<PodNetworks>,
}

impl FullSnapshot {
    /// The Deployment of our controller, if it was found.
    pub fn controller(&self) -> Option<&Workload> {
        let deployments = self.deployments.iter().flatten();
        deployments.into_iter().find(|workload| workload.is_ours())
    }

    /// The Links; empty if they are unknown.
    pub fn links(&self) -> &[LinkSnapshot] {
        self.cluster.links.as_deref().unwrap_or_default()
    }
}

/// The range of the `ClusterIP`s of mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRange {
    /// Networks of the default address family of Services.
    pub networks: Vec<IpNet>,
    /// Number of addresses of that family in use.
    pub used: usize,
}

/// The admission policies that restrict our controller's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// The API server does not support admission policies.
    Unavailable,
    /// It supports them.
    Installed {
        /// Missing policies and bindings, by kind and name.
        missing: Vec<String>,
        /// Policies and bindings that differ from those of this version.
        differing: Vec<String>,
    },
}

/// What the Link CRD declares in v1alpha3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crd {
    /// Fields of `status`.
    pub status_fields: BTreeSet<String>,
    /// Whether it has columns for `kubectl get`.
    pub has_columns: bool,
}

/// Fields that our CRD adds to a Link's status.
const STATUS_FIELDS: [&str; 7] = [
    "conditions",
    "gateway",
    "mirrored",
    "federated",
    "unhealthy",
    "targetClusterName",
    "observedGeneration",
];

impl Crd {
    /// What it lacks of ours.
    pub fn missing(&self) -> Vec<String> {
        let fields = STATUS_FIELDS.iter();
        let missing = fields.filter(|field| !self.status_fields.contains(**field));
        let columns = (!self.has_columns).then(|| "columns for kubectl".to_owned());
        missing
            .map(|field| format!("status.{field}"))
            .chain(columns)
            .collect()
    }
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Namespace and name.
    pub id: ResourceId,
    /// Label `component`.
    pub component: String,
    /// Label of the target cluster, which only Deployments of Linkerd's service mirror have.
    pub cluster: Option<String>,
    /// Replicas that should run.
    pub desired: i32,
    /// Replicas that are available.
    pub available: i32,
    /// Images of its containers.
    pub images: Vec<String>,
    /// Whether admission policies were disabled at installation.
    pub is_unconfined: bool,
    /// Selects the Services of this cluster that are members of federated Services; `None` if there are none.
    pub local_members: Option<String>,
    /// Whether it applies the preferences of members of federated Services.
    pub applies_preferences: bool,
    /// The Deployment of the gateway, if it forwards only what is exported.
    pub export_gateway: Option<String>,
    /// Whether the gateway permits only exported Services, and only for the clusters that these are exported to.
    pub permits_exports: bool,
    /// What happened to it.
    pub history: Vec<Happened>,
}

impl Workload {
    /// Whether this is our controller.
    pub fn is_ours(&self) -> bool {
        self.id.name == labels::CONTROLLER_NAME
    }
}

/// A pod with Linkerd's proxy in it, or one that should have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeshedPod {
    /// Namespace and name.
    pub id: ResourceId,
    /// Phase of the pod: `Running`, `Succeeded`, …
    pub phase: String,
    /// Why the pod is in its phase: `Evicted`, `NodeShutdown`, …; mostly empty.
    pub reason: String,
    /// Label `component`.
    pub component: String,
    /// The outbound ports that do not pass the proxy; `None` if only Linkerd's configuration names some.
    pub skipped_ports: Option<SkippedPorts>,
    /// The proxy; `None` when the pod has no such container.
    pub proxy: Option<Proxy>,
}

/// A proxy container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// Whether it is ready.
    pub ready: bool,
    /// Its image.
    pub image: String,
    /// Trust anchors in its environment, PEM; `None` when they come from elsewhere.
    pub trust_anchors: Option<String>,
    /// What it forwards to, if it is that of a gateway.
    pub forwards_to: Option<GatewaySuffixes>,
}

/// Numbers of endpoints of Services: all, and those that receive traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints(BTreeMap<ResourceId, Count>);

/// A number of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Those that receive traffic.
    pub ready: usize,
    /// All.
    pub total: usize,
}

impl Endpoints {
    /// Counts the endpoints in slices. The label `kubernetes.io/service-name` of a slice names its Service.
    pub fn count(slices: &[EndpointSlice]) -> Self {
        let mut counts: BTreeMap<_, Count> = BTreeMap::new();
        for slice in slices {
            let service = slice.metadata.labels.get(labels::SLICE_SERVICE);
            let (Some(service), Some(namespace)) = (service, &slice.metadata.namespace) else {
                continue;
            };
            let count = counts
                .entry(ResourceId::new(&**namespace, service))
                .or_default();
            count.total += slice.endpoints.len();
            count.ready += slice.endpoints.iter().filter(|e| e.is_ready()).count();
        }
        Self(counts)
    }

    /// The number of endpoints of a Service; zero if it has no slice.
    pub fn of(&self, service: &ResourceId) -> Count {
        self.0.get(service).copied().unwrap_or_default()
    }
}

/// The value of a label of an object; empty if it does not have the label.
pub fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    text(metadata.labels.as_ref(), key)
}

/// The value of an annotation of an object; empty if it does not have the annotation.
pub fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    text(metadata.annotations.as_ref(), key)
}

fn text<'a>(all: Option<&'a BTreeMap<String, String>>, key: &str) -> &'a str {
    all.and_then(|all| all.get(key)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_all_slices_of_a_service_add_up() {
        let slice = |namespace: &str, service: Option<&str>, ready: &[bool]| -> EndpointSlice {
            serde_json::from_value(serde_json::json!({
                "metadata": {
                    "namespace": namespace,
                    "labels": service.map(|s| BTreeMap::from([(labels::SLICE_SERVICE, s)])),
                },
                "addressType": "IPv4",
                "endpoints": ready.iter().map(|ready| serde_json::json!({
                    "addresses": ["192.0.2.1"], "conditions": {"ready": ready},
                })).collect::<Vec<_>>(),
            }))
            .unwrap()
        };
        let endpoints = Endpoints::count(&[
            slice("shop", Some("web-east"), &[true, false]),
            slice("shop", Some("web-east"), &[true]),
            slice("other", Some("web-east"), &[]),
            slice("shop", None, &[true]),
        ]);
        let expect = |ready, total| Count { ready, total };
        let of = |namespace, service| endpoints.of(&ResourceId::new(namespace, service));
        assert_eq!(of("shop", "web-east"), expect(2, 3));
        assert_eq!(of("other", "web-east"), expect(0, 0));
        assert_eq!(of("shop", "unknown"), expect(0, 0));
    }

    #[test]
    fn linkerd_certainly_uses_what_it_read_after_the_last_change() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        for (changed, started, is_current, is_outdated) in [
            (None, None, true, false),
            (at(10), at(11), true, false),
            (at(10), at(9), false, true),
            // Both are rounded to seconds.
            (at(10), at(10), false, false),
            (at(10), None, false, false),
        ] {
            let known = LinkerdCredentials {
                changed,
                ..LinkerdCredentials::default()
            };
            let destination = Destination {
                credentials: [("east".to_owned(), known)].into(),
                started,
                ..Destination::default()
            };
            let said = (
                destination.is_current("east"),
                destination.is_outdated("east"),
            );
            assert_eq!(said, (is_current, is_outdated), "{destination:?}");
            assert!(!destination.is_current("north"));
        }
    }
}
