//! The objects of `install`: selects the templates, and computes their input from the values.

mod affinity;
mod gateways;
mod policy_variables;

use serde::Serialize;
use serde_json::Value;

pub use self::policy_variables::{ADMISSION, SETTINGS};
use self::{
    affinity::affinity,
    gateways::{GatewayContext, api_clients},
    policy_variables::PolicyVariables,
};
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
const API_GATEWAY: Template = template!("api-gateway.yaml");
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
const POD_MONITOR: Template = template!("pod-monitor.yaml");
/// Templates of each gateway.
pub const OF_EACH_GATEWAY: [Template; 2] = [GATEWAY, GATEWAY_SERVICE];
/// Other templates of the Helm chart, each with the path of a condition in the context, if it has one: it renders nothing if
/// that is false. The Namespace is not among them, because Helm needs it before it installs the chart.
#[cfg(test)]
pub const CHART_TEMPLATES: [(Template, Option<&str>); 14] = [
    (LINK_CRD, None),
    (GATEWAY_POLICY, Some("values.gateway.enabled")),
    (API_GATEWAY, Some("values.apiGateway.apiServerAddress")),
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
    (POD_MONITOR, Some("values.podMonitor.enabled")),
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
struct TemplateContext<'a> {
    namespace: &'a str,
    values: &'a Values,
    created_by: String,
    version: &'static str,
    pod_security: &'static str,
    accounts: &'a [String],
    accounts_namespace: &'a str,
    /// The accounts for which Kubernetes stores a token.
    stored_tokens: &'a [String],
    accounts_have_own_namespace: bool,
    full_access: bool,
    /// The gateway that a template is rendered for, if it is one of [`OF_EACH_GATEWAY`].
    gateway: Option<GatewayContext>,
    gateway_limit: GatewayLimit,
    api_server_address_type: &'static str,
    api_clients: Vec<String>,
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
    /// The controller says who may use which Service.
    is_permitting: bool,
    /// Each meshed workload may use all that the gateway forwards to.
    is_open: bool,
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
    let accounts = &values.remote_mirror_service_account_name;
    let mut context = context(namespace, values, accounts, RemoteAccess::Full);
    let mut manifest = render(&[NAMESPACE, LINK_CRD], &CRD_PARTS, &context)?;
    let mut gateway = |gateway, policy| {
        context.gateway = Some(gateway);
        let templates = [&OF_EACH_GATEWAY[..], &[policy]].concat();
        render(&templates, &[], &context)
    };
    if values.gateway.enabled {
        let own = GatewayContext::of_traffic(namespace, values);
        manifest = manifest.and(&gateway(own, GATEWAY_POLICY)?);
    }
    if values.api_gateway.is_installed() {
        let own = GatewayContext::of_api_server(namespace, values);
        manifest = manifest.and(&gateway(own, API_GATEWAY)?);
    }
    let mut templates = Vec::new();
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
    if values.pod_monitor.enabled {
        templates.push(POD_MONITOR);
    }
    Ok(manifest.and(&render(&templates, &[], &context)?))
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
    let context = context(namespace, &values, accounts, access);
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
        stored_tokens: if values.remote_mirror_service_account_token {
            accounts
        } else {
            &[]
        },
        full_access: access == RemoteAccess::Full,
        gateway: None,
        gateway_limit: GatewayLimit {
            is_kept: values.gateway.is_limited(),
            is_permitting: values.gateway.is_permitting(),
            is_open: !values.gateway.is_permitting(),
        },
        api_server_address_type: if values.api_gateway.api_server_address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        },
        api_clients: api_clients(namespace, values),
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
