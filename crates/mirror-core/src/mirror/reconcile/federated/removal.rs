//! What is removed with a federated Service, and in which order.

use std::collections::BTreeSet;

use super::routes;
use crate::{
    api::{k8s::Service, members::MEMBERS},
    mirror::{
        desired::endpoints, metadata::is_managed, outcome::Plan, ownership::membership::Parts,
        state::State, write::Write,
    },
};

/// Deletes a federated Service without members, if we wrote it, or if all members that it names are known to have left.
pub(crate) fn remove(
    state: &State,
    (namespace, name): (&str, &str),
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
        && (!local || state.config.local_members.is_some());
    let Some(actual) = actual else {
        delete_ownerless(state, namespace, name, &mut plan.writes);
        return;
    };
    if known || state.is_collected(&actual.metadata) {
        delete_with_slices(state, actual, &mut plan.writes);
    } else if !is_managed(&actual.metadata) {
        // Somebody has taken the Service over. Our slices and routes for it lead to clusters that are not linked any
        // more.
        delete_what_is_behind(state, actual, &mut plan.writes);
    }
}

/// Deletes what is left of a federated Service that is gone, unless the name belongs to somebody else now. Kubernetes
/// deletes what still has its owner.
fn delete_ownerless(state: &State, namespace: &str, name: &str, writes: &mut Vec<Write>) {
    if state.existing(namespace, name).is_some() {
        return;
    }
    routes::delete_ownerless(state, namespace, name, writes);
    let slices = state.local_slices(namespace, name).iter();
    let left = slices.filter(|slice| slice.metadata.owner_references.is_empty());
    let left: Vec<_> = left.cloned().collect();
    endpoints::reconcile(state, Vec::new(), &left, writes);
}

/// Deletes slices first: once their owner is deleted, Kubernetes deletes them too, and both deletions would race.
pub(crate) fn delete_with_slices(state: &State, actual: &Service, writes: &mut Vec<Write>) {
    delete_what_is_behind(state, actual, writes);
    writes.push(Write::delete_service(actual));
}

fn delete_what_is_behind(state: &State, actual: &Service, writes: &mut Vec<Write>) {
    routes::delete(state, actual, writes);
    let slices = state.local_slices(actual.metadata.namespace(), actual.metadata.name());
    endpoints::reconcile(state, Vec::new(), slices, writes);
}
