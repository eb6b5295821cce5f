//! Subsets of Kubernetes types: what mirroring reads and writes, and nothing else.
//!
//! A field that is not named here is never held in memory, and never written.

use k8s_openapi::{
    api::{core::v1, discovery},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde::{Deserialize, Serialize};

use super::{
    map::Map,
    metadata::Metadata,
    null_is_default,
    wire::{Kept, Wire},
    word::Word,
};

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Metadata.
    pub metadata: Metadata,
    /// Specification.
    #[serde(default)]
    pub spec: ServiceSpec,
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
    pub type_: Option<Word>,
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
    pub protocol: Option<Word>,
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
    pub address_type: Word,
    /// Endpoints; `null` on the wire means none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub endpoints: Box<[Endpoint]>,
    /// Ports; `null` on the wire means none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ports: Box<[EndpointPort]>,
}

/// One endpoint of an [`EndpointSlice`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Addresses, all of the slice's address type; consumers use the first.
    #[serde(default, deserialize_with = "null_is_default")]
    pub addresses: Box<[Box<str>]>,
    /// Conditions.
    #[serde(default)]
    pub conditions: EndpointConditions,
    /// Host name, a DNS label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
}

/// Conditions of an [`Endpoint`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointConditions {
    /// Whether the endpoint takes traffic; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
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
    pub protocol: Option<Word>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Application protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Box<str>>,
}

impl Kept for Service {
    type Kind = v1::Service;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Kept for EndpointSlice {
    type Kind = discovery::v1::EndpointSlice;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
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
    /// Whether the Service is headless (`clusterIP: None`).
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip.as_deref() == Some("None")
    }
}

impl ServicePort {
    /// The protocol with Kubernetes' default filled in.
    pub fn protocol(&self) -> &str {
        self.protocol.as_deref().unwrap_or("TCP")
    }
}

impl Endpoint {
    /// Whether the endpoint takes traffic. Kubernetes: consumers read an absent value as ready.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }
}
