//! Mirrors of a Service that cannot be seen now: its cluster has not been listed yet, or the limit leaves it or its
//! slices out.
//!
//! What this cluster knows by itself applies nevertheless: the addresses of the gateway, which of them are refused, and
//! whether it takes traffic. Whether the Service has endpoints, and which hosts, stays as the existing slices say.

use super::removal::is_written;
use crate::{
    api::k8s::Service,
    mirror::{
        desired::{
            endpoints::{self, GatewayEndpoints, as_it_is, through_gateway},
            service::Desired,
        },
        metadata::{DesiredMetadata, Owner, owner},
        names::{NameOwner, Purpose, mirror_name},
        outcome::RemoteRef,
        state::{State, remote::GatewayState},
        target::Target,
        write::Write,
    },
};

/// What is known of a gateway.
pub(crate) struct Behind<'a> {
    pub(crate) state: &'a State,
    pub(crate) target: &'a Target,
    pub(crate) gateway: &'a GatewayState,
}

impl Behind<'_> {
    /// Plans the writes with which the existing slices of a mirror, and of its endpoint mirrors, follow the gateway.
    pub(crate) fn follow(&self, this: &RemoteRef, writes: &mut Vec<Write>) {
        let RemoteRef {
            cluster,
            namespace,
            service,
        } = this;
        let name = mirror_name(service, cluster);
        let Some(mirror) = self.state.existing(namespace, &name) else {
            return;
        };
        let own = NameOwner::Purpose(Purpose::Mirror { cluster, service });
        if self.state.name_owner(mirror) != own || !is_written(self.state, &mirror.metadata) {
            return;
        }
        self.slices_of(mirror, writes);
        for host in self.state.endpoint_mirrors(namespace, &name) {
            let is_own = owner(&host.metadata) == Owner::EndpointMirror(cluster, &name);
            if is_own && is_written(self.state, &host.metadata) {
                self.slices_of(host, writes);
            }
        }
    }

    fn slices_of(&self, service: &Service, writes: &mut Vec<Write>) {
        let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
        let actual = self.state.local_slices(namespace, name);
        let ours = || {
            let slices = actual.iter().map(AsRef::as_ref);
            slices.filter(|slice| self.state.writes_slice(slice))
        };
        if ours().next().is_none() {
            return;
        }
        let present = || ours().flat_map(|slice| &slice.endpoints);
        let backed = present().next().is_some();
        let through =
            GatewayEndpoints::of(self.state, self.target, self.gateway, present(), backed);
        let Ok(through) = through else {
            return; // its addresses are unknown
        };
        let desired = Desired {
            installation: &self.state.config.namespace,
            namespace,
            name,
            uid: service.metadata.uid.as_deref(),
            metadata: DesiredMetadata::of(&service.metadata),
            ports: &service.spec.ports,
            headless: service.is_headless(),
        };
        let slices = if service.is_headless() {
            let hosts = ours().map(|slice| as_it_is(&desired, &through, slice));
            hosts.collect()
        } else {
            through_gateway(&desired, &through, "")
        };
        endpoints::reconcile(self.state, slices, actual, writes);
    }
}
