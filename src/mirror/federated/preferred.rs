//! Clusters that a federated Service prefers: their members have mirrors of their own, for routes to name as backends.

use super::{form::Form, joinable};
use crate::{
    api::k8s::Service,
    mirror::{
        export::{self, Mode, member},
        metadata::{Owner, owner, preferred_clusters},
        policy::FederatedThrough,
        target::Target,
        world::World,
    },
};

/// How the member of a preferred cluster is mirrored where its labels do not ask for it; `None` if nobody prefers it.
fn preferred_mode(world: &World, target: &Target, service: &Service) -> Option<Mode> {
    world.config.routes?;
    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
    let federated = world.federated(namespace, name)?;
    let is_federated = owner(&federated.metadata) == Owner::Federated;
    let mut preferred = preferred_clusters(&federated.metadata);
    if !is_federated || !preferred.any(|cluster| cluster == target.cluster) {
        return None;
    }
    if !member(target, service) || joinable(service).is_err() {
        return None;
    }
    match (target.federated_through, Form::of(federated)) {
        (FederatedThrough::Discovery, Form::Discovery) => Some(Mode::RemoteDiscovery),
        // One that has lost its gateway keeps what it has.
        (FederatedThrough::Gateway, _) => Some(Mode::Gateway),
        (FederatedThrough::Discovery, Form::Slices) => {
            target.gateway.is_some().then_some(Mode::Gateway)
        }
    }
}

impl World {
    /// How a Service of a target cluster is mirrored, if at all: as its labels ask, or because a federated Service prefers
    /// the cluster.
    pub(in crate::mirror) fn mode(&self, target: &Target, service: &Service) -> Option<Mode> {
        export::mode(target, service).or_else(|| preferred_mode(self, target, service))
    }
}
