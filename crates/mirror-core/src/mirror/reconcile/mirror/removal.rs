//! What is removed with a mirror, and in which order.

use super::super::service::retire_endpoints;
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        metadata::Metadata,
    },
    mirror::{
        metadata::{Installation, Owner, fq_name, is_managed, is_our_slice, owner},
        names::{NameOwner, Purpose, mirror_name},
        outcome::RemoteRef,
        state::State,
        write::Write,
    },
};

/// Which of the objects that carry our labels are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All: there is a Link, and what it does not ask for is removed.
    All,
    /// Those that this installation wrote: there is no Link by which the others would be ours.
    Managed,
}

impl Scope {
    fn takes(self, state: &State, metadata: &Metadata) -> bool {
        match self {
            Self::All => !state.is_theirs(metadata),
            Self::Managed => state.may_delete(metadata),
        }
    }
}

/// Whether this installation has written an object, or will take it over from one that it follows.
pub(crate) fn is_written(state: &State, metadata: &Metadata) -> bool {
    is_managed(metadata) && !state.is_theirs(metadata)
}

/// The writes that remove all local objects of a remote Service.
pub(crate) fn removal(state: &State, this: &RemoteRef, scope: Scope) -> Vec<Write> {
    let RemoteRef {
        cluster,
        namespace,
        service,
    } = this;
    let name = mirror_name(service, cluster);
    let taken = |metadata| scope.takes(state, metadata);
    let mut writes = Vec::new();
    let local = state.existing(namespace, &name);
    let (own, goes) = match local.map(|local| (state.name_owner(local), local)) {
        // If somebody has taken it over, our slices of it are left.
        None | Some((NameOwner::Foreign, _)) => (true, false),
        Some((NameOwner::Purpose(claim), local)) => {
            let metadata = &local.metadata;
            // A mirror that another installation may adopt keeps its slices too.
            let left = scope == Scope::Managed
                && is_managed(metadata)
                && state.installation_of(metadata) == Installation::Unclaimed;
            let own = claim == Purpose::Mirror { cluster, service } && !left;
            (own, own && taken(metadata))
        }
        // The labels are lost. An annotation says for which Service the mirror was written.
        Some((NameOwner::Stray, local)) => {
            let own = local
                .metadata
                .annotations
                .get(l::REMOTE_FQ_NAME)
                .is_some_and(|name| name.starts_with(&fq_name(service, namespace, "")));
            (own, own && taken(&local.metadata))
        }
        Some((NameOwner::Theirs(_) | NameOwner::Unnamed, _)) => (false, false),
    };
    for mirror in state.endpoint_mirrors(namespace, &name) {
        let ours = owner(&mirror.metadata) == Owner::EndpointMirror(cluster, &name);
        if ours && taken(&mirror.metadata) {
            delete_with_slices(state, cluster, mirror, &mut writes);
        }
    }
    match local.filter(|_| goes) {
        // The federated Service's plan takes it out of its routes first.
        Some(_) if state.is_backend(this, &name) => {}
        Some(local) => delete_with_slices(state, cluster, local, &mut writes),
        // If the name belongs to another object of ours, the slices are not this mirror's.
        None if own => {
            let slices = our_slices(state, cluster, namespace, &name);
            let left = slices.filter(|slice| !is_owned_host(slice) && taken(&slice.metadata));
            writes.extend(left.map(Write::delete_slice));
        }
        None => {}
    }
    writes
}

pub(crate) fn delete_with_slices(
    state: &State,
    cluster: &str,
    service: &Service,
    writes: &mut Vec<Write>,
) {
    if !is_managed(&service.metadata) {
        writes.push(retire_endpoints(service, cluster));
    }
    // Slices first: once their owner is deleted, Kubernetes deletes them too, and both deletions would race.
    let namespace = service.metadata.namespace();
    let slices =
        our_slices(state, cluster, namespace, service.metadata.name()).map(Write::delete_slice);
    writes.extend(slices);
    writes.push(Write::delete_service(service));
}

/// Our slices of a mirror. They include slices that have lost both their owner and the label for their cluster, because
/// Kubernetes does not delete these.
fn our_slices<'a>(
    state: &'a State,
    cluster: &'a str,
    namespace: &str,
    name: &str,
) -> impl Iterator<Item = &'a EndpointSlice> + use<'a> {
    let slices = state.local_slices(namespace, name).iter();
    slices.map(AsRef::as_ref).filter(move |slice| {
        let metadata = &slice.metadata;
        let is_its = match metadata.labels.get(l::CLUSTER_NAME) {
            Some(own) => own == cluster,
            None => metadata.owner_references.is_empty(),
        };
        is_our_slice(slice) && is_its && !state.is_theirs(metadata)
    })
}

/// Whether a slice belongs to an endpoint mirror and has an owner. The headless mirror's plan creates the Service and
/// then the slice, and the slice may be seen before the Service. If the Service is deleted, Kubernetes deletes the
/// slice.
fn is_owned_host(slice: &EndpointSlice) -> bool {
    let metadata = &slice.metadata;
    metadata.labels.contains_key(l::HEADLESS_MIRROR) && !metadata.owner_references.is_empty()
}
