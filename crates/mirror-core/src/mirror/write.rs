//! Writes: creations, patches and deletions, each with the state from which it was computed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::metadata::{
    DesiredMetadata,
    desired::{CopiedKeys, DesiredEntries},
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
    map::Map,
    metadata::{Metadata, OwnerReference},
    route::{Route, RouteKind},
};

/// A write: a creation, a patch, a deletion, or the deletion of the Endpoints of Linkerd's service mirror.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// POST. An object that names no owner UID gets that of the Service written before it.
    Create(Object),
    /// JSON merge patch, with the resource version from which it was computed.
    Patch(Patch),
    /// DELETE, with the UID of the object that was seen.
    Delete {
        /// Kind.
        kind: ObjectKind,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// UID.
        uid: String,
        /// Name of the Service that it belongs to, or is.
        service: String,
    },
    /// Deletes the v1 Endpoints that Linkerd's own service mirror created for a Service, if their labels say so.
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
    pub kind: ObjectKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Name of the Service that it belongs to, or is.
    pub service: String,
    /// The body, with `metadata.resourceVersion` and `metadata.uid`.
    pub body: Value,
    /// Whether traffic depends on it. If not, it changes only labels and annotations that other tools may read.
    pub urgent: bool,
}

/// Kinds that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `v1` Namespace.
    Namespace,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// A route.
    Route(RouteKind),
}

impl ObjectKind {
    /// The `kind` in manifests.
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
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Namespace { .. } => ObjectKind::Namespace,
            Self::Service(_) => ObjectKind::Service,
            Self::EndpointSlice(_) => ObjectKind::EndpointSlice,
            Self::Route(route) => ObjectKind::Route(route.kind),
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

    /// The Service that a write concerns: the one that is written, or that the object belongs to. `None` if all later
    /// writes of the plan depend on it, as on the creation of a namespace.
    ///
    /// The writes for one Service depend on each other, in their order. Those for different Services do not.
    pub fn service(&self) -> Option<&str> {
        match self {
            Self::Create(Object::Namespace { .. }) => None,
            Self::Create(Object::Service(service)) => Some(service.metadata.name()),
            Self::Create(Object::EndpointSlice(slice)) => Some(owner_of(&slice.metadata)),
            Self::Create(Object::Route(route)) => Some(owner_of(&route.metadata)),
            Self::Patch(Patch { service, .. }) | Self::Delete { service, .. } => Some(service),
            Self::RetireEndpoints { name, .. } => Some(name),
        }
    }

    pub(crate) fn delete_service(service: &Service) -> Self {
        let metadata = &service.metadata;
        Self::delete(ObjectKind::Service, metadata, metadata.name())
    }

    pub(crate) fn delete_slice(slice: &EndpointSlice) -> Self {
        let metadata = &slice.metadata;
        Self::delete(ObjectKind::EndpointSlice, metadata, owner_of(metadata))
    }

    pub(crate) fn delete_route(route: &Route) -> Self {
        let metadata = &route.metadata;
        Self::delete(ObjectKind::Route(route.kind), metadata, owner_of(metadata))
    }

    fn delete(kind: ObjectKind, metadata: &Metadata, service: &str) -> Self {
        Self::Delete {
            kind,
            namespace: metadata.namespace().to_owned(),
            name: metadata.name().to_owned(),
            uid: metadata.uid.as_deref().unwrap_or_default().to_owned(),
            service: service.to_owned(),
        }
    }
}

/// The Service that owns an object; the object itself if it has no owner.
fn owner_of(metadata: &Metadata) -> &str {
    match metadata.owner_references.first() {
        Some(owner) => &owner.name,
        None => metadata.name(),
    }
}

/// The patch of metadata that sets all desired labels and annotations, and removes those that we wrote before.
///
/// `None` if nothing has to be written: all desired keys have their values, and the hash says that the object was last
/// written with this desired state. Keys that others have added are no reason to write, unless they say what an object is:
/// these are removed, because Linkerd would read them. If annotations are too large to be known, only the hash says
/// whether they are as desired.
fn patch_metadata(desired: &DesiredMetadata<'_>, actual: &Metadata) -> Option<Value> {
    let has_annotations = || {
        let wanted = &desired.annotations;
        if actual.is_truncated {
            let known = wanted.only(|key| l::READ.contains(&key));
            known.holds(&actual.annotations)
        } else {
            wanted.holds(&actual.annotations)
        }
    };
    let unchanged = is_last_written(desired, actual)
        && desired.labels.holds(&actual.labels)
        && has_annotations();
    (!unchanged).then(|| forced_metadata(desired, actual))
}

