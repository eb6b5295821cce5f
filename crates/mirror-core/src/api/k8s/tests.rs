//! Tests of what is kept of objects, and of their weight.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

#[test]
fn service_whose_metadata_is_too_large_loses_annotations_and_keeps_opaque_ports() {
    let service = |annotation: &str| -> Service {
        let service = json!({ "metadata": {
            "labels": { "a": "b" },
            "annotations": { "long": annotation, l::OPAQUE_PORTS: "1" },
        } });
        serde_json::from_value(service).unwrap()
    };
    let size = "ab".len() + "long".len() + l::OPAQUE_PORTS.len() + "1".len();
    let fits = service("1234").trimmed(size + 4);
    assert_eq!(
        (fits.is_trimmed, fits.metadata.annotations.len()),
        (false, 2)
    );
    let heavy = service("12345").trimmed(size + 4);
    assert!(heavy.is_trimmed && heavy.metadata.labels.contains_key("a"));
    assert_eq!(
        heavy.metadata.annotations,
        Map::from([(l::OPAQUE_PORTS, "1")])
    );
    assert!(service("").trimmed(0).metadata.annotations.is_empty());
    // The mark is removed once labels and annotations have become small enough.
    assert!(!fits.trimmed(size + 4).is_trimmed);
}

/// With many ports, what `kubectl apply` remembers is longer than the limit.
#[test]
fn what_kubectl_remembers_does_not_count_and_what_other_tools_write_does() {
    let service = |key: &str| -> Service {
        let service = json!({ "metadata": {
            "labels": { "team": "media" }, "annotations": { key: "x".repeat(20 << 10) },
        } });
        serde_json::from_value(service).unwrap()
    };
    for (key, is_trimmed) in [
        ("kubectl.kubernetes.io/last-applied-configuration", false),
        ("kapp.k14s.io/original", true),
    ] {
        assert_eq!(
            service(key).trimmed(16 << 10).is_trimmed,
            is_trimmed,
            "{key}"
        );
    }
}

#[test]
fn weight_grows_with_what_an_object_holds() {
    let service = |annotation: &str| -> Service {
        let service = json!({ "metadata": { "annotations": { "a": annotation } } });
        serde_json::from_value(service).unwrap()
    };
    let text = "x".repeat(1000);
    assert_eq!(service(&text).weight(), service("").weight() + 1000);
    let slice = |hosts: usize| -> EndpointSlice {
        let endpoints = vec![json!({ "addresses": ["192.0.2.1"] }); hosts];
        serde_json::from_value(json!({ "metadata": {}, "endpoints": endpoints })).unwrap()
    };
    assert!(slice(100).weight() > slice(0).weight() + 100 * size_of::<Endpoint>());
}

/// The JSON pointers of all texts in a value.
fn texts(value: &Value, pointer: &str) -> Vec<String> {
    match value {
        Value::String(_) => vec![pointer.to_owned()],
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let found = items.map(|(at, item)| texts(item, &format!("{pointer}/{at}")));
            found.flatten().collect()
        }
        Value::Object(fields) => {
            let found = fields.iter();
            let found = found.map(|(key, field)| texts(field, &format!("{pointer}/{key}")));
            found.flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// Asserts that each byte of each text of an object counts once.
fn each_text_counts<T: StoredObject + DeserializeOwned>(object: &Value) {
    let weight = |object: &Value| {
        let wire: Wire<T> = serde_json::from_value(object.clone()).unwrap();
        wire.object.weight()
    };
    let before = weight(object);
    for pointer in texts(object, "") {
        let mut longer = object.clone();
        let text = longer.pointer_mut(&pointer).unwrap();
        *text = json!(format!("{}{}", text.as_str().unwrap(), "x".repeat(1000)));
        let added = weight(&longer) - before;
        // A word that is kept only once in the program counts only when it is changed.
        assert!((1000..1020).contains(&added), "{pointer} adds {added}");
    }
}

#[test]
fn each_text_of_a_service_and_of_a_slice_counts() {
    let metadata = json!({
        "name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "labels": { "a": "b" }, "annotations": { "c": "d" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "v" }],
    });
    let port = json!({
        "name": "http", "protocol": "TCP", "appProtocol": "h2c", "port": 80, "targetPort": "web",
    });
    each_text_counts::<Service>(&json!({
        "metadata": metadata,
        "spec": {
            "clusterIP": "None", "type": "ClusterIP", "selector": { "a": "b" }, "ports": [port],
        },
    }));
    let endpoint = json!({
        "addresses": ["192.0.2.1"], "hostname": "db-0", "nodeName": "n", "zone": "z",
        "targetRef": { "kind": "Pod", "namespace": "ns", "name": "db-0", "uid": "w" },
    });
    each_text_counts::<EndpointSlice>(&json!({
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [{ "name": "http", "protocol": "TCP", "appProtocol": "h2c", "port": 80 }],
    }));
}
