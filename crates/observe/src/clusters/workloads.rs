//! Deployments and pods → the input of the rules. Pure.

use client::{
    credentials_expiry, credentials_identity, credentials_use, kubeconfig_in, token_fingerprint,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Container, ContainerStatus, Pod, Secret},
    },
    apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
};
use mirror_core::api::{
    gateway_suffixes::{self, GatewaySuffixes},
    labels,
    metadata::ResourceId,
};

use super::{
    skipped_ports::{SkippedPorts, SkippedSubnets},
    snapshot::{LinkerdCredentials, MeshedPod, Proxy, Workload, annotation, label},
};
use crate::timeline::history;

/// Selects the Pods of Linkerd's destination controller, which have its policy controller too.
pub const DESTINATION_PODS: &str = "linkerd.io/control-plane-component=destination";
/// Selects the Pods of both.
pub const CONTROL_PLANE_PODS: &str = "linkerd.io/control-plane-component in (destination,identity)";
/// Selects the Pods of Linkerd's identity controller.
pub const IDENTITY_PODS: &str = "linkerd.io/control-plane-component=identity";
/// Name of the proxy's container.
pub const PROXY: &str = "linkerd-proxy";
/// Name of the container that redirects the connections of a Pod to its proxy.
const INIT: &str = "linkerd-init";
/// Flag of this container for outbound ports that it does not redirect
/// (<https://linkerd.io/docs/features/protocol-detection/#marking-ports-as-skip-ports>).
const SKIP_FLAG: &str = "--outbound-ports-to-ignore";
/// Annotation of a Pod for the same ports. With Linkerd's CNI plugin, the Pod does not have this container.
pub const SKIP: &str = "config.linkerd.io/skip-outbound-ports";
/// The same for subnets.
const SUBNETS_FLAG: &str = "--subnets-to-ignore";
/// The same for subnets.
const SUBNETS: &str = "config.linkerd.io/skip-subnets";
/// Variable of the proxy's environment that holds its trust anchors.
const PROXY_TRUST_ANCHORS: &str = "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS";

/// Tag of an image; `None` if it is pinned by digest, or has no tag.
pub fn tag(image: &str) -> Option<&str> {
    if image.contains('@') {
        return None;
    }
    let name = image.rsplit('/').next()?;
    name.split_once(':').map(|(_, tag)| tag)
}

/// Whether this is a service mirror. The label `component: controller` alone is not enough, because anybody may use it.
pub fn is_service_mirror(workload: &Workload) -> bool {
    workload.is_ours() || workload.cluster.is_some() || workload.component == "local-service-mirror"
}

/// What the flags of a controller say. The default is that of a controller without flags.
pub struct ControllerSettings {
    /// Selector of the local members of federated Services; `None` if there are none.
    pub local_members: Option<String>,
    /// Whether it writes routes for preferences.
    pub applies_preferences: bool,
    /// The Deployment of the gateway, if it forwards only what is exported.
    pub export_gateway: Option<String>,
    /// Whether the gateway permits only exported Services, and only for the clusters that these are exported to.
    pub permits_exports: bool,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            local_members: Some(labels::FEDERATED_MEMBERS.to_owned()),
            applies_preferences: false,
            export_gateway: None,
            permits_exports: false,
        }
    }
}

/// Parses the arguments of a container, as the controller does; `None` if it runs something else.
pub type ParseArgs = fn(Vec<String>) -> Option<ControllerSettings>;

/// What is kept of a Deployment; `parse` reads a controller's arguments.
pub fn workload(deployment: &Deployment, parse: ParseArgs) -> Workload {
    let metadata = &deployment.metadata;
    let spec = deployment.spec.as_ref();
    let status = deployment.status.as_ref();
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let cluster = label(metadata, labels::CLUSTER_NAME);
    let mut containers = pod.into_iter().flat_map(|pod| &pod.containers);
    let settings = containers.find_map(|container| parse(container.args.clone()?));
    let settings = settings.unwrap_or_default();
    Workload {
        id: ResourceId::of(deployment),
        component: label(metadata, labels::COMPONENT).to_owned(),
        cluster: (!cluster.is_empty()).then(|| cluster.to_owned()),
        desired: spec.and_then(|spec| spec.replicas).unwrap_or(1),
        available: status
            .and_then(|status| status.available_replicas)
            .unwrap_or(0),
        images: pod
            .into_iter()
            .flat_map(|pod| &pod.containers)
            .filter_map(|container| container.image.clone())
            .collect(),
        is_unconfined: annotation(metadata, labels::ADMISSION_POLICY) == "disabled",
        local_members: settings.local_members,
        applies_preferences: settings.applies_preferences,
        export_gateway: settings.export_gateway,
        permits_exports: settings.permits_exports,
        history: history("Deployment", deployment),
    }
}

