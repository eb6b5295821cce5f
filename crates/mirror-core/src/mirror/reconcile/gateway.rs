//! The Services that lead to the gateway of a Link itself: the controller sends its probes to one of them. If the Link says
//! so, it reaches the API server of the target cluster through another, and Linkerd's control plane through a third.
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
        names::{DISCOVERY_PORT, GatewayService, NameOwner, Purpose, fits},
        outcome::{Plan, Problem, Reason},
        state::State,
        target::{Gateway, Target},
        write::Write,
    },
};

/// The Service in each cluster that leads to its API server: name, namespace, and port
/// (<https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>). The local Service has the same port,
/// because a gateway forwards to the port number of the Service that was called.
const API_SERVER: (&str, &str, u16) = ("kubernetes", "default", 443);
/// The name of its port.
const API_SERVER_PORT: &str = "https";

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
    let gateway = target.gateway.as_ref()?;
    let forwarded = |name: &str, namespace: &str, port| {
        let there = fq_name(name, namespace, &target.domain);
        let annotations = [(l::REMOTE_FQ_NAME, there.into())].into();
        ((API_SERVER_PORT, port), gateway.port, annotations)
    };
    let (port, endpoint_port, annotations) = match service {
        GatewayService::Probe => {
            let (_, probe) = target.probed()?;
            let port = (l::PROBE_PORT_NAME, probe.port);
            (port, probe.port, DesiredEntries::default())
        }
        GatewayService::ApiServer => {
            let (name, namespace, port) = API_SERVER;
            forwarded(name, namespace, port)
        }
        GatewayService::Discovery => {
            let there = target.discovery_service.as_ref()?;
            forwarded(&there.name, &there.namespace, DISCOVERY_PORT)
        }
    };
    target.has(service).then(|| DesiredGatewayService {
        service,
        target,
        gateway,
        addresses: state.gateway_addresses(gateway, &entry.gateway),
        port,
        endpoint_port,
        annotations,
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
        let (_, _, port) = API_SERVER;
        Some((ip, port))
    }

    /// Why a Link cannot have the Service for the API server of its cluster: its name is invalid or taken.
    pub fn api_server_problem(&self, link: &str) -> Option<Problem> {
        granted(self, link, GatewayService::ApiServer).err()
    }

    /// Why Linkerd cannot discover the endpoints of a cluster's Services, if it cannot.
    pub(crate) fn lacks_discovery(&self, target: &Target) -> Option<Problem> {
        let refused = || {
            let service = GatewayService::Discovery;
            let problem = granted(self, &target.link, service).err();
            let problem = problem.filter(|_| target.has(service))?;
            let message = format!("Linkerd cannot discover its endpoints: {}", problem.message);
            Some(Problem::new(Reason::NoDiscovery, message))
        };
        target.lacks_discovery().or_else(refused)
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
