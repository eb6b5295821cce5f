//! Membership in federated Services: which clusters have a member, as far as that is known, and which may have one.

use std::collections::BTreeMap;

use crate::{
    api::{k8s::Service, members::MEMBERS},
    mirror::{
        desired::service::mirrorable,
        outcome::{Outcome, Problem, Reason},
        state::{State, links::LinkEntry},
        target::{
            Target,
            export::{member, selects},
        },
    },
};

/// What is known of one target cluster's part in a federated Service.
pub(crate) enum Part<'a> {
    /// Unknown: it stays a member if it is one.
    Unseen,
    /// It has a member.
    Member(&'a Service),
    /// It has a member that takes no part, because the cluster is drained.
    Drained(&'a Service),
    /// It may not have a member. Contains the outcome to report for its Service.
    Refused(Outcome),
    /// It seems to have no member any more, and has not confirmed this: it stays a member until it does.
    Leaving,
    /// It has no member.
    None,
}

impl<'a> Part<'a> {
    /// Its member, which is known, even if it takes no part.
    pub(crate) fn seen(&self) -> Option<&'a Service> {
        match self {
            Part::Member(seen) | Part::Drained(seen) => Some(seen),
            Part::Unseen | Part::Refused(_) | Part::Leaving | Part::None => None,
        }
    }
}

/// Parts by cluster.
pub(crate) type Parts<'a> = BTreeMap<&'a str, Linked<'a>>;

/// A target cluster with its part.
pub(crate) struct Linked<'a> {
    pub(crate) target: &'a Target,
    pub(crate) entry: &'a LinkEntry,
    pub(crate) part: Part<'a>,
}

impl Linked<'_> {
    /// Whether its member has endpoints that take traffic, if that is known.
    pub(crate) fn is_backed(&self, member: &Service) -> Option<bool> {
        self.entry.remote.as_ref()?.is_backed(member)
    }

    /// Refuses the part if the Link has no gateway.
    pub(crate) fn needs_gateway(&mut self) {
        if self.target.gateway.is_some() {
            return;
        }
        let report = match &self.part {
            Part::Member(_) => {
                let message = "remote members require a gateway, and the Link has none";
                Outcome::Failed(Problem::new(Reason::NoGateway, message))
            }
            Part::Unseen => Outcome::Unknown,
            Part::Leaving => Outcome::Absent,
            Part::Drained(_) | Part::Refused(_) | Part::None => return,
        };
        self.part = Part::Refused(report);
    }
}

/// Whether any cluster is known to have a member.
pub(crate) fn has_member(state: &State, namespace: &str, service: &str) -> bool {
    local_member(state, namespace, service).is_some()
        || state.active().any(|link| {
            let part = part(state, link, namespace, service, false);
            matches!(part, Part::Member(_)) && !link.0.lacks_gateway()
        })
}

/// What is known of a target cluster's part, and whether it may have one.
pub(crate) fn part<'a>(
    state: &State,
    (target, entry): (&'a Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
    has_local_member: bool,
) -> Part<'a> {
    let seen = seen_part(target, entry, namespace, service);
    let Some(forbidden) = state.forbids_joining(target, namespace, has_local_member) else {
        return seen;
    };
    Part::Refused(match seen {
        Part::Unseen => Outcome::Unknown,
        Part::Leaving | Part::None => Outcome::Absent,
        Part::Member(_) | Part::Drained(_) | Part::Refused(_) => {
            Outcome::Failed(forbidden.problem(namespace, service))
        }
    })
}

fn seen_part<'a>(
    target: &Target,
    entry: &'a LinkEntry,
    namespace: &str,
    service: &str,
) -> Part<'a> {
    let Some(remote) = &entry.remote else {
        return Part::Unseen;
    };
    match remote.service(namespace, service) {
        Some(seen) if member(target, seen) => match joinable(seen) {
            Ok(()) => Part::Member(seen),
            Err(problem) => Part::Refused(Outcome::Failed(problem)),
        },
        None if remote.may_leave_out(namespace, service) => Part::Unseen,
        _ => Part::None,
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
