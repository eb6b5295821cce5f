//! Membership in federated Services: which clusters have a member, as far as that is known, and which may have one.

use std::collections::BTreeMap;

use crate::{
    api::{k8s::Service, members::MEMBERS},
    mirror::{
        desired::service::mirrorable,
        outcome::{Outcome, Problem, Reason},
        state::{State, links::LinkEntry},
        target::{Target, export::selects},
    },
};

/// What is known of one target cluster's membership in a federated Service.
pub(crate) enum Membership<'a> {
    /// Unknown: it stays a member if it is one.
    Unseen,
    /// It has a member.
    Member(&'a Service),
    /// It has a member that will join later. Contains what has to change first, unless that is expected within moments.
    Waiting(Option<Problem>),
    /// It has a member that takes no part, because the cluster is drained.
    Drained(&'a Service),
    /// It may not have a member. Contains the outcome to report for its Service.
    Refused(Outcome),
    /// It seems to have lost its member, and has not confirmed this: it stays a member until it does.
    Leaving,
    /// It has no member.
    None,
}

impl<'a> Membership<'a> {
    /// Its member, which is known, even if it takes no part.
    pub(crate) fn seen(&self) -> Option<&'a Service> {
        match self {
            Membership::Member(seen) | Membership::Drained(seen) => Some(seen),
            Membership::Unseen
            | Membership::Waiting(_)
            | Membership::Refused(_)
            | Membership::Leaving
            | Membership::None => None,
        }
    }
}

/// Memberships by cluster.
pub(crate) type Memberships<'a> = BTreeMap<&'a str, ClusterMembership<'a>>;

/// A target cluster with its membership.
pub(crate) struct ClusterMembership<'a> {
    pub(crate) target: &'a Target,
    pub(crate) entry: &'a LinkEntry,
    pub(crate) membership: Membership<'a>,
}

impl ClusterMembership<'_> {
    /// Whether its member has endpoints that take traffic, if that is known.
    pub(crate) fn is_backed(&self, member: &Service) -> Option<bool> {
        self.entry.remote.as_ref()?.is_backed(member)
    }

    /// Whether slices of its member are omitted because of the limit.
    pub(crate) fn omits_slices_of(&self, member: &Service) -> bool {
        let (namespace, name) = (member.metadata.namespace(), member.metadata.name());
        let remote = self.entry.remote.as_ref();
        remote.is_some_and(|remote| remote.omits_slices_of(namespace, name))
    }

    /// Refuses the membership if the Link has no gateway.
    pub(crate) fn needs_gateway(&mut self) {
        if self.target.gateway.is_none() {
            let message = "remote members require a gateway, and the Link has none";
            self.refuse(Problem::new(Reason::NoGateway, message));
        }
    }

    /// Refuses the membership if Linkerd cannot discover its endpoints.
    pub(crate) fn needs_discovery(&mut self) {
        if let Some(problem) = self.target.lacks_discovery() {
            self.refuse(problem);
        }
    }

    fn refuse(&mut self, problem: Problem) {
        let report = match &self.membership {
            Membership::Member(_) => Outcome::Failed(problem),
            Membership::Unseen | Membership::Waiting(_) => Outcome::Unknown,
            Membership::Leaving => Outcome::Absent,
            Membership::Drained(_) | Membership::Refused(_) | Membership::None => return,
        };
        self.membership = Membership::Refused(report);
    }
}

/// Whether any cluster is known to have a member.
pub(crate) fn has_member(state: &State, namespace: &str, service: &str) -> bool {
    local_member(state, namespace, service).is_some()
        || state.active().any(|link| {
            let membership = membership(state, link, namespace, service, false);
            matches!(membership, Membership::Member(_)) && !link.0.lacks_gateway()
        })
}

/// What is known of a target cluster's membership, and whether it may have one.
pub(crate) fn membership<'a>(
    state: &State,
    (target, entry): (&'a Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
    has_local_member: bool,
) -> Membership<'a> {
    let seen = seen_membership(state, (target, entry), namespace, service);
    let Some(forbidden) = state.forbids_joining(target, namespace, has_local_member) else {
        return seen;
    };
    Membership::Refused(match seen {
        Membership::Unseen | Membership::Waiting(_) => Outcome::Unknown,
        Membership::Leaving | Membership::None => Outcome::Absent,
        Membership::Member(_) | Membership::Drained(_) | Membership::Refused(_) => {
            Outcome::Failed(forbidden.problem(namespace, service))
        }
    })
}

fn seen_membership<'a>(
    state: &State,
    (target, entry): (&Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
) -> Membership<'a> {
    let Some(remote) = &entry.remote else {
        return Membership::Unseen;
    };
    match remote.service(namespace, service) {
        Some(seen) if state.member(target, seen) => match joinable(seen) {
            Ok(()) => Membership::Member(seen),
            Err(problem) => Membership::Refused(Outcome::Failed(problem)),
        },
        None if remote.may_omit(namespace, service) => Membership::Unseen,
        _ => Membership::None,
    }
}

/// Linkerd: a headless Service cannot be a member. The message is Linkerd's.
pub(crate) fn joinable(service: &Service) -> Result<(), Problem> {
    if service.is_headless() {
        let message = "Headless service cannot join federated service";
        return Err(Problem::new(Reason::InvalidService, message));
    }
    mirrorable(service)
}

/// The member of the local cluster. In protected namespaces there is none: no other cluster may join there.
pub(crate) fn local_member<'a>(
    state: &'a State,
    namespace: &str,
    service: &str,
) -> Option<&'a Service> {
    if state.protects(namespace) {
        return None;
    }
    let seen = state.local.as_ref()?.members.get(namespace, service)?;
    (selects(state.config.local_members.as_ref(), seen) && joinable(seen).is_ok())
        .then_some(seen.as_ref())
}

/// How the members of a federated Service are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Linkerd reads the annotations that name them.
    Discovery,
    /// Linkerd reads the `EndpointSlices` of the federated Service.
    Slices,
}

impl Form {
    /// The annotations that name the members in other clusters, and the one in the local cluster.
    pub(crate) fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Discovery => MEMBERS[0],
            Self::Slices => MEMBERS[1],
        }
    }

    /// The form of an existing Service.
    pub(crate) fn of(actual: &Service) -> Self {
        let annotations = &actual.metadata.annotations;
        let is_flat = MEMBERS[0].iter().any(|key| annotations.contains_key(key));
        if is_flat {
            Self::Discovery
        } else {
            Self::Slices
        }
    }
}
