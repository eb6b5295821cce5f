//! EndpointSlices of mirrors: what they should be, and the writes that make them so.

mod hosts;

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, sync::Arc};

use serde_json::json;

pub(super) use self::hosts::{Host, by_host};
use super::{
    metadata::{Dress, sign},
    networks::{Reach, Refused, refused_message},
    outcome::{Problem, Reason},
    service::Desired,
    target::Target,
    wanted::Wanted,
    world::{GatewayState, Liveness, World},
    write::{Kind, Object, Write, forced_metadata, guarded, patch_metadata},
};
use crate::api::{
    k8s::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    labels as l,
    metadata::{Metadata, OwnerReference},
};

/// Whether any endpoint of these slices takes traffic.
pub(super) fn any_ready<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> bool {
    slices.into_iter().any(|slice| {
        slice
            .endpoints
            .iter()
            .any(|e| e.is_ready() && !e.addresses.is_empty())
    })
}

/// An EndpointSlice that should stand.
#[derive(Clone, Debug)]
pub(super) struct DesiredSlice<'a> {
    name: String,
    namespace: &'a str,
    dress: Dress<'a>,
    /// Name and UID of the Service that it belongs to. Without a UID the Service does not stand yet; `apply`
    /// fills in what the Service's answer brings.
    owner: (&'a str, &'a str),
    address_type: &'static str,
    endpoints: Vec<Endpoint>,
    ports: Vec<SlicePort<'a>>,
}

/// A port of such a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlicePort<'a> {
    pub(super) name: &'a str,
    pub(super) protocol: &'a str,
    pub(super) port: i32,
    pub(super) app_protocol: Option<&'a str>,
}

impl SlicePort<'_> {
    fn is(&self, actual: &EndpointPort) -> bool {
        actual.name.as_deref() == Some(self.name)
            && actual.protocol.as_deref() == Some(self.protocol)
            && actual.port == Some(self.port)
            && actual.app_protocol.as_deref() == self.app_protocol
    }

    fn object(&self) -> EndpointPort {
        EndpointPort {
            name: Some(self.name.into()),
            protocol: Some(self.protocol.into()),
            port: Some(self.port),
            app_protocol: self.app_protocol.map(Into::into),
        }
    }
}

impl<'a> DesiredSlice<'a> {
    pub(super) fn new(
        service: &'a Desired<'_>,
        dress: &Dress<'a>,
        suffix: &str,
        address_type: &'static str,
        endpoints: Vec<Endpoint>,
        ports: Vec<SlicePort<'a>>,
    ) -> Self {
        let mut dress = dress.clone();
        dress.labels.insert(l::SLICE_SERVICE, service.name.into());
        dress.labels.insert(l::SLICE_MANAGED_BY, l::MANAGER.into());
        sign(&mut dress, service.installation, |feed| {
            feed(address_type.as_bytes());
            for endpoint in &endpoints {
                for address in &endpoint.addresses {
                    feed(address.as_bytes());
                }
                feed(endpoint.hostname.as_deref().unwrap_or_default().as_bytes());
                feed(&[u8::from(endpoint.is_ready())]);
                feed_place(endpoint, feed);
            }
            for port in &ports {
                feed(port.name.as_bytes());
                feed(port.protocol.as_bytes());
                feed(port.app_protocol.unwrap_or_default().as_bytes());
                feed(&port.port.to_be_bytes());
            }
        });
        Self {
            name: format!("{}-{suffix}", service.name),
            namespace: service.namespace,
            dress,
            owner: (service.name, service.uid.unwrap_or_default()),
            address_type,
            endpoints,
            ports,
        }
    }

    /// Whether another slice of its Service has any of its addresses.
    fn shares(&self, holders: &Holders<'_>) -> bool {
        let addresses = self.endpoints.iter().flat_map(|e| &e.addresses);
        addresses.into_iter().any(|address| {
            let of = holders.get(&**address);
            of.is_some_and(|of| of.iter().any(|slice| *slice != self.name))
        })
    }

    /// Says so in the hash of its desired state, so that it is written once more when no other slice has them any more.
    fn mark_shared(&mut self) {
        let Dress { annotations, .. } = &mut self.dress;
        let state = annotations.get(l::DESIRED_STATE).unwrap_or_default();
        let shared = format!("{state}{SHARED}");
        annotations.insert(l::DESIRED_STATE, shared.into());
    }

    fn owners(&self) -> [OwnerReference; 1] {
        let (name, uid) = self.owner;
        [OwnerReference::to_service(name, uid)]
    }

