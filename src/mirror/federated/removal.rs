//! What is removed with a federated Service, and in which order.

use std::collections::BTreeSet;

use super::{
    super::{
        endpoints, membership::Parts, metadata::is_managed, outcome::Plan, world::World,
        write::Write,
    },
    routes,
};
use crate::api::{k8s::Service, members::MEMBERS};

/// Without members the Service goes: if we wrote it, or if all whom it names are known to have left.
pub(super) fn remove(
    world: &World,
    actual: Option<&Service>,
    parts: &Parts<'_>,
    tokens: &BTreeSet<String>,
    plan: &mut Plan,
) {
    let names_local = |actual: &Service| {
        let mut keys = MEMBERS.iter().map(|[_, local]| local);
        keys.any(|key| actual.metadata.annotations.contains_key(key))
    };
    let local = actual.is_some_and(names_local);
    let known = tokens
        .iter()
        .all(|cluster| parts.contains_key(cluster.as_str()))
        && (!local || world.config.local_members.is_some());
    let Some(actual) = actual else { return };
    if known || world.is_collected(&actual.metadata) {
        delete_with_slices(world, actual, &mut plan.writes);
    } else if !is_managed(&actual.metadata) {
        // Somebody has taken it over. What we wrote for it leads to clusters that are not linked any more.
        delete_what_is_behind(world, actual, &mut plan.writes);
    }
}

/// Slices first: once their owner is gone Kubernetes deletes them too, and the two would race.
pub(super) fn delete_with_slices(world: &World, actual: &Service, writes: &mut Vec<Write>) {
    delete_what_is_behind(world, actual, writes);
    writes.push(Write::delete_service(actual));
}

fn delete_what_is_behind(world: &World, actual: &Service, writes: &mut Vec<Write>) {
    routes::delete(world, actual, writes);
    let slices = world.local_slices(actual.metadata.namespace(), actual.metadata.name());
    endpoints::reconcile(world, Vec::new(), slices, writes);
}
