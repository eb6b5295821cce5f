//! The objects in the source cluster, without the fields that differ from run to run.

use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, api::ListParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use super::stage::Stage;
use crate::support::{gateway_api, installation::NAMESPACE};

/// Fields of the metadata that differ from run to run.
const MADE_UP: [&str; 6] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "generateName",
];

/// The Services and routes in the namespace of the stage, the controller's slices and the Endpoints of mirrors there,
/// and the gateway Services of the Links with their slices. The text has one object per line. Placeholders replace
/// names and `ClusterIP`s.
pub(super) async fn normal(stage: &Stage) -> anyhow::Result<String> {
    let client = stage.source.client();
    let all = ListParams::default();
    let services: Api<Service> = Api::namespaced(client.clone(), &stage.namespace);
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &stage.namespace);
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), &stage.namespace);
    let probes: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let gateway_slices: Api<EndpointSlice> = Api::namespaced(client, NAMESPACE);
    let routes = gateway_api::routes(&stage.source, &stage.namespace, "HTTPRoute");
    let gateways = ListParams::default().labels(&format!("{}=true", l::MIRRORED_GATEWAY));
    let (services, slices, endpoints, probes, gateway_slices, routes) = tokio::try_join!(
        services.list(&all),
        slices.list(&all),
        endpoints.list(&all),
        probes.list(&gateways),
        gateway_slices.list(&gateways),
        routes.list(&all),
    )?;
    let mut objects = Vec::new();
    let mut addresses = Vec::new();
    for service in services.items.iter().chain(&probes.items) {
        let name = service.metadata.name.clone().unwrap_or_default();
        let ip = service.spec.as_ref().and_then(|s| s.cluster_ip.clone());
        if let Some(ip) = ip.filter(|ip| ip != "None") {
            addresses.push((format!("\"{ip}\""), format!("\"IP of {name}\"")));
        }
        objects.push(json!({ "Service": service }));
    }
    for slice in slices.items.iter().chain(&gateway_slices.items) {
        let annotations = slice.metadata.annotations.as_ref();
        // Kubernetes creates and deletes its own slices independently.
        if annotations.is_some_and(|a| a.get(l::MANAGED_BY).is_some_and(|by| by == l::MANAGER)) {
            objects.push(json!({ "EndpointSlice": slice }));
        }
    }
    for route in routes.items {
        objects.push(json!({ "HTTPRoute": route }));
    }
    for endpoints in endpoints.items {
        let labels = endpoints.metadata.labels.as_ref();
        if labels.is_some_and(|labels| labels.contains_key(l::MIRRORED_SERVICE)) {
            objects.push(json!({ "Endpoints": endpoints.metadata.name }));
        }
    }
    let mut lines: Vec<String> = objects
        .into_iter()
        .map(|object| line(object, stage, &addresses))
        .collect();
    lines.retain(|line| line.contains("NAMESPACE") || line.contains("CLUSTER"));
    lines.sort();
    Ok(lines.join("\n"))
}

fn line(mut object: Value, stage: &Stage, addresses: &[(String, String)]) -> String {
    for inner in object
        .as_object_mut()
        .into_iter()
        .flat_map(|o| o.values_mut())
    {
        for key in MADE_UP {
            if let Some(metadata) = inner
                .pointer_mut("/metadata")
                .and_then(Value::as_object_mut)
            {
                metadata.remove(key);
            }
        }
        let annotations = inner.pointer_mut("/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.remove(l::DESIRED_STATE);
            annotations.remove(l::REMOTE_RESOURCE_VERSION);
            // This annotation contains times.
            annotations.remove(l::FAILED_OVER);
        }
        let owners = inner.pointer_mut("/metadata/ownerReferences");
        for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = Value::Null;
        }
    }
    let mut text = object.to_string();
    for (ip, name) in addresses {
        text = text.replace(ip, name);
    }
    text = text.replace(&stage.namespace, "NAMESPACE");
    text.replace(&stage.second(), "SECOND CLUSTER")
        .replace(&stage.cluster, "CLUSTER")
}
