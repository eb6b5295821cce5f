//! The three objects that make a link: two credentials Secrets and the Link, for the source cluster.
//!
//! Typed values, no templates. Pure: the facts about the target cluster are in [`LinkTarget`].

use std::{collections::BTreeMap, fmt, str::FromStr};

use anyhow::Context as _;
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use k8s_openapi::{
    ByteString, api::core::v1::Secret as KubernetesSecret,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::ObjectMeta;
use serde_json::Value;

use super::{gateway::RemoteGateway, install::created_by, kubeconfig::Secret, render::Manifest};
use crate::{
    api::{
        labels,
        link::{Link, LinkSpec, LinkerdConfig, ProbeSpec},
        names::{is_dns_label, is_label_key},
        selector_text::parse_selector,
    },
    mirror::{
        Copied, CopiedError, FederatedThrough, Federation, PolicyError, allowed_namespaces,
        copied_rules, target::networks,
    },
};

/// Name of a target cluster: a DNS label, because Services have it as a suffix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterName(String);

/// An invalid cluster name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a DNS label: up to 63 lowercase letters, digits and '-', starting and ending with a letter or digit"
)]
pub struct ClusterNameError;

impl FromStr for ClusterName {
    type Err = ClusterNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_dns_label(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ClusterNameError)
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ClusterName {
    /// Name of the credentials Secrets of this cluster.
    pub fn credentials_secret(&self) -> String {
        format!("{}{self}", labels::CREDENTIALS_PREFIX)
    }
}

/// The target cluster of a link.
#[derive(Clone, Debug)]
pub struct LinkTarget {
    /// Its name in the source cluster.
    pub name: ClusterName,
    /// Its Linkerd configuration.
    pub config: LinkerdConfig,
    /// Namespace of its Linkerd control plane; also of the one in the source cluster.
    pub linkerd_namespace: String,
    /// Kubeconfig for it.
    pub kubeconfig: Secret,
    /// Its gateway, which gateway mode requires.
    pub gateway: Option<RemoteGateway>,
}

/// Services that are mirrored through the gateway by default.
pub const EXPORTED: &str = "mirror.linkerd.io/exported=true";

/// What is mirrored from the target cluster: the flags of `link` and `link-gen` that become settings of the Link.
#[derive(Clone, Debug, Args)]
pub struct LinkOptions {
    /// Services to mirror through the gateway
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = EXPORTED, value_parser = parse_selector)]
    pub selector: LabelSelector,
    /// Services to mirror with remote discovery (pod to pod)
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/exported=remote-discovery", value_parser = parse_selector)]
    pub remote_discovery_selector: LabelSelector,
    /// Services that join federated Services
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/federated=member", value_parser = parse_selector)]
    pub federated_service_selector: LabelSelector,
    /// Annotations that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "exclude-annotations",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = keys
    )]
    pub excluded_annotations: Vec<String>,
    /// Labels that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "exclude-labels",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = keys
    )]
    pub excluded_labels: Vec<String>,
    /// Annotations that are copied to mirrors although they control other tools, such as external-dns: keys, or
    /// prefixes such as example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    pub copied_annotations: Vec<String>,
    /// Labels that are copied to mirrors although they control other tools, such as Argo CD: keys, or prefixes such as
    /// example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    pub copied_labels: Vec<String>,
    /// Labels and annotations that are copied to mirrors
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = one_of(COPIES, Copied::as_str))]
    pub copy: Copied,
    /// Networks that gateway addresses must be in, such as 192.0.2.0/24; also applies to addresses that a host name
    /// resolves to. `any`, the default: all but loopback, link-local, multicast, metadata servers, and the source
    /// cluster's API server and Service range
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = gateway_network)]
    pub gateway_networks: Vec<String>,
    /// Whether headless Services are mirrored as headless Services [default: as the controller is set]
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true
    )]
    pub enable_headless_services: Option<bool>,
    /// Namespaces of the source cluster that may be mirrored into, as a label selector such as
    /// 'kubernetes.io/metadata.name in (shop,web)'. `any`, the default: all that are not protected
    #[arg(long, value_name = "SELECTOR", value_parser = allowed)]
    pub allowed_namespaces: Option<String>,
    /// Which federated Services of the source cluster the target cluster may join
    #[arg(long, value_name = "WHICH", default_value = "any", value_parser = one_of(FEDERATION, Federation::as_str))]
    pub federation: Federation,
    /// How the target cluster joins federated Services
    #[arg(long, value_name = "HOW", default_value = "discovery", value_parser = one_of(THROUGH, FederatedThrough::as_str))]
    pub federated_through: FederatedThrough,
}

/// The values of a flag, with their help texts.
type Choices<T> = &'static [(T, &'static str)];

