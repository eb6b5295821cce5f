//! A slice that should exist, and its parts.

use std::net::IpAddr;

use super::super::service::Desired;
use crate::{
    api::{
        k8s::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
        labels as l,
        metadata::{Metadata, OwnerReference},
    },
    mirror::metadata::{
        DesiredMetadata,
        desired::{DesiredEntries, NOTHING_COPIED},
        sign,
    },
};

/// An EndpointSlice that should exist.
#[derive(Clone, Debug)]
pub(crate) struct DesiredSlice<'a> {
    pub(crate) name: String,
    pub(crate) namespace: &'a str,
    pub(crate) metadata: DesiredMetadata<'a>,
    /// Name and UID of the Service that it belongs to. The UID is empty if the Service does not exist yet; `apply` then
    /// fills it in from the response to the Service's creation.
    pub(crate) owner: (&'a str, &'a str),
    pub(crate) address_type: &'static str,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ports: Vec<SlicePort<'a>>,
}

/// A port of such a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlicePort<'a> {
    pub(crate) name: &'a str,
    pub(crate) protocol: &'a str,
    pub(crate) port: i32,
    pub(crate) app_protocol: Option<&'a str>,
}

impl<'a> SlicePort<'a> {
    /// The port of an existing slice.
    pub(crate) fn of(port: &'a EndpointPort) -> Self {
        Self {
            name: port.name.as_deref().unwrap_or_default(),
            protocol: port.protocol.as_deref().unwrap_or("TCP"),
            port: port.port.unwrap_or_default(),
            app_protocol: port.app_protocol.as_deref(),
        }
    }

    pub(crate) fn is(&self, actual: &EndpointPort) -> bool {
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
    pub(crate) fn new(
        service: &'a Desired<'_>,
        metadata: &DesiredMetadata<'a>,
        suffix: &str,
        address_type: &'static str,
        endpoints: Vec<Endpoint>,
        ports: Vec<SlicePort<'a>>,
    ) -> Self {
        let mut metadata = metadata.clone();
        metadata
            .labels
            .insert(l::SLICE_SERVICE, service.name.into());
        metadata
            .labels
            .insert(l::SLICE_MANAGED_BY, l::MANAGER.into());
        sign(&mut metadata, service.installation, |feed| {
            feed(address_type.as_bytes());
            for endpoint in &endpoints {
                for address in &endpoint.addresses {
                    feed(address.as_bytes());
                }
                feed(endpoint.hostname.as_deref().unwrap_or_default().as_bytes());
                feed(&[u8::from(endpoint.is_ready())]);
                feed_pod(endpoint, feed);
            }
            for port in &ports {
                feed(port.name.as_bytes());
                feed(port.protocol.as_bytes());
                feed(port.app_protocol.unwrap_or_default().as_bytes());
                feed(&port.port.to_be_bytes());
            }
        });
        // Not part of the hash, as in Services. Nothing is copied to a slice, so the record is empty.
        metadata
            .annotations
            .insert(l::COPIED_KEYS, NOTHING_COPIED.into());
        Self {
            name: format!("{}-{suffix}", service.name),
            namespace: service.namespace,
            metadata,
            owner: (service.name, service.uid.unwrap_or_default()),
            address_type,
            endpoints,
            ports,
        }
    }

    pub(crate) fn owners(&self) -> [OwnerReference; 1] {
        let (name, uid) = self.owner;
        [OwnerReference::to_service(name, uid)]
    }

    pub(crate) fn ports(&self) -> Box<[EndpointPort]> {
        self.ports.iter().map(SlicePort::object).collect()
    }

    /// The object to create.
    pub(crate) fn slice(self) -> EndpointSlice {
        EndpointSlice {
            ports: self.ports(),
            metadata: Metadata {
                owner_references: self.owners().into(),
                ..self.metadata.object_metadata(self.namespace, &self.name)
            },
            address_type: self.address_type.into(),
            endpoints: self.endpoints.into(),
        }
    }
}

/// Feeds the conditions, Pod, node and zone of an endpoint that is a Pod into a hash.
fn feed_pod(endpoint: &Endpoint, feed: &mut dyn FnMut(&[u8])) {
    let Some(pod) = &endpoint.pod else { return };
    let conditions = [endpoint.conditions.serving, endpoint.conditions.terminating];
    feed(&conditions.map(|condition| condition.map_or(2, u8::from)));
    let target = pod.target.iter();
    let target = target.flat_map(|of| [&of.kind, &of.namespace, &of.name, &of.uid]);
    for text in target.chain([&pod.node, &pod.zone]) {
        feed(text.as_deref().unwrap_or_default().as_bytes());
    }
}

/// Labels and annotations of a Service's slices, except the label with its name: labels that say what the Service is,
/// and what Linkerd's destination controller reads. Other labels of the Service are omitted: consumers select slices by
/// labels, and a target cluster must not be able to hand them endpoints.
pub(crate) fn slice_metadata<'a>(
    service: &'a Desired<'_>,
    identity: &'a str,
) -> DesiredMetadata<'a> {
    let mut annotations = DesiredEntries::default();
    if let Some(fq_name) = service.metadata.annotations.get(l::REMOTE_FQ_NAME) {
        annotations.insert(l::REMOTE_FQ_NAME, fq_name.into());
    }
    if !identity.is_empty() {
        annotations.insert(l::REMOTE_GATEWAY_IDENTITY, identity.into());
    }
    DesiredMetadata {
        labels: service.metadata.labels.only(l::is_of_service_mirrors),
        annotations,
    }
}

/// Maximum number of endpoints of one slice: the API server rejects more.
pub(crate) const MAX_ENDPOINTS: usize = 1000;

pub(crate) fn endpoint(address: IpAddr, hostname: Option<&str>, ready: bool) -> Endpoint {
    Endpoint {
        addresses: [address.to_string().into()].into(),
        conditions: EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        },
        hostname: hostname.map(Into::into),
        pod: None,
    }
}

pub(crate) fn family(address: IpAddr) -> (&'static str, &'static str) {
    match address {
        IpAddr::V4(_) => ("ipv4", "IPv4"),
        IpAddr::V6(_) => ("ipv6", "IPv6"),
    }
}

/// Addresses grouped by family, in the given order: suffix of the slice's name, address type, addresses.
pub(crate) fn families(
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
