//! Builds the v1 Endpoints of a mirror from its slices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints},
    discovery::v1::{Endpoint, EndpointSlice},
};
use kube::api::ObjectMeta;

use mirror_core::api::labels as l;

/// The Endpoints of a Service with these slices, at least one. Kubernetes creates slices for them
/// (<https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#endpointslice-mirroring>).
pub fn of_slices(namespace: &str, service: &str, slices: &[EndpointSlice]) -> Endpoints {
    let metadata = slices.first().map(|slice| &slice.metadata);
    let kept = |of: fn(&ObjectMeta) -> &Option<BTreeMap<String, String>>| {
        let all = metadata.and_then(|metadata| of(metadata).clone());
        all.map(|mut all| {
            all.retain(|key, _| !is_ours(key));
            all
        })
    };
    Endpoints {
        metadata: ObjectMeta {
            name: Some(service.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: kept(|metadata| &metadata.labels),
            annotations: kept(|metadata| &metadata.annotations),
            ..ObjectMeta::default()
        },
        subsets: Some(slices.iter().filter_map(subset).collect()),
    }
}

/// Whether a key is for slices or ours, so that Endpoints of Linkerd's service mirror do not have it.
fn is_ours(key: &str) -> bool {
    [l::SLICE_SERVICE, l::SLICE_MANAGED_BY].contains(&key) || l::SIGNATURE.contains(&key)
}

/// Addresses of all slices.
pub fn addresses(slices: &[EndpointSlice]) -> impl Iterator<Item = &str> {
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    endpoints
        .flat_map(|endpoint| &endpoint.addresses)
        .map(String::as_str)
}

/// Whether Endpoints have all addresses of slices.
pub fn has_all(endpoints: &Endpoints, slices: &[EndpointSlice]) -> bool {
    let subsets = endpoints.subsets.iter().flatten();
    let known: BTreeSet<&str> = subsets
        .flat_map(|subset| [&subset.addresses, &subset.not_ready_addresses])
        .flatten()
        .flatten()
        .map(|address| address.ip.as_str())
        .collect();
    addresses(slices).all(|address| known.contains(address))
}

/// The subset of a slice; `None` without addresses, which a subset must have.
fn subset(slice: &EndpointSlice) -> Option<EndpointSubset> {
    let (ready, not_ready): (Vec<&Endpoint>, Vec<&Endpoint>) =
        slice.endpoints.iter().partition(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready) != Some(false)
        });
    let of = |endpoints: Vec<&Endpoint>| -> Option<Vec<EndpointAddress>> {
        let addresses: Vec<EndpointAddress> = endpoints
            .into_iter()
            .flat_map(|endpoint| {
                endpoint.addresses.iter().map(|address| EndpointAddress {
                    ip: address.clone(),
                    hostname: endpoint.hostname.clone(),
                    ..EndpointAddress::default()
                })
            })
            .collect();
        (!addresses.is_empty()).then_some(addresses)
    };
    let (addresses, not_ready_addresses) = (of(ready), of(not_ready));
    if addresses.is_none() && not_ready_addresses.is_none() {
        return None;
    }
    let ports = slice.ports.iter().flatten();
    Some(EndpointSubset {
        addresses,
        not_ready_addresses,
        ports: Some(
            ports
                .filter_map(|port| {
                    Some(EndpointPort {
                        name: port.name.clone(),
                        port: port.port?,
                        protocol: port.protocol.clone(),
                        app_protocol: port.app_protocol.clone(),
                    })
                })
                .collect(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(endpoints: &Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {
                "name": "web-east-ipv4",
                "labels": {
                    "kubernetes.io/service-name": "web-east",
                    "endpointslice.kubernetes.io/managed-by": "linkerd-mc",
                    "mirror.linkerd.io/cluster-name": "east",
                    "team": "a",
                },
                "annotations": {
                    "mirror.linkerd.io/installation": "linkerd-multicluster",
                    "mirror.linkerd.io/desired-state": "1",
                    "mirror.linkerd.io/remote-gateway-identity": "gateway",
                },
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{ "name": "http", "port": 4143, "protocol": "TCP" }],
        }))
        .unwrap()
    }

    fn made_of(slices: &[EndpointSlice]) -> Value {
        serde_json::to_value(of_slices("app", "web-east", slices)).unwrap()
    }

    #[test]
    fn endpoints_have_what_the_slices_have_and_nothing_of_ours() {
        let ready = slice(&json!([{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }]));
        let dead = slice(&json!([{ "addresses": ["10.0.0.2"], "conditions": { "ready": false } }]));
        let ports = json!([{ "name": "http", "port": 4143, "protocol": "TCP" }]);
        assert_eq!(
            made_of(&[ready, dead]),
            json!({
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {
                    "name": "web-east",
                    "namespace": "app",
                    "labels": { "mirror.linkerd.io/cluster-name": "east", "team": "a" },
                    "annotations": { "mirror.linkerd.io/remote-gateway-identity": "gateway" },
                },
                "subsets": [
                    { "addresses": [{ "ip": "10.0.0.1" }], "ports": ports },
                    { "notReadyAddresses": [{ "ip": "10.0.0.2" }], "ports": ports },
                ],
            })
        );
    }

    #[test]
    fn hosts_keep_their_names_and_a_mirror_without_endpoints_has_no_subset() {
        let hosts = slice(&json!([
            { "addresses": ["10.0.0.1"], "hostname": "db-0" },
            { "addresses": ["10.0.0.2"], "hostname": "db-1" },
        ]));
        let made = made_of(&[hosts]);
        assert_eq!(
            made["subsets"][0]["addresses"],
            json!([
                { "ip": "10.0.0.1", "hostname": "db-0" },
                { "ip": "10.0.0.2", "hostname": "db-1" },
            ])
        );
        assert_eq!(made_of(&[slice(&json!([]))])["subsets"], json!([]));
    }
}
