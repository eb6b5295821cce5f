//! Every value of `install`: its key, type, default, kind and description.

#![expect(
    clippy::doc_markdown,
    reason = "descriptions are also comments in YAML files, which have no backticks"
)]

use std::{collections::BTreeMap, num::NonZeroU16};

use k8s_openapi::api::core::v1::{
    EnvVar, LocalObjectReference, NodeAffinity, Toleration, TopologySpreadConstraint,
};
use mirror_core::api::{labels, link::LinkerdConfig};
use serde::{Deserialize, Serialize};

use super::{
    deserialize::{
        Resources, number_or_empty, number_or_nothing, text_or_list, text_or_list_or_null,
    },
    kind::{
        Entry, Kind,
        Shape::{Group, Value},
        fits, fits_resources,
    },
};

/// Version of this program, and of the image that it installs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const SPREAD: Kind = Kind::Kubernetes(
    "a list of topology spread constraints",
    fits::<Vec<TopologySpreadConstraint>>,
);
const TOLERATIONS: Kind = Kind::Kubernetes("a list of tolerations", fits::<Vec<Toleration>>);

/// Defines a group of values: its type, the defaults, and its part of the schema. `prefix` begins the paths of its keys.
///
/// A line has the field, its key, type, default, shape, and description: a sentence without a period.
macro_rules! group {
    (
        $(#[$of_type:meta])*
        $name:ident, prefix $prefix:literal {
            $(
                $(#[$of_field:meta])*
                $field:ident $key:literal: $type:ty = $default:expr, $shape:expr, $doc:literal;
            )*
        }
    ) => {
        $(#[$of_type])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                #[doc = $doc]
                #[serde(rename = $key)]
                $(#[$of_field])*
                pub $field: $type,
            )*
        }

        impl $name {
            /// Its part of the schema, in the order of the output.
            pub const ENTRIES: &'static [Entry] = &[
                $(Entry { path: concat!($prefix, $key), shape: $shape, doc: $doc },)*
            ];
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

group! {
    /// All values of `install`.
    Values, prefix "" {
        gateway "gateway": GatewayValues = GatewayValues::default(), Group(GatewayValues::ENTRIES), "The gateway that other clusters send traffic to";
        api_gateway "apiGateway": ApiGatewayValues = ApiGatewayValues::default(), Group(ApiGatewayValues::ENTRIES), "The gateway through which controllers of other clusters reach the API server of this one";
        controller "controller": ControllerValues = ControllerValues::default(), Group(ControllerValues::ENTRIES), "The controller that mirrors Services from other clusters";
        pod_monitor "podMonitor": PodMonitorValues = PodMonitorValues::default(), Group(PodMonitorValues::ENTRIES), "A PodMonitor for the controller's metrics, which needs the Prometheus Operator";
        federation "federation": FederationValues = FederationValues::default(), Group(FederationValues::ENTRIES), "Services of this cluster that join federated Services";
        remote_mirror_service_account "remoteMirrorServiceAccount": bool = true, Value(Kind::Bool), "Whether to create the ServiceAccounts that controllers of other clusters use";
        #[serde(deserialize_with = "text_or_list")]
        remote_mirror_service_account_name "remoteMirrorServiceAccountName": Vec<String> = vec![labels::REMOTE_ACCESS_ACCOUNT.to_owned()], Value(Kind::AccountNames), "Names of these ServiceAccounts, comma-separated or as a list";
        remote_mirror_service_account_namespace "remoteMirrorServiceAccountNamespace": String = String::new(), Value(Kind::OptionalName), "Namespace of these ServiceAccounts and their tokens; the extension's if empty. The controller can read all Secrets of the extension's namespace, and none of another one";
        remote_mirror_service_account_token "remoteMirrorServiceAccountToken": bool = false, Value(Kind::Bool), "Whether to store a token for each of them that never expires. Only Linkerd's own link and link-gen need it";
        linkerd_namespace "linkerdNamespace": String = labels::LINKERD_NAMESPACE.to_owned(), Value(Kind::Name), "Namespace of Linkerd's control plane; also set by --linkerd-namespace";
        identity_trust_domain "identityTrustDomain": String = "cluster.local".to_owned(), Value(Kind::Word), "Trust domain of workload identities; read from the cluster unless --ignore-cluster";
        cluster_domain "clusterDomain": String = "cluster.local".to_owned(), Value(Kind::Word), "Domain of this cluster's Services; read from the cluster unless --ignore-cluster";
        cni_enabled "cniEnabled": bool = false, Value(Kind::Bool), "Whether Linkerd's CNI plugin is in use; read from the cluster unless --ignore-cluster";
        enable_namespace_creation "enableNamespaceCreation": bool = false, Value(Kind::Bool), "Whether the controller creates missing namespaces for mirrors";
        #[serde(deserialize_with = "text_or_list_or_null")]
        protected_namespaces "protectedNamespaces": Option<Vec<String>> = None, Value(Kind::Namespaces), "Namespaces in which nothing is mirrored or federated, whatever a Link allows; the extension's namespace is always protected";
        enable_pod_anti_affinity "enablePodAntiAffinity": bool = false, Value(Kind::Bool), "Whether replicas prefer different nodes and zones, with a PodDisruptionBudget; also set by --ha";
        node_affinity "nodeAffinity": Option<NodeAffinity> = None, Value(Kind::Kubernetes("a node affinity", fits::<NodeAffinity>)), "Node affinity of all pods";
        priority_class_name "priorityClassName": String = String::new(), Value(Kind::Text), "Priority class of all pods";
        revision_history_limit "revisionHistoryLimit": u32 = 10, Value(Kind::Number(0)), "Number of old ReplicaSets to keep";
        common_labels "commonLabels": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::Labels), "Labels of all objects except the Namespace and pods";
        pod_labels "podLabels": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::Labels), "Labels of all pods";
        pod_annotations "podAnnotations": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::Annotations), "Annotations of the controller's pods";
        image_pull_policy "imagePullPolicy": String = "IfNotPresent".to_owned(), Value(Kind::OneOf(&["Always", "IfNotPresent", "Never"])), "Pull policy of images";
        image_pull_secrets "imagePullSecrets": Vec<LocalObjectReference> = Vec::new(), Value(Kind::Kubernetes("a list of Secret names, each as {name: …}", fits::<Vec<LocalObjectReference>>)), "Pull secrets of all ServiceAccounts";
    }
}

group! {
    /// Values of the gateway.
    GatewayValues, prefix "gateway." {
        enabled "enabled": bool = true, Value(Kind::Bool), "Whether to install it";
        replicas "replicas": u32 = 1, Value(Kind::Number(0)), "Number of pods";
        name "name": String = labels::GATEWAY_NAME.to_owned(), Value(Kind::Name), "Name of its Deployment, Service and ServiceAccount";
        port "port": u16 = 4143, Value(Kind::Port), "Port of mirrored traffic";
        forward "forward": String = "all".to_owned(), Value(Kind::OneOf(&["all", "exported", "permitted"])), "Services that it forwards to: all of this cluster, those of namespaces with an exported Service, or only the exported ones, and for the clusters that these are exported to";
        service_type "serviceType": String = "LoadBalancer".to_owned(), Value(Kind::OneOf(&["LoadBalancer", "NodePort", "ClusterIP"])), "Type of its Service";
        node_port "nodePort": Option<u16> = None, Value(Kind::OptionalPort), "Fixed node port of mirrored traffic";
        health_check_node_port "healthCheckNodePort": Option<u16> = None, Value(Kind::OptionalPort), "Fixed node port for the load balancer's health checks";
        probe "probe": ProbeValues = ProbeValues::default(), Group(ProbeValues::ENTRIES), "How other clusters probe it";
        service_annotations "serviceAnnotations": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::Annotations), "Annotations of its Service";
        service_external_traffic_policy "serviceExternalTrafficPolicy": String = String::new(), Value(Kind::OneOf(&["", "Cluster", "Local"])), "externalTrafficPolicy of its Service";
        deployment_annotations "deploymentAnnotations": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::Annotations), "Annotations of its pods";
        load_balancer_class "loadBalancerClass": String = String::new(), Value(Kind::Text), "loadBalancerClass of its Service";
        load_balancer_ip "loadBalancerIP": String = String::new(), Value(Kind::Text), "loadBalancerIP of its Service";
        load_balancer_source_ranges "loadBalancerSourceRanges": Vec<String> = Vec::new(), Value(Kind::List), "Client networks that the load balancer accepts";
        #[serde(deserialize_with = "number_or_empty")]
        termination_grace_period_seconds "terminationGracePeriodSeconds": Option<u32> = None, Value(Kind::OptionalNumber), "Grace period of its pods, in seconds";
        node_selector "nodeSelector": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::NodeLabels), "Nodes for its pods";
        tolerations "tolerations": Vec<Toleration> = Vec::new(), Value(TOLERATIONS), "Tolerations of its pods";
        topology_spread_constraints "topologySpreadConstraints": Vec<TopologySpreadConstraint> = Vec::new(), Value(SPREAD), "How its pods are spread over nodes and zones";
        pause_image "pauseImage": String = "registry.k8s.io/pause:3.2".to_owned(), Value(Kind::Word), "Image of the idle container next to its proxy";
        #[serde(deserialize_with = "number_or_empty", serialize_with = "number_or_nothing")]
        uid "UID": Option<u32> = Some(2103), Value(Kind::OptionalId), "User of that container; empty to leave it to the cluster, as OpenShift needs";
        #[serde(deserialize_with = "number_or_empty", serialize_with = "number_or_nothing")]
        gid "GID": Option<u32> = Some(2103), Value(Kind::OptionalId), "Group of that container; empty to leave it to the cluster";
    }
}

