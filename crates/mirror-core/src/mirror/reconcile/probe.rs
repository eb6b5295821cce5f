//! The probe Service of a Link: the controller sends its probes to it, through the mesh.
//!
//! Its slice has the gateway's identity, so that Linkerd's proxy uses mTLS to the gateway.

use std::{borrow::Cow, net::IpAddr};

use super::service::reconcile_service;
use crate::{
    api::{
        k8s::{Service, ServicePort},
        labels as l,
    },
    mirror::{
        desired::{
            endpoints::{self, DesiredSlice, GatewayAddresses, GatewayEndpoints},
            service::{self, Desired},
        },
        metadata::{DesiredMetadata, desired::DesiredEntries, is_managed},
        names::{NameOwner, Purpose, fits, probe_name},
        outcome::Plan,
        state::State,
        target::{Gateway, Probe, Target},
        write::Write,
    },
};

/// The settings from which a probe Service is built.
struct ProbeService<'a> {
    target: &'a Target,
    gateway: &'a Gateway,
    probe: &'a Probe,
    reach: Option<GatewayAddresses<'a>>,
}

/// The settings of the probe Service of a Link; `None` if it should have none.
fn wanted<'a>(state: &'a State, link: &str) -> Option<ProbeService<'a>> {
    let (target, entry) = state.active_link(link)?;
    let (gateway, probe) = target.probed()?;
    Some(ProbeService {
        target,
        gateway,
        probe,
        reach: state.gateway_addresses(gateway, &entry.gateway),
    })
}

/// The plan for the probe Service of one Link.
pub(crate) fn plan(state: &State, link: &str) -> Plan {
    let entry = state.links.get(link);
    if entry.is_some_and(|entry| entry.target.is_err()) {
        return Plan::default(); // the Link cannot be read now: its objects stay
    }
    let mut plan = Plan::default();
    match wanted(state, link) {
        None => remove(state, link, &mut plan.writes),
        Some(wanted) => wanted.write(state, &mut plan.writes),
    }
    plan
}

fn remove(state: &State, link: &str, writes: &mut Vec<Write>) {
    let is_probe = |service: &&Service| match state.name_owner(service) {
        NameOwner::Purpose(claim) => claim == Purpose::Probe(link),
        NameOwner::Stray => true,
        NameOwner::Theirs(_) | NameOwner::Unnamed | NameOwner::Foreign => false,
    };
    let ours = state
        .probe(link)
        .filter(is_probe)
        .filter(|service| is_managed(&service.metadata));
    writes.extend(ours.map(Write::delete_service));
    endpoints::reconcile(state, Vec::new(), state.local_gateway_slices(link), writes);
}

impl ProbeService<'_> {
    fn write(&self, state: &State, writes: &mut Vec<Write>) {
        let link = self.target.link.as_str();
        let Ok(name) = fits(probe_name(link)) else {
            return;
        };
        let namespace = state.config.namespace.as_str();
        let actual = state.existing(namespace, &name);
        let granted = state.grants(Purpose::Probe(link), namespace, &name);
        if granted.is_err() {
            return;
        }
        let ports = [self.port()];
        let metadata = DesiredMetadata {
            labels: self.labels(),
            ..DesiredMetadata::default()
        };
        // The namespace of Links is also the name of the installation.
        let mut desired = service::build(namespace, namespace, &name, metadata, &ports, false);
        desired.uid = actual.and_then(|actual| actual.metadata.uid.as_deref());
        let slices = self
            .reach
            .as_ref()
            .map(|reach| self.slices(&desired, reach));
        let present = state.local_gateway_slices(link);
        reconcile_service(
            state,
            &desired,
            slices,
            actual,
            present,
            &self.target.cluster,
            writes,
        );
    }

    fn labels(&self) -> DesiredEntries<'_> {
        [
            (l::EXTENSION, l::EXTENSION_NAME.into()),
            (l::MIRRORED_GATEWAY, "true".into()),
            (l::CLUSTER_NAME, self.target.cluster.as_str().into()),
        ]
        .into()
    }

    fn port(&self) -> ServicePort {
        ServicePort {
            name: Some(l::PROBE_PORT_NAME.into()),
            protocol: Some("TCP".into()),
            port: i32::from(self.probe.port),
            ..ServicePort::default()
        }
    }

    /// The endpoints are always ready: the probe itself finds out whether the gateway is alive.
    fn slices<'s>(
        &'s self,
        service: &'s Desired<'_>,
        reach: &'s GatewayAddresses<'_>,
    ) -> Vec<DesiredSlice<'s>> {
        let through = GatewayEndpoints {
            port: self.probe.port,
            identity: &self.gateway.identity,
            addresses: Cow::Borrowed(&reach.addresses),
            refused: Vec::new(),
            ready: true,
            backed: true,
        };
        endpoints::through_gateway(service, &through, "")
    }
}

impl State {
    /// The ClusterIP of a Link's probe Service, if the Service exists and is ours.
    pub fn probe_address(&self, link: &str) -> Option<IpAddr> {
        let service = self.probe(link)?;
        let ours = self.name_owner(service) == NameOwner::Purpose(Purpose::Probe(link));
        let ip = service.spec.cluster_ip.as_deref().filter(|_| ours)?;
        ip.parse().ok()
    }
}

#[cfg(test)]
mod tests;