/// The containers of a Pod. A native sidecar is an init container.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        spec.containers.iter().chain(init)
    })
}

/// The statuses of a Pod's containers, with those of its init containers.
pub fn container_statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        status.container_statuses.iter().flatten().chain(init)
    })
}

/// What is kept of a Pod.
pub fn meshed_pod(pod: &Pod) -> MeshedPod {
    let status = pod.status.as_ref();
    let mut ready = container_statuses(pod).filter(|status| status.name == PROXY);
    let ready = ready.next().is_some_and(|status| status.ready);
    let proxy = containers(pod).find(|container| container.name == PROXY);
    MeshedPod {
        id: ResourceId::of(pod),
        phase: status.and_then(|s| s.phase.clone()).unwrap_or_default(),
        reason: status.and_then(|s| s.reason.clone()).unwrap_or_default(),
        component: label(&pod.metadata, labels::COMPONENT).to_owned(),
        skipped_ports: skipped(pod, SKIP_FLAG, SKIP).map(SkippedPorts),
        proxy: proxy.map(|container| Proxy {
            ready,
            image: container.image.clone().unwrap_or_default(),
            trust_anchors: variable(container, PROXY_TRUST_ANCHORS),
            forwards_to: variable(container, gateway_suffixes::VARIABLE)
                .map(|value| GatewaySuffixes::of_variable(&value)),
        }),
    }
}

/// The flag of the init container, which is what applies, and without such a container the annotation.
fn skipped(pod: &Pod, flag: &str, annotation: &str) -> Option<String> {
    let init = pod.spec.iter().flat_map(|spec| &spec.init_containers);
    let init = init.flatten().find(|container| container.name == INIT);
    Some(match init {
        Some(container) => {
            let mut args = container.args.iter().flatten();
            let is_given = args.any(|argument| argument == flag);
            let value = args.next().filter(|_| is_given);
            value.cloned().unwrap_or_default()
        }
        None => pod.metadata.annotations.as_ref()?.get(annotation)?.clone(),
    })
}

/// The subnets that skip the proxy of a Pod; `None` if it says nothing itself.
pub fn skipped_subnets(pod: &Pod) -> Option<SkippedSubnets> {
    skipped(pod, SUBNETS_FLAG, SUBNETS).map(SkippedSubnets)
}

/// When a running Pod started: the start of its oldest container, because it is unknown which one reads credentials.
pub fn started(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let runs = status.phase.as_deref() == Some("Running");
    let containers = status.container_statuses.iter().flatten();
    let containers = containers.filter_map(|status| {
        let running = status.state.as_ref()?.running.as_ref()?;
        running.started_at.as_ref().map(|time| time.0)
    });
    let pod = status.start_time.as_ref().map(|time| time.0);
    containers.min().or(pod).filter(|_| runs)
}

/// The target cluster of a credentials Secret of Linkerd, and the Secret's content.
pub fn linkerd_credentials(secret: &Secret) -> Option<(String, LinkerdCredentials)> {
    let cluster = label(&secret.metadata, labels::CREDENTIALS_CLUSTER);
    let kubeconfig = kubeconfig_in(secret).map(|kubeconfig| kubeconfig.0.as_slice());
    let fields = secret.metadata.managed_fields.iter().flatten();
    let written = fields.filter(|entry| wrote_data(entry));
    let written = written.filter_map(|entry| entry.time.as_ref().map(|time| time.0));
    let created = secret
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    let credentials = LinkerdCredentials {
        name: secret.metadata.name.clone().unwrap_or_default(),
        lacks: lacks(secret),
        uses: kubeconfig.and_then(credentials_use),
        identity: kubeconfig.and_then(|kubeconfig| credentials_identity(kubeconfig).ok()),
        created,
        expiry: kubeconfig.and_then(credentials_expiry),
        token: kubeconfig.and_then(token_fingerprint),
        changed: written.max().filter(|written| Some(*written) > created),
        trust_domain: annotation(&secret.metadata, labels::TRUST_DOMAIN).to_owned(),
    };
    (!cluster.is_empty()).then(|| (cluster.to_owned(), credentials))
}

/// What Linkerd needs and a credentials Secret does not have (`cluster_store.go`).
fn lacks(secret: &Secret) -> Vec<String> {
    let mut lacks = Vec::new();
    if secret.type_.as_deref() != Some(labels::CREDENTIALS_TYPE) {
        lacks.push(format!("the type {}", labels::CREDENTIALS_TYPE));
    }
    for key in [labels::TRUST_DOMAIN, labels::CLUSTER_DOMAIN] {
        let annotations = secret.metadata.annotations.as_ref();
        if !annotations.is_some_and(|all| all.contains_key(key)) {
            lacks.push(format!("the annotation {key}"));
        }
    }
    if kubeconfig_in(secret).is_none() {
        lacks.push(format!("the key {}", labels::KUBECONFIG_KEY));
    }
    lacks
}

