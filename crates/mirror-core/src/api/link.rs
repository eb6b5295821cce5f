//! The Link custom resource, `multicluster.linkerd.io/v1alpha3`.
//!
//! The types follow Linkerd's CRD. `status` also has optional fields of ours. The schema of `spec`
//! is in `templates/link-spec.yaml.hbs`. `it::install` stores a Link with all fields on a real API server. Our settings are
//! annotations, so that Links also work with Linkerd's CRD.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
};
use kube_core::{ObjectMeta, Resource};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize, de::Error as _};

/// Specification of a Link: how a source cluster reaches a target cluster, and what it mirrors from it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "multicluster.linkerd.io",
    version = "v1alpha3",
    kind = "Link",
    plural = "links",
    namespaced,
    status = "LinkStatus",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct LinkSpec {
    /// Name of the target cluster, and the suffix of its mirrors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_cluster_name: String,
    /// DNS domain of the target cluster, such as `cluster.local`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_cluster_domain: String,
    /// Namespace of the target cluster's control plane.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_cluster_linkerd_namespace: String,
    /// Name of the credentials Secret in the Link's namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_credentials_secret: String,
    /// IP addresses and host names of the gateway, joined by commas. Empty: the Link has no gateway.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway_address: String,
    /// Decimal TCP port of the gateway.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway_port: String,
    /// TLS identity of the gateway.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway_identity: String,
    /// How the gateway is probed.
    #[serde(default)]
    pub probe_spec: ProbeSpec,
    /// Selects Services to mirror in gateway mode. Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Selects Services to mirror in remote-discovery mode. Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_discovery_selector: Option<LabelSelector>,
    /// Selects members of federated Services. Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federated_service_selector: Option<LabelSelector>,
    /// Annotations that are not copied: a key, or a prefix that ends in `/*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_annotations: Vec<String>,
    /// Labels that are not copied: a key, or a prefix that ends in `/*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_labels: Vec<String>,
}

/// A Link from the API server, even if it cannot be decoded.
///
/// Linkerd's CRD accepts values that cannot be decoded, such as a boolean in `matchLabels`. Such a Link must not end
/// the watch of all Links, and must not count as deleted.
#[derive(Clone, Debug)]
pub struct LinkObject {
    /// The Link. If it cannot be decoded, this has only its metadata, its status and the names of its target cluster and
    /// of its credentials Secret, as far as these can be decoded.
    pub link: Link,
    /// Why it cannot be decoded: the path of the field and what is wrong with it.
    pub unreadable: Option<String>,
}

impl<'de> Deserialize<'de> for LinkObject {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = serde_json::Value::deserialize(deserializer)?;
        let error = match serde_path_to_error::deserialize(&raw) {
            Ok(link) => {
                return Ok(Self {
                    link,
                    unreadable: None,
                });
            }
            Err(error) => error.to_string(),
        };
        let metadata = ObjectMeta::deserialize(&raw["metadata"]).map_err(D::Error::custom)?;
        let text = |field| raw["spec"][field].as_str().unwrap_or_default().to_owned();
        let spec = LinkSpec {
            target_cluster_name: text("targetClusterName"),
            cluster_credentials_secret: text("clusterCredentialsSecret"),
            ..LinkSpec::default()
        };
        let link = Link {
            metadata,
            spec,
            status: LinkStatus::deserialize(&raw["status"]).ok(),
        };
        Ok(Self {
            link,
            unreadable: Some(error),
        })
    }
}

impl Resource for LinkObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Link::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Link::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Link::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Link::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.link.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.link.meta_mut()
    }
}

