//! Plans: the writes that bring the local cluster from what is to what should be, and what to report of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{federated, gateway, key::Key, metadata::Dress, mirrors, wanted::Wanted, world::World};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
    map::Map,
    metadata::Metadata,
    routes::{Route, RouteKind},
};

/// What to do for one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Writes, in this order. Empty: what is, is what should be.
    pub writes: Vec<Write>,
    /// Remote Services whose absence the plan rests on. Before anything is written, each must be looked up
    /// in its cluster and found to be really not exported: a watch may lag, nothing is deleted on stale evidence.
    pub confirm: Vec<RemoteRef>,
    /// What to say about the remote Services of this key once the writes are done.
    pub report: Vec<Reported>,
}

/// A Service of a target cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteRef {
    /// Target cluster.
    pub cluster: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub service: String,
}

/// What became of one remote Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The Service.
    pub remote: RemoteRef,
    /// Membership in a federated Service, or mirroring.
    pub federated: bool,
    /// What became of it.
    pub report: Report,
}

/// What became of one remote Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It does not take part; nothing stands for it.
    Absent,
    /// It is mirrored, or a member.
    Mirrored {
        /// Name of the local Service.
        local: String,
        /// Something to know about it that does not stop it.
        note: Option<Problem>,
    },
    /// It should take part and does not.
    Failed(Problem),
    /// Not enough is known yet; what was said before stands.
    Unknown,
}

/// Why something is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One word.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

/// Reasons in a Link's status. The first four are Linkerd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The Service is of a kind that cannot be mirrored.
    InvalidService,
    /// Something failed; it is tried again.
    Error,
    /// The namespace does not exist and may not be created.
    MissingNamespace,
    /// Mirrored.
    Mirrored,
    /// An object that is not ours has the name.
    NameConflict,
    /// The name would have more than 63 characters.
    NameTooLong,
    /// A member's ports differ from those of the federated Service.
    PortConflict,
    /// The Link has more Services than its limit, or more namespaces were created for it.
    LimitExceeded,
    /// The namespace is protected, or the Link does not allow it.
    NamespaceNotAllowed,
    /// The Link does not let its cluster join this federated Service.
    FederationNotAllowed,
    /// The cluster is drained.
    Drained,
    /// The local cluster has no `ClusterIP` left.
    NoClusterIp,
    /// The federated Service is made of gateways, and the Link has none.
    NoGateway,
    /// The preference of a federated Service cannot be read, or names a cluster that no Link names.
    InvalidPreference,
    /// Routes are not written, or the API server has no such kind.
    NoRoutes,
    /// Somebody else's route decides where the requests to a federated Service go.
    RouteConflict,
}

impl Reason {
    /// As in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidService => "InvalidService",
            Self::Error => "Error",
            Self::MissingNamespace => "MissingNamespace",
            Self::Mirrored => "Mirrored",
            Self::NameConflict => "NameConflict",
            Self::NameTooLong => "NameTooLong",
            Self::PortConflict => "PortConflict",
            Self::LimitExceeded => "LimitExceeded",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::FederationNotAllowed => "FederationNotAllowed",
            Self::Drained => "Drained",
            Self::NoClusterIp => "NoClusterIP",
            Self::NoGateway => "NoGateway",
            Self::InvalidPreference => "InvalidPreference",
            Self::NoRoutes => "NoRoutes",
            Self::RouteConflict => "RouteConflict",
        }
    }
}

impl Problem {
    /// A problem.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// The three ways to write, and one to take leave of the original's Endpoints.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// POST. An object that names no owner UID gets that of the Service written before it.
    Create(Object),
    /// JSON merge patch, with the resource version it was computed from.
    Patch(Patch),
    /// DELETE, with the UID it was decided on.
    Delete {
        /// Kind.
        kind: Kind,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// UID.
        uid: String,
    },
    /// Deletes the v1 Endpoints that Linkerd's own service mirror made for a Service, if its labels say so.
    RetireEndpoints {
        /// Namespace.
        namespace: String,
        /// Name of Service and Endpoints.
        name: String,
        /// Value of the label [`l::CLUSTER_NAME`] that they must carry.
        cluster: String,
    },
}

/// A JSON merge patch (RFC 7386).
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Kind.
    pub kind: Kind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The body, with `metadata.resourceVersion` and `metadata.uid`.
    pub body: Value,
    /// Whether traffic depends on it. If not, it changes labels and annotations that other tools may read.
    pub urgent: bool,
}