    fn ports(&self) -> Box<[EndpointPort]> {
        self.ports.iter().map(SlicePort::object).collect()
    }

    /// The object to create.
    pub(super) fn slice(self) -> EndpointSlice {
        EndpointSlice {
            ports: self.ports(),
            metadata: Metadata {
                owner_references: self.owners().into(),
                ..self.dress.metadata(self.namespace, &self.name)
            },
            address_type: self.address_type.into(),
            endpoints: self.endpoints.into(),
        }
    }
}

/// What else there is to know of an endpoint that is a Pod.
fn feed_place(endpoint: &Endpoint, feed: &mut dyn FnMut(&[u8])) {
    let Some(place) = &endpoint.place else { return };
    let conditions = [endpoint.conditions.serving, endpoint.conditions.terminating];
    feed(&conditions.map(|condition| condition.map_or(2, u8::from)));
    let target = place.target.iter();
    let target = target.flat_map(|of| [&of.kind, &of.namespace, &of.name, &of.uid]);
    for text in target.chain([&place.node, &place.zone]) {
        feed(text.as_deref().unwrap_or_default().as_bytes());
    }
}

/// Labels and annotations of a Service's slices, before its name is added: the Service's labels, what Linkerd's
/// destination controller reads.
fn dress<'a>(service: &'a Desired<'_>, identity: &'a str) -> Dress<'a> {
    let mut annotations = Wanted::default();
    if let Some(fq_name) = service.dress.annotations.get(l::REMOTE_FQ_NAME) {
        annotations.insert(l::REMOTE_FQ_NAME, fq_name.into());
    }
    if !identity.is_empty() {
        annotations.insert(l::REMOTE_GATEWAY_IDENTITY, identity.into());
    }
    Dress {
        labels: service.dress.labels.clone(),
        annotations,
    }
}

/// Endpoints of one slice, at most: the API server refuses more.
pub(super) const MAX_ENDPOINTS: usize = 1000;

/// What stands behind a gateway-mode mirror.
pub(super) struct Through<'a> {
    /// Port of its endpoints.
    pub(super) port: u16,
    /// Identity that its proxies have; may be empty.
    pub(super) identity: &'a str,
    /// May be none, where all are refused.
    pub(super) addresses: Cow<'a, [IpAddr]>,
    /// Those that are not used.
    pub(super) refused: Vec<Refused>,
    /// Whether the gateway takes traffic.
    pub(super) ready: bool,
    /// Whether the remote Service has anything behind it: if not, neither has the mirror.
    pub(super) backed: bool,
}

impl<'a> Through<'a> {
    /// How the gateway of a Link is reached. `present` are the endpoints that lead to it now: while it is not known whether
    /// it lives, they stay as ready as they are. `Err` says why none of its addresses is known.
    pub(super) fn of<'e>(
        world: &World,
        target: &'a Target,
        state: &'a GatewayState,
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
        let Some(Reach { addresses, refused }) = world.reach(gateway, state) else {
            return error("no address of the gateway is known");
        };
        let ready = match state.liveness {
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

    /// What is wrong where no address is left.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.addresses.is_empty().then(|| {
            let refused = refused_message(&self.refused);
            let message = format!("Failed to get gateway address: {refused}");
            Problem::new(Reason::Error, message)
        })
    }
}

/// The slices of a Service behind a gateway, one per address family of the gateway. The suffixes of their names begin with
/// `prefix`.
///
/// Port names are the Service's, numbers are the gateway's: Linkerd resolves the Service port by name.
/// The gateway carries TCP, so ports of other protocols have no endpoint.
pub(super) fn through_gateway<'a>(
    service: &'a Desired<'_>,
    through: &Through<'a>,
    prefix: &str,
) -> Vec<DesiredSlice<'a>> {
    let dress = dress(service, through.identity);
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
                &dress,
                &format!("{prefix}{suffix}"),
                address_type,
                endpoints,
                ports.clone(),
            )
        })
        .collect()
}

fn endpoint(address: IpAddr, hostname: Option<&str>, ready: bool) -> Endpoint {
    Endpoint {
        addresses: [address.to_string().into()].into(),
        conditions: EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        },
        hostname: hostname.map(Into::into),
        place: None,
    }
}

fn family(address: IpAddr) -> (&'static str, &'static str) {
    match address {
        IpAddr::V4(_) => ("ipv4", "IPv4"),
        IpAddr::V6(_) => ("ipv6", "IPv6"),
    }
}

