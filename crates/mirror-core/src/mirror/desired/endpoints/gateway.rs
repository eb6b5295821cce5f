//! Slices whose endpoints are the addresses of a gateway.

use std::{borrow::Cow, net::IpAddr};

use super::{
    super::service::Desired,
    slice::{DesiredSlice, SlicePort, endpoint, families, slice_metadata},
};
use crate::{
    api::k8s::Endpoint,
    mirror::{
        outcome::{Problem, Reason},
        state::{
            State,
            remote::{GatewayState, Liveness},
        },
        target::{
            Gateway, Target,
            networks::{Refused, refusal, refused_message},
        },
    },
};

/// The addresses of a gateway, split into those that are used and those that are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAddresses<'a> {
    /// Addresses that are used; empty if all are refused.
    pub addresses: Cow<'a, [IpAddr]>,
    /// Addresses that are not used.
    pub refused: Vec<Refused>,
}

impl State {
    /// Checks the addresses of a gateway; `None` while none is known, or the networks of this cluster are not.
    pub fn gateway_addresses<'a>(
        &self,
        gateway: &Gateway,
        state: &'a GatewayState,
    ) -> Option<GatewayAddresses<'a>> {
        let known = state.addresses.as_deref();
        let known = known.filter(|known| !known.is_empty())?; // an empty list counts as unresolved
        let (own, local) = (gateway.networks.as_deref(), self.local.as_ref()?);
        let why = |address: &IpAddr| refusal(*address, own, &local.networks);
        let refused: Vec<Refused> = known
            .iter()
            .filter_map(|address| {
                why(address).map(|why| Refused {
                    address: *address,
                    why,
                })
            })
            .collect();
        let addresses = if refused.is_empty() {
            Cow::Borrowed(known)
        } else {
            let used = known.iter().filter(|address| why(address).is_none());
            Cow::Owned(used.copied().collect())
        };
        Some(GatewayAddresses { addresses, refused })
    }

    /// The addresses of a Link's gateway that are refused.
    pub fn refused(&self, link: &str) -> Vec<Refused> {
        let reach = self.active_link(link).and_then(|(target, entry)| {
            let gateway = target.gateway.as_ref()?;
            self.gateway_addresses(gateway, &entry.gateway)
        });
        reach.map(|reach| reach.refused).unwrap_or_default()
    }
}

/// The endpoints of a mirror in gateway mode.
pub(crate) struct GatewayEndpoints<'a> {
    /// Port of its endpoints.
    pub(crate) port: u16,
    /// TLS identity of the gateway's proxies; may be empty.
    pub(crate) identity: &'a str,
    /// Addresses that are used; empty if all are refused.
    pub(crate) addresses: Cow<'a, [IpAddr]>,
    /// Addresses that are not used.
    pub(crate) refused: Vec<Refused>,
    /// Whether the gateway takes traffic.
    pub(crate) ready: bool,
    /// Whether the remote Service has ready endpoints. If not, the mirror has no endpoints.
    pub(crate) backed: bool,
}

impl<'a> GatewayEndpoints<'a> {
    /// How the gateway of a Link is reached. `present` are the existing endpoints for it: they keep their readiness
    /// while it is not known yet whether the gateway is alive. `Err` says why none of its addresses is known.
    pub(crate) fn of<'e>(
        state: &State,
        target: &'a Target,
        gateway_state: &'a GatewayState,
        mut present: impl Iterator<Item = &'e Endpoint>,
        backed: bool,
    ) -> Result<Self, Problem> {
        let error = |why: &str| {
            let message = format!("Failed to get gateway address: {why}");
            Err(Problem::new(Reason::Error, message))
        };
        let Some(gateway) = &target.gateway else {
            return error("the Link has no gateway");
        };
        let Some(GatewayAddresses { addresses, refused }) =
            state.gateway_addresses(gateway, gateway_state)
        else {
            let hosts: Vec<_> = gateway.hosts.iter().map(ToString::to_string).collect();
            return error(&format!("no address of {} is known", hosts.join(", ")));
        };
        let ready = match gateway_state.liveness_of(gateway) {
            Liveness::Alive => true,
            Liveness::Dead => false,
            Liveness::Unknown => present.next().is_none_or(Endpoint::is_ready),
        };
        Ok(Self {
            port: gateway.port,
            identity: &gateway.identity,
            ready: ready && !addresses.is_empty(),
            addresses,
            refused,
            backed,
        })
    }

    /// The problem to report if no address is left.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.addresses.is_empty().then(|| {
            let refused = refused_message(&self.refused);
            let message = format!("Failed to get gateway address: {refused}");
            Problem::new(Reason::Error, message)
        })
    }
}

/// The slices of a Service behind a gateway, one per address family of the gateway. The suffixes of their names begin
/// with `prefix`.
///
/// Ports have the Service's names, because Linkerd resolves the Service port by name, and the gateway's number. The
/// gateway carries only TCP, so ports of other protocols have no endpoint.
pub(crate) fn through_gateway<'a>(
    service: &'a Desired<'_>,
    through: &GatewayEndpoints<'a>,
    prefix: &str,
) -> Vec<DesiredSlice<'a>> {
    let metadata = slice_metadata(service, through.identity);
    let ports: Vec<SlicePort<'_>> = service
        .ports
        .iter()
        .filter(|port| port.protocol() == "TCP")
        .map(|port| SlicePort {
            name: port.name.as_deref().unwrap_or_default(),
            protocol: "TCP",
            port: i32::from(through.port),
            app_protocol: port.app_protocol.as_deref(),
        })
        .collect();
    let backed = through.backed && !ports.is_empty();
    families(&through.addresses)
        .map(|(suffix, address_type, addresses)| {
            let endpoints = if backed {
                addresses
                    .iter()
                    .map(|address| endpoint(*address, None, through.ready))
                    .collect()
            } else {
                Vec::new()
            };
            DesiredSlice::new(
                service,
                &metadata,
                &format!("{prefix}{suffix}"),
                address_type,
                endpoints,
                ports.clone(),
            )
        })
        .collect()
}
