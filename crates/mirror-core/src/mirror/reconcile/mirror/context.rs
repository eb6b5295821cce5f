//! What is known about one remote Service, and what follows from it.

use std::sync::Arc;

use super::{super::service::reconcile_service, removal::delete_with_slices};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::{
        desired::{
            endpoints::{DesiredSlice, GatewayEndpoints},
            service::{self, Desired},
        },
        metadata::{Owner, is_managed, owner},
        outcome::{Outcome, Problem, Reason, RemoteRef},
        state::{
            State,
            remote::{GatewayState, RemoteState},
        },
        target::{Target, export::MirrorMode},
        write::Write,
    },
};

/// One remote Service that should be mirrored, and all that is known about it.
pub(crate) struct MirrorContext<'a> {
    pub(crate) state: &'a State,
    pub(crate) target: &'a Target,
    pub(crate) gateway: &'a GatewayState,
    pub(crate) remote: &'a RemoteState,
    pub(crate) service: &'a Service,
    pub(crate) namespace: &'a str,
    /// Name of the mirror.
    pub(crate) name: String,
    /// The existing mirror.
    pub(crate) local: Option<&'a Service>,
}

impl<'a> MirrorContext<'a> {
    /// The desired mirror. `headless`: without a ClusterIP.
    pub(crate) fn mirror(&self, mode: MirrorMode, headless: bool) -> Desired<'_> {
        let installation = &self.state.config.namespace;
        let (target, service) = (self.target, self.service);
        Desired {
            uid: self.local.and_then(|local| local.metadata.uid.as_deref()),
            ..service::mirror(installation, target, service, mode, &self.name, headless)
        }
    }

    /// The existing slices of the mirror.
    pub(crate) fn local_slices(&self) -> &'a [Arc<EndpointSlice>] {
        self.state.local_slices(self.namespace, &self.name)
    }

    /// Plans the writes for the mirror and its slices. `None` for the slices: leave them as they are.
    pub(crate) fn reconcile(
        &self,
        desired: &Desired<'_>,
        slices: Option<Vec<DesiredSlice<'_>>>,
        writes: &mut Vec<Write>,
    ) {
        let (cluster, actual) = (&self.target.cluster, self.local_slices());
        reconcile_service(self.state, desired, slices, actual, cluster, writes);
    }

    /// The outcome for a Service that has its mirror.
    pub(crate) fn mirrored(&self, note: Option<Problem>) -> Outcome {
        Outcome::Mirrored {
            local: self.name.clone(),
            note,
        }
    }

    /// Name of the remote Service.
    pub(crate) fn remote_name(&self) -> &'a str {
        self.service.metadata.name()
    }

    /// The slices of the remote Service.
    pub(crate) fn remote_slices(&self) -> impl Iterator<Item = &'a EndpointSlice> {
        self.remote.slices_of(self.namespace, self.remote_name())
    }

    /// How the gateway is reached, and whether the remote Service has endpoints that take traffic.
    pub(crate) fn through(&self) -> Result<GatewayEndpoints<'a>, Problem> {
        let backed = self.remote.is_backed(self.service) == Some(true);
        let present = self
            .local_slices()
            .iter()
            .flat_map(|slice| &slice.endpoints);
        GatewayEndpoints::of(self.state, self.target, self.gateway, present, backed)
    }

    /// Whether it is not known if the remote Service has endpoints.
    pub(crate) fn is_unknown(&self) -> bool {
        self.remote.is_backed(self.service).is_none()
    }

    /// The remote Service.
    pub(crate) fn this(&self) -> RemoteRef {
        RemoteRef::new(&self.target.cluster, self.namespace, self.remote_name())
    }

    /// Whether the mirror is still in remote-discovery mode.
    pub(crate) fn is_discovered(&self) -> bool {
        let labels = self.local.map(|local| &local.metadata.labels);
        labels.is_some_and(|labels| labels.contains_key(l::REMOTE_DISCOVERY))
    }

    /// Whether no slice of the remote Service was seen yet.
    pub(crate) fn has_no_slices(&self) -> bool {
        self.remote_slices().next().is_none()
    }

    /// The problem to report for a remote Service some of whose slices are omitted.
    pub(crate) fn omitted_slices(&self) -> Option<Problem> {
        let is_incomplete = self
            .remote
            .omits_slices_of(self.namespace, self.remote_name());
        is_incomplete.then(|| {
            let message =
                "endpoints are not updated: the cluster has more EndpointSlices than the limit";
            Problem::new(Reason::LimitExceeded, message)
        })
    }

    /// Whether no slice of the remote Service was seen yet, and there is nothing of Linkerd's to take over.
    pub(crate) fn is_new_to_us(&self) -> bool {
        let adopted = self.local.is_some_and(|local| !is_managed(&local.metadata));
        !adopted && self.has_no_slices()
    }

    /// Removes the mirror if it cannot be patched into the desired one. It is created again in the next pass. While a
    /// route leads to it, nothing is done: the federated Service's plan takes it out of the route first.
    pub(crate) fn replace(&self, desired: &Desired<'_>, writes: &mut Vec<Write>) -> bool {
        let Some(local) = self
            .local
            .filter(|local| service::must_be_replaced(desired, local))
        else {
            return false;
        };
        if !self.state.is_backend(&self.this(), &self.name) {
            self.drop_endpoint_mirrors(|_| false, writes);
            delete_with_slices(self.state, &self.target.cluster, local, writes);
        }
        true
    }

    /// Removes the endpoint mirrors of this mirror, except those that `keep` selects.
    pub(crate) fn drop_endpoint_mirrors(
        &self,
        keep: impl Fn(&str) -> bool,
        writes: &mut Vec<Write>,
    ) {
        for mirror in self.state.endpoint_mirrors(self.namespace, &self.name) {
            let ours =
                owner(&mirror.metadata) == Owner::EndpointMirror(&self.target.cluster, &self.name);
            if ours && !self.state.is_theirs(&mirror.metadata) && !keep(mirror.metadata.name()) {
                delete_with_slices(self.state, &self.target.cluster, mirror, writes);
            }
        }
    }
}
