//! The keys of `install`'s values, with descriptions and types.
//!
//! Defaults are in [`Values`]. A test checks that both have the same keys.

use std::num::NonZeroU16;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, NodeAffinity, Toleration};
use serde_json::Map;

use super::{
    kind::{Kind, fits, fits_resources},
    types::Values,
};
use crate::manifests::yaml;

/// A key.
#[derive(Clone, Copy, Debug)]
pub(in crate::manifests) struct Key {
    /// Dotted path.
    pub(in crate::manifests) path: &'static str,
    /// Its type.
    pub(in crate::manifests) kind: Kind,
    /// Its description: a sentence without a period.
    pub(in crate::manifests) doc: &'static str,
}

const fn key(path: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { path, kind, doc }
}

/// Groups of keys.
pub(in crate::manifests) const GROUPS: [(&str, &str); 6] = [
    ("gateway", "The gateway that other clusters send traffic to"),
    ("gateway.probe", "How other clusters probe it"),
    (
        "controller",
        "The controller that mirrors Services from other clusters",
    ),
    ("controller.image", "Its image"),
    ("controller.networkPolicy", "NetworkPolicy of its pods"),
    (
        "federation",
        "Services of this cluster that join federated Services",
    ),
];

const TOLERATIONS: Kind = Kind::Kubernetes("a list of tolerations", fits::<Vec<Toleration>>);

