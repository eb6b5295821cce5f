//! Subsets of Kubernetes types: only the fields that mirroring reads and writes.
//!
//! Other fields are neither kept in memory nor written.

use k8s_openapi::{
    api::{core::v1, discovery},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde::{Deserialize, Serialize};

use super::{
    interned_str::InternedStr,
    labels as l,
    map::Map,
    metadata::{Metadata, text_weight},
    null_is_default,
    wire::{StoredObject, Subset, Wire},
};

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Metadata.
    pub metadata: Metadata,
    /// Specification.
    #[serde(default)]
    pub spec: ServiceSpec,
    /// Whether its labels and annotations are too large to be copied ([`Self::trimmed`]).
    #[serde(skip)]
    pub is_trimmed: bool,
}

/// Specification of a [`Service`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `None` (the text) makes a Service headless.
    #[serde(rename = "clusterIP", default, skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<Box<str>>,
    /// Ports, unique by name.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub ports: Box<[ServicePort]>,
    /// Pods that back the Service; none on a mirror.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Map::is_empty"
    )]
    pub selector: Map,
    /// `ClusterIP` (default), `NodePort`, `LoadBalancer`, `ExternalName`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<InternedStr>,
}

/// A port of a [`Service`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; may be absent on a Service with one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// `TCP` (default), `UDP`, `SCTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<InternedStr>,
    /// Application protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Box<str>>,
    /// Port, 1..65535.
    pub port: i32,
    /// Port of the backing pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
}

/// An EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Metadata.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`; immutable.
    #[serde(default)]
    pub address_type: InternedStr,
    /// Endpoints; `null` on the wire means none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub endpoints: Box<[Endpoint]>,
    /// Ports; `null` on the wire means none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ports: Box<[EndpointPort]>,
}

/// One endpoint of an [`EndpointSlice`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WireEndpoint", into = "WireEndpoint")]
pub struct Endpoint {
    /// Addresses, all of the slice's address type; consumers use the first.
    pub addresses: Box<[Box<str>]>,
    /// Conditions.
    pub conditions: EndpointConditions,
    /// Host name, a DNS label.
    pub hostname: Option<Box<str>>,
    /// The Pod behind it, if it is a Pod of this cluster.
    pub pod: Option<Box<PodRef>>,
}

/// Conditions of an [`Endpoint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointConditions {
    /// Whether the endpoint takes traffic; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether it responds, also while it is terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Whether it is terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The Pod behind an [`Endpoint`], and its node and zone. Boxed, because few endpoints have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRef {
    /// The Pod.
    pub target: Option<TargetRef>,
    /// Name of its node.
    pub node: Option<Box<str>>,
    /// The node's zone.
    pub zone: Option<Box<str>>,
}

/// The object behind an [`Endpoint`]: Linkerd takes a Pod's identity from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRef {
    /// Kind, usually `Pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Box<str>>,
}

/// An [`Endpoint`] as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEndpoint {
    #[serde(default, deserialize_with = "null_is_default")]
    addresses: Box<[Box<str>]>,
    #[serde(default)]
    conditions: EndpointConditions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hostname: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_ref: Option<TargetRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_name: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<Box<str>>,
}

impl From<WireEndpoint> for Endpoint {
    fn from(wire: WireEndpoint) -> Self {
        let pod = PodRef {
            target: wire.target_ref,
            node: wire.node_name,
            zone: wire.zone,
        };
        Self {
            addresses: wire.addresses,
            conditions: wire.conditions,
            hostname: wire.hostname,
            pod: (pod != PodRef::default()).then(|| Box::new(pod)),
        }
    }
}

impl From<Endpoint> for WireEndpoint {
    fn from(endpoint: Endpoint) -> Self {
        let pod = endpoint.pod.map(|pod| *pod).unwrap_or_default();
        Self {
            addresses: endpoint.addresses,
            conditions: endpoint.conditions,
            hostname: endpoint.hostname,
            target_ref: pod.target,
            node_name: pod.node,
            zone: pod.zone,
        }
    }
}

/// A port of an [`EndpointSlice`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPort {
    /// Name of the Service port; empty for an unnamed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// `TCP` (default), `UDP`, `SCTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<InternedStr>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Application protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Box<str>>,
}

impl Subset for Service {
    type Kind = v1::Service;
}