group! {
    /// How other clusters probe the gateway.
    ProbeValues, prefix "gateway.probe." {
        path "path": String = "/ready".to_owned(), Value(Kind::UrlPath), "Path";
        port "port": u16 = 4191, Value(Kind::Port), "Port";
        node_port "nodePort": Option<u16> = None, Value(Kind::OptionalPort), "Fixed node port";
        seconds "seconds": u32 = 3, Value(Kind::Number(1)), "Interval of probes, in seconds";
    }
}

group! {
    /// Values of the gateway for the API server. What it does not have is as for the other gateway.
    ApiGatewayValues, prefix "apiGateway." {
        api_server_address "apiServerAddress": String = String::new(), Value(Kind::OptionalAddress), "ClusterIP of the Service default/kubernetes. The gateway is installed if this is set, and forwards to nothing else (link --api-server-through-gateway)";
        #[serde(deserialize_with = "text_or_list")]
        clients "clients": Vec<String> = Vec::new(), Value(Kind::TextOrList), "TLS identities that may use it, such as *.identity.linkerd.west.example; if empty, those of controllers in clusters with the trust domain and the namespaces of this one";
        replicas "replicas": u32 = 1, Value(Kind::Number(0)), "Number of pods";
        port "port": u16 = 4143, Value(Kind::Port), "Port of its Service";
        service_type "serviceType": String = "LoadBalancer".to_owned(), Value(Kind::OneOf(&["LoadBalancer", "NodePort", "ClusterIP"])), "Type of its Service";
        node_port "nodePort": Option<u16> = None, Value(Kind::OptionalPort), "Fixed node port of its Service";
        service_annotations "serviceAnnotations": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::Annotations), "Annotations of its Service";
        load_balancer_class "loadBalancerClass": String = String::new(), Value(Kind::Text), "loadBalancerClass of its Service";
        load_balancer_ip "loadBalancerIP": String = String::new(), Value(Kind::Text), "loadBalancerIP of its Service";
        load_balancer_source_ranges "loadBalancerSourceRanges": Vec<String> = Vec::new(), Value(Kind::List), "Client networks that the load balancer accepts";
    }
}