/// Kinds that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Namespace.
    Namespace,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// A route.
    Route(RouteKind),
}

impl Kind {
    /// As in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Route(route) => route.kind(),
        }
    }
}

/// An object to create.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A namespace with these labels.
    Namespace {
        /// Name.
        name: String,
        /// Labels.
        labels: Map,
    },
    /// A Service.
    Service(Box<Service>),
    /// An EndpointSlice.
    EndpointSlice(Box<EndpointSlice>),
    /// A route.
    Route(Box<Route>),
}

impl Object {
    /// Kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Namespace { .. } => Kind::Namespace,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::Route(route) => Kind::Route(route.kind),
        }
    }
}

impl Write {
    /// `create`, `patch` or `delete`; the object's kind, namespace and name.
    pub fn describe(&self) -> (&'static str, &'static str, &str, &str) {
        fn of(metadata: &Metadata) -> (&str, &str) {
            (metadata.namespace(), metadata.name())
        }
        match self {
            Self::Create(object) => {
                let (namespace, name) = match object {
                    Object::Namespace { name, .. } => ("", name.as_str()),
                    Object::Service(service) => of(&service.metadata),
                    Object::EndpointSlice(slice) => of(&slice.metadata),
                    Object::Route(route) => of(&route.metadata),
                };
                ("create", object.kind().as_str(), namespace, name)
            }
            Self::Patch(patch) => ("patch", patch.kind.as_str(), &patch.namespace, &patch.name),
            Self::Delete {
                kind,
                namespace,
                name,
                ..
            } => ("delete", kind.as_str(), namespace, name),
            Self::RetireEndpoints {
                namespace, name, ..
            } => ("delete", "Endpoints", namespace, name),
        }
    }

    pub(super) fn delete_service(service: &Service) -> Self {
        Self::delete(Kind::Service, &service.metadata)
    }

    pub(super) fn delete_slice(slice: &EndpointSlice) -> Self {
        Self::delete(Kind::EndpointSlice, &slice.metadata)
    }

    pub(super) fn delete(kind: Kind, metadata: &Metadata) -> Self {
        Self::Delete {
            kind,
            namespace: metadata.namespace().to_owned(),
            name: metadata.name().to_owned(),
            uid: metadata.uid.as_deref().unwrap_or_default().to_owned(),
        }
    }
}

impl Plan {
    /// Whether traffic depends on any of its writes.
    pub fn is_urgent(&self) -> bool {
        let cosmetic = |write: &Write| matches!(write, Write::Patch(patch) if !patch.urgent);
        !self.writes.iter().all(cosmetic)
    }

    /// The namespace that it creates, if it does, and its labels.
    pub fn creates_namespace(&self) -> Option<(&str, &Map)> {
        self.writes.iter().find_map(|write| match write {
            Write::Create(Object::Namespace { name, labels }) => Some((name.as_str(), labels)),
            _ => None,
        })
    }

    /// Whether it creates a Service that gets a `ClusterIP`.
    pub fn needs_cluster_ip(&self) -> bool {
        self.writes
            .iter()
            .any(|write| gets_address(write).is_some())
    }

    /// What its writes cost the API server, in writes of the usual kind. One that gives out a `ClusterIP` counts as five:
    /// the address is an object of its own, and Kubernetes' controllers look at each new Service.
    pub fn cost(&self) -> usize {
        let created = self.writes.iter().filter_map(gets_address).count();
        self.writes.len() + 4 * created
    }

    /// The same without such Services, and without what belongs to them.
    #[must_use]
    pub fn without_cluster_ips(mut self) -> Self {
        let left: Vec<String> = self.writes.iter().filter_map(gets_address).collect();
        let belongs = |metadata: &Metadata| {
            let mut owners = metadata.owner_references.iter();
            owners
                .any(|owner| owner.uid.is_empty() && left.iter().any(|name| **name == *owner.name))
        };
        self.writes.retain(|write| match write {
            Write::Create(Object::EndpointSlice(slice)) => !belongs(&slice.metadata),
            Write::Create(Object::Route(route)) => !belongs(&route.metadata),
            write => gets_address(write).is_none(),
        });
        self
    }

    /// Nothing to write, and one thing to say.
    pub(super) fn only(remote: RemoteRef, federated: bool, report: Report) -> Self {
        Self {
            report: vec![Reported {
                remote,
                federated,
                report,
            }],
            ..Self::default()
        }
    }

