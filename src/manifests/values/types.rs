//! Every value of `install`, typed.

use std::{collections::BTreeMap, num::NonZeroU16};

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, NodeAffinity, Toleration};
use serde::{Deserialize, Serialize};

use super::deserialize::{number_or_empty, quantities, text_or_list, text_or_list_or_null};
use crate::api::labels;

/// Version of this program, and of the image that it installs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All values of `install`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of a values file, where it is a bool"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Values {
    /// The gateway that other clusters send traffic to.
    pub gateway: Gateway,
    /// The controller that mirrors Services from other clusters.
    pub controller: Controller,
    /// Services of this cluster that join federated Services.
    pub federation: Federation,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
    /// Trust domain of workload identities; read from the cluster.
    pub identity_trust_domain: String,
    /// Whether Linkerd's CNI plugin is in use; read from the cluster.
    pub cni_enabled: bool,
    /// Whether to create ServiceAccounts for controllers of other clusters.
    pub remote_mirror_service_account: bool,
    /// Names of those ServiceAccounts; a string, a comma-separated string or a list.
    #[serde(deserialize_with = "text_or_list")]
    pub remote_mirror_service_account_name: Vec<String>,
    /// Whether the controller creates missing namespaces for mirrors.
    pub enable_namespace_creation: bool,
    /// Namespaces in which nothing is mirrored or federated; `None`: those of Kubernetes and Linkerd.
    #[serde(deserialize_with = "text_or_list_or_null")]
    pub protected_namespaces: Option<Vec<String>>,
    /// Whether replicas prefer different nodes and zones, with a disruption budget.
    pub enable_pod_anti_affinity: bool,
    /// Node affinity of all pods.
    pub node_affinity: Option<NodeAffinity>,
    /// Number of old ReplicaSets to keep.
    pub revision_history_limit: u32,
    /// Labels of all objects except the Namespace and pods.
    pub common_labels: BTreeMap<String, String>,
    /// Labels of all pods.
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of the controller's pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// Pull policy of images.
    pub image_pull_policy: String,
    /// Pull secrets of all ServiceAccounts.
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

/// Values of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gateway {
    /// Whether to install it.
    pub enabled: bool,
    /// Number of pods.
    pub replicas: u32,
    /// Name of its objects.
    pub name: String,
    /// Port of mirrored traffic.
    pub port: u16,
    /// Type of its Service.
    pub service_type: String,
    /// Fixed node port of mirrored traffic.
    pub node_port: Option<u16>,
    /// Fixed node port of the load balancer's health check.
    pub health_check_node_port: Option<u16>,
    /// Liveness probe from other clusters.
    pub probe: Probe,
    /// Annotations of its Service.
    pub service_annotations: BTreeMap<String, String>,
    /// `externalTrafficPolicy` of its Service; empty: the cluster's default.
    pub service_external_traffic_policy: String,
    /// Annotations of its pods.
    pub deployment_annotations: BTreeMap<String, String>,
    /// `loadBalancerClass` of its Service.
    pub load_balancer_class: String,
    /// `loadBalancerIP` of its Service.
    #[serde(rename = "loadBalancerIP")]
    pub load_balancer_ip: String,
    /// Client networks that the load balancer accepts.
    pub load_balancer_source_ranges: Vec<String>,
    /// Grace period of its pods, seconds.
    #[serde(deserialize_with = "number_or_empty")]
    pub termination_grace_period_seconds: Option<u32>,
    /// Node selector of its pods.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of its pods.
    pub tolerations: Vec<Toleration>,
    /// Image of the idle container.
    pub pause_image: String,
    /// User of the idle container.
    #[serde(rename = "UID")]
    pub uid: u32,
    /// Group of the idle container.
    #[serde(rename = "GID")]
    pub gid: u32,
}

/// How other clusters probe the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// Path.
    pub path: String,
    /// Port of the gateway's Service.
    pub port: u16,
    /// Fixed node port of it.
    pub node_port: Option<u16>,
    /// Interval of probes, seconds.
    pub seconds: u32,
}

