//! The routes of a federated Service whose members prefer a cluster: one for each port.
//!
//! The Gateway API lets a route name the Service that it belongs to as one of its backends. So a route of ours sends
//! nearly all requests to the preferred cluster, and the rest to the federated Service itself. Proxies choose by weight
//! among the backends that have a ready endpoint. Once the preferred cluster has none, they use all members. The
//! federated Service needs a weight above 0, because a backend with weight 0 is never chosen.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    failover::Preferred,
    members::{Members, SourceFields},
};
use crate::{
    api::{
        k8s::ServicePort,
        labels as l,
        metadata::{Metadata, OwnerReference},
        preference::{ClusterRef, Preference},
        route::{BackendRef, ParentRef, Route, RouteKind, RouteRule, RouteSpec},
    },
    mirror::{
        metadata::{DesiredMetadata, Owner, desired::NOTHING_COPIED, owner, sign},
        names::mirror_name,
        outcome::{Problem, Reason},
        ownership::preferred::active_clusters,
        state::State,
        write::{self, Object, ObjectKind, Write},
    },
};

/// The largest weight that the Gateway API allows. One request in a million goes to any member.
const HEAVY: u32 = 1_000_000;

/// Ports that Linkerd treats as opaque by default: the default of its `proxy.opaquePorts`.
const OPAQUE: [i32; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];

/// A Service that a route may send requests to.
struct Backend<'a> {
    name: String,
    ports: &'a [ServicePort],
    weight: u32,
}

impl<'a> Members<'a> {
    /// Plans the writes for its routes. Returns what is wrong with them.
    pub(super) fn reconcile_routes(
        &self,
        fields: &SourceFields<'_>,
        preferred: &Preferred,
        writes: &mut Vec<Write>,
    ) -> Option<Problem> {
        let state = self.of.state;
        if !state.knows_routes() {
            return None; // the existing routes are not known yet
        }
        let mut problem = None;
        let mut desired = BTreeMap::new();
        for route in self.desired_routes(fields, preferred) {
            let kind = route.kind;
            if !state.has_kind(kind) {
                let message = format!("no cluster is preferred: {} is not installed", kind.kind());
                problem.get_or_insert_with(|| Problem::new(Reason::NoRoutes, message));
            } else if let Some(other) = self.conflict(route.port) {
                let message = format!(
                    "no cluster is preferred: {} {} already routes these requests",
                    other.kind.kind(),
                    other.metadata.name()
                );
                problem.get_or_insert_with(|| Problem::new(Reason::RouteConflict, message));
            } else {
                desired.insert((kind, route.name.clone()), route);
            }
        }
        let mut stale = Vec::new();
        for actual in state.own_routes(self.of.namespace, &self.of.name) {
            match desired.remove(&(actual.kind, actual.metadata.name().to_owned())) {
                Some(wanted) => {
                    if actual.is_unread() {
                        problem.get_or_insert_with(|| unread(actual));
                    }
                    writes.extend(wanted.patch(actual));
                }
                None => stale.push(Write::delete_route(actual)),
            }
        }
        let created = desired.into_values().map(DesiredRoute::route);
        writes.extend(created.map(|route| Write::Create(Object::Route(Box::new(route)))));
        writes.extend(stale);
        problem
    }

