//! The objects of `install`, from its values. Templates say what is in them; this says which and with what.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    render::{Manifest, Template, render},
    values::{VERSION, Values},
};

const NAMESPACE: Template = (
    "namespace.yaml",
    include_str!("../../templates/namespace.yaml.hbs"),
);
const LINK_CRD: Template = (
    "link-crd.yaml",
    include_str!("../../templates/link-crd.yaml.hbs"),
);
const GATEWAY: Template = (
    "gateway.yaml",
    include_str!("../../templates/gateway.yaml.hbs"),
);
const GATEWAY_POLICY: Template = (
    "gateway-policy.yaml",
    include_str!("../../templates/gateway-policy.yaml.hbs"),
);
const REMOTE_ACCESS: Template = (
    "remote-access.yaml",
    include_str!("../../templates/remote-access.yaml.hbs"),
);
const ADMIN_POLICY: Template = (
    "admin-policy.yaml",
    include_str!("../../templates/admin-policy.yaml.hbs"),
);
const CONTROLLER: Template = (
    "controller.yaml",
    include_str!("../../templates/controller.yaml.hbs"),
);
/// Parts of the Link CRD that occur more than once.
const CRD_PARTS: [Template; 6] = [
    (
        "link-spec",
        include_str!("../../templates/link-spec.yaml.hbs"),
    ),
    (
        "link-status",
        include_str!("../../templates/link-status.yaml.hbs"),
    ),
    (
        "label-selector",
        include_str!("../../templates/label-selector.yaml.hbs"),
    ),
    (
        "service-status",
        include_str!("../../templates/service-status.yaml.hbs"),
    ),
    (
        "condition-words",
        include_str!("../../templates/condition-words.yaml.hbs"),
    ),
    (
        "object-ref",
        include_str!("../../templates/object-ref.yaml.hbs"),
    ),
];

/// `linkerd.io/created-by` of every object that this program prints.
pub fn created_by() -> String {
    format!("linkerd-mc/cli {VERSION}")
}

/// What the ServiceAccount of a remote controller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAccess {
    /// What mirroring through a gateway needs, and nothing else.
    Gateway,
    /// What the original grants: also what a remote Linkerd control plane needs for pod-to-pod traffic.
    Full,
}

/// What templates see.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    namespace: &'a str,
    values: &'a Values,
    created_by: String,
    version: &'static str,
    pod_security: &'static str,
    accounts: &'a [String],
    full_access: bool,
    gateway_identity: String,
    node_ports: NodePorts,
    gateway_affinity: Value,
    controller_affinity: Value,
    controller_args: Vec<String>,
    pull_policy: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePorts {
    gateway: Option<u16>,
    probe: Option<u16>,
    health_check: Option<u16>,
}

/// The objects of `install` in `namespace`.
pub fn install(namespace: &str, values: &Values) -> anyhow::Result<Manifest> {
    let mut templates = vec![NAMESPACE, LINK_CRD];
    if values.gateway.enabled {
        templates.extend([GATEWAY, GATEWAY_POLICY]);
    }
    if values.remote_mirror_service_account {
        templates.push(REMOTE_ACCESS);
    }
    templates.extend([ADMIN_POLICY, CONTROLLER]);
    let context = context(
        namespace,
        values,
        &values.remote_mirror_service_account_name,
        RemoteAccess::Full,
    );
    render(&templates, &CRD_PARTS, &context)
}

fn context<'a>(
    namespace: &'a str,
    values: &'a Values,
    accounts: &'a [String],
    access: RemoteAccess,
) -> Context<'a> {
    let gateway = &values.gateway;
    // A Service of another type has no node ports; the API server would refuse them.
    let has_node_ports = ["NodePort", "LoadBalancer"].contains(&gateway.service_type.as_str());
    let node_port = |port: Option<u16>| port.filter(|port| has_node_ports && *port != 0);
    Context {
        namespace,
        values,
        created_by: created_by(),
        version: VERSION,
        // Without the CNI plugin, an init container of Linkerd's proxy needs NET_ADMIN.
        pod_security: if values.cni_enabled {
            "restricted"
        } else {
            "privileged"
        },
        accounts,
        full_access: access == RemoteAccess::Full,
        gateway_identity: format!(
            "{}.{namespace}.serviceaccount.identity.{}.{}",
            gateway.name, values.linkerd_namespace, values.identity_trust_domain
        ),
        node_ports: NodePorts {
            gateway: node_port(gateway.node_port),
            probe: node_port(gateway.probe.node_port),
            health_check: node_port(gateway.health_check_node_port),
        },
        gateway_affinity: affinity(values, &gateway.name),
        controller_affinity: affinity(values, crate::api::labels::CONTROLLER_NAME),
        controller_args: controller_args(namespace, values),
        pull_policy: [
            &values.controller.image.pull_policy,
            &values.image_pull_policy,
        ]
        .into_iter()
        .find(|policy| !policy.is_empty())
        .map_or("IfNotPresent", String::as_str),
    }
}

