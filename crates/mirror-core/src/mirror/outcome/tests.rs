//! Plans: which writes are urgent, and which need a `ClusterIP`.

use serde_json::{Value, json};

use super::*;
use crate::{
    api::{k8s::Service, labels as l, route::Route},
    mirror::write::{ObjectKind, guarded},
};

/// The creation of a Service.
fn service(name: &str, ip: Option<&str>) -> Write {
    let spec = json!({ "clusterIP": ip });
    let service = json!({ "metadata": { "name": name }, "spec": spec });
    Write::Create(Object::Service(serde_json::from_value(service).unwrap()))
}

#[test]
fn without_cluster_ips_drops_services_that_need_one_and_their_slices_and_routes() {
    let owned = |name: &str, owner: &str, uid: &str| {
        let owner = json!({ "apiVersion": "v1", "kind": "Service", "name": owner, "uid": uid });
        json!({ "name": name, "ownerReferences": [owner] })
    };
    let slice = |name: &str, owner: &str, uid: &str| {
        let slice = json!({ "metadata": owned(name, owner, uid), "addressType": "IPv4" });
        Write::Create(Object::EndpointSlice(
            serde_json::from_value(slice).unwrap(),
        ))
    };
    let route = |name: &str, owner: &str, uid: &str| {
        let metadata = serde_json::from_value(owned(name, owner, uid)).unwrap();
        Write::Create(Object::Route(Box::new(Route {
            metadata,
            ..Route::default()
        })))
    };
    let patch = |name: &str, owner: &str, uid: &str| {
        let metadata = serde_json::from_value(owned(name, owner, uid)).unwrap();
        let body = json!({ "ownerReferences": owned(name, owner, uid)["ownerReferences"] });
        guarded(ObjectKind::EndpointSlice, name, &metadata, body, json!({}))
    };
    let writes = vec![
        service("db-east", Some("None")),
        slice("db-east-1", "db-east", ""),
        service("db-0-east", None),
        slice("db-0-east-1", "db-0-east", ""),
        slice("db-1-east-1", "db-1-east", "1234"),
        service("web-federated", None),
        route("web-federated-80", "web-federated", ""),
        route("api-federated-80", "api-federated", "1234"),
        patch("web-federated-1", "web-federated", ""),
        patch("db-1-east-2", "db-1-east", "1234"),
        patch("db-east-2", "db-east", ""),
        patch("db-0-east-2", "db-0-east", "1234"),
        Write::delete_service(&Service::default()),
    ];
    let plan = Plan {
        writes,
        ..Plan::default()
    };
    assert!(plan.needs_cluster_ip());
    let left = plan.without_cluster_ips();
    assert!(!left.needs_cluster_ip());
    let left: Vec<_> = left.writes.iter().map(|write| write.describe().3).collect();
    assert_eq!(
        left,
        [
            "db-east",
            "db-east-1",
            "db-1-east-1",
            "api-federated-80",
            "db-1-east-2",
            "db-east-2",
            "db-0-east-2",
            ""
        ]
    );
}

#[test]
fn a_service_with_a_cluster_ip_costs_as_much_as_five_other_writes() {
    let address = || service("web-east", None);
    let headless = || service("db-east", Some("None"));
    let delete = || Write::delete_service(&Service::default());
    for (what, writes, expected) in [
        ("nothing", vec![], 0),
        (
            "a headless Service, and a deletion",
            vec![headless(), delete()],
            2,
        ),
        ("one with an address", vec![address()], 5),
        ("two of three", vec![address(), delete(), address()], 11),
    ] {
        let plan = Plan {
            writes,
            ..Plan::default()
        };
        assert_eq!(plan.cost(), expected, "{what}");
    }
}

#[test]
fn only_writes_of_copied_labels_and_annotations_are_not_urgent() {
    let actual = Metadata {
        labels: Map::from([("team", "a"), (l::CLUSTER_NAME, "east")]),
        annotations: Map::from([(l::DESIRED_STATE, "1"), (l::OPAQUE_PORTS, "1")]),
        ..Metadata::default()
    };
    let urgent = |labels: Value, annotations: Value, rest: Value| {
        let metadata = json!({ "labels": labels, "annotations": annotations });
        let Write::Patch(patch) = guarded(ObjectKind::Service, "a", &actual, metadata, rest) else {
            unreachable!()
        };
        let plan = Plan {
            writes: vec![Write::Patch(patch)],
            ..Plan::default()
        };
        plan.is_urgent()
    };
    let (none, same) = (json!({}), json!({ "team": "a", l::CLUSTER_NAME: "east" }));
    let state = json!({ l::DESIRED_STATE: "2" });
    for (what, labels, annotations, rest, expected) in [
        (
            "another label",
            json!({ "team": "b" }),
            state.clone(),
            none.clone(),
            false,
        ),
        (
            "a label less",
            json!({ "team": null }),
            state.clone(),
            none.clone(),
            false,
        ),
        (
            "another annotation",
            same.clone(),
            json!({ "note": "x" }),
            none.clone(),
            false,
        ),
        (
            "ports with it",
            json!({ "team": "b" }),
            none.clone(),
            json!({ "spec": {} }),
            true,
        ),
        (
            "the mode",
            json!({ "team": "b", l::REMOTE_DISCOVERY: "east" }),
            none.clone(),
            none.clone(),
            true,
        ),
        (
            "members",
            same.clone(),
            json!({ l::REMOTE_DISCOVERY: "a@east" }),
            none.clone(),
            true,
        ),
        (
            "opaque ports",
            same.clone(),
            json!({ l::OPAQUE_PORTS: "2" }),
            none.clone(),
            true,
        ),
        ("written once more", same, state, none, true),
    ] {
        assert_eq!(urgent(labels, annotations, rest), expected, "{what}");
    }
    let creates = vec![Write::delete_service(&Service::default())];
    let plan = Plan {
        writes: creates,
        ..Plan::default()
    };
    assert!(plan.is_urgent());
}
