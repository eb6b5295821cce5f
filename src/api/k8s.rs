//! Subsets of Kubernetes types: what mirroring reads and writes, and nothing else.
//!
//! A field that is not named here is never held in memory, and never written.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{core::v1, discovery},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Serialize};

type CoreService = v1::Service;
type DiscoverySlice = discovery::v1::EndpointSlice;

/// A Service.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "CoreService")]
pub struct Service {
    /// Metadata.
    pub metadata: ObjectMeta,
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
    pub cluster_ip: Option<String>,
    /// Ports, unique by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePort>,
    /// Pods that back the Service; none on a mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// `ClusterIP` (default), `NodePort`, `LoadBalancer`, `ExternalName`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// A port of a [`Service`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; may be absent on a Service with one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `TCP` (default), `UDP`, `SCTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Application protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Port, 1..65535.
    pub port: i32,
    /// Port of the backing pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
}

/// An EndpointSlice.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "DiscoverySlice")]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`; immutable.
    #[serde(default)]
    pub address_type: String,
    /// Endpoints; `null` on the wire means none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub endpoints: Vec<Endpoint>,
    /// Ports; `null` on the wire means none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ports: Vec<EndpointPort>,
}

/// One endpoint of an [`EndpointSlice`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Addresses, all of the slice's address type; consumers use the first.
    #[serde(default, deserialize_with = "null_is_default")]
    pub addresses: Vec<String>,
    /// Conditions.
    #[serde(default)]
    pub conditions: EndpointConditions,
    /// Host name, a DNS label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
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
    pub name: Option<String>,
    /// `TCP` (default), `UDP`, `SCTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Application protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
