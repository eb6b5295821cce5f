//! The modes that a Link offers, and the Service that is mirrored in each of them.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Serialize, Serializer};

use mirror_core::{
    api::{k8s::Service, link::Link},
    mirror::{
        FederatedThrough, Federation, MirrorMode, Target, federated_name, member, mirror_name, mode,
    },
};

/// A way in which a Service of a target cluster can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CanaryMode {
    /// A mirror, through the gateway.
    Gateway,
    /// A mirror, from Pod to Pod.
    RemoteDiscovery,
    /// As a member of a federated Service.
    Federated,
}

impl CanaryMode {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Gateway, Self::RemoteDiscovery, Self::Federated];

    /// The mode, as `status` names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::RemoteDiscovery => "remote-discovery",
            Self::Federated => "federated",
        }
    }

    /// How the name of its Service in the target cluster begins.
    fn prefix(self) -> &'static str {
        match self {
            Self::Gateway => "canary-gateway",
            Self::RemoteDiscovery => "canary-discovery",
            Self::Federated => "canary-member",
        }
    }
}

impl fmt::Display for CanaryMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for CanaryMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The Service of a mode, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryService {
    /// How it is exported.
    pub mode: CanaryMode,
    /// Its name in the target cluster.
    pub name: String,
    /// The labels by which the Link selects it.
    pub labels: BTreeMap<String, String>,
    /// The name of the Service in the source cluster.
    pub mirror: String,
    /// The identity of the gateway, if requests take their way through it. Otherwise they go from Pod to Pod, and the
    /// endpoints are not in the source cluster.
    pub gateway: Option<String>,
    /// Whether the Link lets its cluster join only federated Services with a member in the source cluster.
    pub needs_local_member: bool,
}

impl CanaryService {
    /// The Service of this mode in a namespace. `Err` says why the Link does not offer the mode.
    ///
    /// Each run has a name of its own: the controller delays mirrors of Services that come and go under one name.
    pub fn of(link: &Link, namespace: &str, run: &str, mode: CanaryMode) -> Result<Self, String> {
        let target = Target::parse(link, false).map_err(|error| error.to_string())?;
        let spec = &link.spec;
        let selector = match mode {
            CanaryMode::Gateway => spec.selector.as_ref(),
            CanaryMode::RemoteDiscovery => spec.remote_discovery_selector.as_ref(),
            CanaryMode::Federated => spec.federated_service_selector.as_ref(),
        };
        let through_gateway = match mode {
            CanaryMode::Gateway => true,
            CanaryMode::RemoteDiscovery => false,
            CanaryMode::Federated => target.federated_through == FederatedThrough::Gateway,
        };
        if through_gateway && target.gateway.is_none() {
            return Err("the Link has no gateway".to_owned());
        }
        if !through_gateway && !target.has_discovery {
            return Err("Linkerd does not reach the target's API server".to_owned());
        }
        let labels = selector.map(labels_for).unwrap_or_default();
        if labels.is_empty() {
            return Err("the Link selects no Services for this mode".to_owned());
        }
        let name = format!("{}-{run}", mode.prefix());
        if !is_selected(&target, &service(namespace, &name, &labels), mode) {
            return Err(
                "no labels satisfy the selector of the Link for this mode alone".to_owned(),
            );
        }
        Ok(Self {
            mode,
            labels,
            mirror: match mode {
                CanaryMode::Federated => federated_name(&name),
                CanaryMode::Gateway | CanaryMode::RemoteDiscovery => {
                    mirror_name(&name, &target.cluster)
                }
            },
            name,
            needs_local_member: mode == CanaryMode::Federated
                && target.federation == Federation::LocalMembers,
            gateway: target
                .gateway
                .map(|gateway| gateway.identity)
                .filter(|_| through_gateway),
        })
    }
}

/// Labels that satisfy a selector, if its requirements are not about the absence of labels.
fn labels_for(selector: &LabelSelector) -> BTreeMap<String, String> {
    let mut labels = selector.match_labels.clone().unwrap_or_default();
    for expression in selector.match_expressions.iter().flatten() {
        let first = expression.values.iter().flatten().next();
        let value = match (expression.operator.as_str(), first) {
            ("In", Some(first)) => first.clone(),
            ("Exists", _) => "true".to_owned(),
            _ => continue,
        };
        labels.entry(expression.key.clone()).or_insert(value);
    }
    labels
}