/// Whether a writer of a Secret has written its data. `kubectl apply` and tools for GitOps may write only labels or
/// annotations.
fn wrote_data(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref();
    fields.is_none_or(|fields| fields.0.get("f:data").is_some())
}

/// The value of a variable; of several with its name, the last one counts. Without a value, it is empty.
fn variable(container: &Container, name: &str) -> Option<String> {
    let env = container.env.iter().flatten().rev();
    let mut of_name = env.filter(|variable| variable.name == name && variable.value_from.is_none());
    of_name
        .next()
        .map(|variable| variable.value.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use manifests::{install::install, values::Values};
    use serde_json::json;

    use super::*;

    #[test]
    fn deployment_says_if_policies_were_left_out() {
        for enabled in [true, false] {
            let mut values = Values::default();
            values.controller.admission_policy = enabled;
            let objects = install("mc", &values).unwrap().into_objects().unwrap();
            let deployment = objects.into_iter().find(|object| {
                object["kind"] == "Deployment"
                    && object["metadata"]["name"] == labels::CONTROLLER_NAME
            });
            let deployment = serde_json::from_value(deployment.unwrap()).unwrap();
            assert_eq!(workload(&deployment, |_| None).is_unconfined, !enabled);
        }
    }

    #[test]
    fn ports_that_skip_the_proxy_are_those_of_the_init_container_or_of_the_annotation() {
        let init = |args: &[&str]| json!({ "initContainers": [{ "name": INIT, "args": args }] });
        let annotation = json!({ SKIP: "443" });
        for (annotations, spec, expected) in [
            (json!({}), json!({}), None),
            (annotation.clone(), json!({}), Some("443")),
            (annotation.clone(), init(&["--proxy-uid", "2102"]), Some("")),
            (
                json!({}),
                init(&["--proxy-uid", "2102", SKIP_FLAG, "25,4567-4568"]),
                Some("25,4567-4568"),
            ),
            (annotation, init(&[SKIP_FLAG]), Some("")),
        ] {
            let mut spec = spec;
            spec["containers"] = json!([]);
            let pod = json!({ "metadata": { "annotations": annotations }, "spec": spec });
            let found = meshed_pod(&serde_json::from_value(pod.clone()).unwrap()).skipped_ports;
            assert_eq!(
                found.as_ref().map(|ports| ports.0.as_str()),
                expected,
                "{pod}"
            );
        }
    }

    #[test]
    fn skipped_ports_are_ports_and_ranges() {
        let ports = SkippedPorts("25, 440-450,x,9-1,-,70000".to_owned());
        for (port, expected) in [
            (25, true),
            (443, true),
            (450, true),
            (451, false),
            (5, false),
        ] {
            assert_eq!(ports.contains(port), expected, "{port}");
        }
        assert!(!SkippedPorts(String::new()).contains(443));
    }

    #[test]
    fn a_proxy_is_found_as_a_container_and_as_a_sidecar() {
        let container = json!([{
            "name": PROXY, "image": "proxy:1",
            "env": [{"name": "OTHER", "value": "x"}, {"name": PROXY_TRUST_ANCHORS, "value": "pem"},
                {"name": gateway_suffixes::VARIABLE, "value": "svc.cluster.local."},
                {"name": gateway_suffixes::VARIABLE, "value": "shop.svc.cluster.local."}],
        }]);
        let ready =
            json!([{"name": PROXY, "ready": true, "image": "", "imageID": "", "restartCount": 0}]);
        let proxy = Proxy {
            ready: true,
            image: "proxy:1".into(),
            trust_anchors: Some("pem".into()),
            forwards_to: Some(GatewaySuffixes::of_variable("shop.svc.cluster.local.")),
        };
        for (spec, status, expected) in [
            (
                json!({"containers": container}),
                json!({"containerStatuses": ready}),
                Some(proxy.clone()),
            ),
            (
                json!({"containers": [], "initContainers": container}),
                json!({"initContainerStatuses": ready}),
                Some(proxy.clone()),
            ),
            (
                json!({"containers": container}),
                json!({}),
                Some(Proxy {
                    ready: false,
                    ..proxy
                }),
            ),
            (
                json!({"containers": [{"name": "controller"}]}),
                json!({}),
                None,
            ),
        ] {
            let pod = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            assert_eq!(
                meshed_pod(&serde_json::from_value(pod).unwrap()).proxy,
                expected
            );
        }
    }

    #[test]
    fn running_pod_started_with_its_oldest_container() {
        let running = |at: &str| json!({"running": {"startedAt": at}});
        let container = |name: &str, state: serde_json::Value| json!({"name": name, "state": state, "ready": true, "image": "", "imageID": "", "restartCount": 0});
        let (early, late) = ("2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z");
        let both = json!([
            container("a", running(late)),
            container("b", running(early))
        ]);
        for (phase, containers, expected) in [
            ("Running", both.clone(), Some(early)),
            (
                "Running",
                json!([container("a", json!({"waiting": {}}))]),
                Some(late),
            ),
            ("Pending", both, None),
        ] {
            let status =
                json!({"phase": phase, "startTime": late, "containerStatuses": containers});
            let pod = json!({"metadata": {"name": "a"}, "status": status});
            let found = started(&serde_json::from_value(pod).unwrap());
            assert_eq!(found, expected.map(|at| at.parse().unwrap()), "{phase}");
        }
    }

    #[test]
    fn kubeconfig_that_runs_a_program_is_found() {
        let kubeconfig = "{clusters: [{name: a, cluster: {server: https://a}}], users: [{name: a, user: {exec: \
                          {command: x}}}], contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}";
        let kubeconfig = k8s_openapi::ByteString(kubeconfig.into());
        let secret = json!({
            "metadata": { "name": "a", "labels": { labels::CREDENTIALS_CLUSTER: "east" } },
            "data": { labels::KUBECONFIG_KEY: kubeconfig },
        });
        let secret = serde_json::from_value(secret).unwrap();
        let found = linkerd_credentials(&secret).unwrap().1;
        assert_eq!(found.uses, Some("an exec plugin"));
        assert_eq!(found.identity, None);
    }

    #[test]
    fn secret_lacks_what_linkerd_would_ignore_it_for() {
        let of = |secret: serde_json::Value| {
            let secret = serde_json::from_value(secret).unwrap();
            linkerd_credentials(&secret).unwrap().1.lacks
        };
        let labels = json!({labels::CREDENTIALS_CLUSTER: "east"});
        let annotations =
            json!({labels::TRUST_DOMAIN: "east.example", labels::CLUSTER_DOMAIN: "cluster.local"});
        let complete = json!({
            "type": labels::CREDENTIALS_TYPE,
            "metadata": {"labels": labels, "annotations": annotations},
            "data": {labels::KUBECONFIG_KEY: ""},
        });
        assert_eq!(of(complete), [""; 0]);
        assert_eq!(
            of(json!({"type": "Opaque", "metadata": {"labels": labels}})),
            [
                "the type mirror.linkerd.io/remote-kubeconfig",
                "the annotation multicluster.linkerd.io/trust-domain",
                "the annotation multicluster.linkerd.io/cluster-domain",
                "the key kubeconfig",
            ]
        );
    }

    #[test]
    fn credentials_have_changed_if_written_after_their_creation() {
        let kubeconfig = "apiVersion: v1\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
                          clusters: [{name: c, cluster: {server: 'https://192.0.2.1'}}]\nusers: [{name: u, user: {token: t}}]\n";
        let (made, later) = ("2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z");
        let of = |written: &str, fields: &str, labels: serde_json::Value| {
            let secret = json!({
                "metadata": {
                    "name": "a", "labels": labels, "creationTimestamp": made,
                    "managedFields": [{"time": made}, {"time": written, "fieldsV1": {fields: {}}}],
                },
                "data": {labels::KUBECONFIG_KEY: k8s_openapi::ByteString(kubeconfig.into())},
            });
            linkerd_credentials(&serde_json::from_value(secret).unwrap())
        };
        let east = || json!({labels::CREDENTIALS_CLUSTER: "east"});
        let (cluster, credentials) = of(later, "f:data", east()).unwrap();
        assert_eq!(cluster, "east");
        assert_eq!(credentials.changed, Some(later.parse().unwrap()));
        assert!(credentials.token.is_some());
        assert_eq!(of(made, "f:data", east()).unwrap().1.changed, None);
        assert_eq!(of(later, "f:metadata", east()).unwrap().1.changed, None);
        assert_eq!(of(later, "f:data", json!({})), None);
    }

    #[test]
    fn other_deployments_are_no_service_mirrors() {
        for (name, component, cluster, expected) in [
            (labels::CONTROLLER_NAME, "controller", "", true),
            ("controller-east", "controller", "east", true),
            (
                "linkerd-local-service-mirror",
                "local-service-mirror",
                "",
                true,
            ),
            ("flux", "controller", "", false),
        ] {
            let mut labels = BTreeMap::from([(labels::COMPONENT, component)]);
            if !cluster.is_empty() {
                labels.insert(labels::CLUSTER_NAME, cluster);
            }
            let deployment = json!({"metadata": {"name": name, "labels": labels}});
            let workload = workload(&serde_json::from_value(deployment).unwrap(), |_| None);
            assert_eq!(is_service_mirror(&workload), expected, "{name}");
        }
    }
}