group! {
    /// Values of the controller.
    ControllerValues, prefix "controller." {
        replicas "replicas": u32 = 1, Value(Kind::Number(0)), "Number of pods; one is active, the others are on standby";
        image "image": ImageValues = ImageValues::default(), Group(ImageValues::ENTRIES), "Its image";
        log_level "logLevel": String = "info".to_owned(), Value(Kind::OneOf(&["error", "warn", "info", "debug", "trace"])), "Log level";
        log_format "logFormat": String = "plain".to_owned(), Value(Kind::OneOf(&["plain", "json"])), "Log format";
        metrics_port "metricsPort": u16 = 9999, Value(Kind::Port), "Port for metrics and for the kubelet's probes";
        enable_headless_services "enableHeadlessServices": bool = false, Value(Kind::Bool), "Whether headless Services are mirrored as headless, unless a Link sets this itself";
        take_over_from "takeOverFrom": String = String::new(), Value(Kind::Text), "Namespace of another installation whose mirrors this one adopts, to move the extension to another namespace";
        max_in_flight_writes "maxInFlightWrites": u32 = 32, Value(Kind::Range(1, 1000)), "Maximum number of concurrent writes to the API server";
        max_services_per_link "maxServicesPerLink": u32 = 10_000, Value(Kind::Number(1)), "Maximum number of mirrored Services per target cluster";
        max_metadata_kib_per_service "maxMetadataKiBPerService": u32 = 16, Value(Kind::Range(1, 1024)), "Maximum size of a Service's labels and annotations, in KiB; if they are larger, none are copied";
        max_mib_per_link "maxMiBPerLink": u32 = 32, Value(Kind::Range(1, 65_535)), "Maximum memory for the Services and EndpointSlices of a target cluster, in MiB";
        max_mib "maxMiB": u32 = 128, Value(Kind::Range(1, 65_535)), "Maximum memory for the Services and EndpointSlices of all target clusters, in MiB; determines the controller's memory limit";
        max_writes_per_link "maxWritesPerLink": u32 = 50, Value(Kind::Range(1, 65_535)), "Maximum sustained rate of writes per second for each target cluster; the first sync is not limited";
        max_namespaces_per_link "maxNamespacesPerLink": u32 = 100, Value(Kind::Number(1)), "Maximum number of namespaces that are created per target cluster";
        admission_policy "admissionPolicy": bool = true, Value(Kind::Bool), "Whether to restrict its account with a ValidatingAdmissionPolicy; left out if the cluster does not support it (before Kubernetes 1.30)";
        network_policy "networkPolicy": NetworkPolicyValues = NetworkPolicyValues::default(), Group(NetworkPolicyValues::ENTRIES), "NetworkPolicy of its pods";
        resources "resources": Resources = Resources::default(), Value(Kind::Kubernetes("requests and limits", fits_resources)), "Requests and limits; memory defaults to a value computed from controller.maxMiB";
        node_selector "nodeSelector": BTreeMap<String, String> = BTreeMap::new(), Value(Kind::NodeLabels), "Nodes for its pods";
        tolerations "tolerations": Vec<Toleration> = Vec::new(), Value(TOLERATIONS), "Tolerations of its pods";
        additional_env "additionalEnv": Vec<EnvVar> = Vec::new(), Value(Kind::Kubernetes("a list of environment variables", fits::<Vec<EnvVar>>)), "Environment variables of its container";
        topology_spread_constraints "topologySpreadConstraints": Vec<TopologySpreadConstraint> = Vec::new(), Value(SPREAD), "How its pods are spread over nodes and zones";
        #[serde(deserialize_with = "number_or_empty", serialize_with = "number_or_nothing")]
        uid "UID": Option<u32> = Some(2103), Value(Kind::OptionalId), "User of its container; empty to leave it to the cluster, as OpenShift needs";
        #[serde(deserialize_with = "number_or_empty", serialize_with = "number_or_nothing")]
        gid "GID": Option<u32> = Some(2103), Value(Kind::OptionalId), "Group of its container; empty to leave it to the cluster";
    }
}