/// How a gateway is probed. All values are text on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub struct ProbeSpec {
    /// Consecutive failures before the gateway counts as dead, a decimal number. Default of the CRD: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<String>,
    /// Path of the probe. Empty: no probe.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Time between probes, a Go duration such as `3s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub period: String,
    /// Decimal TCP port of the probe.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub port: String,
    /// Time limit of one probe, a Go duration. Default of the CRD: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// Observed state of a Link. Lists are always sent, even if empty: a merge patch clears only the fields that it names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkStatus {
    /// Services to mirror; beyond a limit, only those that are not mirrored.
    #[serde(default)]
    pub mirror_services: Vec<ServiceStatus>,
    /// Members of federated Services; beyond a limit, only those that have not joined.
    #[serde(default)]
    pub federated_services: Vec<ServiceStatus>,
    /// Types and reasons are in [`super::conditions`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// State of the gateway; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayStatus>,
    /// Number of Services that are mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrored: Option<i64>,
    /// Number of Services that are members of a federated Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federated: Option<i64>,
    /// Number of Services that should be mirrored or federated and are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<i64>,
    /// Name of the target cluster whose Services were listed last. The mirrors in this cluster belong to it until the
    /// cluster in `spec.targetClusterName` has been listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster_name: Option<String>,
    /// Which credentials are in use: the start of the SHA-256 of the kubeconfig, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_fingerprint: Option<String>,
    /// Generation of the Link that this status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl LinkStatus {
    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }
}

/// State of a target cluster's gateway as seen from this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// Whether probes succeed; absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alive: Option<bool>,
    /// When `alive` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Latency of a successful probe, in milliseconds. Updated rarely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<i64>,
    /// Addresses that the gateway resolves to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// State of one remote Service: mirrored, or why not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Always [`CONTROLLER`].
    pub controller_name: String,
    /// The Service in the target cluster.
    pub remote_ref: ServiceRef,
    /// Exactly one, of type [`MIRRORED`].
    #[serde(default)]
    pub conditions: Vec<ServiceCondition>,
}

/// `status.*.controllerName` of Linkerd's service mirror.
pub const CONTROLLER: &str = "linkerd.io/service-mirror";
/// The one condition type of a [`ServiceStatus`].
pub const MIRRORED: &str = "Mirrored";

/// A reference to a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRef {
    /// API group; the API server's default is `core`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Always `Service`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}

/// A condition of one remote Service. Unlike a Kubernetes condition, it refers to the local object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCondition {
    /// `Mirrored`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` or `False`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// One sentence, or empty.
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// The local Service, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ref: Option<ServiceRef>,
}

/// The parts of Linkerd's configuration document that multicluster uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkerdConfig {
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Trust domain of workload identities.
    pub identity_trust_domain: String,
    /// Trust anchors, PEM.
    #[serde(rename = "identityTrustAnchorsPEM")]
    pub identity_trust_anchors_pem: String,
    /// Whether the control plane uses Linkerd's CNI plugin.
    pub cni_enabled: bool,
    /// All other fields.
    #[serde(flatten)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

/// The problem if Linkerd reads no EndpointSlices.
pub const NO_ENDPOINT_SLICES: &str = "enableEndpointSlices is off: Linkerd reads Endpoints, but mirrors have only EndpointSlices, so Linkerd finds no endpoints for them";

impl LinkerdConfig {
    /// The same, with the domains that Linkerd takes where the document has none: that of Kubernetes, and for identities
    /// that of the cluster.
    pub fn with_domains(mut self) -> Self {
        if self.cluster_domain.is_empty() {
            "cluster.local".clone_into(&mut self.cluster_domain);
        }
        if self.identity_trust_domain.is_empty() {
            self.identity_trust_domain.clone_from(&self.cluster_domain);
        }
        self
    }

    /// Whether Linkerd's control plane reads EndpointSlices, which is the default. With `enableEndpointSlices: false`
    /// it reads Endpoints, which mirrors do not have.
    pub fn reads_endpoint_slices(&self) -> bool {
        self.rest.get("enableEndpointSlices") != Some(&serde_json::Value::Bool(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_that_linkerd_does_not_name_are_its_defaults() {
        let domains = |cluster: &str, trust: &str| {
            let config = LinkerdConfig {
                cluster_domain: cluster.to_owned(),
                identity_trust_domain: trust.to_owned(),
                ..LinkerdConfig::default()
            };
            let config = config.with_domains();
            [config.cluster_domain, config.identity_trust_domain].join(" ")
        };
        assert_eq!(domains("", ""), "cluster.local cluster.local");
        assert_eq!(domains("east.example", ""), "east.example east.example");
        assert_eq!(domains("", "mesh.example"), "cluster.local mesh.example");
        assert_eq!(domains("a.example", "b.example"), "a.example b.example");
    }
}