impl Subset for EndpointSlice {
    type Kind = discovery::v1::EndpointSlice;
}

impl StoredObject for Service {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn weight(&self) -> usize {
        let spec = &self.spec;
        let ports = spec.ports.iter().map(ServicePort::weight);
        size_of::<Self>()
            + INDEX_COST
            + self.metadata.weight()
            + spec.selector.weight()
            + text_weight([&spec.cluster_ip])
            + word_weight(spec.type_.as_ref())
            + ports.sum::<usize>()
    }
}

impl StoredObject for EndpointSlice {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn weight(&self) -> usize {
        let endpoints = self.endpoints.iter().map(|endpoint| {
            let addresses = endpoint.addresses.iter();
            let addresses = addresses.map(|address| size_of::<Box<str>>() + address.len());
            let pod = endpoint.pod.as_deref().map_or(0, PodRef::weight);
            let text = text_weight([&endpoint.hostname]);
            size_of::<Endpoint>() + addresses.sum::<usize>() + text + pod
        });
        let ports = self.ports.iter().map(EndpointPort::weight);
        size_of::<Self>()
            + INDEX_COST
            + self.metadata.weight()
            + self.address_type.weight()
            + endpoints.sum::<usize>()
            + ports.sum::<usize>()
    }
}

/// Bytes that an object needs for its entries in a store, with the overhead of the allocator.
const INDEX_COST: usize = 192;

/// Bytes of an optional word. A hostile API server may send any text where Kubernetes has only a few words.
fn word_weight(word: Option<&InternedStr>) -> usize {
    word.map_or(0, InternedStr::weight)
}

impl From<Wire<Self>> for Service {
    fn from(wire: Wire<Self>) -> Self {
        wire.object
    }
}

impl From<Wire<Self>> for EndpointSlice {
    fn from(wire: Wire<Self>) -> Self {
        wire.object
    }
}

impl Service {
    /// Drops the annotations if labels and annotations together have more than `max` bytes. Neither are then copied to
    /// the mirror. Labels stay, because selectors match them. The annotation for opaque ports stays too, because
    /// traffic depends on it, and the one that says to which clusters the Service is exported: if that is too large, it
    /// becomes empty, which means none.
    #[must_use]
    pub fn trimmed(mut self, max: usize) -> Self {
        let Metadata {
            labels,
            annotations,
            ..
        } = &mut self.metadata;
        self.is_trimmed = labels.size() + annotations.size() > max;
        if self.is_trimmed {
            let opaque = annotations.get(l::OPAQUE_PORTS);
            let opaque = opaque.filter(|ports| ports.len() <= max);
            let kept = opaque.map(|ports| (l::OPAQUE_PORTS, ports));
            let consent = annotations.get(l::EXPORT_TO);
            let consent = consent.map(|to| if to.len() <= max { to } else { "" });
            let consent = consent.map(|to| (l::EXPORT_TO, to));
            *annotations = kept.into_iter().chain(consent).collect();
        }
        self
    }

    /// Whether the Service is headless (`clusterIP: None`).
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip.as_deref() == Some("None")
    }
}

impl ServicePort {
    /// The protocol, or Kubernetes' default.
    pub fn protocol(&self) -> &str {
        self.protocol.as_deref().unwrap_or("TCP")
    }

    fn weight(&self) -> usize {
        let target = match &self.target_port {
            Some(IntOrString::String(name)) => name.len(),
            Some(IntOrString::Int(_)) | None => 0,
        };
        size_of::<Self>()
            + text_weight([&self.name, &self.app_protocol])
            + word_weight(self.protocol.as_ref())
            + target
    }
}

impl EndpointPort {
    fn weight(&self) -> usize {
        size_of::<Self>()
            + text_weight([&self.name, &self.app_protocol])
            + word_weight(self.protocol.as_ref())
    }
}

impl PodRef {
    fn weight(&self) -> usize {
        let target = self.target.iter();
        let target = target.map(|of| text_weight([&of.kind, &of.namespace, &of.name, &of.uid]));
        size_of::<Self>() + target.sum::<usize>() + text_weight([&self.node, &self.zone])
    }
}

impl Endpoint {
    /// Whether the endpoint takes traffic. Kubernetes: consumers read an absent value as ready.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }
}

#[cfg(test)]
mod tests;
