//! The objects of `install`: selects the templates, and computes their input from the values.

mod policy_variables;

use mirror_core::api::gateway_suffixes::ADDITIONAL_ENV;
use serde::Serialize;
use serde_json::{Value, json};

use self::policy_variables::PolicyVariables;
pub use self::policy_variables::{ADMISSION, SETTINGS};
use super::{
    render::{Manifest, ObjectName, Template, render},
    values::{FederationValues, Resources, VERSION, Values},
};

/// A template, by its name and the file that it is in.
macro_rules! template {
    ($name:literal) => {
        template!($name, $name)
    };
    ($name:literal, $file:literal) => {
        (
            $name,
            include_str!(concat!("../../../templates/", $file, ".hbs")),
        )
    };
}

const NAMESPACE: Template = template!("namespace.yaml");
const LINK_CRD: Template = template!("link-crd.yaml");
const GATEWAY: Template = template!("gateway.yaml");
const GATEWAY_SERVICE: Template = template!("gateway-service.yaml");
const GATEWAY_POLICY: Template = template!("gateway-policy.yaml");
const GATEWAY_API_SERVER: Template = template!("gateway-api-server.yaml");
const REMOTE_ACCESS: Template = template!("remote-access.yaml");
const ADMIN_POLICY: Template = template!("admin-policy.yaml");
/// The admission policies: of Services, of EndpointSlices, of routes, of the gateway, and of what is written seldom. A template takes time
/// to parse with the square of its length, so each kind has a file.
const ADMISSION_POLICIES: [Template; 5] = [
    template!("admission-services.yaml"),
    template!("admission-slices.yaml"),
    template!("admission-routes.yaml"),
    template!("admission-gateway.yaml"),
    template!("admission-others.yaml"),
];
const NETWORK_POLICY: Template = template!("network-policy.yaml");
const CONTROLLER_ACCESS: Template = template!("controller-access.yaml");
const CONTROLLER: Template = template!("controller.yaml");
/// Templates of the Helm chart, each with the path of a condition in the context, if it has one: it renders nothing if
/// that is false. The Namespace is not among them, because Helm needs it before it installs the chart.
#[cfg(test)]
pub const CHART_TEMPLATES: [(Template, Option<&str>); 15] = [
    (LINK_CRD, None),
    (GATEWAY, Some("values.gateway.enabled")),
    (GATEWAY_SERVICE, Some("values.gateway.enabled")),
    (GATEWAY_POLICY, Some("values.gateway.enabled")),
    (GATEWAY_API_SERVER, Some("hasApiServer")),
    (REMOTE_ACCESS, Some("values.remoteMirrorServiceAccount")),
    (ADMIN_POLICY, None),
    (ADMISSION_POLICIES[0], Some("hasAdmissionPolicy")),
    (ADMISSION_POLICIES[1], Some("hasAdmissionPolicy")),
    (ADMISSION_POLICIES[2], Some("hasAdmissionPolicy")),
    (ADMISSION_POLICIES[3], Some("hasAdmissionPolicy")),
    (ADMISSION_POLICIES[4], Some("hasAdmissionPolicy")),
    (CONTROLLER_ACCESS, None),
    (
        NETWORK_POLICY,
        Some("values.controller.networkPolicy.enabled"),
    ),
    (CONTROLLER, None),
];
/// Parts of the Link CRD that are used more than once.
pub const CRD_PARTS: [Template; 6] = [
    template!("link-spec", "link-spec.yaml"),
    template!("link-status", "link-status.yaml"),
    template!("label-selector", "label-selector.yaml"),
    template!("service-status", "service-status.yaml"),
    template!("condition-words", "condition-words.yaml"),
    template!("object-ref", "object-ref.yaml"),
];

/// `linkerd.io/created-by` of every object that this program prints.
pub fn created_by() -> String {
    format!("linkerd-mc/cli {VERSION}")
}

/// Permissions of the ServiceAccount of a remote controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemoteAccess {
    /// Only for gateway mode.
    Gateway,
    /// As `linkerd multicluster install` grants: also for remote discovery by Linkerd's control plane.
    Full,
}

/// The input of templates.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition of templates"
)]
struct TemplateContext<'a> {
    namespace: &'a str,
    values: &'a Values,
    created_by: String,
    version: &'static str,
    pod_security: &'static str,
    accounts: &'a [String],
    accounts_namespace: &'a str,
    accounts_have_own_namespace: bool,
    full_access: bool,
    /// Whether tokens of accounts are requested, and bound to a Secret.
    bound_tokens: bool,
    gateway_identity: String,
    gateway_limit: GatewayLimit,
    api_server_address_type: &'static str,
    node_ports: NodePorts,
    gateway_affinity: Value,
    controller_affinity: Value,
    controller_args: Vec<String>,
    controller_resources: Resources,
    confinement: PolicyVariables,
    admission_policy_disabled: bool,
    pull_policy: &'a str,
}

