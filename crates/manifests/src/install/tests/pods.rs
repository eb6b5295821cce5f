//! Pods: their images, users, priority and spread.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde_json::json;

use super::*;

/// Every image of the objects is one that is listed, so that clusters without the internet have all.
#[test]
fn all_images_of_the_objects_are_listed() {
    let mut values = Values::default();
    values.api_gateway.api_server_address = "10.96.0.1".into();
    values.use_registry("reg.example");
    let manifest = install("mc", &values).unwrap();
    let mut named: Vec<String> = pods(&manifest)
        .iter()
        .flat_map(|pod| pod["containers"].as_array().unwrap().clone())
        .map(|container| container["image"].as_str().unwrap().to_owned())
        .collect();
    named.sort();
    named.dedup();
    let mut listed = values.images();
    listed.sort();
    assert_eq!(named, listed);
}

/// The specs of all Pods.
fn pods(manifest: &Manifest) -> Vec<Value> {
    let objects = manifest.objects().unwrap();
    let specs = objects
        .iter()
        .filter_map(|object| object.pointer("/spec/template/spec"));
    specs.cloned().collect()
}

#[test]
fn pods_have_the_priority_class_and_are_spread_as_the_values_say() {
    let spread: Vec<TopologySpreadConstraint> = serde_json::from_value(json!([
        { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" }
    ]))
    .unwrap();
    let manifest = rendered(|values| {
        values.priority_class_name = "mesh".into();
        (values.gateway.topology_spread_constraints).clone_from(&spread);
        (values.controller.topology_spread_constraints).clone_from(&spread);
    });
    for pod in pods(&manifest) {
        assert_eq!(pod["priorityClassName"], "mesh");
        assert_eq!(pod["topologySpreadConstraints"], json!(spread));
    }
    assert!(pods(&rendered(|_| ()))[0]["priorityClassName"].is_null());
}

#[test]
fn pod_monitor_reads_the_port_of_the_metrics() {
    assert!(
        find(
            &rendered(|_| ()),
            "PodMonitor",
            "linkerd-multicluster-controller"
        )
        .is_none()
    );
    let manifest = rendered(|values| values.pod_monitor.enabled = true);
    let monitor = find(&manifest, "PodMonitor", "linkerd-multicluster-controller").unwrap();
    let controller = find(&manifest, "Deployment", "linkerd-multicluster-controller").unwrap();
    let template = &controller["spec"]["template"];
    let port = &template["spec"]["containers"][0]["ports"][0]["name"];
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], *port);
    let selected = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    for (key, value) in selected {
        assert_eq!(template["metadata"]["labels"][key], *value);
    }
}
