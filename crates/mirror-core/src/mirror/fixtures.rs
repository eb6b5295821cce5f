//! Short builders for tests: Links, Services, slices, states. What a test does not set has a usual value.

#[cfg(test)]
mod states;

use std::{net::IpAddr, num::NonZeroU16, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

#[cfg(test)]
pub(crate) use self::states::{body, described, plan, plan_unconfirmed, reported};
use super::{
    ApiGatewaySettings, Config, GatewayState, LinkEntry, Liveness, NamespacePhase, Omitted,
    RemoteState, State, Store, Target,
};
use crate::api::{
    k8s::{
        Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Service, ServicePort,
        ServiceSpec,
    },
    labels as l,
    link::{Link, LinkSpec, ProbeSpec},
    map::Map,
    metadata::Metadata,
};

/// Namespace of Links in tests.
pub(crate) const LINKS: &str = "mc";
/// Namespace of Services in tests.
pub const NS: &str = "ns";
/// The gateway's address in tests.
pub(crate) const GATEWAY: &str = "192.0.2.1";
/// The gateway of each target cluster that leads to its API server.
pub(crate) const API_GATEWAY: &str = "192.0.2.7";

pub fn map(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().copied().collect()
}

/// A Service that is omitted because of the limit. `named`: whether its name is kept.
pub fn omitted(service: &str, named: bool) -> Omitted {
    let mut omitted = Omitted::default();
    omitted.add((NS.to_owned(), service.to_owned()));
    if !named {
        omitted.forget_names();
    }
    omitted
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A Link as `link-gen` creates it, with a gateway, for a cluster of the same name.
pub fn link(name: &str) -> Link {
    let equals = |key: &str, value: &str| {
        Some(
            serde_json::from_value(serde_json::json!({ "matchLabels": { key: value } }))
                .expect("a selector"),
        )
    };
    Link {
        metadata: kube_core::ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(LINKS.to_owned()),
            creation_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0))),
            ..Default::default()
        },
        spec: LinkSpec {
            target_cluster_name: name.to_owned(),
            target_cluster_domain: "cluster.local".to_owned(),
            gateway_address: GATEWAY.to_owned(),
            gateway_port: "4143".to_owned(),
            gateway_identity: "gateway.identity".to_owned(),
            probe_spec: ProbeSpec {
                path: "/ready".to_owned(),
                period: "3s".to_owned(),
                port: "4191".to_owned(),
                ..ProbeSpec::default()
            },
            selector: equals(l::EXPORTED, "true"),
            remote_discovery_selector: equals(l::EXPORTED, "remote-discovery"),
            federated_service_selector: equals(l::FEDERATED, "member"),
            ..LinkSpec::default()
        },
        status: None,
    }
}

/// The same Link, whose API server is reached through a gateway.
pub(crate) fn through_gateway(link: &mut Link, discovery: bool) {
    let settings = ApiGatewaySettings {
        addresses: vec![API_GATEWAY.to_owned()],
        port: NonZeroU16::new(4443).unwrap(),
        identity: "api.identity".to_owned(),
        service: "linkerd-multicluster/kubernetes-api".to_owned(),
        discovery,
    };
    let annotations = link.metadata.annotations.get_or_insert_default();
    annotations.insert(l::API_GATEWAY.to_owned(), settings.to_annotation());
}

/// A Link, parsed.
pub(crate) fn target(cluster: &str) -> Target {
    Target::parse(&link(cluster), false).unwrap()
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Service under construction.
#[derive(Clone, Debug)]
pub struct Svc(pub Service);

/// A Service with one port, `http` 80.
pub fn svc(name: &str) -> Svc {
    Svc(Service {
        metadata: Metadata {
            name: Some(name.into()),
            namespace: Some(NS.into()),
            uid: Some(format!("uid-{name}").into()),
            resource_version: Some("1".into()),
            ..Metadata::default()
        },
        spec: ServiceSpec {
            cluster_ip: Some("10.0.0.1".into()),
            ports: [port("http", 80)].into(),
            type_: Some("ClusterIP".into()),
            ..ServiceSpec::default()
        },
        ..Service::default()
    })
}

pub(crate) fn port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        protocol: Some("TCP".into()),
        port: number,
        ..ServicePort::default()
    }
}