const COPIES: Choices<Copied> = &[
    (
        Copied::All,
        "All that are not excluded, except those that control other tools",
    ),
    (
        Copied::Listed,
        "Only those of --copied-labels and --copied-annotations, and which ports are opaque",
    ),
];
const FEDERATION: Choices<Federation> = &[
    (Federation::Any, "All that it has members of"),
    (
        Federation::LocalMembers,
        "Only those that have a member in the source cluster",
    ),
    (Federation::None, "None"),
];
const THROUGH: Choices<FederatedThrough> = &[
    (
        FederatedThrough::Discovery,
        "Linkerd discovers its endpoints; Pods must be able to connect to those of the target cluster",
    ),
    (
        FederatedThrough::Gateway,
        "Through its gateway, on any network",
    ),
];

/// Parses one of these values, by its word in a Link's annotation.
fn one_of<T: Copy + Send + Sync + 'static>(
    choices: Choices<T>,
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = choices
        .iter()
        .map(|(value, help)| PossibleValue::new(word(*value)).help(*help));
    PossibleValuesParser::new(names).try_map(move |given| {
        let mut values = choices.iter().map(|(value, _)| *value);
        let found = values.find(|value| word(*value) == given);
        found.ok_or("unknown value")
    })
}

/// Parses a key of labels or annotations, or a prefix of keys; empty for none.
fn keys(text: &str) -> Result<String, String> {
    let text = text.trim();
    let key = text.strip_suffix("/*").map(|prefix| format!("{prefix}/x"));
    if text.is_empty() || is_label_key(key.as_deref().unwrap_or(text)) {
        return Ok(text.to_owned());
    }
    Err("must be a key, or a prefix such as example.com/*".to_owned())
}

/// A key or a prefix of labels or annotations to copy; empty for none.
fn copied(text: &str) -> Result<String, CopiedError> {
    if text.is_empty() {
        return Ok(String::new());
    }
    match copied_rules(text)?.first() {
        Some(rule) => Ok((*rule).to_owned()),
        None => Err(CopiedError::NoRule(text.to_owned())),
    }
}

/// The value of a flag that removes a restriction.
const ANY: &str = "any";

/// A selector of namespaces, as it was typed.
fn allowed(text: &str) -> Result<String, PolicyError> {
    allowed_namespaces(text).map(|_| text.to_owned())
}

/// A network of gateways.
fn gateway_network(text: &str) -> Result<String, String> {
    if text == ANY {
        return Ok(text.to_owned());
    }
    let read = networks(text).map_err(|error| error.to_string())?;
    let first = read.first().ok_or("must not be empty")?;
    Ok(first.to_string())
}

/// The objects of a link. No `Debug`: they hold credentials.
#[derive(Clone)]
pub struct LinkObjects {
    /// Credentials for the controller.
    pub credentials: KubernetesSecret,
    /// The same for Linkerd's control plane.
    pub control_plane_credentials: KubernetesSecret,
    /// The Link.
    pub link: Link,
}

impl LinkObjects {
    /// The objects in the order in which they should be applied.
    pub fn manifest(&self) -> anyhow::Result<Manifest> {
        let values: Result<Vec<Value>, _> = [
            serde_json::to_value(&self.credentials),
            serde_json::to_value(&self.control_plane_credentials),
            serde_json::to_value(&self.link),
        ]
        .into_iter()
        .collect();
        Manifest::from_objects(values.context("failed to serialize the link")?)
    }
}