    /// Adds one thing to say.
    #[must_use]
    pub(super) fn saying(mut self, remote: RemoteRef, federated: bool, report: Report) -> Self {
        self.report.push(Reported {
            remote,
            federated,
            report,
        });
        self
    }
}

/// The name of the Service that a write creates, if it gets a `ClusterIP`.
fn gets_address(write: &Write) -> Option<String> {
    match write {
        Write::Create(Object::Service(service)) if !service.is_headless() => {
            Some(service.metadata.name().to_owned())
        }
        _ => None,
    }
}

/// What to do for a key, given all that is known. Total: for every world and key there is a plan.
///
/// Planning again in the world that the plan brought about gives a plan without writes.
pub fn plan(world: &World, key: &Key) -> Plan {
    if !world.is_complete() {
        return Plan::default();
    }
    match key {
        Key::Mirror {
            cluster,
            namespace,
            service,
        } => mirrors::plan(world, cluster, namespace, service),
        Key::Federated { namespace, service } => federated::plan(world, namespace, service),
        Key::Probe { link } => gateway::plan(world, link),
    }
}

/// The patch of metadata that makes labels and annotations exactly the desired ones.
///
/// `None` if nothing has to be written: all desired keys are there with their values, and the hash says
/// that nothing else was ever desired. Keys that others have added are then no reason to write, unless they
/// are of those that say what an object is: Linkerd would read them.
pub(super) fn patch_metadata(desired: &Dress<'_>, actual: &Metadata) -> Option<Value> {
    let hash = desired.annotations.get(l::DESIRED_STATE);
    let unchanged = actual.annotations.get(l::DESIRED_STATE) == hash
        && desired.labels.holds(&actual.labels)
        && desired.annotations.holds(&actual.annotations);
    (!unchanged).then(|| forced_metadata(desired, actual))
}

/// The patch of metadata, needed or not: something else has to be written anyway.
pub(super) fn forced_metadata(desired: &Dress<'_>, actual: &Metadata) -> Value {
    json!({
        "labels": exactly(&desired.labels, &actual.labels),
        "annotations": exactly(&desired.annotations, &actual.annotations),
    })
}

fn exactly<'a>(desired: &'a Wanted<'_>, actual: &'a Map) -> BTreeMap<&'a str, Option<&'a str>> {
    let stale = actual.iter().map(|(key, _)| (key, None));
    let wanted = desired.iter().map(|(key, value)| (key, Some(value)));
    stale.chain(wanted).collect()
}

/// Wraps a body into a patch that applies only to the state that it was computed from.
pub(super) fn guarded(kind: Kind, actual: &Metadata, mut metadata: Value, rest: Value) -> Write {
    let urgent = rest != json!({}) || concerns_traffic(&metadata, actual);
    metadata["resourceVersion"] = json!(actual.resource_version);
    metadata["uid"] = json!(actual.uid);
    let mut body = rest;
    body["metadata"] = metadata;
    Write::Patch(Patch {
        kind,
        namespace: actual.namespace().to_owned(),
        name: actual.name().to_owned(),
        body,
        urgent,
    })
}

/// Whether a change of metadata alone concerns traffic: it changes what says what an object is, or is made so that
/// Linkerd reads the object once more.
fn concerns_traffic(metadata: &Value, actual: &Metadata) -> bool {
    let changes = |field: &str, known: &Map, of: fn(&str) -> bool| {
        let wanted = metadata[field].as_object().into_iter().flatten();
        wanted
            .filter(|(key, _)| of(key))
            .any(|(key, value)| value.as_str() != known.get(key))
    };
    let any = |of| {
        changes("labels", &actual.labels, of) || changes("annotations", &actual.annotations, of)
    };
    any(says_what_it_is) || !any(is_copied)
}

fn says_what_it_is(key: &str) -> bool {
    let ours = [l::MIRROR_PREFIX, l::MULTICLUSTER_PREFIX];
    let of_no_account = [l::REMOTE_RESOURCE_VERSION, l::DESIRED_STATE];
    let ours = ours.iter().any(|prefix| key.starts_with(prefix)) && !of_no_account.contains(&key);
    ours || [l::OPAQUE_PORTS, l::SLICE_SERVICE, l::SLICE_MANAGED_BY].contains(&key)
}

fn is_copied(key: &str) -> bool {
    !says_what_it_is(key) && ![l::REMOTE_RESOURCE_VERSION, l::DESIRED_STATE].contains(&key)
}

#[cfg(test)]
mod tests;