/// Addresses by family, in the order given: suffix of the slice's name, address type, addresses.
fn families(
    addresses: &[IpAddr],
) -> impl Iterator<Item = (&'static str, &'static str, Vec<IpAddr>)> {
    [("ipv4", "IPv4"), ("ipv6", "IPv6")]
        .into_iter()
        .filter_map(|(suffix, address_type)| {
            let own: Vec<IpAddr> = addresses
                .iter()
                .copied()
                .filter(|a| family(*a).1 == address_type)
                .collect();
            (!own.is_empty()).then_some((suffix, address_type, own))
        })
}

/// Ends the hash of the desired state of a slice while another one has some of its addresses.
const SHARED: &str = "-shared";

/// Names of slices by address.
type Holders<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Who has which address.
fn holders(slices: &[Arc<EndpointSlice>]) -> Holders<'_> {
    let mut holders = Holders::new();
    for slice in slices {
        for address in slice.endpoints.iter().flat_map(|e| &e.addresses) {
            let of = holders.entry(address).or_default();
            of.push(slice.metadata.name());
        }
    }
    holders
}

/// Whether a slice is ours to write: it says so, or it said so once and lost the label.
pub(super) fn is_ours(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.get(l::SLICE_MANAGED_BY) == Some(l::MANAGER)
        || slice.metadata.annotations.get(l::MANAGED_BY) == Some(l::MANAGER)
}

/// The writes that make `actual` what is desired. Slices that are not ours, or another installation's, are not touched.
///
/// Linkerd's destination controller forgets an address when any slice of the Service loses it, though another one has it
/// too, until that one changes (`deleteEndpointSlice` in its `port_publisher.go`). So a slice of ours that shares an
/// address, with the one that Kubernetes made of the original's Endpoints or with another one of ours, is written once
/// more when it does not any longer.
pub(super) fn reconcile(
    world: &World,
    desired: Vec<DesiredSlice<'_>>,
    actual: &[Arc<EndpointSlice>],
    writes: &mut Vec<Write>,
) {
    let mut ours: Vec<&EndpointSlice> = actual
        .iter()
        .map(AsRef::as_ref)
        .filter(|slice| is_ours(slice) && !world.is_theirs(&slice.metadata))
        .collect();
    let alone = |slice: &DesiredSlice<'_>| {
        let mut others = actual
            .iter()
            .filter(|other| other.metadata.name() != slice.name);
        others.next().is_none()
    };
    let holders = if desired.iter().all(alone) {
        Holders::new()
    } else {
        holders(actual)
    };
    for mut slice in desired {
        if slice.shares(&holders) {
            slice.mark_shared();
        }
        let found = ours
            .iter()
            .position(|actual| actual.metadata.name() == slice.name);
        match found.map(|index| ours.swap_remove(index)) {
            None => writes.push(Write::Create(Object::EndpointSlice(Box::new(
                slice.slice(),
            )))),
            Some(actual) if *actual.address_type != *slice.address_type => {
                // Immutable. It is made anew once the deletion is seen.
                writes.push(Write::delete_slice(actual));
            }
            Some(actual) => writes.extend(patch(&slice, actual)),
        }
    }
    ours.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    writes.extend(ours.into_iter().map(Write::delete_slice));
}

fn patch(desired: &DesiredSlice<'_>, actual: &EndpointSlice) -> Option<Write> {
    let metadata = patch_metadata(&desired.dress, &actual.metadata);
    let mut owners = actual.metadata.owner_references.iter();
    let owned = owners.any(|known| *known.uid == *desired.owner.1);
    let same_ports = desired.ports.len() == actual.ports.len()
        && desired
            .ports
            .iter()
            .zip(&actual.ports)
            .all(|(port, actual)| port.is(actual));
    let same = *desired.endpoints == *actual.endpoints && same_ports;
    if metadata.is_none() && owned && same {
        return None;
    }
    let mut metadata =
        metadata.unwrap_or_else(|| forced_metadata(&desired.dress, &actual.metadata));
    if !owned {
        metadata["ownerReferences"] = json!(desired.owners());
    }
    let rest = if same {
        json!({})
    } else {
        json!({ "endpoints": desired.endpoints, "ports": desired.ports() })
    };
    Some(guarded(
        Kind::EndpointSlice,
        &actual.metadata,
        metadata,
        rest,
    ))
}

#[cfg(test)]
mod tests;
