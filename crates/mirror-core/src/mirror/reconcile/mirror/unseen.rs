//! Mirrors of a Service that cannot be seen now: its cluster has not been listed yet, or the limit leaves it or its
//! slices out.
//!
//! What this cluster knows by itself applies nevertheless: the addresses of the gateway, which of them are refused, and
//! whether it takes traffic. Whether the Service has endpoints, and which hosts, stays as the existing slices say.

use super::removal::is_written;
use crate::{
    api::{k8s::Service, labels as l},
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

/// The writes with which the existing slices of a mirror, and of its endpoint mirrors, follow the gateway.
pub(super) fn follow(
    state: &State,
    (target, gateway): (&Target, &GatewayState),
    this: &RemoteRef,
) -> Vec<Write> {
    let mut writes = Vec::new();
    let RemoteRef {
        cluster,
        namespace,
        service,
    } = this;
    let name = mirror_name(service, cluster);
    let Some(mirror) = state.existing(namespace, &name) else {
        return writes;
    };
    let own = NameOwner::Purpose(Purpose::Mirror { cluster, service });
    if state.name_owner(mirror) != own || !is_written(state, &mirror.metadata) {
        return writes;
    }
    slices_of(state, (target, gateway), mirror, &mut writes);
    for host in state.endpoint_mirrors(namespace, &name) {
        let is_own = owner(&host.metadata) == Owner::EndpointMirror(cluster, &name);
        if is_own && is_written(state, &host.metadata) {
            slices_of(state, (target, gateway), host, &mut writes);
        }
    }
    writes
}

fn slices_of(
    state: &State,
    (target, gateway): (&Target, &GatewayState),
    service: &Service,
    writes: &mut Vec<Write>,
) {
    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
    let actual = state.local_slices(namespace, name);
    let ours = || {
        let slices = actual.iter().map(AsRef::as_ref);
        slices.filter(|slice| state.writes_slice(slice))
    };
    if ours().next().is_none() {
        return;
    }
    let present = || ours().flat_map(|slice| &slice.endpoints);
    let backed = present().next().is_some();
    let through = GatewayEndpoints::of(state, target, gateway, present(), backed);
    let Ok(through) = through else {
        // Its addresses are unknown.
        return endpoints::keep(state, actual, writes);
    };
    let mut metadata = DesiredMetadata::of(&service.metadata);
    // A mirror in remote-discovery mode has the slices that it had in gateway mode, without the labels of this mode.
    for key in [l::REMOTE_DISCOVERY, l::REMOTE_SERVICE] {
        metadata.labels.remove(key);
    }
    let desired = Desired {
        installation: &state.config.namespace,
        namespace,
        name,
        uid: service.metadata.uid.as_deref(),
        metadata,
        ports: &service.spec.ports,
        headless: service.is_headless(),
    };
    let slices = if service.is_headless() {
        let hosts = ours().map(|slice| as_it_is(&desired, &through, slice));
        hosts.collect()
    } else {
        through_gateway(&desired, &through, "")
    };
    endpoints::reconcile(state, slices, actual, writes);
}
