//! The result of planning a key: the writes, and the report.

use std::collections::BTreeSet;

use serde_json::Value;

use super::write::{Object, Patch, Write};
use crate::api::{map::Map, metadata::Metadata};

/// Cost of a write that allocates a `ClusterIP`, as a number of ordinary writes: the address is an object of its own, and
/// Kubernetes' controllers process each new Service.
pub const CLUSTER_IP_COST: usize = 5;

/// What to do for one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Writes, in this order. Empty if everything is as desired.
    pub writes: Vec<Write>,
    /// Remote Services that seem to be gone, and whose local objects or memberships are to be removed for this reason.
    /// The controller asks each cluster to confirm that the Service is deleted or not exported: a watch may lag, and
    /// nothing may be deleted because of old data. The writes include only the removals that are confirmed, and do not
    /// depend on the others.
    pub confirm: Vec<RemoteRef>,
    /// What to report about the remote Services of this key once the writes are done.
    pub report: Vec<ServiceOutcome>,
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

/// The target clusters that have confirmed that they no longer export the Service of a key.
#[derive(Clone, Copy, Debug)]
pub enum Confirmed<'a> {
    /// All that would be asked.
    All,
    /// These.
    By(&'a BTreeSet<String>),
}

impl Confirmed<'_> {
    /// Whether this cluster has confirmed it.
    pub(crate) fn covers(self, cluster: &str) -> bool {
        match self {
            Self::All => true,
            Self::By(clusters) => clusters.contains(cluster),
        }
    }
}

/// The outcome for one remote Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOutcome {
    /// The Service.
    pub remote: RemoteRef,
    /// Membership in a federated Service, or mirroring.
    pub federated: bool,
    /// The outcome.
    pub report: Outcome,
}

/// What the plan did for one remote Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It does not take part; there is no local Service for it.
    Absent,
    /// It is mirrored, or a member.
    Mirrored {
        /// Name of the local Service.
        local: String,
        /// A problem that does not prevent it.
        note: Option<Problem>,
    },
    /// It should take part, but does not.
    Failed(Problem),
    /// Not enough is known yet; the previous report stays.
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
    /// Something failed; it is retried.
    Error,
    /// The namespace does not exist and may not be created.
    MissingNamespace,
    /// Mirrored.
    Mirrored,
    /// Another object already has the name, or another Service has precedence.
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
    /// The target cluster exports the Service to other clusters only.
    ExportedToOthers,
    /// It cannot be told whether the target cluster exports the Service to this cluster: its annotation is invalid, or the
    /// trust domain of this cluster is not known.
    UnclearExport,
    /// The cluster is drained.
    Drained,
    /// The local cluster has no `ClusterIP` left.
    NoClusterIp,
    /// The federated Service is made of `EndpointSlices`, for which the Link needs a gateway, and it has none.
    NoGateway,
    /// Linkerd cannot discover the endpoints of the Service, because the API server of its cluster is reached through the
    /// gateway only.
    NoDiscovery,
    /// The preference of a federated Service is invalid, or names a cluster without a Link.
    InvalidPreference,
    /// A member of another cluster has a preference. Only local members and Links decide.
    PreferenceIgnored,
    /// This installation does not write routes, or the API server does not have the kind.
    NoRoutes,
    /// The API server has the kind of a route only in a version that Linkerd does not read.
    RouteNotAccepted,
    /// Somebody else's route decides where the requests to a federated Service go.
    RouteConflict,
}

impl Reason {
    /// The reasons of Services that somebody has left out on purpose: nothing is wrong with them.
    pub const INTENDED: [Self; 2] = [Self::Drained, Self::ExportedToOthers];

    /// Whether a reason in a status is one of [`Self::INTENDED`].
    pub fn is_intended(reason: &str) -> bool {
        Self::INTENDED.iter().any(|own| own.as_str() == reason)
    }

    /// The reason as text, for the status.
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
            Self::ExportedToOthers => "ExportedToOthers",
            Self::UnclearExport => "UnclearExport",
            Self::Drained => "Drained",
            Self::NoClusterIp => "NoClusterIP",
            Self::NoGateway => "NoGateway",
            Self::NoDiscovery => "NoDiscovery",
            Self::InvalidPreference => "InvalidPreference",
            Self::PreferenceIgnored => "PreferenceIgnored",
            Self::NoRoutes => "NoRoutes",
            Self::RouteNotAccepted => "RouteNotAccepted",
            Self::RouteConflict => "RouteConflict",
        }
    }
}

impl RemoteRef {
    /// The Service of this name.
    pub fn new(cluster: &str, namespace: &str, service: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        }
    }
}

impl Problem {
    /// Creates a problem.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

impl Plan {
    /// Whether traffic depends on any of its writes.
    pub fn is_urgent(&self) -> bool {
        let cosmetic = |write: &Write| matches!(write, Write::Patch(patch) if !patch.urgent);
        !self.writes.iter().all(cosmetic)
    }

    /// The namespace that the plan creates, if any, and its labels.
    pub fn creates_namespace(&self) -> Option<(&str, &Map)> {
        self.writes.iter().find_map(|write| match write {
            Write::Create(Object::Namespace { name, labels }) => Some((name.as_str(), labels)),
            _ => None,
        })
    }

    /// Whether the plan creates a Service that gets a `ClusterIP`.
    pub fn needs_cluster_ip(&self) -> bool {
        self.cluster_ips() > 0
    }

    /// The number of Services with a `ClusterIP` that the plan creates.
    pub fn cluster_ips(&self) -> usize {
        self.writes.iter().filter_map(gets_address).count()
    }

    /// The load of the plan on the API server, as a number of ordinary writes.
    pub fn cost(&self) -> usize {
        self.writes.len() + (CLUSTER_IP_COST - 1) * self.cluster_ips()
    }

    /// The plan without new Services that need a `ClusterIP`, and without the writes of objects that belong to them.
    #[must_use]
    pub fn without_cluster_ips(mut self) -> Self {
        let left: Vec<String> = self.writes.iter().filter_map(gets_address).collect();
        let belongs = |metadata: &Metadata| {
            let mut owners = metadata.owner_references.iter();
            owners
                .any(|owner| owner.uid.is_empty() && left.iter().any(|name| **name == *owner.name))
        };
        let gets_owner = |patch: &Patch| {
            let owners = patch.body.pointer("/metadata/ownerReferences");
            let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
            owners.any(|owner| {
                owner["uid"] == "" && left.iter().any(|name| owner["name"] == name.as_str())
            })
        };
        self.writes.retain(|write| match write {
            Write::Create(Object::EndpointSlice(slice)) => !belongs(&slice.metadata),
            Write::Create(Object::Route(route)) => !belongs(&route.metadata),
            Write::Patch(patch) => !gets_owner(patch),
            write => gets_address(write).is_none(),
        });
        self
    }

    /// The plan for the mirror of a Service.
    pub(crate) fn mirror(remote: RemoteRef, writes: Vec<Write>, report: Outcome) -> Self {
        let report = ServiceOutcome {
            remote,
            federated: false,
            report,
        };
        Self {
            writes,
            report: vec![report],
            ..Self::default()
        }
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

#[cfg(test)]
mod tests;