/// All keys in the order of the output. Keys of a group are together.
#[rustfmt::skip] // a table: one key a line
pub(in crate::manifests) const KEYS: &[Key] = &[
    key("gateway.enabled", Kind::Bool, "Whether to install it"),
    key("gateway.replicas", Kind::Number(0), "Number of pods"),
    key("gateway.name", Kind::Name, "Name of its Deployment, Service and ServiceAccount"),
    key("gateway.port", Kind::Port, "Port of mirrored traffic"),
    key("gateway.serviceType", Kind::OneOf(&["LoadBalancer", "NodePort", "ClusterIP"]), "Type of its Service"),
    key("gateway.nodePort", Kind::OptionalPort, "Fixed node port of mirrored traffic"),
    key("gateway.healthCheckNodePort", Kind::OptionalPort, "Fixed node port for the load balancer's health checks"),
    key("gateway.probe.path", Kind::UrlPath, "Path"),
    key("gateway.probe.port", Kind::Port, "Port"),
    key("gateway.probe.nodePort", Kind::OptionalPort, "Fixed node port"),
    key("gateway.probe.seconds", Kind::Number(1), "Interval of probes, in seconds"),
    key("gateway.serviceAnnotations", Kind::Annotations, "Annotations of its Service"),
    key("gateway.serviceExternalTrafficPolicy", Kind::OneOf(&["", "Cluster", "Local"]), "externalTrafficPolicy of its Service"),
    key("gateway.deploymentAnnotations", Kind::Annotations, "Annotations of its pods"),
    key("gateway.loadBalancerClass", Kind::Text, "loadBalancerClass of its Service"),
    key("gateway.loadBalancerIP", Kind::Text, "loadBalancerIP of its Service"),
    key("gateway.loadBalancerSourceRanges", Kind::List, "Client networks that the load balancer accepts"),
    key("gateway.terminationGracePeriodSeconds", Kind::OptionalNumber, "Grace period of its pods, in seconds"),
    key("gateway.nodeSelector", Kind::NodeLabels, "Nodes for its pods"),
    key("gateway.tolerations", TOLERATIONS, "Tolerations of its pods"),
    key("gateway.pauseImage", Kind::Word, "Image of the idle container next to its proxy"),
    key("gateway.UID", Kind::Number(1), "User of that container"),
    key("gateway.GID", Kind::Number(1), "Group of that container"),
    key("controller.replicas", Kind::Number(0), "Number of pods; one is active, the others are on standby"),
    key("controller.image.name", Kind::Word, "Registry and name"),
    key("controller.image.version", Kind::Word, "Tag"),
    key("controller.image.pullPolicy", Kind::OneOf(&["", "Always", "IfNotPresent", "Never"]), "Pull policy; empty for imagePullPolicy"),
    key("controller.logLevel", Kind::OneOf(&["error", "warn", "info", "debug", "trace"]), "Log level"),
    key("controller.logFormat", Kind::OneOf(&["plain", "json"]), "Log format"),
    key("controller.metricsPort", Kind::Port, "Port for metrics and for the kubelet's probes"),
    key("controller.enableHeadlessServices", Kind::Bool, "Whether headless Services are mirrored as headless, unless a Link sets this itself"),
    key("controller.takeOverFrom", Kind::Text, "Namespace of another installation whose mirrors this one adopts, to move the extension to another namespace"),
    key("controller.maxInFlightWrites", Kind::Range(1, 1000), "Maximum number of concurrent writes to the API server"),
    key("controller.maxServicesPerLink", Kind::Number(1), "Maximum number of mirrored Services per target cluster, and of hosts of its headless Services"),
    key("controller.maxMetadataKiBPerService", Kind::Range(1, 1024), "Maximum size of a Service's labels and annotations, in KiB; if they are larger, none are copied"),
    key("controller.maxMiBPerLink", Kind::Range(1, 65_535), "Maximum memory for the Services and EndpointSlices of a target cluster, in MiB"),
    key("controller.maxMiB", Kind::Range(1, 65_535), "Maximum memory for the Services and EndpointSlices of all target clusters, in MiB; determines the controller's memory limit"),
    key("controller.maxWritesPerLink", Kind::Range(1, 65_535), "Maximum sustained rate of writes per second for each target cluster; the first sync is not limited"),
    key("controller.maxNamespacesPerLink", Kind::Number(1), "Maximum number of namespaces that are created per target cluster"),
    key("controller.admissionPolicy", Kind::Bool, "Whether to restrict its account with a ValidatingAdmissionPolicy; left out if the cluster does not support it (before Kubernetes 1.30)"),
    key("controller.networkPolicy.enabled", Kind::Bool, "Whether to install it"),
    key("controller.networkPolicy.metricsNamespaces", Kind::TextOrList, "Namespaces of pods that may read its metrics"),
    key("controller.networkPolicy.egressPorts", Kind::Kubernetes("a list of ports", fits::<Vec<NonZeroU16>>), "TCP ports of API servers and of gateways' probes"),
    key("controller.networkPolicy.egressNetworks", Kind::TextOrList, "Networks of these API servers and gateways, such as 192.0.2.0/24; empty for any"),
    key("controller.resources", Kind::Kubernetes("requests and limits", fits_resources), "Requests and limits; memory defaults to a value computed from controller.maxMiB"),
    key("controller.nodeSelector", Kind::NodeLabels, "Nodes for its pods"),
    key("controller.tolerations", TOLERATIONS, "Tolerations of its pods"),
    key("controller.additionalEnv", Kind::Kubernetes("a list of environment variables", fits::<Vec<EnvVar>>), "Environment variables of its container"),
    key("controller.UID", Kind::Number(1), "User of its container"),
    key("controller.GID", Kind::Number(1), "Group of its container"),
    key("federation.enabled", Kind::Bool, "Whether Services of this cluster join federated Services"),
    key("federation.selector", Kind::Selector, "Label selector for these Services"),
    key("federation.excludedLabels", Kind::TextOrList, "Labels that are not copied from them to federated Services: keys, or prefixes such as example.com/*"),
    key("federation.excludedAnnotations", Kind::TextOrList, "Annotations that are not copied from them to federated Services"),
    key("federation.routes", Kind::Bool, "Whether to apply the preferences of members, with Gateway API routes"),
    key("federation.holdDown", Kind::Duration, "How long a preferred cluster must be available again before it receives requests"),
    key("remoteMirrorServiceAccount", Kind::Bool, "Whether to create the ServiceAccounts that controllers of other clusters use"),
    key("remoteMirrorServiceAccountName", Kind::TextOrList, "Names of these ServiceAccounts, comma-separated or as a list"),
    key("linkerdNamespace", Kind::Name, "Namespace of Linkerd's control plane; also set by --linkerd-namespace"),
    key("identityTrustDomain", Kind::Word, "Trust domain of workload identities; read from the cluster unless --ignore-cluster"),
    key("cniEnabled", Kind::Bool, "Whether Linkerd's CNI plugin is in use; read from the cluster unless --ignore-cluster"),
    key("enableNamespaceCreation", Kind::Bool, "Whether the controller creates missing namespaces for mirrors"),
    key("protectedNamespaces", Kind::Namespaces, "Namespaces in which nothing is mirrored or federated, whatever a Link allows; the extension's namespace is always protected"),
    key("enablePodAntiAffinity", Kind::Bool, "Whether replicas prefer different nodes and zones, with a PodDisruptionBudget; also set by --ha"),
    key("nodeAffinity", Kind::Kubernetes("a node affinity", fits::<NodeAffinity>), "Node affinity of all pods"),
    key("revisionHistoryLimit", Kind::Number(0), "Number of old ReplicaSets to keep"),
    key("commonLabels", Kind::Labels, "Labels of all objects except the Namespace and pods"),
    key("podLabels", Kind::Labels, "Labels of all pods"),
    key("podAnnotations", Kind::Annotations, "Annotations of the controller's pods"),
    key("imagePullPolicy", Kind::OneOf(&["Always", "IfNotPresent", "Never"]), "Pull policy of images"),
    key("imagePullSecrets", Kind::Kubernetes("a list of Secret names, each as {name: …}", fits::<Vec<LocalObjectReference>>), "Pull secrets of all ServiceAccounts"),
];

/// What is at a path.
pub(super) enum Found {
    /// A key.
    Key(Key),
    /// A group of keys.
    Group,
    /// Nothing.
    Nothing,
}

