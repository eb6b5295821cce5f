//! The parts that clusters have in a federated Service: what is seen of each, what its form and drains make of it.

use std::collections::BTreeSet;

use super::{
    super::{
        holder::{Claim, Holder},
        membership::{Form, Linked, Part, Parts, part},
        metadata::{is_federated, remote_members},
        policy::FederatedThrough,
        world::World,
    },
    drained::take_out,
    form::form,
};
use crate::api::k8s::Service;

/// Whether a Service of the federated Service's name is the one that we keep.
pub(super) fn is_ours(world: &World, namespace: &str, service: &str, actual: &Service) -> bool {
    let own = Claim::Federated(service);
    match world.holder(actual) {
        Holder::Claim(claim) => claim == own,
        Holder::Stray => {
            let name = actual.metadata.name();
            is_federated(&actual.metadata) || world.first_claim(namespace, name) == Some(own)
        }
        Holder::Theirs(_) | Holder::Unnamed | Holder::Foreign => false,
    }
}

/// The form, and what is known of the parts of all clusters. `tokens`: those that the federated Service names.
pub(super) fn parts<'a>(
    world: &'a World,
    (namespace, service): (&str, &str),
    actual: Option<&Service>,
    tokens: &BTreeSet<String>,
    has_local_member: bool,
) -> (Form, Parts<'a>) {
    let parts = world.active().map(|(target, entry)| {
        let part = part(world, (target, entry), namespace, service, has_local_member);
        let linked = Linked {
            target,
            entry,
            part,
        };
        (target.cluster.as_str(), linked)
    });
    let mut parts: Parts<'_> = parts.collect();
    // Drained clusters count: that one is drained is no reason to change the form.
    let form = form(world, actual, &parts, tokens, has_local_member);
    let was_slices = actual.map(Form::of) == Some(Form::Slices);
    for (cluster, linked) in &mut parts {
        let (lacks_gateway, takes_part) =
            (linked.target.lacks_gateway(), tokens.contains(*cluster));
        // One that has lost its gateway keeps the endpoints that it has, as mirrors do.
        let keeps = lacks_gateway && was_slices && takes_part;
        if (form == Form::Slices || lacks_gateway) && !keeps {
            linked.needs_gateway();
        }
        // It waits for the form in which it can be reached.
        let through = linked.target.federated_through;
        let waits = form == Form::Discovery && through == FederatedThrough::Gateway && !takes_part;
        if waits && matches!(linked.part, Part::Member(_)) {
            linked.part = Part::Unseen;
        }
    }
    take_out(world, namespace, has_local_member, tokens, &mut parts);
    (form, parts)
}

/// The clusters that the federated Service names with this Service.
pub(super) fn tokens(actual: Option<&Service>, service: &str) -> BTreeSet<String> {
    let members = actual
        .into_iter()
        .flat_map(|actual| remote_members(&actual.metadata));
    members
        .filter(|(name, _)| *name == service)
        .map(|(_, cluster)| cluster.to_owned())
        .collect()
}
