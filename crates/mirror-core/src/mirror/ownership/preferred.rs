//! Clusters that a federated Service prefers: each of their members has a mirror, which routes name as a backend.

use super::membership::{Form, joinable, local_member};
use crate::{
    api::k8s::Service,
    mirror::{
        metadata::{Owner, owner, preferred_clusters},
        state::State,
        target::{
            Target,
            export::{self, Mode, member},
            policy::FederatedThrough,
        },
    },
};

/// How the member of a preferred cluster is mirrored if its labels do not ask for it; `None` if its cluster is not
/// preferred.
fn preferred_mode(state: &State, target: &Target, service: &Service) -> Option<Mode> {
    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
    let federated = state.preferring(&target.cluster, namespace, name)?;
    if owner(&federated.metadata) != Owner::Federated {
        return None;
    }
    if !member(target, service) || joinable(service).is_err() {
        return None;
    }
    let has_local_member = local_member(state, namespace, name).is_some();
    if (state.forbids_joining(target, namespace, has_local_member)).is_some() {
        return None;
    }
    match (target.federated_through, Form::of(federated)) {
        (FederatedThrough::Discovery, Form::Discovery) => Some(Mode::RemoteDiscovery),
        // If the Link has lost its gateway, the mirror stays as it is.
        (FederatedThrough::Gateway, _) => Some(Mode::Gateway),
        (FederatedThrough::Discovery, Form::Slices) => {
            target.gateway.is_some().then_some(Mode::Gateway)
        }
    }
}

impl State {
    /// The existing federated Service that prefers the cluster of this member, if any.
    pub fn preferring(&self, cluster: &str, namespace: &str, service: &str) -> Option<&Service> {
        let federated = self.federated(namespace, service)?;
        let mut preferred = preferred_clusters(&federated.metadata);
        preferred
            .any(|preferred| preferred == cluster)
            .then_some(federated)
    }

    /// How a Service of a target cluster is mirrored, if at all: as its labels ask, or because a federated Service prefers
    /// the cluster.
    pub(crate) fn mode(&self, target: &Target, service: &Service) -> Option<Mode> {
        export::mode(target, service).or_else(|| preferred_mode(self, target, service))
    }
}
