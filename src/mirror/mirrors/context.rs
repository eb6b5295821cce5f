//! What is known around one remote Service, and what follows from it.

use std::sync::Arc;

use super::{
    super::{
        endpoints::Through,
        export::Mode,
        metadata::{Owner, is_managed, owner},
        outcome::{Problem, Reason},
        remote::{GatewayState, Remote, any_ready},
        service::{self, Desired},
        target::Target,
        world::World,
        write::Write,
    },
    removal::delete_with_slices,
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
};

/// One remote Service that should be mirrored, and all that is known around it.
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) target: &'a Target,
    pub(super) gateway: &'a GatewayState,
    pub(super) remote: &'a Remote,
    pub(super) service: &'a Service,
    pub(super) namespace: &'a str,
    /// Name of the mirror.
    pub(super) name: String,
    /// The mirror as it stands.
    pub(super) local: Option<&'a Service>,
}

impl<'a> Context<'a> {
    /// The mirror that should stand. `headless`: without a ClusterIP of its own.
    pub(super) fn mirror(&self, mode: Mode, headless: bool) -> Desired<'_> {
        let installation = &self.world.config.namespace;
        service::mirror(
            installation,
            self.target,
            self.service,
            mode,
            &self.name,
            headless,
        )
    }

    /// Name of the remote Service.
    pub(super) fn remote_name(&self) -> &'a str {
        self.service.metadata.name()
    }

    /// How the gateway is reached, and whether there is anything behind it.
    pub(super) fn through(&self, actual: &[Arc<EndpointSlice>]) -> Result<Through<'a>, Problem> {
        let slices = self.remote.slices_of(self.namespace, self.remote_name());
        let backed = any_ready(slices);
        let present = actual.iter().flat_map(|slice| &slice.endpoints);
        Through::of(self.world, self.target, self.gateway, present, backed)
    }

    /// Whether the remote Service may have slices that are not known.
    pub(super) fn lacks_slices(&self) -> bool {
        self.remote
            .lacks_slices_of(self.namespace, self.remote_name())
    }

    /// Whether the mirror still is one in remote-discovery mode, and the slices of the remote Service have not been seen
    /// yet: Kubernetes keeps at least one for each Service with a selector.
    pub(super) fn turns_to_gateway(&self) -> bool {
        let labels = self.local.map(|local| &local.metadata.labels);
        let is_flat = labels.is_some_and(|labels| labels.contains_key(l::REMOTE_DISCOVERY));
        is_flat && !self.service.spec.selector.is_empty() && self.has_no_slices()
    }

    /// Whether no slice of the remote Service was seen yet.
    fn has_no_slices(&self) -> bool {
        let mut slices = self.remote.slices_of(self.namespace, self.remote_name());
        slices.next().is_none()
    }

    /// What is said of a remote Service whose slices are not all looked at.
    pub(super) fn cut(&self) -> Option<Problem> {
        let cut = self
            .remote
            .cuts_slices_of(self.namespace, self.remote_name());
        cut.then(|| {
            let message =
                "endpoints stay as they are: the cluster has more EndpointSlices than are taken in of it";
            Problem::new(Reason::LimitExceeded, message)
        })
    }

    /// Whether no slice of the remote Service was seen yet, and there is nothing of Linkerd's to take over.
    pub(super) fn is_new_to_us(&self) -> bool {
        let adopted = self.local.is_some_and(|local| !is_managed(&local.metadata));
        !adopted && self.has_no_slices()
    }

    /// Removes the mirror if it cannot become what is desired. It is made anew in the next pass.
    pub(super) fn replace(&self, desired: &Desired<'_>, writes: &mut Vec<Write>) -> bool {
        let Some(local) = self
            .local
            .filter(|local| service::must_be_replaced(desired, local))
        else {
            return false;
        };
        self.drop_endpoint_mirrors(|_| false, writes);
        delete_with_slices(self.world, &self.target.cluster, local, writes);
        true
    }

    /// Removes the endpoint mirrors of this mirror that are not to be kept.
    pub(super) fn drop_endpoint_mirrors(
        &self,
        keep: impl Fn(&str) -> bool,
        writes: &mut Vec<Write>,
    ) {
        for mirror in self.world.endpoint_mirrors(self.namespace, &self.name) {
            let ours =
                owner(&mirror.metadata) == Owner::EndpointMirror(&self.target.cluster, &self.name);
            if ours && !self.world.is_theirs(&mirror.metadata) && !keep(mirror.metadata.name()) {
                delete_with_slices(self.world, &self.target.cluster, mirror, writes);
            }
        }
    }
}