/// Looks a path up.
pub(super) fn find(path: &str) -> Found {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Found::Key(*key);
    }
    if GROUPS.iter().any(|(group, _)| *group == path) {
        return Found::Group;
    }
    Found::Nothing
}

/// The key that is most similar to `path`.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let by_path = KEYS
        .iter()
        .map(|key| (distance(path, key.path), key.path))
        .min()
        .filter(|(distance, _)| *distance <= 2.max(path.len() / 4))
        .map(|(_, path)| path);
    by_path.or_else(|| {
        KEYS.iter()
            .map(|key| (distance(&last(path), &last(key.path)), key.path))
            .min()
            .filter(|(distance, _)| *distance <= 2.min(last(path).len() / 4))
            .map(|(_, path)| path)
    })
}

/// The edit distance of two texts, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Commented out in the output, because a values file with it would override the cluster's own value.
const ASKED: &str = "identityTrustDomain";

const HEADER: &str = "\
# All values of `linkerd-mc install`, with the defaults as set by the other flags.
# Override them with --values FILE, or with --set key=value.
";

impl Values {
    /// All values as a commented values file.
    pub fn documented(&self) -> anyhow::Result<String> {
        documented(self, HEADER, |key| key.doc, &[ASKED])
    }
}

/// All keys as a values file, with description, type and value. The keys in `unset` are commented out.
pub(in crate::manifests) fn documented(
    values: &Values,
    header: &str,
    doc: impl Fn(&Key) -> &'static str,
    unset: &[&str],
) -> anyhow::Result<String> {
    let values = serde_json::to_value(values)?;
    let mut text = header.to_owned();
    let mut open: Vec<&str> = Vec::new();
    for key in KEYS {
        let segments: Vec<&str> = key.path.split('.').collect();
        let (name, groups) = segments
            .split_last()
            .map_or(("", &[][..]), |(last, rest)| (*last, rest));
        let common = open.iter().zip(groups).take_while(|(a, b)| a == b).count();
        open.truncate(common);
        for group in &groups[common..] {
            open.push(group);
            let path = open.join(".");
            let doc = GROUPS
                .iter()
                .find(|(group, _)| *group == path)
                .map_or("", |(_, doc)| doc);
            let indent = "  ".repeat(open.len() - 1);
            text.extend(["\n", &indent, "# ", doc, ".\n", &indent, group, ":\n"]);
        }
        let indent = "  ".repeat(open.len());
        let mut one = Map::new();
        let default = values.pointer(&format!("/{}", key.path.replace('.', "/")));
        one.insert(name.to_owned(), default.cloned().unwrap_or_default());
        if open.is_empty() {
            text.push('\n');
        }
        text.extend([
            &indent,
            "# ",
            doc(key),
            ". Value: ",
            &key.kind.expected(),
            ".\n",
        ]);
        let comment = if unset.contains(&key.path) { "# " } else { "" };
        for line in yaml::to_yaml(&one)?.lines() {
            text.extend([&indent, comment, line, "\n"]);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn leaves(path: &str, value: &Value, into: &mut BTreeSet<String>) {
        match value.as_object() {
            Some(map) if matches!(find(path), Found::Group) || path.is_empty() => {
                for (key, value) in map {
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    leaves(&path, value, into);
                }
            }
            _ => {
                into.insert(path.to_owned());
            }
        }
    }

    #[test]
    fn schema_and_values_name_the_same_keys_and_defaults_fit() {
        let values = serde_json::to_value(Values::default()).unwrap();
        let mut typed = BTreeSet::new();
        leaves("", &values, &mut typed);
        let named: BTreeSet<_> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        assert_eq!(named, typed);
        assert_eq!(named.len(), KEYS.len(), "no key twice");
        for key in KEYS {
            let default = &values
                .pointer(&format!("/{}", key.path.replace('.', "/")))
                .unwrap();
            if !default.is_null() {
                assert_eq!(key.kind.check(default), Ok(()), "{}", key.path);
            }
        }
    }

    #[test]
    fn the_documented_values_are_the_defaults() {
        let text = Values::default().documented().unwrap();
        let mut given = super::super::UserValues::default();
        given.add_file("values.yaml", &text).unwrap();
        let base = Values {
            identity_trust_domain: "trust.example".into(),
            ..Values::default()
        };
        // Values that were read from the cluster are not overridden.
        assert_eq!(given.over(&base).unwrap(), (base, vec![]));
        insta::assert_snapshot!(text.replace(super::super::VERSION, "VERSION"));
    }

    #[test]
    fn misspelled_key_suggests_the_nearest_one() {
        for (typed, meant) in [
            ("gateway.prot", Some("gateway.port")),
            ("gatway.port", Some("gateway.port")),
            ("gateway.servicetype", Some("gateway.serviceType")),
            ("controller.replica", Some("controller.replicas")),
            ("commonLables", Some("commonLabels")),
            ("probe.seconds", Some("gateway.probe.seconds")),
            ("logLevel", Some("controller.logLevel")),
            ("somethingElse", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }
}
