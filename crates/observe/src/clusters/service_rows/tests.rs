//! Tests of the rows: Services of the cluster, and what controllers report about them.

use serde_json::{Value, json};

use super::*;
use crate::clusters::fixtures::{condition, federated, link};

fn of_cluster(cluster: &str) -> ServiceFilter {
    ServiceFilter {
        cluster: Some(cluster.to_owned()),
        ..ServiceFilter::default()
    }
}

fn service(name: &str, labels: &Value, annotations: &Value, cluster_ip: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop", "labels": labels, "annotations": annotations},
        "spec": {"clusterIP": cluster_ip},
    }))
    .unwrap()
}

fn status(name: &str, status: &str, message: &str) -> Value {
    json!({
        "controllerName": "linkerd.io/service-mirror",
        "remoteRef": {"name": name, "namespace": "shop"},
        "conditions": [condition("Mirrored", status, message, 1)],
    })
}

fn all() -> Vec<ServiceRow> {
    let of_east = json!({labels::CLUSTER_NAME: "east"});
    let fq = |name: &str| json!({labels::REMOTE_FQ_NAME: format!("{name}.shop.svc.cluster.local")});
    let mirrors = [
        service("web-east", &of_east, &fq("web"), "10.0.0.1"),
        service("db-east", &of_east, &fq("db"), "None"),
        service(
            "db-0-east",
            &json!({labels::CLUSTER_NAME: "east", labels::HEADLESS_MIRROR: "db-east"}),
            &fq("db-0.db"),
            "10.0.0.2",
        ),
        service(
            "api-west",
            &json!({labels::CLUSTER_NAME: "west", labels::REMOTE_DISCOVERY: "west", labels::REMOTE_SERVICE: "api"}),
            &fq("api"),
            "10.0.0.3",
        ),
        service(
            "web-federated",
            &json!({}),
            &json!({labels::REMOTE_DISCOVERY: "web@east,web@west", labels::LOCAL_DISCOVERY: "web"}),
            "10.0.0.4",
        ),
    ];
    let slices = [serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "labels": {labels::SLICE_SERVICE: "web-east"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2"], "conditions": {"ready": false}}],
    }))
    .unwrap()];
    let links = [
        link(
            "east",
            &json!({
                "mirrorServices": [status("web", "True", ""), status("gone", "False", "no such namespace"), status("past", "True", "")],
                "federatedServices": [status("web", "False", "headless")],
            }),
        ),
        link(
            "west",
            &json!({"federatedServices": [status("web", "True", "")]}),
        ),
    ];
    rows(
        "here",
        &links,
        &mirrors,
        &Endpoints::count(&slices),
        &ServiceFilter::default(),
    )
}

#[test]
fn rows_combine_services_with_reports_of_controllers() {
    let lines: Vec<_> = all()
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {} {} {}",
                row.service.as_deref().unwrap_or("-"),
                row.mode.map_or("-", ShownMode::as_str),
                row.from.join(","),
                row.endpoints
                    .map_or_else(|| "-".into(), |e| format!("{}/{}", e.ready, e.total)),
                row.healthy
                    .map_or_else(|| "-".into(), |healthy| healthy.to_string()),
                row.message.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    - - gone@east - false no such namespace
    api-west remote-discovery api@west - - -
    db-0-east headless-pod db-0.db@east 0/0 - -
    db-east headless db@east 0/0 - -
    web-east gateway web@east 1/2 true -
    web-federated federated web@(local),web@east,web@west - false headless
    ");
}

