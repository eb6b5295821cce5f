//! Defaults of the values of `install`.

use std::{collections::BTreeMap, num::NonZeroU16};

use super::types::{
    Controller, Federation, Gateway, Image, NetworkPolicy, Probe, Resources, VERSION, Values,
};
use crate::api::labels;

impl Default for Values {
    fn default() -> Self {
        Self {
            gateway: Gateway::default(),
            controller: Controller::default(),
            federation: Federation::default(),
            linkerd_namespace: labels::LINKERD_NAMESPACE.to_owned(),
            identity_trust_domain: "cluster.local".to_owned(),
            cni_enabled: false,
            remote_mirror_service_account: true,
            remote_mirror_service_account_name: vec![labels::REMOTE_ACCESS_ACCOUNT.to_owned()],
            enable_namespace_creation: false,
            protected_namespaces: None,
            enable_pod_anti_affinity: false,
            node_affinity: None,
            revision_history_limit: 10,
            common_labels: BTreeMap::new(),
            pod_labels: BTreeMap::new(),
            pod_annotations: BTreeMap::new(),
            image_pull_policy: "IfNotPresent".to_owned(),
            image_pull_secrets: Vec::new(),
        }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            enabled: true,
            replicas: 1,
            name: labels::GATEWAY_NAME.to_owned(),
            port: 4143,
            service_type: "LoadBalancer".to_owned(),
            node_port: None,
            health_check_node_port: None,
            probe: Probe {
                path: "/ready".to_owned(),
                port: 4191,
                node_port: None,
                seconds: 3,
            },
            service_annotations: BTreeMap::new(),
            service_external_traffic_policy: String::new(),
            deployment_annotations: BTreeMap::new(),
            load_balancer_class: String::new(),
            load_balancer_ip: String::new(),
            load_balancer_source_ranges: Vec::new(),
            termination_grace_period_seconds: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            pause_image: "registry.k8s.io/pause:3.2".to_owned(),
            uid: 2103,
            gid: 2103,
        }
    }
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            replicas: 1,
            image: Image {
                name: "linkerd-mc".to_owned(),
                version: VERSION.to_owned(),
                pull_policy: String::new(),
            },
            log_level: "info".to_owned(),
            log_format: "plain".to_owned(),
            metrics_port: 9999,
            enable_headless_services: false,
            take_over_from: String::new(),
            max_in_flight_writes: 32,
            max_services_per_link: 10_000,
            max_metadata_kib_per_service: 16,
            max_mib_per_link: 32,
            max_mib: 128,
            max_writes_per_link: 50,
            max_namespaces_per_link: 100,
            admission_policy: true,
            network_policy: NetworkPolicy::default(),
            resources: Resources::default(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            additional_env: Vec::new(),
            uid: 2103,
            gid: 2103,
        }
    }
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            metrics_namespaces: vec!["linkerd-viz".to_owned()],
            egress_ports: [443, 6443, 4191]
                .into_iter()
                .filter_map(NonZeroU16::new)
                .collect(),
            egress_networks: Vec::new(),
        }
    }
}

impl Default for Federation {
    fn default() -> Self {
        Self {
            enabled: true,
            selector: format!("{}=member", labels::FEDERATED),
            excluded_labels: Vec::new(),
            excluded_annotations: Vec::new(),
            routes: false,
            hold_down: "30s".to_owned(),
        }
    }
}
