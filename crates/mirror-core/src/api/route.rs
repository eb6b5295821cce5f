//! Routes of the Gateway API and Linkerd's own `HTTPRoute`: the fields that tell where requests to a Service go.
//!
//! Source: Gateway API, "GAMMA": a route whose parent is a Service applies to the requests to that Service.

use std::collections::BTreeMap;

use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    interned_str::InternedStr,
    metadata::Metadata,
    null_is_default,
    wire::{StoredObject, Subset, Wire},
};

/// Group of the Gateway API.
pub const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// How Linkerd's policy controller signs what it writes into the status of a route.
const POLICY_CONTROLLER: &str = "linkerd.io/policy-controller";

/// Kinds of routes that Linkerd's proxies follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKind {
    /// `HTTPRoute` of the Gateway API.
    #[default]
    Http,
    /// `TCPRoute` of the Gateway API.
    Tcp,
    /// `GRPCRoute` of the Gateway API.
    Grpc,
    /// Linkerd's own `HTTPRoute`.
    Policy,
    /// `TLSRoute` of the Gateway API.
    Tls,
    /// Linkerd's `ServiceProfile`. Proxies prefer it to routes.
    Profile,
}

impl RouteKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Http,
        Self::Tcp,
        Self::Grpc,
        Self::Policy,
        Self::Tls,
        Self::Profile,
    ];

    /// The API of this kind, for kube, in the version that is written.
    pub fn resource(self) -> ApiResource {
        self.resource_in(self.version())
    }

    /// The API of this kind, for kube, in one of its versions.
    pub fn resource_in(self, version: &str) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group(), version, self.kind());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }

    /// Whether the controller writes routes of this kind. Others only matter if somebody else writes them.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Http | Self::Tcp)
    }

    /// Group, preferred version, kind and plural name. The version is the oldest that is widely served, and that Linkerd
    /// reads.
    const fn names(self) -> [&'static str; 4] {
        match self {
            Self::Http => [GATEWAY_API, "v1", "HTTPRoute", "httproutes"],
            Self::Tcp => [GATEWAY_API, "v1alpha2", "TCPRoute", "tcproutes"],
            Self::Grpc => [GATEWAY_API, "v1", "GRPCRoute", "grpcroutes"],
            Self::Policy => ["policy.linkerd.io", "v1beta3", "HTTPRoute", "httproutes"],
            Self::Tls => [GATEWAY_API, "v1", "TLSRoute", "tlsroutes"],
            Self::Profile => [
                "linkerd.io",
                "v1alpha2",
                "ServiceProfile",
                "serviceprofiles",
            ],
        }
    }

    /// The API's group.
    pub const fn group(self) -> &'static str {
        self.names()[0]
    }

    /// The API's version.
    pub const fn version(self) -> &'static str {
        self.names()[1]
    }

    /// The `kind` in manifests.
    pub const fn kind(self) -> &'static str {
        self.names()[2]
    }

    /// The versions that can be read, the preferred one first. The fields that are read are the same in all of them.
    pub fn versions(self) -> impl Iterator<Item = &'static str> {
        let others: &[&str] = match self {
            // Gateway API 1.6 serves no alpha version any more, and before 1.5 there is no other.
            Self::Tls => &["v1alpha3", "v1alpha2"],
            // The alpha version is preferred as long as both are served, because Linkerd reads it.
            Self::Tcp => &["v1"],
            _ => &[],
        };
        [self.version()].into_iter().chain(others.iter().copied())
    }

    /// The plural name in the API's paths and in roles.
    pub const fn plural(self) -> &'static str {
        self.names()[3]
    }
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RouteObject", into = "RouteObject")]
pub struct Route {
    /// Metadata.
    pub metadata: Metadata,
    /// Specification.
    pub spec: RouteSpec,
    /// Its kind.
    pub kind: RouteKind,
    /// The version of the API in which it was read, or is to be written; empty for the preferred one.
    #[serde(skip)]
    pub version: &'static str,
    /// Whether its status says that Linkerd has accepted it.
    pub is_accepted: bool,
}