/// Pods with label `app` prefer other nodes, then other zones. Preferred, where the original requires it:
/// a replica that finds no node of its own is better next to another one than pending.
fn affinity(values: &Values, app: &str) -> Value {
    let mut affinity = serde_json::Map::new();
    if let Some(node) = &values.node_affinity {
        affinity.insert("nodeAffinity".to_owned(), json!(node));
    }
    if values.enable_pod_anti_affinity {
        let apart = |weight: u8, topology: &str| {
            json!({
                "weight": weight,
                "podAffinityTerm": {
                    "labelSelector": {
                        "matchExpressions": [{ "key": "app", "operator": "In", "values": [app] }],
                    },
                    "topologyKey": topology,
                },
            })
        };
        affinity.insert(
            "podAntiAffinity".to_owned(),
            json!({ "preferredDuringSchedulingIgnoredDuringExecution": [
                apart(100, "kubernetes.io/hostname"),
                apart(50, "topology.kubernetes.io/zone"),
            ] }),
        );
    }
    Value::Object(affinity)
}

fn controller_args(namespace: &str, values: &Values) -> Vec<String> {
    let controller = &values.controller;
    let mut args = vec![
        "run-controller".to_owned(),
        format!("--namespace={namespace}"),
        format!("--admin-addr=0.0.0.0:{}", controller.metrics_port),
        format!("--max-in-flight-writes={}", controller.max_in_flight_writes),
        format!("--log-level={}", controller.log_level),
        format!("--log-format={}", controller.log_format),
    ];
    if values.enable_namespace_creation {
        args.push("--enable-namespace-creation".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(change: impl FnOnce(&mut Values)) -> Manifest {
        let mut values = Values::default();
        change(&mut values);
        install("linkerd-multicluster", &values).unwrap()
    }

    fn find<'a>(manifest: &'a Manifest, kind: &str, name: &str) -> Option<&'a Value> {
        manifest
            .objects()
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    #[test]
    fn the_default_is_what_the_snapshot_says() {
        let text = rendered(|_| ()).to_yaml().replace(VERSION, "VERSION");
        insta::assert_snapshot!("install", text);
    }

    #[test]
    fn values_reach_the_objects() {
        let manifest = rendered(|values| {
            values.gateway.service_type = "NodePort".into();
            values.gateway.node_port = Some(30143);
            values.gateway.health_check_node_port = Some(30000);
            values.gateway.load_balancer_class = "no".into();
            values.gateway.load_balancer_source_ranges = vec!["10.0.0.0/8".into()];
            values.cni_enabled = true;
            values.enable_namespace_creation = true;
            values.common_labels = [("team".into(), "on".into())].into();
            values.controller.image.name = "registry.example.com/mc".into();
        });
        let service = find(&manifest, "Service", "linkerd-gateway").unwrap();
        assert_eq!(
            service["spec"],
            json!({
                "type": "NodePort",
                "healthCheckNodePort": 30000,
                "loadBalancerClass": "no",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "ports": [
                    { "name": "mc-gateway", "port": 4143, "protocol": "TCP", "nodePort": 30143 },
                    { "name": "mc-probe", "port": 4191, "protocol": "TCP" },
                ],
                "selector": { "app": "linkerd-gateway" },
            })
        );
        assert_eq!(
            service["metadata"]["labels"],
            json!({ "linkerd.io/extension": "multicluster", "team": "on" })
        );
        let namespace = find(&manifest, "Namespace", "linkerd-multicluster").unwrap();
        assert_eq!(
            namespace["metadata"]["labels"],
            json!({
                "linkerd.io/extension": "multicluster",
                "pod-security.kubernetes.io/enforce": "restricted",
            })
        );
        let name = "linkerd-multicluster-controller";
        let rules = &find(&manifest, "ClusterRole", name).unwrap()["rules"];
        assert_eq!(rules[3]["verbs"], json!(["list", "watch", "create"]));
        let pod = &find(&manifest, "Deployment", name).unwrap()["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(
            container["image"],
            json!(format!("registry.example.com/mc:{VERSION}"))
        );
        assert_eq!(
            container["args"].as_array().unwrap().last(),
            Some(&json!("--enable-namespace-creation"))
        );
    }

    #[test]
    fn a_service_without_node_ports_gets_none() {
        let manifest = rendered(|values| {
            values.gateway.service_type = "ClusterIP".into();
            values.gateway.node_port = Some(30143);
            values.gateway.health_check_node_port = Some(30000);
        });
        let service = find(&manifest, "Service", "linkerd-gateway").unwrap();
        assert!(!service.to_string().to_lowercase().contains("nodeport"));
    }

    #[test]
    fn without_a_gateway_its_objects_go_and_the_rest_stays() {
        let all = rendered(|_| ());
        let without = rendered(|values| values.gateway.enabled = false);
        let gone: Vec<_> = all
            .objects()
            .iter()
            .filter(|object| !without.objects().contains(object))
            .map(|object| {
                format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "")
            })
            .collect();
        assert_eq!(
            gone,
            [
                "Deployment linkerd-gateway",
                "Service linkerd-gateway",
                "ServiceAccount linkerd-gateway",
                "Server linkerd-gateway",
                "AuthorizationPolicy linkerd-gateway",
                "MeshTLSAuthentication any-meshed",
                "NetworkAuthentication source-cluster",
            ]
        );
    }
}