/// Values of the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller {
    /// Number of pods; one is active, the others are on standby.
    pub replicas: u32,
    /// Its image.
    pub image: Image,
    /// Log level.
    pub log_level: String,
    /// `plain` or `json`.
    pub log_format: String,
    /// Port of metrics and probes.
    pub metrics_port: u16,
    /// Whether headless Services are mirrored as headless, unless a Link sets this itself.
    pub enable_headless_services: bool,
    /// Namespace of the installation whose mirrors this one adopts; empty for none.
    pub take_over_from: String,
    /// Maximum number of concurrent writes to the API server.
    pub max_in_flight_writes: u32,
    /// Maximum number of mirrored Services per target cluster.
    pub max_services_per_link: u32,
    /// Maximum size of a Service's labels and annotations, in KiB.
    #[serde(rename = "maxMetadataKiBPerService")]
    pub max_metadata_kib_per_service: u32,
    /// Maximum memory for the objects of a target cluster, in MiB.
    #[serde(rename = "maxMiBPerLink")]
    pub max_mib_per_link: u32,
    /// Maximum memory for the objects of all target clusters, in MiB.
    #[serde(rename = "maxMiB")]
    pub max_mib: u32,
    /// Maximum sustained rate of writes per second for each target cluster.
    pub max_writes_per_link: u32,
    /// Maximum number of namespaces that are created per target cluster.
    pub max_namespaces_per_link: u32,
    /// Whether admission policies restrict its account.
    pub admission_policy: bool,
    /// Network policy of its pods.
    pub network_policy: NetworkPolicy,
    /// Resource requests and limits.
    pub resources: Resources,
    /// Node selector of its pods.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of its pods.
    pub tolerations: Vec<Toleration>,
    /// Environment variables.
    pub additional_env: Vec<EnvVar>,
    /// User of its container.
    #[serde(rename = "UID")]
    pub uid: u32,
    /// Group of its container.
    #[serde(rename = "GID")]
    pub gid: u32,
}

/// Network policy of the controller's pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkPolicy {
    /// Whether to install it.
    pub enabled: bool,
    /// Namespaces whose pods may read metrics.
    #[serde(deserialize_with = "text_or_list")]
    pub metrics_namespaces: Vec<String>,
    /// Ports of API servers and of gateways' probes.
    pub egress_ports: Vec<NonZeroU16>,
    /// Networks of API servers and gateways; empty for any.
    #[serde(deserialize_with = "text_or_list")]
    pub egress_networks: Vec<String>,
}

/// A container image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// Registry and name.
    pub name: String,
    /// Tag.
    pub version: String,
    /// Pull policy; empty: that of all images.
    pub pull_policy: String,
}

/// Values of local federated members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Federation {
    /// Whether Services of this cluster join federated Services.
    pub enabled: bool,
    /// Label selector of those Services.
    pub selector: String,
    /// Labels that are not copied from them.
    #[serde(deserialize_with = "text_or_list")]
    pub excluded_labels: Vec<String>,
    /// Annotations that are not copied from them.
    #[serde(deserialize_with = "text_or_list")]
    pub excluded_annotations: Vec<String>,
    /// Whether to apply the preferences of members, with routes.
    pub routes: bool,
    /// How long a preferred cluster must be available again before it receives requests.
    pub hold_down: String,
}

/// Resource requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Limits.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub limits: BTreeMap<String, String>,
    /// Requests.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub requests: BTreeMap<String, String>,
}

impl Values {
    /// Namespaces in which nothing is mirrored or federated, besides that of the extension.
    pub fn protected_namespaces(&self) -> Vec<&str> {
        if let Some(given) = &self.protected_namespaces {
            return given.iter().map(String::as_str).collect();
        }
        let kubernetes = labels::KUBERNETES_NAMESPACES.into_iter();
        kubernetes
            .chain([self.linkerd_namespace.as_str()])
            .collect()
    }

    /// Sets values for high availability: several replicas of each component, spread over nodes and zones.
    pub fn make_highly_available(&mut self) {
        self.gateway.replicas = 3;
        self.controller.replicas = 2;
        self.enable_pod_anti_affinity = true;
    }

    /// Replaces the registry of the image: everything before the last slash.
    pub fn use_registry(&mut self, registry: &str) {
        let image = &mut self.controller.image.name;
        let name = image.rsplit('/').next().unwrap_or_default();
        *image = format!("{}/{name}", registry.trim_end_matches('/'));
    }
}