/// Specification of a [`Route`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpec {
    /// What it applies to.
    #[serde(default, deserialize_with = "null_is_default")]
    pub parent_refs: Box<[ParentRef]>,
    /// Where requests go.
    #[serde(default, deserialize_with = "null_is_default")]
    pub rules: Box<[RouteRule]>,
    /// All other fields, such as host names, and those of later versions of the API.
    #[serde(flatten)]
    pub rest: BTreeMap<Box<str>, Value>,
}

/// What a route applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRef {
    /// API group; empty for Kubernetes' core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<InternedStr>,
    /// Kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<InternedStr>,
    /// Namespace, if it is not the route's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// Name.
    pub name: Box<str>,
    /// Port of the Service; absent for all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// All other fields, such as the name of a section.
    #[serde(flatten)]
    pub rest: BTreeMap<Box<str>, Value>,
}

/// A rule of a [`Route`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// Where matching requests go.
    #[serde(default, deserialize_with = "null_is_default")]
    pub backend_refs: Box<[BackendRef]>,
    /// All other fields, such as matches, filters and timeouts.
    #[serde(flatten)]
    pub rest: BTreeMap<Box<str>, Value>,
}

/// Where requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendRef {
    /// API group; empty for Kubernetes' core group.
    #[serde(default)]
    pub group: InternedStr,
    /// Kind.
    #[serde(default)]
    pub kind: InternedStr,
    /// Name.
    pub name: Box<str>,
    /// Port of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Its weight among the backends that are ready, up to 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// All other fields, such as another namespace, and filters.
    #[serde(flatten)]
    pub rest: BTreeMap<Box<str>, Value>,
}

impl ParentRef {
    /// The name of the Service that it refers to, if that is in this namespace. A route for a Service of another
    /// namespace applies only to requests from the route's own namespace.
    pub fn service(&self, namespace: &str) -> Option<&str> {
        let group = self.group.as_deref().unwrap_or(GATEWAY_API);
        let is_service = self.kind.as_deref() == Some("Service") && ["", "core"].contains(&group);
        let here = self.namespace.as_deref().is_none_or(|own| own == namespace);
        (is_service && here).then_some(&*self.name)
    }
}

impl Route {
    /// The Services of its own namespace that it applies to, each with the port; `None` for all ports.
    pub fn services(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        let namespace = self.metadata.namespace();
        let parents = self.spec.parent_refs.iter();
        parents.filter_map(move |parent| Some((parent.service(namespace)?, parent.port)))
    }

    /// Whether Linkerd does not follow it: it is in a version that Linkerd up to edge-26.8.3 does not read, and its status
    /// does not say that a later one has accepted it.
    pub fn is_unread(&self) -> bool {
        self.kind == RouteKind::Tcp && self.version == "v1" && !self.is_accepted
    }

    fn backend_refs(&self) -> impl Iterator<Item = &BackendRef> {
        self.spec.rules.iter().flat_map(|rule| &rule.backend_refs)
    }

    /// The Services of its own namespace that it sends requests to.
    pub fn backends(&self) -> impl Iterator<Item = &str> {
        self.backend_refs().map(|backend| &*backend.name)
    }

    /// A `ServiceProfile` as a route to the Service of its own namespace that its name says:
    /// `<service>.<namespace>.svc.<domain>`. Proxies follow it in place of routes if it has routes or overrides of the
    /// destination; otherwise it applies to nothing.
    fn of_profile(mut self) -> Self {
        let has_any = |field: &&str| {
            let list = self.spec.rest.get(*field).and_then(Value::as_array);
            list.is_some_and(|list| !list.is_empty())
        };
        let is_followed = ["routes", "dstOverrides"].iter().any(has_any);
        let mut parts = self.metadata.name().splitn(4, '.');
        let service = parts.next().unwrap_or_default();
        let is_here = parts.next() == Some(self.metadata.namespace());
        let applies = is_followed && is_here && parts.next() == Some("svc");
        let parent = ParentRef {
            group: Some("".into()),
            kind: Some("Service".into()),
            name: service.into(),
            ..ParentRef::default()
        };
        self.spec = RouteSpec {
            parent_refs: applies.then_some(parent).into_iter().collect(),
            ..RouteSpec::default()
        };
        self
    }

