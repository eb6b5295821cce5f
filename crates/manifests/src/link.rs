//! The objects that make a link, for the source cluster: the Link and its credentials Secret. If Linkerd's control
//! plane reaches the API server of the target cluster, it has another Secret.
//!
//! Typed values, no templates. Pure: the facts about the target cluster are in [`LinkTarget`].

mod options;
mod settings;

use std::{collections::BTreeMap, fmt, str::FromStr};

use anyhow::Context as _;
use k8s_openapi::{ByteString, api::core::v1::Secret as KubernetesSecret};
use kube::{ResourceExt as _, core::ObjectMeta};
use mirror_core::{
    api::{
        labels,
        link::{Link, LinkSpec, LinkerdConfig, ProbeSpec},
        names::is_dns_label,
    },
    mirror::ApiGatewaySettings,
};
use serde_json::Value;

pub use self::options::{EXPORTED, LinkOptions};
pub use self::settings::{SETTINGS, in_words, list_in_file};
use super::{gateway::RemoteGateway, install::created_by, kubeconfig::Secret, render::Manifest};

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

    /// The name of the cluster that a credentials Secret with this name is for. It may be none.
    pub fn in_secret(name: &str) -> Option<&str> {
        name.strip_prefix(labels::CREDENTIALS_PREFIX)
    }
}

/// The target cluster of a link.
#[derive(Clone, Debug)]
pub struct LinkTarget {
    /// Its name in the source cluster.
    pub name: ClusterName,
    /// The UID of its Namespace kube-system, if it is known.
    pub uid: Option<String>,
    /// Its Linkerd configuration.
    pub config: LinkerdConfig,
    /// Namespace of its Linkerd control plane; also of the one in the source cluster.
    pub linkerd_namespace: String,
    /// How its API server is reached.
    pub api_server: ApiServerAccess,
    /// Its gateway, which gateway mode requires.
    pub gateway: Option<RemoteGateway>,
}

/// How the source cluster reaches the API server of the target cluster, and the kubeconfigs for it.
#[derive(Clone, Debug)]
pub enum ApiServerAccess {
    /// The controller and Linkerd's control plane connect to its address.
    Direct(Secret),
    /// The controller connects through a gateway, and so may Linkerd's control plane.
    ThroughGateway {
        /// The gateway.
        way: ApiGatewaySettings,
        /// The kubeconfig that leads through it.
        through: Secret,
        /// The address that Linkerd's control plane uses, and the kubeconfig for it, if it has a way of its own.
        own: Option<(String, Secret)>,
    },
}

impl ApiServerAccess {
    fn controller(&self) -> &Secret {
        match self {
            Self::Direct(both) => both,
            Self::ThroughGateway { through, .. } => through,
        }
    }

    fn control_plane(&self) -> Option<&Secret> {
        match self {
            Self::Direct(both) => Some(both),
            Self::ThroughGateway { way, through, own } => {
                let own = own.as_ref().map(|(_, own)| own);
                own.or_else(|| way.discovery.then_some(through))
            }
        }
    }
}

/// The objects of a link. No `Debug`: they hold credentials.
#[derive(Clone)]
pub struct LinkObjects {
    /// Credentials for the controller.
    pub credentials: KubernetesSecret,
    /// Those for Linkerd's control plane, if it reaches the API server.
    pub control_plane_credentials: Option<KubernetesSecret>,
    /// The Link.
    pub link: Link,
}

impl LinkObjects {
    /// The credentials: those for the controller, then those for Linkerd, if there are any.
    pub fn secrets(&self) -> impl Iterator<Item = &KubernetesSecret> {
        std::iter::once(&self.credentials).chain(&self.control_plane_credentials)
    }

    /// The objects in the order in which they should be applied.
    pub fn manifest(&self) -> anyhow::Result<Manifest> {
        let values: Result<Vec<Value>, _> = self
            .secrets()
            .map(serde_json::to_value)
            .chain([serde_json::to_value(&self.link)])
            .collect();
        Manifest::from_objects(values.context("failed to serialize the link")?)
    }
}

