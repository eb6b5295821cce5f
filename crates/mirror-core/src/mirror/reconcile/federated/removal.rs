//! What is removed with a federated Service, and in which order.

use super::{federated_routes, members::FederatedService};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        members::MEMBERS,
    },
    mirror::{
        desired::endpoints, metadata::is_managed, ownership::membership::Memberships, state::State,
        write::Write,
    },
};

impl FederatedService<'_> {
    /// Deletes a federated Service without members, if we wrote it, or if all members that it names are known to have
    /// left.
    pub(super) fn remove(&self, memberships: &Memberships<'_>, writes: &mut Vec<Write>) {
        let Some(actual) = self.actual else {
            return self.delete_ownerless(writes);
        };
        let mut local = MEMBERS.iter().map(|[_, local]| local);
        let names_local = local.any(|key| actual.metadata.annotations.contains_key(key));
        let are_known = self
            .named
            .iter()
            .all(|cluster| memberships.contains_key(cluster))
            && (!names_local || self.state.config.local_members.is_some());
        if are_known || self.state.may_delete(&actual.metadata) {
            delete_with_slices(self.state, actual, writes);
        } else if !is_managed(&actual.metadata) {
            // Somebody has taken the Service over. Our slices and routes for it lead to clusters that are not linked any
            // more.
            delete_what_is_behind(self.state, actual, writes);
        }
    }

    /// Deletes what is left of a federated Service that is gone, unless the name belongs to somebody else now. Kubernetes
    /// deletes what still has its owner.
    fn delete_ownerless(&self, writes: &mut Vec<Write>) {
        let (state, namespace, name) = (self.state, self.namespace, &self.name);
        if state.existing(namespace, name).is_some() {
            return self.delete_stripped(writes);
        }
        federated_routes::delete_ownerless(state, namespace, name, writes);
        self.delete_slices(|_| true, writes);
    }

    /// Deletes slices that lost their owner and the label of their Service. They take no traffic, but they keep names
    /// that others want: `web-federated-east-ipv4` may be a slice of the mirror of `web` of a cluster `federated-east`.
    pub(super) fn delete_stripped(&self, writes: &mut Vec<Write>) {
        let is_stripped =
            |slice: &EndpointSlice| !slice.metadata.labels.contains_key(l::SLICE_SERVICE);
        self.delete_slices(is_stripped, writes);
    }

    /// Deletes slices of ours that have no owner.
    fn delete_slices(&self, which: impl Fn(&EndpointSlice) -> bool, writes: &mut Vec<Write>) {
        let slices = self.state.local_slices(self.namespace, &self.name).iter();
        let left = slices
            .filter(|slice| slice.metadata.owner_references.is_empty())
            .filter(|slice| which(slice));
        let left: Vec<_> = left.cloned().collect();
        endpoints::reconcile(self.state, Vec::new(), &left, writes);
    }
}

/// Deletes slices first: once their owner is deleted, Kubernetes deletes them too, and both deletions would race. A
/// Service with a preference waits until the routes are listed: it is the only record that they may exist, and Kubernetes
/// does not delete a route that lost its owner.
pub(super) fn delete_with_slices(state: &State, actual: &Service, writes: &mut Vec<Write>) {
    let annotations = &actual.metadata.annotations;
    if annotations.contains_key(l::PREFER) && !state.knows_routes() {
        return;
    }
    delete_what_is_behind(state, actual, writes);
    writes.push(Write::delete_service(actual));
}

fn delete_what_is_behind(state: &State, actual: &Service, writes: &mut Vec<Write>) {
    federated_routes::delete(state, actual, writes);
    let slices = state.local_slices(actual.metadata.namespace(), actual.metadata.name());
    endpoints::reconcile(state, Vec::new(), slices, writes);
}