    /// Drops the rules, for a route of which only the existence matters.
    #[must_use]
    pub fn without_rules(mut self) -> Self {
        self.spec.rules = Box::default();
        self.spec.rest.clear();
        self
    }
}

impl StoredObject for Route {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn weight(&self) -> usize {
        let parents = self.spec.parent_refs.iter();
        let parents = parents.map(|parent| size_of::<ParentRef>() + parent.name.len());
        let backends = self
            .backend_refs()
            .map(|backend| size_of::<BackendRef>() + backend.name.len());
        size_of::<Self>()
            + self.metadata.weight()
            + parents.sum::<usize>()
            + backends.sum::<usize>()
    }
}

/// A route in the API: its kind is in the object, as in all custom resources.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RouteObject {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: RouteSpec,
    #[serde(default, skip_serializing)]
    status: RouteStatus,
}

/// Status of a route, as far as it is read.
#[derive(Default, Deserialize)]
struct RouteStatus {
    #[serde(default)]
    parents: Vec<RouteParentStatus>,
}

/// What a controller says of a route and one of its parents.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RouteParentStatus {
    #[serde(default)]
    controller_name: String,
    #[serde(default)]
    conditions: Vec<RouteCondition>,
}

#[derive(Deserialize)]
struct RouteCondition {
    r#type: String,
    status: String,
}