/// The objects that link a source cluster to `target`.
///
/// Argo CD applies the Secrets first and prunes them last, because Linkerd needs the Secret of a cluster when a Service
/// starts or stops naming it (`federated_service_watcher.go` in its destination controller).
pub fn link(target: &LinkTarget, namespace: &str, options: &LinkOptions) -> LinkObjects {
    let secret = |namespace: &str, kubeconfig: &Secret| KubernetesSecret {
        metadata: ObjectMeta {
            name: Some(target.name.credentials_secret()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(with_uid(map([(labels::SYNC_WAVE, "-1")]), target)),
            ..Default::default()
        },
        type_: Some(labels::CREDENTIALS_TYPE.to_owned()),
        data: Some(BTreeMap::from([(
            labels::KUBECONFIG_KEY.to_owned(),
            ByteString(kubeconfig.expose().as_bytes().to_vec()),
        )])),
        ..Default::default()
    };
    let of_linkerd = |kubeconfig: &Secret| {
        let mut credentials = secret(&target.linkerd_namespace, kubeconfig);
        credentials.metadata.labels = Some(map([(
            labels::CREDENTIALS_CLUSTER,
            &target.name.to_string(),
        )]));
        credentials
            .metadata
            .annotations
            .get_or_insert_default()
            .extend(map([
                (labels::TRUST_DOMAIN, &target.config.identity_trust_domain),
                (labels::CLUSTER_DOMAIN, &target.config.cluster_domain),
            ]));
        credentials
    };
    LinkObjects {
        credentials: secret(namespace, target.api_server.controller()),
        control_plane_credentials: target.api_server.control_plane().map(of_linkerd),
        link: link_resource(target, namespace, options),
    }
}

fn link_resource(target: &LinkTarget, namespace: &str, options: &LinkOptions) -> Link {
    let mut spec = LinkSpec {
        target_cluster_name: target.name.to_string(),
        target_cluster_domain: target.config.cluster_domain.clone(),
        target_cluster_linkerd_namespace: target.linkerd_namespace.clone(),
        cluster_credentials_secret: target.name.credentials_secret(),
        ..Default::default()
    };
    if let Some(gateway) = &target.gateway {
        spec.gateway_address = gateway.addresses.join(",");
        spec.gateway_port = gateway.port.to_string();
        spec.gateway_identity.clone_from(&gateway.identity);
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
    let annotations = with_uid(map([(labels::CREATED_BY, &created_by())]), target);
    link.metadata.annotations = Some(annotations);
    let settings = SETTINGS.iter();
    for setting in settings.filter(|setting| target.gateway.is_some() || !setting.needs_gateway) {
        setting.set(&mut link, options);
    }
    if let ApiServerAccess::ThroughGateway { way, own, .. } = &target.api_server {
        let annotations = link.annotations_mut();
        annotations.insert(labels::API_GATEWAY.to_owned(), way.to_annotation());
        let own = own.iter().map(|(at, _)| at.clone());
        annotations.extend(own.map(|at| (labels::DISCOVERY_API_SERVER.to_owned(), at)));
    }
    link
}

/// The annotations, with the one that says which cluster is the target.
fn with_uid(
    mut annotations: BTreeMap<String, String>,
    target: &LinkTarget,
) -> BTreeMap<String, String> {
    let uid = target.uid.clone();
    annotations.extend(uid.map(|uid| (labels::CLUSTER_UID.to_owned(), uid)));
    annotations
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use mirror_core::{
        api::selector_text::parse_selector,
        mirror::{Copied, FederatedThrough, Federation},
    };

    use super::*;

    fn target() -> LinkTarget {
        LinkTarget {
            name: "east".parse().unwrap(),
            uid: Some("3f0b5c4e-uid".into()),
            config: LinkerdConfig {
                cluster_domain: "cluster.local".into(),
                identity_trust_domain: "trust.local".into(),
                ..Default::default()
            },
            linkerd_namespace: "linkerd".into(),
            api_server: ApiServerAccess::Direct(Secret::new("apiVersion: v1\n")),
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
        insta::assert_snapshot!(manifest.to_yaml().replace(crate::values::VERSION, "VERSION"), @r#"
        ---
        apiVersion: v1
        data:
          kubeconfig: YXBpVmVyc2lvbjogdjEK
        kind: Secret
        metadata:
          annotations:
            argocd.argoproj.io/sync-wave: "-1"
            multicluster.linkerd.io/cluster-uid: 3f0b5c4e-uid
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
            multicluster.linkerd.io/cluster-uid: 3f0b5c4e-uid
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
            multicluster.linkerd.io/cluster-uid: 3f0b5c4e-uid
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
    fn linkerd_gets_credentials_only_if_it_reaches_the_api_server() {
        let way = |discovery| ApiGatewaySettings {
            addresses: vec!["192.0.2.7".into()],
            port: NonZeroU16::new(4143).unwrap(),
            identity: "api.identity".into(),
            service: "mc/kubernetes-api".into(),
            discovery,
        };
        let linked = |discovery, own| {
            let api_server = ApiServerAccess::ThroughGateway {
                way: way(discovery),
                through: Secret::new("through: the gateway\n"),
                own,
            };
            let target = LinkTarget {
                api_server,
                ..target()
            };
            link(&target, "mc", &options())
        };
        let kubeconfig = |secret: &KubernetesSecret| {
            let data = secret.data.as_ref().unwrap()[labels::KUBECONFIG_KEY].clone();
            String::from_utf8(data.0).unwrap()
        };
        let has = |objects: &LinkObjects, discovery, address: &str| {
            let set = objects.link.metadata.annotations.clone().unwrap();
            assert_eq!(set[labels::API_GATEWAY], way(discovery).to_annotation());
            let own = set.get(labels::DISCOVERY_API_SERVER);
            assert_eq!(own.map_or("", String::as_str), address);
        };
        let alone = linked(false, None);
        assert_eq!(kubeconfig(&alone.credentials), "through: the gateway\n");
        assert!(alone.control_plane_credentials.is_none());
        assert_eq!(alone.manifest().unwrap().objects().unwrap().len(), 2);
        has(&alone, false, "");

        let direct = Secret::new("at: an address\n");
        let both = linked(false, Some(("https://east.example".to_owned(), direct)));
        assert_eq!(kubeconfig(&both.credentials), "through: the gateway\n");
        let linkerds = both.control_plane_credentials.as_ref().unwrap();
        assert_eq!(kubeconfig(linkerds), "at: an address\n");
        assert_eq!(both.manifest().unwrap().objects().unwrap().len(), 3);
        has(&both, false, "https://east.example");

        let both = linked(true, None);
        let linkerds = both.control_plane_credentials.as_ref().unwrap();
        assert_eq!(kubeconfig(linkerds), "through: the gateway\n");
        has(&both, true, "");
    }

    #[test]
    fn a_link_without_a_gateway_has_no_settings_of_one() {
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
        insta::assert_snapshot!(text.unwrap().replace(crate::values::VERSION, "VERSION"), @r"
        apiVersion: multicluster.linkerd.io/v1alpha3
        kind: Link
        metadata:
          annotations:
            linkerd.io/created-by: linkerd-mc/cli VERSION
            multicluster.linkerd.io/allowed-namespaces: team in (a,b)
            multicluster.linkerd.io/cluster-uid: 3f0b5c4e-uid
            multicluster.linkerd.io/copied-annotations: d.io/e,f.io/*
            multicluster.linkerd.io/copied-labels: g
            multicluster.linkerd.io/copy: listed
            multicluster.linkerd.io/federation: local-members
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
