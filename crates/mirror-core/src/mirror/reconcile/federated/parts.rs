//! The parts that clusters have in a federated Service: what is known of each, and the effect of the form and of
//! drains.

use std::collections::BTreeSet;

use super::{drained::take_out, form::form};
use crate::{
    api::k8s::Service,
    mirror::{
        metadata::{is_federated, remote_members},
        name_owner::{NameOwner, Purpose},
        outcome::Confirmed,
        ownership::membership::{Form, Linked, Part, Parts, part},
        state::State,
        target::policy::FederatedThrough,
    },
};

/// Whether the existing Service with the name of the federated Service is ours.
pub(crate) fn is_ours(state: &State, namespace: &str, service: &str, actual: &Service) -> bool {
    let own = Purpose::Federated(service);
    match state.name_owner(actual) {
        NameOwner::Purpose(claim) => claim == own,
        NameOwner::Stray => {
            let name = actual.metadata.name();
            is_federated(&actual.metadata) || state.first_claim(namespace, name) == Some(own)
        }
        NameOwner::Theirs(_) | NameOwner::Unnamed | NameOwner::Foreign => false,
    }
}

/// The existing federated Service, if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Existing<'e> {
    pub(crate) actual: Option<&'e Service>,
    /// The clusters that it names as members in its annotations.
    pub(crate) tokens: &'e BTreeSet<String>,
    /// The clusters that have confirmed that they have no member any more.
    pub(crate) confirmed: Confirmed<'e>,
}

/// The form, and what is known of the parts of all clusters.
pub(crate) fn parts<'a>(
    state: &'a State,
    (namespace, service): (&str, &str),
    existing: Existing<'_>,
    has_local_member: bool,
) -> (Form, Parts<'a>) {
    let Existing {
        actual,
        tokens,
        confirmed,
    } = existing;
    let parts = state.active().map(|(target, entry)| {
        let cluster = target.cluster.as_str();
        let part = match part(state, (target, entry), namespace, service, has_local_member) {
            Part::None if tokens.contains(cluster) && !confirmed.covers(cluster) => Part::Leaving,
            part => part,
        };
        let linked = Linked {
            target,
            entry,
            part,
        };
        (cluster, linked)
    });
    let mut parts: Parts<'_> = parts.collect();
    // Drained clusters count, so that a drain does not change the form.
    let form = form(state, actual, &parts, tokens, has_local_member);
    let was_slices = actual.map(Form::of) == Some(Form::Slices);
    for (cluster, linked) in &mut parts {
        let (lacks_gateway, takes_part) =
            (linked.target.lacks_gateway(), tokens.contains(*cluster));
        // A cluster whose Link lost its gateway keeps its endpoints, as mirrors do.
        let keeps = lacks_gateway && was_slices && takes_part;
        if (form == Form::Slices || lacks_gateway) && !keeps {
            linked.needs_gateway();
        }
        // A new cluster waits for the form in which it can be reached.
        let through = linked.target.federated_through;
        let waits = form == Form::Discovery && through == FederatedThrough::Gateway && !takes_part;
        if waits && matches!(linked.part, Part::Member(_)) {
            linked.part = Part::Unseen;
        }
    }
    take_out(state, namespace, has_local_member, tokens, &mut parts);
    (form, parts)
}

/// The clusters that the federated Service names as having this Service as a member.
pub(crate) fn tokens(actual: Option<&Service>, service: &str) -> BTreeSet<String> {
    let members = actual
        .into_iter()
        .flat_map(|actual| remote_members(&actual.metadata));
    members
        .filter(|(name, _)| *name == service)
        .map(|(_, cluster)| cluster.to_owned())
        .collect()
}