/// The objects that link a source cluster to `target`.
///
/// Argo CD applies the Secrets first and prunes them last, because Linkerd needs the Secret of a cluster when a Service
/// starts or stops naming it (`federated_service_watcher.go` in its destination controller).
pub fn link(target: &LinkTarget, namespace: &str, options: &LinkOptions) -> LinkObjects {
    let secret = |namespace: &str| KubernetesSecret {
        metadata: ObjectMeta {
            name: Some(target.name.credentials_secret()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(map([(labels::SYNC_WAVE, "-1")])),
            ..Default::default()
        },
        type_: Some(labels::CREDENTIALS_TYPE.to_owned()),
        data: Some(BTreeMap::from([(
            labels::KUBECONFIG_KEY.to_owned(),
            ByteString(target.kubeconfig.expose().as_bytes().to_vec()),
        )])),
        ..Default::default()
    };
    let mut control_plane_credentials = secret(&target.linkerd_namespace);
    control_plane_credentials.metadata.labels = Some(map([(
        labels::CREDENTIALS_CLUSTER,
        &target.name.to_string(),
    )]));
    control_plane_credentials.metadata.annotations = Some(map([
        (labels::SYNC_WAVE, "-1"),
        (labels::TRUST_DOMAIN, &target.config.identity_trust_domain),
        (labels::CLUSTER_DOMAIN, &target.config.cluster_domain),
    ]));
    LinkObjects {
        credentials: secret(namespace),
        control_plane_credentials,
        link: link_resource(target, namespace, options),
    }
}

/// The keys of a flag, of which an empty one stands for none.
fn set(keys: &[String]) -> Vec<String> {
    let keys = keys.iter().filter(|key| !key.is_empty());
    keys.cloned().collect()
}

fn link_resource(target: &LinkTarget, namespace: &str, options: &LinkOptions) -> Link {
    let mut spec = LinkSpec {
        target_cluster_name: target.name.to_string(),
        target_cluster_domain: target.config.cluster_domain.clone(),
        target_cluster_linkerd_namespace: target.linkerd_namespace.clone(),
        cluster_credentials_secret: target.name.credentials_secret(),
        remote_discovery_selector: Some(options.remote_discovery_selector.clone()),
        federated_service_selector: Some(options.federated_service_selector.clone()),
        excluded_annotations: set(&options.excluded_annotations),
        excluded_labels: set(&options.excluded_labels),
        ..Default::default()
    };
    if let Some(gateway) = &target.gateway {
        spec.gateway_address = gateway.addresses.join(",");
        spec.gateway_port = gateway.port.to_string();
        spec.gateway_identity.clone_from(&gateway.identity);
        spec.selector = Some(options.selector.clone());
        spec.probe_spec = ProbeSpec {
            path: gateway.probe_path.clone(),
            port: gateway.probe_port.to_string(),
            period: gateway.probe_period.clone(),
            // The CRD fills these in.
            timeout: None,
            failure_threshold: None,
        };
    }
    let mut link = Link::new(&target.name.to_string(), spec);
    link.metadata.namespace = Some(namespace.to_owned());
    let mut annotations = map([(labels::CREATED_BY, &created_by())]);
    if let Some(enabled) = options.enable_headless_services {
        let set = if enabled { "enabled" } else { "disabled" };
        annotations.insert(labels::HEADLESS_SERVICES.to_owned(), set.to_owned());
    }
    for (key, rules) in [
        (labels::COPIED_ANNOTATIONS, &options.copied_annotations),
        (labels::COPIED_LABELS, &options.copied_labels),
        (labels::GATEWAY_NETWORKS, &options.gateway_networks),
    ] {
        let rules = rules
            .iter()
            .map(String::as_str)
            .filter(|rule| !["", ANY].contains(rule));
        let rules = rules.collect::<Vec<_>>().join(",");
        if !rules.is_empty() {
            annotations.insert(key.to_owned(), rules);
        }
    }
    if let Some(selector) = options.allowed_namespaces.as_ref().filter(|s| *s != ANY) {
        annotations.insert(labels::ALLOWED_NAMESPACES.to_owned(), selector.clone());
    }
    if options.copy != Copied::default() {
        let copy = options.copy.as_str().to_owned();
        annotations.insert(labels::COPY.to_owned(), copy);
    }
    if options.federation != Federation::default() {
        let joins = options.federation.as_str().to_owned();
        annotations.insert(labels::FEDERATION.to_owned(), joins);
    }
    if options.federated_through != FederatedThrough::default() {
        let through = options.federated_through.as_str().to_owned();
        annotations.insert(labels::FEDERATED_THROUGH.to_owned(), through);
    }
    link.metadata.annotations = Some(annotations);
    link
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> LinkTarget {
        LinkTarget {
            name: "east".parse().unwrap(),
            config: LinkerdConfig {
                cluster_domain: "cluster.local".into(),
                identity_trust_domain: "trust.local".into(),
                ..Default::default()
            },
            linkerd_namespace: "linkerd".into(),
            kubeconfig: Secret::new("apiVersion: v1\n"),
            gateway: Some(RemoteGateway {
                addresses: vec!["192.0.2.1".into(), "lb.example.com".into()],
                port: 4143,
                identity: "gw.identity".into(),
                probe_path: "/ready".into(),
                probe_port: 4191,
                probe_period: "3s".into(),
            }),
        }
    }

    fn options() -> LinkOptions {
        let selector = |text| parse_selector(text).unwrap();
        LinkOptions {
            selector: selector("mirror.linkerd.io/exported=true"),
            remote_discovery_selector: selector("mirror.linkerd.io/exported=remote-discovery"),
            federated_service_selector: selector("mirror.linkerd.io/federated=member"),
            excluded_annotations: Vec::new(),
            excluded_labels: Vec::new(),
            copied_annotations: Vec::new(),
            copied_labels: Vec::new(),
            copy: Copied::All,
            gateway_networks: Vec::new(),
            enable_headless_services: None,
            allowed_namespaces: None,
            federation: Federation::Any,
            federated_through: FederatedThrough::Discovery,
        }
    }

    #[test]
    fn a_link_with_a_gateway() {
        let manifest = link(&target(), "linkerd-multicluster", &options())
            .manifest()
            .unwrap();
        insta::assert_snapshot!(manifest.to_yaml().replace(crate::manifests::values::VERSION, "VERSION"), @r#"
        ---
        apiVersion: v1
        data:
          kubeconfig: YXBpVmVyc2lvbjogdjEK
        kind: Secret
        metadata:
          annotations:
            argocd.argoproj.io/sync-wave: "-1"
          name: cluster-credentials-east
          namespace: linkerd-multicluster
        type: mirror.linkerd.io/remote-kubeconfig
        ---
        apiVersion: v1
        data:
          kubeconfig: YXBpVmVyc2lvbjogdjEK
        kind: Secret
        metadata:
          annotations:
            argocd.argoproj.io/sync-wave: "-1"
            multicluster.linkerd.io/cluster-domain: cluster.local
            multicluster.linkerd.io/trust-domain: trust.local
          labels:
            multicluster.linkerd.io/cluster-name: east
          name: cluster-credentials-east
          namespace: linkerd
        type: mirror.linkerd.io/remote-kubeconfig
        ---
        apiVersion: multicluster.linkerd.io/v1alpha3
        kind: Link
        metadata:
          annotations:
            linkerd.io/created-by: linkerd-mc/cli VERSION
          name: east
          namespace: linkerd-multicluster
        spec:
          clusterCredentialsSecret: cluster-credentials-east
          federatedServiceSelector:
            matchLabels:
              mirror.linkerd.io/federated: member
          gatewayAddress: 192.0.2.1,lb.example.com
          gatewayIdentity: gw.identity
          gatewayPort: "4143"
          probeSpec:
            path: /ready
            period: 3s
            port: "4191"
          remoteDiscoverySelector:
            matchLabels:
              mirror.linkerd.io/exported: remote-discovery
          selector:
            matchLabels:
              mirror.linkerd.io/exported: "true"
          targetClusterDomain: cluster.local
          targetClusterLinkerdNamespace: linkerd
          targetClusterName: east
        "#);
    }

    #[test]
    fn a_link_without_a_gateway_has_no_selector_for_it() {
        let objects = link(
            &LinkTarget {
                gateway: None,
                ..target()
            },
            "linkerd-multicluster",
            &LinkOptions {
                excluded_annotations: vec!["a.io/*".into()],
                excluded_labels: vec!["b".into(), "c".into()],
                copied_annotations: vec!["d.io/e".into(), "f.io/*".into()],
                copied_labels: vec!["g".into()],
                copy: Copied::Listed,
                gateway_networks: vec!["192.0.2.0/24".into(), "::1".into()],
                enable_headless_services: Some(true),
                allowed_namespaces: Some("team in (a,b)".into()),
                federation: Federation::LocalMembers,
                federated_through: FederatedThrough::Gateway,
                ..options()
            },
        );
        let text = super::super::yaml::to_yaml(&serde_json::to_value(objects.link).unwrap());
        insta::assert_snapshot!(text.unwrap().replace(crate::manifests::values::VERSION, "VERSION"), @r"
        apiVersion: multicluster.linkerd.io/v1alpha3
        kind: Link
        metadata:
          annotations:
            linkerd.io/created-by: linkerd-mc/cli VERSION
            multicluster.linkerd.io/allowed-namespaces: team in (a,b)
            multicluster.linkerd.io/copied-annotations: d.io/e,f.io/*
            multicluster.linkerd.io/copied-labels: g
            multicluster.linkerd.io/copy: listed
            multicluster.linkerd.io/federated-through: gateway
            multicluster.linkerd.io/federation: local-members
            multicluster.linkerd.io/gateway-networks: 192.0.2.0/24,::1
            multicluster.linkerd.io/headless-services: enabled
          name: east
          namespace: linkerd-multicluster
        spec:
          clusterCredentialsSecret: cluster-credentials-east
          excludedAnnotations:
          - a.io/*
          excludedLabels:
          - b
          - c
          federatedServiceSelector:
            matchLabels:
              mirror.linkerd.io/federated: member
          probeSpec: {}
          remoteDiscoverySelector:
            matchLabels:
              mirror.linkerd.io/exported: remote-discovery
          targetClusterDomain: cluster.local
          targetClusterLinkerdNamespace: linkerd
          targetClusterName: east
        ");
    }

    #[test]
    fn cluster_names_are_dns_labels() {
        assert!("east-1".parse::<ClusterName>().is_ok());
        for bad in ["", "East", "a.b", "-a"] {
            assert_eq!(bad.parse::<ClusterName>(), Err(ClusterNameError), "{bad}");
        }
    }
}