/// What happens to the annotation that says what the gateway forwards to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GatewayLimit {
    /// The controller keeps it.
    is_kept: bool,
    /// Applying the manifest removes what the controller has written before.
    is_removed: bool,
    /// The controller says who may use which Service.
    is_permitting: bool,
    /// Each meshed workload may use all that the gateway forwards to.
    is_open: bool,
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
    objects(namespace, values, values.controller.admission_policy)
}

/// The objects of `install` for a cluster without support for admission policies (before Kubernetes 1.30).
pub fn install_without_policies(namespace: &str, values: &Values) -> anyhow::Result<Manifest> {
    objects(namespace, values, false)
}

fn objects(namespace: &str, values: &Values, with_policies: bool) -> anyhow::Result<Manifest> {
    let mut templates = vec![NAMESPACE, LINK_CRD];
    if values.gateway.enabled {
        templates.extend([GATEWAY, GATEWAY_SERVICE, GATEWAY_POLICY]);
        if !values.gateway.api_server_address.is_empty() {
            templates.push(GATEWAY_API_SERVER);
        }
    }
    if values.remote_mirror_service_account {
        templates.push(REMOTE_ACCESS);
    }
    templates.push(ADMIN_POLICY);
    if with_policies {
        templates.extend(ADMISSION_POLICIES);
    }
    templates.push(CONTROLLER_ACCESS);
    if values.controller.network_policy.enabled {
        templates.push(NETWORK_POLICY);
    }
    templates.push(CONTROLLER);
    let context = context(
        namespace,
        values,
        &values.remote_mirror_service_account_name,
        RemoteAccess::Full,
    );
    render(&templates, &CRD_PARTS, &context)
}

/// The admission policies that restrict the account of the controller in `namespace`.
pub fn confinement(namespace: &str, values: &Values) -> anyhow::Result<Manifest> {
    let context = context(namespace, values, &[], RemoteAccess::Full);
    render(&ADMISSION_POLICIES, &[], &context)
}

/// The objects that give controllers of other clusters access, one set for each name in `accounts`.
///
/// The Namespace is optional: applying it over an existing one would replace its pod security level.
pub fn allow(
    namespace: &str,
    accounts: &[String],
    access: RemoteAccess,
    with_namespace: bool,
) -> anyhow::Result<Manifest> {
    let values = Values::default();
    let context = TemplateContext {
        bound_tokens: true,
        ..context(namespace, &values, accounts, access)
    };
    let all = [NAMESPACE, REMOTE_ACCESS];
    let templates = if with_namespace { &all[..] } else { &all[1..] };
    render(templates, &[], &context)
}

/// The objects of [`allow`] by name, to delete them. Without the Namespace, which others share.
///
/// In reverse order: the tokens end first.
pub fn revoke(namespace: &str, accounts: &[String]) -> anyhow::Result<Manifest> {
    let allowed = allow(namespace, accounts, RemoteAccess::Full, false)?.into_objects()?;
    Manifest::of_names(allowed.iter().rev().filter_map(ObjectName::of))
}

fn context<'a>(
    namespace: &'a str,
    values: &'a Values,
    accounts: &'a [String],
    access: RemoteAccess,
) -> TemplateContext<'a> {
    let gateway = &values.gateway;
    // The API server rejects node ports for Services of other types.
    let has_node_ports = ["NodePort", "LoadBalancer"].contains(&gateway.service_type.as_str());
    let node_port = |port: Option<u16>| port.filter(|port| has_node_ports && *port != 0);
    let accounts_namespace = values.accounts_namespace(namespace);
    TemplateContext {
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
        accounts_namespace,
        accounts_have_own_namespace: accounts_namespace != namespace,
        full_access: access == RemoteAccess::Full,
        bound_tokens: false,
        gateway_identity: format!(
            "{}.{namespace}.serviceaccount.identity.{}.{}",
            gateway.name, values.linkerd_namespace, values.identity_trust_domain
        ),
        gateway_limit: GatewayLimit {
            is_kept: gateway.is_limited(),
            is_permitting: gateway.is_permitting(),
            is_open: !gateway.is_permitting(),
            is_removed: !gateway.is_limited()
                && !gateway.deployment_annotations.contains_key(ADDITIONAL_ENV),
        },
        api_server_address_type: if gateway.api_server_address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        },
        node_ports: NodePorts {
            gateway: node_port(gateway.node_port),
            probe: node_port(gateway.probe.node_port),
            health_check: node_port(gateway.health_check_node_port),
        },
        gateway_affinity: affinity(values, &gateway.name),
        controller_affinity: affinity(values, mirror_core::api::labels::CONTROLLER_NAME),
        controller_args: controller_args(namespace, values),
        controller_resources: controller_resources(values),
        confinement: PolicyVariables::new(namespace, values),
        admission_policy_disabled: !values.controller.admission_policy,
        pull_policy: [
            &values.controller.image.pull_policy,
            &values.image_pull_policy,
        ]
        .into_iter()
        .find(|policy| !policy.is_empty())
        .map_or("IfNotPresent", String::as_str),
    }
}