#[test]
fn member_of_a_drained_cluster_is_not_a_problem() {
    let drained = json!({"federatedServices": [{
        "controllerName": "linkerd.io/service-mirror",
        "remoteRef": {"name": "web", "namespace": "shop"},
        "conditions": [{
            "type": "Mirrored", "status": "False", "reason": "Drained", "message": "until then",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }]});
    let complains = json!({"federatedServices": [status("web", "False", "headless")]});
    let federated = service(
        "web-federated",
        &json!({}),
        &json!({labels::REMOTE_DISCOVERY: "web@west"}),
        "10.0.0.4",
    );
    let none = Endpoints::default();
    // It has a row of its own, and says nothing about the other members.
    let drained_row = "- web@east true Drained";
    for (west, mirrors, expected) in [
        (
            &json!({"federatedServices": [status("web", "True", "")]}),
            &[federated.clone()][..],
            [drained_row, "web-federated web@west true Because"].join("\n"),
        ),
        (
            &complains,
            &[federated],
            [drained_row, "web-federated web@west false Because"].join("\n"),
        ),
        (&json!({}), &[], drained_row.to_owned()),
    ] {
        let links = [link("east", &drained), link("west", west)];
        let rows = rows("here", &links, mirrors, &none, &ServiceFilter::default());
        assert_eq!(reasons(&rows), expected);
    }
}

#[test]
fn two_clusters_that_want_one_name_have_a_row_each() {
    let report = |service: &str, status: &str, reason: &str| {
        json!({"mirrorServices": [{
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": {"name": service, "namespace": "shop"},
            "conditions": [{
                "type": "Mirrored", "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }]})
    };
    // Both mirrors would be web-b-u1.
    let mirrors = [service(
        "web-b-u1",
        &json!({labels::CLUSTER_NAME: "u1"}),
        &json!({labels::REMOTE_FQ_NAME: "web-b.shop.svc.cluster.local"}),
        "10.0.0.1",
    )];
    let mut links = [
        link("u1", &report("web-b", "True", "Mirrored")),
        link("b-u1", &report("web", "False", "NameConflict")),
    ];
    for _ in 0..2 {
        let none = Endpoints::default();
        let all = rows("here", &links, &mirrors, &none, &ServiceFilter::default());
        let expected = "- web@b-u1 false NameConflict\nweb-b-u1 web-b@u1 true Mirrored";
        assert_eq!(reasons(&all), expected);
        let one = rows("here", &links, &mirrors, &none, &of_cluster("b-u1"));
        assert_eq!(reasons(&one), "- web@b-u1 false NameConflict");
        links.reverse();
    }
}

/// Name, origin, health and reason of each row.
fn reasons(rows: &[ServiceRow]) -> String {
    let line = |row: &ServiceRow| {
        let service = row.service.as_deref().unwrap_or("-");
        let healthy = row.healthy.map_or_else(|| "-".into(), |it| it.to_string());
        let reason = row.reason.as_deref().unwrap_or("-");
        format!("{service} {} {healthy} {reason}", row.from.join(","))
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn rows_of_one_cluster_are_those_that_come_from_it() {
    let links: [LinkSnapshot; 0] = [];
    let mirrors = [
        service(
            "web-east",
            &json!({labels::CLUSTER_NAME: "east"}),
            &json!({}),
            "10.0.0.1",
        ),
        service(
            "web-west",
            &json!({labels::CLUSTER_NAME: "west"}),
            &json!({}),
            "10.0.0.2",
        ),
        service(
            "web-federated",
            &json!({}),
            &json!({labels::REMOTE_DISCOVERY: "web@east,web@west"}),
            "10.0.0.3",
        ),
    ];
    let named = |namespace: Option<&str>, name: Option<&str>| ServiceFilter {
        cluster: None,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
    };
    for (wanted, expected) in [
        (of_cluster("east"), &["web-east", "web-federated"][..]),
        (
            named(Some("shop"), None),
            &["web-east", "web-federated", "web-west"],
        ),
        (named(Some("other"), None), &[]),
        (named(None, Some("web-west")), &["web-west"]),
        // The name of the Service that is mirrored.
        (named(Some("shop"), Some("web")), &["web-federated"]),
    ] {
        let rows = rows("here", &links, &mirrors, &Endpoints::default(), &wanted);
        let names = rows.iter().filter_map(|row| row.service.as_deref());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{wanted:?}");
    }
}

#[test]
fn json_has_preferred_clusters_and_those_that_get_requests() {
    let gone = "local=2026-01-01T00:00:00Z/..";
    for (prefer, away, expected) in [
        (
            "local,east",
            gone,
            json!(["local,east", ["east"], [{"cluster": "local", "since": "2026-01-01T00:00:00Z", "returns": null}]]),
        ),
        ("", "", json!([null, [], []])),
    ] {
        let mirrors = [federated(prefer, away)];
        let rows = rows(
            "here",
            &[],
            &mirrors,
            &Endpoints::default(),
            &ServiceFilter::default(),
        );
        let row = serde_json::to_value(&rows[0]).unwrap();
        let told = json!([row["preference"], row["active"], row["failedOver"]]);
        assert_eq!(told, expected);
    }
}