fn service(namespace: &str, name: &str, labels: &BTreeMap<String, String>) -> Service {
    let mut service = Service::default();
    service.metadata.namespace = Some(namespace.into());
    service.metadata.name = Some(name.into());
    service.metadata.labels = labels
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    service
}

/// Whether the Link takes the Service in this mode. A member of a federated Service may be mirrored too.
fn is_selected(target: &Target, service: &Service, wanted: CanaryMode) -> bool {
    let is_mirrored = mode(target, service);
    match wanted {
        CanaryMode::Gateway => is_mirrored == Some(MirrorMode::Gateway),
        CanaryMode::RemoteDiscovery => is_mirrored == Some(MirrorMode::RemoteDiscovery),
        CanaryMode::Federated => member(target, service),
    }
}

#[cfg(test)]
mod tests {
    use mirror_core::{api::labels::FEDERATION, mirror::fixtures};
    use serde_json::json;

    use super::*;

    fn of(link: &Link, mode: CanaryMode) -> Result<CanaryService, String> {
        CanaryService::of(link, "verify", "0123abcd", mode)
    }

    fn link(change: impl FnOnce(&mut Link)) -> Link {
        let mut link = fixtures::link("east");
        change(&mut link);
        link
    }

    fn selector(text: serde_json::Value) -> LabelSelector {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn each_mode_has_a_service_with_the_labels_that_the_link_selects() {
        let link = link(|link| {
            let labels = json!({ "matchLabels": { "team": "web" },
                "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["a", "b"] },
                    { "key": "public", "operator": "Exists" },
                    { "key": "old", "operator": "DoesNotExist" }] });
            link.spec.selector = Some(selector(labels));
        });
        let gateway = of(&link, CanaryMode::Gateway).unwrap();
        let labels: Vec<String> = gateway
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(labels, ["public=true", "team=web", "tier=a"]);
        assert_eq!(gateway.name, "canary-gateway-0123abcd");
        assert_eq!(gateway.mirror, "canary-gateway-0123abcd-east");
        assert!(gateway.gateway.is_some());
        let flat = of(&link, CanaryMode::RemoteDiscovery).unwrap();
        assert_eq!(flat.mirror, "canary-discovery-0123abcd-east");
        assert_eq!(flat.gateway, None);
        let member = of(&link, CanaryMode::Federated).unwrap();
        assert_eq!(member.mirror, "canary-member-0123abcd-federated");
        assert_eq!(member.gateway, None);
    }

    #[test]
    fn federated_service_through_the_gateway_has_its_identity() {
        let link = link(|link| {
            let annotations = link.metadata.annotations.get_or_insert_default();
            annotations.insert(
                "multicluster.linkerd.io/federated-through".into(),
                "gateway".into(),
            );
        });
        let gateway = of(&link, CanaryMode::Gateway).unwrap().gateway;
        assert_eq!(of(&link, CanaryMode::Federated).unwrap().gateway, gateway);
    }

    #[test]
    fn federated_service_of_a_strict_link_needs_a_local_member() {
        let strict = link(|link| {
            let annotations = link.metadata.annotations.get_or_insert_default();
            annotations.insert(FEDERATION.into(), "local-members".into());
        });
        for (link, mode, expected) in [
            (&strict, CanaryMode::Federated, true),
            (&strict, CanaryMode::Gateway, false),
            (&link(|_| ()), CanaryMode::Federated, false),
        ] {
            assert_eq!(of(link, mode).unwrap().needs_local_member, expected);
        }
    }

    #[test]
    fn mode_that_the_link_does_not_offer_says_why() {
        let none = link(|link| link.spec.gateway_address.clear());
        let why = of(&none, CanaryMode::Gateway).unwrap_err();
        assert_eq!(why, "the Link has no gateway");
        let none = link(|link| link.spec.federated_service_selector = None);
        let why = of(&none, CanaryMode::Federated).unwrap_err();
        assert_eq!(why, "the Link selects no Services for this mode");
        // All that the gateway would get is taken by remote discovery.
        let same = link(|link| {
            link.spec.remote_discovery_selector = link.spec.selector.clone();
        });
        let why = of(&same, CanaryMode::Gateway).unwrap_err();
        assert!(why.starts_with("no labels satisfy"), "{why}");
        let broken = link(|link| link.spec.target_cluster_name = "East!".into());
        assert!(of(&broken, CanaryMode::Gateway).is_err());
    }
}
