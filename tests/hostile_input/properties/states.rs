//! Links, Services and what is known of them, from JSON.

use std::{net::IpAddr, sync::Arc};

use linkerd_mc::{
    api::k8s::{EndpointSlice, Service},
    mirror::{
        Config, GatewayState, LinkEntry, Liveness, NamespacePhase, RemoteState, State, Store,
        Target,
    },
};
use serde_json::{Map, Value, json};

/// Namespace of Links, and one of Services.
pub(super) const LINKS: &str = "mc";
pub(super) const NS: &str = "ns";

/// A good Link of a cluster of the same name, with these fields of the specification besides.
pub(super) fn link(cluster: &str, spec: &Value) -> Value {
    let mut link = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": cluster, "namespace": LINKS },
        "spec": {
            "targetClusterName": cluster,
            "targetClusterDomain": "cluster.local",
            "gatewayAddress": "192.0.2.1",
            "gatewayPort": "4143",
            "gatewayIdentity": "gateway.identity",
            "probeSpec": { "path": "/ready", "period": "3s", "port": "4191" },
            "selector": { "matchLabels": { "mirror.linkerd.io/exported": "true" } },
            "remoteDiscoverySelector":
                { "matchLabels": { "mirror.linkerd.io/exported": "remote-discovery" } },
            "federatedServiceSelector": { "matchLabels": { "mirror.linkerd.io/federated": "member" } },
        },
    });
    if let (Some(fields), Some(all)) = (spec.as_object(), link["spec"].as_object_mut()) {
        all.extend(fields.clone());
    }
    link
}

/// A Service with a port.
pub(super) fn service(
    namespace: &str,
    name: &str,
    headless: bool,
    labels: &Map<String, Value>,
    annotations: &Map<String, Value>,
) -> Service {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1",
            "labels": labels, "annotations": annotations,
        },
        "spec": {
            "clusterIP": if headless { "None" } else { "10.0.0.1" },
            "ports": [{ "name": "http", "port": 80 }],
        },
    }))
    .unwrap()
}

/// The slice of a Service, with one endpoint that has this host name.
pub(super) fn slice(namespace: &str, service: &str, host: Option<&str>) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("{service}-x"), "namespace": namespace,
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.1.1"], "hostname": host }],
        "ports": [{ "name": "http", "port": 80 }],
    }))
    .unwrap()
}

/// A local cluster that has nothing but namespaces.
pub(super) fn empty() -> State {
    let config = Config {
        namespace: LINKS.to_owned(),
        ..Config::default()
    };
    State::listed(
        config,
        [NS, LINKS].map(|name| (name.to_owned(), NamespacePhase::Active)),
    )
}

/// Adds a Link whose target cluster has these.
pub(super) fn add(
    state: &mut State,
    target: Target,
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
) {
    let mut remote = RemoteState {
        services: vec![Store::default()],
        slices: vec![Store::default()],
        ..RemoteState::default()
    };
    for service in services {
        remote.services[0].put(Arc::new(service));
    }
    for slice in slices {
        remote.slices[0].put(Arc::new(slice));
    }
    let entry = LinkEntry {
        cluster: Some(target.cluster.clone()),
        linked: None,
        created: target.created,
        listed: None,
        gateway: GatewayState {
            addresses: Some(vec![IpAddr::from([192, 0, 2, 1])]),
            liveness: Liveness::Alive,
        },
        api_gateway: GatewayState::default(),
        remote: Some(remote),
        target: Ok(target),
    };
    let links = &mut state.links;
    links.insert(entry.target.as_ref().unwrap().link.clone(), entry);
}

/// RFC 1123, as Kubernetes has it.
pub(super) fn is_dns_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}