impl Svc {
    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = Some(namespace.into());
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.insert(key, value);
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.annotations.insert(key, value);
        self
    }

    pub fn exported(self) -> Self {
        self.label(l::EXPORTED, "true")
    }

    pub fn discovered(self) -> Self {
        self.label(l::EXPORTED, "remote-discovery")
    }

    pub(crate) fn member(self) -> Self {
        self.label(l::FEDERATED, "member")
    }

    pub(crate) fn headless(mut self) -> Self {
        self.0.spec.cluster_ip = Some("None".into());
        self
    }

    /// With a selector of Pods.
    pub(crate) fn selecting(mut self) -> Self {
        self.0.spec.selector = map(&[("app", "web")]);
        self
    }

    pub(crate) fn ports(mut self, ports: Vec<ServicePort>) -> Self {
        self.0.spec.ports = ports.into();
        self
    }

    pub(crate) fn version(mut self, version: u64) -> Self {
        self.0.metadata.resource_version = Some(version.to_string().into());
        self
    }

    /// The mirror of a Service as Linkerd's own service mirror creates it.
    pub(crate) fn mirrored_by_linkerd(self, cluster: &str, service: &str) -> Self {
        self.label(l::MIRRORED_SERVICE, "true")
            .label(l::CLUSTER_NAME, cluster)
            .annotation(
                l::REMOTE_FQ_NAME,
                &format!("{service}.{NS}.svc.cluster.local"),
            )
            .annotation(l::REMOTE_RESOURCE_VERSION, "1")
    }

    pub fn arc(self) -> Arc<Service> {
        Arc::new(self.0)
    }
}

/// A slice of a Service, IPv4, with the port `http` 8080 and no endpoints.
pub(crate) fn slice(service: &str, suffix: &str) -> EndpointSlice {
    EndpointSlice {
        metadata: Metadata {
            name: Some(format!("{service}-{suffix}").into()),
            namespace: Some(NS.into()),
            uid: Some(format!("uid-slice-{service}-{suffix}").into()),
            resource_version: Some("1".into()),
            labels: map(&[(l::SLICE_SERVICE, service)]),
            ..Metadata::default()
        },
        address_type: "IPv4".into(),
        endpoints: Box::default(),
        ports: [EndpointPort {
            name: Some("http".into()),
            protocol: Some("TCP".into()),
            port: Some(8080),
            app_protocol: None,
        }]
        .into(),
    }
}

pub(crate) fn endpoint(address: &str, host: Option<&str>, ready: bool) -> Endpoint {
    Endpoint {
        addresses: [address.into()].into(),
        conditions: EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        },
        hostname: host.map(Into::into),
        pod: None,
    }
}

/// A slice with one ready endpoint.
pub fn backing(service: &str) -> EndpointSlice {
    EndpointSlice {
        endpoints: [endpoint("192.0.2.10", None, true)].into(),
        ..slice(service, "x")
    }
}

/// A slice with these hosts, all ready.
pub(crate) fn hosts(service: &str, hosts: &[&str]) -> EndpointSlice {
    let endpoints = hosts
        .iter()
        .enumerate()
        .map(|(index, host)| endpoint(&format!("192.0.2.{}", index + 10), Some(host), true));
    EndpointSlice {
        endpoints: endpoints.collect(),
        ..slice(service, "x")
    }
}

/// What is known through a Link: its cluster listed and empty, its gateway alive.
pub(crate) fn entry(target: Target) -> LinkEntry {
    LinkEntry {
        cluster: Some(target.cluster.clone()),
        created: target.created,
        linked: None,
        listed: Some(target.cluster.clone()),
        target: Ok(target),
        remote: Some(RemoteState {
            services: vec![Store::default()],
            slices: vec![Store::default()],
            ..RemoteState::default()
        }),
        gateway: GatewayState {
            addresses: Some(vec![ip(GATEWAY)]),
            liveness: Liveness::Alive,
        },
        api_gateway: GatewayState {
            addresses: Some(vec![ip(API_GATEWAY)]),
            liveness: Liveness::Unknown,
        },
    }
}

/// A listed local cluster: the namespaces of Links and of Services, and nothing in them.
pub fn state() -> State {
    let config = Config {
        namespace: LINKS.to_owned(),
        local_members: target("x").federated_selector,
        ..Config::default()
    };
    State::listed(
        config,
        [NS, LINKS].map(|name| (name.to_owned(), NamespacePhase::Active)),
    )
}

/// Applies a JSON merge patch as an API server does (RFC 7396).
pub fn merge_patch(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(serde_json::Map::new());
    }
    let into = into.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            into.remove(key);
        } else {
            merge_patch(into.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