group! {
    /// The controller's image.
    ImageValues, prefix "controller.image." {
        name "name": String = "linkerd-mc".to_owned(), Value(Kind::Word), "Registry and name";
        version "version": String = VERSION.to_owned(), Value(Kind::Word), "Tag";
        pull_policy "pullPolicy": String = String::new(), Value(Kind::OneOf(&["", "Always", "IfNotPresent", "Never"])), "Pull policy; empty for imagePullPolicy";
    }
}

group! {
    /// NetworkPolicy of the controller's pods.
    NetworkPolicyValues, prefix "controller.networkPolicy." {
        enabled "enabled": bool = false, Value(Kind::Bool), "Whether to install it";
        #[serde(deserialize_with = "text_or_list")]
        metrics_namespaces "metricsNamespaces": Vec<String> = vec!["linkerd-viz".to_owned()], Value(Kind::TextOrList), "Namespaces of pods that may read its metrics";
        egress_ports "egressPorts": Vec<NonZeroU16> = [443, 6443, 4191].into_iter().filter_map(NonZeroU16::new).collect(), Value(Kind::Kubernetes("a list of ports", fits::<Vec<NonZeroU16>>)), "TCP ports of API servers and of gateways' probes";
        #[serde(deserialize_with = "text_or_list")]
        egress_networks "egressNetworks": Vec<String> = Vec::new(), Value(Kind::TextOrList), "Networks of these API servers and gateways, such as 192.0.2.0/24; empty for any";
    }
}

