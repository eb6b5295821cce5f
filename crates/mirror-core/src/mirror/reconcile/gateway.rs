//! The Services that lead to the gateways of a Link themselves: the controller sends its probes to one of them. If the Link
//! says so, it reaches the API server of the target cluster through another, and so may Linkerd's control plane.
//!
//! Their slices have the gateway's identity, so that Linkerd's proxy uses mTLS to the gateway. Those for the API server
//! also name the Service to which the gateway forwards, as those of mirrors do.

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
        metadata::{DesiredMetadata, desired::DesiredEntries, fq_name, is_managed},
        names::{API_SERVER_PORT, GatewayService, NameOwner, Purpose, fits},
        outcome::{Plan, Problem},
        state::State,
        target::{ApiGateway, Gateway, Target},
        write::Write,
    },
};

/// The name of the port of the Service for the API server.
const API_SERVER_PORT_NAME: &str = "https";

/// The settings from which a gateway Service is built.
struct DesiredGatewayService<'a> {
    service: GatewayService,
    target: &'a Target,
    gateway: &'a Gateway,
    addresses: Option<GatewayAddresses<'a>>,
    port: (&'static str, u16),
    endpoint_port: u16,
    annotations: DesiredEntries<'a>,
}

/// The settings of a gateway Service of a Link; `None` if it should have none.
fn wanted<'a>(
    state: &'a State,
    link: &str,
    service: GatewayService,
) -> Option<DesiredGatewayService<'a>> {
    let (target, entry) = state.active_link(link)?;
    Some(match service {
        GatewayService::Probe => {
            let (gateway, probe) = target.probed()?;
            DesiredGatewayService {
                service,
                target,
                gateway,
                addresses: state.gateway_addresses(gateway, &entry.gateway),
                port: (l::PROBE_PORT_NAME, probe.port),
                endpoint_port: probe.port,
                annotations: DesiredEntries::default(),
            }
        }
        GatewayService::ApiServer => {
            let ApiGateway {
                gateway,
                service: there,
            } = target.api_gateway.as_ref()?;
            let there = fq_name(&there.name, &there.namespace, &target.domain);
            DesiredGatewayService {
                service,
                target,
                gateway,
                addresses: state.gateway_addresses(gateway, &entry.api_gateway),
                // A gateway forwards to the port number of the Service that was called.
                port: (API_SERVER_PORT_NAME, API_SERVER_PORT),
                endpoint_port: gateway.port,
                annotations: [(l::REMOTE_FQ_NAME, there.into())].into(),
            }
        }
    })
}

/// The plan for the gateway Services of one Link.
pub(crate) fn plan(state: &State, link: &str) -> Plan {
    let entry = state.links.get(link);
    if entry.is_some_and(|entry| entry.target.is_err()) {
        return Plan::default(); // the Link cannot be read now: its objects stay
    }
    let mut plan = Plan::default();
    for service in GatewayService::ALL {
        match wanted(state, link, service) {
            None => remove(state, link, service, &mut plan.writes),
            Some(wanted) => wanted.write(state, &mut plan.writes),
        }
    }
    plan
}

fn remove(state: &State, link: &str, service: GatewayService, writes: &mut Vec<Write>) {
    let is_ours = |actual: &&Service| match state.name_owner(actual) {
        NameOwner::Purpose(claim) => claim == Purpose::Gateway(service, link),
        NameOwner::Stray => true,
        NameOwner::Theirs(_) | NameOwner::Unnamed | NameOwner::Foreign => false,
    };
    let ours = state
        .gateway_service(link, service)
        .filter(is_ours)
        .filter(|service| is_managed(&service.metadata));
    writes.extend(ours.map(Write::delete_service));
    let slices = state.local_gateway_slices(link, service);
    endpoints::reconcile(state, Vec::new(), slices, writes);
}

/// The name of a gateway Service of a Link. `Err`: why the Service cannot have it.
fn granted(state: &State, link: &str, service: GatewayService) -> Result<String, Problem> {
    let name = fits(service.name(link))?;
    let purpose = Purpose::Gateway(service, link);
    state.grants(purpose, &state.config.namespace, &name)?;
    Ok(name)
}

impl DesiredGatewayService<'_> {
    fn write(&self, state: &State, writes: &mut Vec<Write>) {
        let link = self.target.link.as_str();
        let Ok(name) = granted(state, link, self.service) else {
            return;
        };
        let namespace = state.config.namespace.as_str();
        let actual = state.existing(namespace, &name);
        let ports = [self.port()];
        let metadata = DesiredMetadata {
            labels: self.labels(),
            annotations: self.annotations.clone(),
        };
        // The namespace of Links is also the name of the installation.
        let mut desired = service::build(namespace, namespace, &name, metadata, &ports, false);
        desired.uid = actual.and_then(|actual| actual.metadata.uid.as_deref());
        let addresses = self.addresses.as_ref();
        let slices = addresses.map(|addresses| self.slices(&desired, addresses));
        let present = state.local_gateway_slices(link, self.service);
        let cluster = &self.target.cluster;
        reconcile_service(state, &desired, slices, present, cluster, writes);
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
        let (name, port) = self.port;
        ServicePort {
            name: Some(name.into()),
            protocol: Some("TCP".into()),
            port: i32::from(port),
            ..ServicePort::default()
        }
    }

    /// The endpoints are always ready: the probe itself finds out whether the gateway is alive, and the connection to the
    /// API server is tried again while it is not.
    fn slices<'s>(
        &'s self,
        service: &'s Desired<'_>,
        known: &'s GatewayAddresses<'_>,
    ) -> Vec<DesiredSlice<'s>> {
        let through = GatewayEndpoints {
            port: self.endpoint_port,
            identity: &self.gateway.identity,
            addresses: Cow::Borrowed(&known.addresses),
            refused: Vec::new(),
            ready: true,
            backed: true,
        };
        endpoints::through_gateway(service, &through, "")
    }
}

impl State {
    /// Address and port of a Link's Service for the API server of its cluster, if the Service exists and is ours.
    pub fn api_server_address(&self, link: &str) -> Option<(IpAddr, u16)> {
        let ip = self.gateway_service_address(link, GatewayService::ApiServer)?;
        Some((ip, API_SERVER_PORT))
    }

    /// Why a Link cannot have the Service for the API server of its cluster: its name is invalid or taken.
    pub fn api_server_problem(&self, link: &str) -> Option<Problem> {
        granted(self, link, GatewayService::ApiServer).err()
    }

    /// The addresses of the gateway that leads to the API server of a Link's cluster; `None` if the Link uses none, or
    /// while no address is known.
    pub fn api_gateway_addresses(&self, link: &str) -> Option<GatewayAddresses<'_>> {
        let (target, entry) = self.active_link(link)?;
        let way = target.api_gateway.as_ref()?;
        self.gateway_addresses(&way.gateway, &entry.api_gateway)
    }

    /// The ClusterIP of a gateway Service of a Link, if the Service exists and is ours.
    pub fn gateway_service_address(&self, link: &str, service: GatewayService) -> Option<IpAddr> {
        let actual = self.gateway_service(link, service)?;
        let ours = self.name_owner(actual) == NameOwner::Purpose(Purpose::Gateway(service, link));
        let ip = actual.spec.cluster_ip.as_deref().filter(|_| ours)?;
        ip.parse().ok()
    }
}

#[cfg(test)]
mod tests;