    /// A route of somebody else that applies to a port.
    fn conflict(&self, port: i32) -> Option<&'a Route> {
        let kinds = self.of.state.routes();
        let mut routes = kinds.flat_map(|routes| routes.in_namespace(self.of.namespace));
        routes.find_map(|route| {
            let mut services = route.services();
            let applies = services
                .any(|(name, own)| name == self.of.name && own.is_none_or(|own| own == port));
            (applies && !self.of.state.owns_route(route)).then_some(&**route)
        })
    }

    fn desired_routes(
        &self,
        fields: &SourceFields<'_>,
        preferred: &Preferred,
    ) -> Vec<DesiredRoute<'a>> {
        let Some(preference) = &preferred.preference else {
            return Vec::new();
        };
        if self.of.state.config.routes.is_none() {
            return Vec::new(); // routes are no longer enabled
        }
        let backends = self.backends(preference, preferred);
        let ports = fields.ports.iter().filter(|port| port.protocol() == "TCP");
        let routes = ports.map(|port| self.route(kind(port, fields.opaque), port.port, &backends));
        routes.collect()
    }

    /// The Services of the clusters that receive requests first.
    fn backends(&self, preference: &Preference, preferred: &Preferred) -> Vec<Backend<'a>> {
        let has_member = |cluster: &ClusterRef| preferred.members.contains(cluster);
        let active = active_clusters(preference, &preferred.failed_over, has_member);
        let weight = |cluster: &ClusterRef| preference.weight(cluster);
        let heaviest = active
            .iter()
            .map(|cluster| weight(cluster))
            .max()
            .unwrap_or(1);
        let backends = active
            .into_iter()
            .filter_map(|cluster| self.backend(cluster, HEAVY / heaviest * weight(cluster)));
        backends.collect()
    }

    /// The Service of the member of one cluster: its mirror, or the local member itself.
    fn backend(&self, cluster: &ClusterRef, weight: u32) -> Option<Backend<'a>> {
        let (name, service) = match cluster {
            ClusterRef::Local => (self.of.service.to_owned(), self.of.local?),
            ClusterRef::Linked(cluster) => {
                let name = mirror_name(self.of.service, cluster);
                let mirror = self.of.state.existing(self.of.namespace, &name)?;
                let is_its = owner(&mirror.metadata) == Owner::Mirror(cluster);
                (
                    name,
                    Some(mirror).filter(|mirror| is_its && !mirror.is_headless())?,
                )
            }
        };
        Some(Backend {
            name,
            ports: &service.spec.ports,
            weight,
        })
    }

    fn route(&self, kind: RouteKind, port: i32, backends: &[Backend<'a>]) -> DesiredRoute<'a> {
        let to = |name: &str, weight| BackendRef {
            kind: "Service".into(),
            name: name.into(),
            port: Some(port),
            weight: Some(weight),
            ..BackendRef::default()
        };
        let has_port = |backend: &&Backend<'_>| backend.ports.iter().any(|own| own.port == port);
        let preferred = backends.iter().filter(has_port);
        let preferred = preferred.map(|backend| to(&backend.name, backend.weight));
        let backend_refs = preferred.chain([to(&self.of.name, 1)]).collect();
        let rest = match kind {
            RouteKind::Http => [("matches".into(), every_path())].into(),
            _ => BTreeMap::new(),
        };
        let spec = RouteSpec {
            parent_refs: [ParentRef {
                group: Some("".into()),
                kind: Some("Service".into()),
                name: self.of.name.as_str().into(),
                port: Some(port),
                ..ParentRef::default()
            }]
            .into(),
            rules: [RouteRule { backend_refs, rest }].into(),
            rest: BTreeMap::new(),
        };
        let mut metadata = DesiredMetadata::default();
        metadata.labels.insert(l::MIRRORED_SERVICE, "true".into());
        sign(&mut metadata, &self.of.state.config.namespace, |feed| {
            feed(json!(spec).to_string().as_bytes());
        });
        metadata
            .annotations
            .insert(l::COPIED_KEYS, NOTHING_COPIED.into());
        DesiredRoute {
            kind,
            namespace: self.of.namespace,
            name: format!("{}-{port}", self.of.name),
            port,
            owner: (&self.of.name, self.of.uid().unwrap_or_default()),
            metadata,
            spec,
        }
    }
}

/// That Linkerd does not follow a route of ours, which is in the only version that the API server has.
fn unread(route: &Route) -> Problem {
    let (kind, name) = (route.kind.kind(), route.metadata.name());
    let version = route.kind.version();
    let message = format!(
        "no cluster is preferred: Linkerd has not accepted {kind} {name}, because it reads {kind} as {version}, which \
         the API server does not serve"
    );
    Problem::new(Reason::RouteNotAccepted, message)
}

/// The API server's default for an `HTTPRoute` without matches.
fn every_path() -> Value {
    json!([{ "path": { "type": "PathPrefix", "value": "/" } }])
}

/// The kind of routes that Linkerd's proxies follow for a port (`policy-controller/grpc/src/outbound.rs`). gRPC is HTTP to
/// an `HTTPRoute`, so no `GRPCRoute` is written.
fn kind(port: &ServicePort, opaque: Option<&str>) -> RouteKind {
    let protocol = port.app_protocol.as_deref().map(str::to_ascii_lowercase);
    match protocol.as_deref() {
        Some("http" | "kubernetes.io/h2c") => RouteKind::Http,
        Some(_) => RouteKind::Tcp,
        None if is_opaque(port.port, opaque) => RouteKind::Tcp,
        None => RouteKind::Http,
    }
}

/// Whether a port is opaque: as the annotation says, or by default. The annotation lists port numbers and ranges.
fn is_opaque(port: i32, annotation: Option<&str>) -> bool {
    let Some(annotation) = annotation else {
        return OPAQUE.contains(&port);
    };
    annotation.split(',').any(|item| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let number = |text: &str| text.trim().parse::<i32>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) => (first..=last).contains(&port),
            _ => false,
        }
    })
}

/// Deletes the routes of a federated Service that is gone. Kubernetes deletes those that still have their owner.
pub(crate) fn delete_ownerless(
    state: &State,
    namespace: &str,
    name: &str,
    writes: &mut Vec<Write>,
) {
    let routes = state.own_routes(namespace, name);
    let left = routes.filter(|route| route.metadata.owner_references.is_empty());
    writes.extend(left.map(Write::delete_route));
}

/// Deletes routes first: once their owner is deleted, Kubernetes deletes them too, and both deletions would race.
pub(crate) fn delete(state: &State, namespace: &str, name: &str, writes: &mut Vec<Write>) {
    let routes = state.own_routes(namespace, name);
    writes.extend(routes.map(Write::delete_route));
}

/// A route that should exist.
struct DesiredRoute<'a> {
    kind: RouteKind,
    namespace: &'a str,
    name: String,
    port: i32,
    /// Name and UID of the federated Service. The UID is empty if the Service does not exist yet; `apply` then fills it
    /// in from the response to the Service's creation.
    owner: (&'a str, &'a str),
    metadata: DesiredMetadata<'a>,
    spec: RouteSpec,
}

impl DesiredRoute<'_> {
    fn owners(&self) -> Box<[OwnerReference]> {
        let (name, uid) = self.owner;
        [OwnerReference::to_service(name, uid)].into()
    }

    fn route(self) -> Route {
        Route {
            metadata: Metadata {
                owner_references: self.owners(),
                ..self.metadata.object_metadata(self.namespace, &self.name)
            },
            spec: self.spec,
            kind: self.kind,
            ..Route::default()
        }
    }

    fn patch(&self, actual: &Route) -> Option<Write> {
        let rest = if actual.spec == self.spec {
            json!({})
        } else {
            let mut spec = json!(self.spec);
            for key in actual.spec.rest.keys() {
                spec[&**key] = Value::Null;
            }
            json!({ "spec": spec })
        };
        let kind = ObjectKind::Route(self.kind);
        let (service, owners) = (self.owner.0, self.owners());
        let actual = &actual.metadata;
        write::patch(kind, service, &self.metadata, Some(&owners), actual, rest)
    }
}

#[cfg(test)]
mod tests;