group! {
    /// A PodMonitor of the Prometheus Operator.
    PodMonitorValues, prefix "podMonitor." {
        enabled "enabled": bool = false, Value(Kind::Bool), "Whether to install it";
        scrape_interval "scrapeInterval": String = "30s".to_owned(), Value(Kind::Duration), "Interval of scrapes";
    }
}

group! {
    /// Values of Services of this cluster that join federated Services.
    FederationValues, prefix "federation." {
        enabled "enabled": bool = true, Value(Kind::Bool), "Whether Services of this cluster join federated Services";
        selector "selector": String = format!("{}=member", labels::FEDERATED), Value(Kind::Selector), "Label selector for these Services";
        #[serde(deserialize_with = "text_or_list")]
        excluded_labels "excludedLabels": Vec<String> = Vec::new(), Value(Kind::TextOrList), "Labels that are not copied from them to federated Services: keys, or prefixes such as example.com/*";
        #[serde(deserialize_with = "text_or_list")]
        excluded_annotations "excludedAnnotations": Vec<String> = Vec::new(), Value(Kind::TextOrList), "Annotations that are not copied from them to federated Services";
        join_delay "joinDelay": String = "20s".to_owned(), Value(Kind::Duration), "How long federated Services do not name the cluster of a new link, so that Linkerd has added it";
        routes "routes": bool = false, Value(Kind::Bool), "Whether to apply the preferences of members, with Gateway API routes";
        hold_down "holdDown": String = "30s".to_owned(), Value(Kind::Duration), "How long a preferred cluster must be available again before it receives requests";
    }
}

impl GatewayValues {
    /// Whether there is a gateway that forwards only what is exported.
    pub fn is_limited(&self) -> bool {
        self.enabled && self.forward != "all"
    }

    /// Whether there is a gateway that forwards exported Services for the clusters that these are exported to.
    pub fn is_permitting(&self) -> bool {
        self.enabled && self.forward == "permitted"
    }
}

impl ApiGatewayValues {
    /// Whether there is such a gateway.
    pub fn is_installed(&self) -> bool {
        !self.api_server_address.is_empty()
    }
}

impl Values {
    /// Sets what Linkerd's configuration says about the domains of the cluster.
    pub fn take_domains(&mut self, config: &LinkerdConfig) {
        (self.identity_trust_domain).clone_from(&config.identity_trust_domain);
        if !config.cluster_domain.is_empty() {
            self.cluster_domain.clone_from(&config.cluster_domain);
        }
    }

    /// Where the accounts are that other clusters use. `namespace` is that of the extension.
    pub fn accounts_namespace<'a>(&'a self, namespace: &'a str) -> &'a str {
        let own = self.remote_mirror_service_account_namespace.as_str();
        if own.is_empty() { namespace } else { own }
    }

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
        self.api_gateway.replicas = 2;
        self.controller.replicas = 2;
        self.enable_pod_anti_affinity = true;
    }

    /// Replaces the registry of all images: everything before the last slash.
    pub fn use_registry(&mut self, registry: &str) {
        for image in [
            &mut self.controller.image.name,
            &mut self.gateway.pause_image,
        ] {
            let name = image.rsplit('/').next().unwrap_or_default();
            *image = format!("{}/{name}", registry.trim_end_matches('/'));
        }
    }

    /// All images that the objects name.
    pub fn images(&self) -> Vec<String> {
        let image = &self.controller.image;
        let mut images = vec![format!("{}:{}", image.name, image.version)];
        if self.gateway.enabled || self.api_gateway.is_installed() {
            images.push(self.gateway.pause_image.clone());
        }
        images
    }
}