/// Pods with label `app` prefer different nodes, then different zones. This is only preferred, while Linkerd's chart
/// requires it: two replicas on one node are better than a pending one.
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

/// The controller's resources. If neither a limit nor a request of memory is set, its memory limit is computed from
/// `maxMiB`: once for exports of target clusters, once for their mirrors, once for repeated lists, and a base.
fn controller_resources(values: &Values) -> Resources {
    let mut resources = values.controller.resources.clone();
    let Resources { limits, requests } = &mut resources;
    if !limits.contains_key(MEMORY) && !requests.contains_key(MEMORY) {
        let limit = BASE_MIB + 3 * values.controller.max_mib;
        limits.insert(MEMORY.to_owned(), format!("{limit}Mi"));
        requests.insert(MEMORY.to_owned(), format!("{USUAL_MIB}Mi"));
    }
    resources
}

const MEMORY: &str = "memory";
/// MiB of memory for the program, and for responses that are being received.
const BASE_MIB: u32 = 128;
/// MiB of memory for some thousand mirrors.
const USUAL_MIB: u32 = 64;

fn controller_args(namespace: &str, values: &Values) -> Vec<String> {
    let controller = &values.controller;
    let mut args = vec![
        "run-controller".to_owned(),
        format!("--namespace={namespace}"),
        format!("--admin-addr=0.0.0.0:{}", controller.metrics_port),
        format!("--max-in-flight-writes={}", controller.max_in_flight_writes),
        format!(
            "--max-services-per-link={}",
            controller.max_services_per_link
        ),
        format!(
            "--max-metadata-kib-per-service={}",
            controller.max_metadata_kib_per_service
        ),
        format!("--max-mib-per-link={}", controller.max_mib_per_link),
        format!("--max-mib={}", controller.max_mib),
        format!("--max-writes-per-link={}", controller.max_writes_per_link),
        format!("--log-level={}", controller.log_level),
        format!("--log-format={}", controller.log_format),
    ];
    args.push(format!("--trust-domain={}", values.identity_trust_domain));
    args.push(format!(
        "--protected-namespaces={}",
        values.protected_namespaces().join(",")
    ));
    if values.enable_namespace_creation {
        args.push("--enable-namespace-creation".to_owned());
        args.push(format!(
            "--max-namespaces-per-link={}",
            controller.max_namespaces_per_link
        ));
    }
    if controller.enable_headless_services {
        args.push("--enable-headless-services".to_owned());
    }
    if !controller.take_over_from.is_empty() {
        args.push(format!("--take-over-from={}", controller.take_over_from));
    }
    if values.gateway.is_limited() {
        args.push(format!("--export-gateway={}", values.gateway.name));
        args.push(format!("--cluster-domain={}", values.cluster_domain));
        args.push(format!("--identity-namespace={}", values.linkerd_namespace));
    }
    if values.gateway.is_permitting() {
        args.push("--permit-exports".to_owned());
    }
    args.extend(federation_args(&values.federation));
    // Even with one replica, because a rolling update temporarily has two.
    args.push("--leader-elect".to_owned());
    args
}

fn federation_args(federation: &FederationValues) -> Vec<String> {
    let mut args = Vec::new();
    if federation.enabled {
        args.push(format!(
            "--federated-service-selector={}",
            federation.selector
        ));
        for (flag, keys) in [
            ("--excluded-labels", &federation.excluded_labels),
            ("--excluded-annotations", &federation.excluded_annotations),
        ] {
            if !keys.is_empty() {
                args.push(format!("{flag}={}", keys.join(",")));
            }
        }
    } else {
        args.push("--no-local-federation".to_owned());
    }
    args.push(format!("--join-delay={}", federation.join_delay));
    if federation.routes {
        args.push("--enable-routes".to_owned());
        args.push(format!("--hold-down={}", federation.hold_down));
    }
    args
}

#[cfg(test)]
mod tests;
