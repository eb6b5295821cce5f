//! The objects of a group, as the API server has them.

use std::collections::BTreeSet;

use kube::{
    ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use mirror_core::api::{labels as l, route::RouteKind};
use serde_json::{Value, json};

/// The group of Linkerd's policy.
const GROUP: &str = "policy.linkerd.io";
/// Name of what our objects have in common; a number follows.
const PREFIX: &str = "linkerd-gateway-exports-";
/// Name of the `NetworkAuthentication` with the networks that may use the gateway.
const NETWORKS: &str = "source-cluster";

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    /// The route with the hosts of a group.
    Route,
    /// Who may use the route.
    Policy,
    /// The identities of a group.
    Identities,
    /// The policy of `install`, which permits the whole gateway. With groups, it is deleted.
    Whole,
}

impl PolicyKind {
    pub const ALL: [Self; 4] = [Self::Route, Self::Policy, Self::Identities, Self::Whole];
    /// The kinds of a group, in the order in which its objects are deleted.
    pub const GROUP: [Self; 3] = [Self::Route, Self::Policy, Self::Identities];

    /// Its API.
    pub fn resource(self) -> ApiResource {
        let (kind, plural) = match self {
            Self::Route => return RouteKind::Policy.resource(),
            Self::Policy | Self::Whole => ("AuthorizationPolicy", "authorizationpolicies"),
            Self::Identities => ("MeshTLSAuthentication", "meshtlsauthentications"),
        };
        let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", kind);
        ApiResource::from_gvk_with_plural(&kind, plural)
    }

    /// Selectors of its objects: by labels, and by fields.
    pub fn selectors(self) -> (Option<String>, Option<String>) {
        match self {
            Self::Whole => (None, Some(format!("metadata.name={}", l::GATEWAY_SERVER))),
            _ => (
                Some(format!("{}={}", l::COMPONENT, l::GATEWAY_EXPORTS)),
                None,
            ),
        }
    }
}

/// A write.
#[derive(Debug, PartialEq)]
pub enum PolicyWrite {
    /// Creates this object.
    Create(PolicyKind, Value),
    /// Gives the object of this name this spec.
    Replace(PolicyKind, String, Value),
    /// Deletes the object of this name.
    Delete(PolicyKind, String),
}

/// The name of an object.
pub fn name(kind: PolicyKind, number: u32) -> String {
    match kind {
        PolicyKind::Whole => l::GATEWAY_SERVER.to_owned(),
        _ => format!("{PREFIX}{number}"),
    }
}

/// The number of an object; `None` if it is not ours.
pub fn number(kind: PolicyKind, object: &DynamicObject) -> Option<u32> {
    if kind == PolicyKind::Whole {
        return (object.name_any() == l::GATEWAY_SERVER).then_some(0);
    }
    let is_ours = object.annotations().get(l::MANAGED_BY).map(String::as_str) == Some(l::MANAGER);
    let number = object.name_any().strip_prefix(PREFIX)?.parse().ok();
    number.filter(|number| is_ours && object.name_any() == name(kind, *number))
}

/// The object with this spec.
pub fn object(namespace: &str, kind: PolicyKind, number: u32, spec: &Value) -> Value {
    let resource = kind.resource();
    json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "namespace": namespace,
            "name": name(kind, number),
            "labels": { l::EXTENSION: l::EXTENSION_NAME, l::COMPONENT: l::GATEWAY_EXPORTS },
            "annotations": { l::MANAGED_BY: l::MANAGER, l::INSTALLATION: namespace },
        },
        "spec": spec,
    })
}

/// The specs of a group, in the order in which they are created: a route without its policy refuses everybody.
pub fn specs(
    number: u32,
    identities: &BTreeSet<String>,
    hosts: &BTreeSet<String>,
) -> [(PolicyKind, Value); 3] {
    [
        (PolicyKind::Identities, json!({ "identities": identities })),
        (PolicyKind::Policy, policy_spec(number)),
        (PolicyKind::Route, route_spec(hosts)),
    ]
}

/// Who may use the route of a group: its identities, from the networks that may use the gateway.
pub fn policy_spec(number: u32) -> Value {
    let reference = |kind: &str, name: &str| json!({ "group": GROUP, "kind": kind, "name": name });
    let own = name(PolicyKind::Route, number);
    json!({
        "targetRef": reference("HTTPRoute", &own),
        "requiredAuthenticationRefs": [
            reference("MeshTLSAuthentication", &own),
            reference("NetworkAuthentication", NETWORKS),
        ],
    })
}

/// A route with these hosts; without hosts, one with all.
pub fn route_spec(hosts: &BTreeSet<String>) -> Value {
    let mut spec = json!({
        "parentRefs": [{ "group": GROUP, "kind": "Server", "name": l::GATEWAY_SERVER }],
        "rules": [{ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }] }],
    });
    if !hosts.is_empty() {
        spec["hostnames"] = json!(hosts);
    }
    spec
}

/// The hosts of a route.
pub fn hosts_of(spec: &Value) -> BTreeSet<String> {
    texts(&spec["hostnames"])
}

/// The identities of a group.
pub fn identities_of(spec: &Value) -> BTreeSet<String> {
    texts(&spec["identities"])
}

fn texts(list: &Value) -> BTreeSet<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}