/// As [`patch_metadata`], but always a patch, for when something else has to be written anyway.
///
/// Of an object without a record of copied keys, keys of others cannot be told from those that we wrote, unless it was
/// last written with this desired state. Then all keys are removed that are not desired.
pub(crate) fn forced_metadata(desired: &DesiredMetadata<'_>, actual: &Metadata) -> Value {
    let wanted = CopiedKeys::desired(&desired.annotations);
    let same = wanted.filter(|_| is_last_written(desired, actual));
    let written = CopiedKeys::read(&actual.annotations).or(same);
    let is_ours = l::is_of_service_mirrors;
    let labels = actual.labels.iter().map(|(key, _)| key);
    let labels =
        labels.filter(|key| is_ours(key) || written.is_none_or(|written| written.has_label(key)));
    let annotations = actual.annotations.iter().map(|(key, _)| key);
    let annotations = annotations
        .filter(|key| is_ours(key) || written.is_none_or(|written| written.has_annotation(key)));
    // Annotations that are too large to be known may still be there.
    let unknown = written.filter(|_| actual.is_truncated);
    let unknown = unknown.into_iter().flat_map(CopiedKeys::annotations);
    json!({
        "labels": changes(labels, &desired.labels),
        "annotations": changes(annotations.chain(unknown), &desired.annotations),
    })
}

/// Whether the hash says that the object was last written with this desired state.
fn is_last_written(desired: &DesiredMetadata<'_>, actual: &Metadata) -> bool {
    actual.annotations.get(l::DESIRED_STATE) == desired.annotations.get(l::DESIRED_STATE)
}

/// Removes the stale keys and sets the desired ones.
fn changes<'a>(
    stale: impl Iterator<Item = &'a str>,
    desired: &'a DesiredEntries<'_>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let stale = stale.map(|key| (key, None));
    let wanted = desired.iter().map(|(key, value)| (key, Some(value)));
    stale.chain(wanted).collect()
}

/// The patch that turns an object into its desired state; `None` if nothing differs.
///
/// `service`: the Service that the object belongs to, or is. `owners` of the object are restored; `None` leaves them as
/// they are. `rest` is a merge patch of what differs besides metadata, or an empty object.
pub(crate) fn patch(
    kind: ObjectKind,
    service: &str,
    desired: &DesiredMetadata<'_>,
    owners: Option<&[OwnerReference]>,
    actual: &Metadata,
    rest: Value,
) -> Option<Write> {
    let owners = owners.filter(|owners| **owners != *actual.owner_references);
    let metadata = patch_metadata(desired, actual);
    if metadata.is_none() && owners.is_none() && is_empty(&rest) {
        return None;
    }
    let mut metadata = metadata.unwrap_or_else(|| forced_metadata(desired, actual));
    if let Some(owners) = owners {
        metadata["ownerReferences"] = json!(owners);
    }
    Some(guarded(kind, service, actual, metadata, rest))
}

fn is_empty(patch: &Value) -> bool {
    patch.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Wraps a body into a patch that applies only to the state from which it was computed. `service`: the Service that the
/// object belongs to, or is.
pub(crate) fn guarded(
    kind: ObjectKind,
    service: &str,
    actual: &Metadata,
    mut metadata: Value,
    rest: Value,
) -> Write {
    let urgent = !is_empty(&rest) || concerns_traffic(&metadata, actual);
    metadata["resourceVersion"] = json!(actual.resource_version);
    metadata["uid"] = json!(actual.uid);
    let mut body = rest;
    body["metadata"] = metadata;
    Write::Patch(Patch {
        kind,
        namespace: actual.namespace().to_owned(),
        name: actual.name().to_owned(),
        service: service.to_owned(),
        body,
        urgent,
    })
}

/// Whether a patch of metadata alone concerns traffic. It does if it changes a key that says what the object is. It also
/// does if it changes no copied key: then its only purpose is that Linkerd reads the object again.
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
    let bookkeeping = [l::REMOTE_RESOURCE_VERSION, l::DESIRED_STATE, l::COPIED_KEYS];
    let ours = l::is_of_service_mirrors(key) && !bookkeeping.contains(&key);
    ours || [l::OPAQUE_PORTS, l::SLICE_SERVICE, l::SLICE_MANAGED_BY].contains(&key)
}

fn is_copied(key: &str) -> bool {
    !says_what_it_is(key) && ![l::REMOTE_RESOURCE_VERSION, l::DESIRED_STATE].contains(&key)
}