impl RouteStatus {
    fn is_accepted(&self) -> bool {
        let own = |parent: &&RouteParentStatus| parent.controller_name == POLICY_CONTROLLER;
        let mut conditions = self
            .parents
            .iter()
            .filter(own)
            .flat_map(|own| &own.conditions);
        conditions.any(|condition| condition.r#type == "Accepted" && condition.status == "True")
    }
}

impl From<RouteObject> for Route {
    fn from(object: RouteObject) -> Self {
        let (group, version) = object.api_version.split_once('/').unwrap_or_default();
        let mut kinds = RouteKind::ALL.into_iter();
        let kind = kinds.find(|known| known.kind() == object.kind && known.group() == group);
        let route = Self {
            metadata: object.metadata,
            spec: object.spec,
            kind: kind.unwrap_or_default(),
            version: kind
                .and_then(|kind| kind.versions().find(|known| *known == version))
                .unwrap_or_default(),
            is_accepted: object.status.is_accepted(),
        };
        match route.kind {
            RouteKind::Profile => route.of_profile(),
            _ => route,
        }
    }
}

impl From<Route> for RouteObject {
    fn from(route: Route) -> Self {
        let version = match route.version {
            "" => route.kind.version(),
            version => version,
        };
        Self {
            api_version: route.kind.resource_in(version).api_version,
            kind: route.kind.kind().to_owned(),
            metadata: route.metadata,
            spec: route.spec,
            status: RouteStatus::default(),
        }
    }
}

impl Subset for Route {
    type Kind = DynamicObject;
}

impl From<Wire<Self>> for Route {
    fn from(wire: Wire<Self>) -> Self {
        wire.object
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn route_keeps_all_fields_and_is_written_with_its_kind() {
        let sent = json!({
            "apiVersion": "gateway.networking.k8s.io/v1alpha2", "kind": "TCPRoute",
            "metadata": { "name": "db", "namespace": "shop" },
            "spec": {
                "parentRefs": [{
                    "group": "", "kind": "Service", "name": "db-federated", "port": 5432, "sectionName": "db",
                }],
                "rules": [{
                    "backendRefs": [{ "group": "", "kind": "Service", "name": "db", "port": 5432, "weight": 3 }],
                    "timeouts": { "request": "1s" },
                }],
                "hostnames": ["a.example"],
            },
        });
        let wire: Wire<Route> = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(json!(wire), sent);
        let route = Route::from(wire);
        assert_eq!(route.kind, RouteKind::Tcp);
        assert_eq!(
            route.services().collect::<Vec<_>>(),
            [("db-federated", Some(5432))]
        );
        assert_eq!(route.backends().collect::<Vec<_>>(), ["db"]);
        assert_eq!(route.without_rules().backends().count(), 0);
    }

    #[test]
    fn route_in_a_version_that_linkerd_does_not_read_counts_once_linkerd_accepted_it() {
        let status = |controller: &str, accepted: &str| {
            let condition = json!({ "type": "Accepted", "status": accepted });
            json!({ "parents": [{ "controllerName": controller, "conditions": [condition] }] })
        };
        for (api, kind, status, expected) in [
            (
                "gateway.networking.k8s.io/v1",
                "TCPRoute",
                Value::Null,
                true,
            ),
            (
                "gateway.networking.k8s.io/v1",
                "TCPRoute",
                status("other.example/gateway", "True"),
                true,
            ),
            (
                "gateway.networking.k8s.io/v1",
                "TCPRoute",
                status(POLICY_CONTROLLER, "False"),
                true,
            ),
            (
                "gateway.networking.k8s.io/v1",
                "TCPRoute",
                status(POLICY_CONTROLLER, "True"),
                false,
            ),
            (
                "gateway.networking.k8s.io/v1alpha2",
                "TCPRoute",
                Value::Null,
                false,
            ),
            (
                "gateway.networking.k8s.io/v1",
                "HTTPRoute",
                Value::Null,
                false,
            ),
        ] {
            let mut sent = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": "a" } });
            if !status.is_null() {
                sent["status"] = status;
            }
            let route: Wire<Route> = serde_json::from_value(sent.clone()).unwrap();
            let route = Route::from(route);
            assert_eq!(route.is_unread(), expected, "{sent}");
            // It is written in the version in which it was read.
            assert_eq!(json!(route)["apiVersion"], api);
        }
    }

    #[test]
    fn service_profile_applies_to_the_service_of_its_name_if_proxies_follow_it() {
        let services = |name: &str, spec: Value| {
            let metadata = json!({ "name": name, "namespace": "shop" });
            let sent = json!({
                "apiVersion": "linkerd.io/v1alpha2", "kind": "ServiceProfile", "metadata": metadata, "spec": spec,
            });
            let wire: Wire<Route> = serde_json::from_value(sent).unwrap();
            let route = Route::from(wire);
            assert_eq!(route.kind, RouteKind::Profile);
            assert!(route.spec.rest.is_empty());
            let services = route.services();
            services
                .map(|(name, port)| (name.to_owned(), port))
                .collect::<Vec<_>>()
        };
        let name = "web-federated.shop.svc.cluster.local";
        let routes = json!({ "routes": [{ "name": "all", "condition": { "pathRegex": ".*" } }] });
        let overrides = json!({ "dstOverrides": [{ "authority": "a.b", "weight": "1" }] });
        for followed in [routes.clone(), overrides] {
            assert_eq!(
                services(name, followed),
                [("web-federated".to_owned(), None)]
            );
        }
        for (name, spec) in [
            // Opaque ports, or a budget for retries, say nothing about where requests go.
            (
                name,
                json!({ "opaquePorts": ["80"], "routes": [], "dstOverrides": null }),
            ),
            (name, Value::Null),
            // Of another namespace: only requests from here follow it.
            ("web-federated.other.svc.cluster.local", routes.clone()),
            ("web-federated", routes.clone()),
            ("example.com", routes.clone()),
        ] {
            let spec = if spec.is_null() { json!({}) } else { spec };
            assert_eq!(services(name, spec), [], "{name}");
        }
    }

    #[test]
    fn only_services_of_the_routes_own_namespace_are_parents() {
        let parent = |json: Value| -> ParentRef { serde_json::from_value(json).unwrap() };
        for (json, expected) in [
            (
                json!({ "group": "core", "kind": "Service", "name": "a" }),
                Some("a"),
            ),
            (
                json!({ "group": "", "kind": "Service", "name": "a", "namespace": "shop" }),
                Some("a"),
            ),
            (
                json!({ "group": "", "kind": "Service", "name": "a", "namespace": "other" }),
                None,
            ),
            (json!({ "name": "a" }), None),
            (json!({ "kind": "Service", "name": "a" }), None),
        ] {
            assert_eq!(parent(json.clone()).service("shop"), expected, "{json}");
        }
    }
}
