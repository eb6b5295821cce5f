//! Tests of what happened, in objects, Events, and their order.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// What happened to an object: the time of day, and what.
fn told(kind: &str, object: &Value) -> Vec<String> {
    let mut timeline = Timeline::default();
    timeline.add("west", history(kind, object), &[]);
    let happened = timeline.happened.iter();
    happened
        .map(|one| format!("{} {}: {}", one.at.strftime("%H:%M"), one.about, one.what))
        .collect()
}

fn at(time: &str) -> String {
    format!("2026-11-26T{time}:00Z")
}

fn writer(manager: &str, time: &str, part: &str) -> Value {
    json!({ "manager": manager, "operation": "Update", "time": at(time), "subresource": part })
}

fn condition(type_: &str, status: &str, time: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Why", "message": "a message",
        "lastTransitionTime": at(time),
    })
}

#[test]
fn writers_are_named_and_a_status_counts_as_such() {
    let metadata = json!({
        "namespace": "shop", "name": "web", "creationTimestamp": at("01:00"),
        "managedFields": [
            writer("helm", "01:00", ""), writer("kubectl-edit", "03:00", ""),
            writer("cloud", "02:00", "status"), { "manager": "no-time" },
        ],
        "deletionTimestamp": at("04:01"), "deletionGracePeriodSeconds": 60,
    });
    assert_eq!(
        told("Service", &json!({ "metadata": metadata })),
        [
            "04:00 Service shop/web: deletion began",
            "03:00 Service shop/web: changed by kubectl-edit",
            "02:00 Service shop/web: status changed by cloud",
            "01:00 Service shop/web: created by helm",
        ]
    );
    // Its conditions tell what the status has become.
    let status = json!({ "conditions": [condition("Ready", "True", "05:00")] });
    let with_conditions = told("Link", &json!({ "metadata": metadata, "status": status }));
    assert_eq!(
        with_conditions[0],
        "05:00 Link shop/web: Ready became True: Why: a message"
    );
    assert!(!with_conditions.iter().any(|line| line.contains("cloud")));
    let bare = json!({ "metadata": { "name": "east", "creationTimestamp": at("01:00") } });
    assert_eq!(told("Node", &bare), ["01:00 Node east: created"]);
}

#[test]
fn conditions_of_services_count_if_they_are_bad_and_those_of_routes_for_each_parent() {
    let service = |name: &str, status: &str| {
        json!({
            "remoteRef": { "namespace": "shop", "name": name },
            "conditions": [condition("Mirrored", status, "02:00")],
        })
    };
    let link = json!({
        "metadata": { "namespace": "mc", "name": "east" },
        "status": {
            "conditions": [condition("GatewayAlive", "False", "03:00")],
            "mirrorServices": [service("web", "True"), service("db", "False")],
            "federatedServices": [service("web", "False")],
        },
    });
    assert_eq!(
        told("Link", &link),
        [
            "03:00 Link mc/east: GatewayAlive became False: Why: a message",
            "02:00 Link mc/east: shop/web: Mirrored became False: Why: a message",
            "02:00 Link mc/east: shop/db: Mirrored became False: Why: a message",
        ]
    );
    let route = json!({
        "metadata": { "namespace": "shop", "name": "web" },
        "status": { "parents": [{ "conditions": [condition("Accepted", "False", "01:00")] }] },
    });
    assert_eq!(
        told("HTTPRoute", &route),
        ["01:00 HTTPRoute shop/web: Accepted became False: Why: a message"]
    );
}

#[test]
fn pod_tells_its_start_and_the_ends_of_its_containers() {
    let ended = |code: i32, reason: &str, time: &str| json!({ "terminated": { "exitCode": code, "reason": reason, "finishedAt": at(time) } });
    let pod = json!({
        "metadata": {
            "namespace": "mc", "name": "gateway-0", "creationTimestamp": at("01:00"),
            "managedFields": [writer("kubelet", "05:00", "status")],
        },
        "spec": { "nodeName": "node-1" },
        "status": {
            "startTime": at("01:01"),
            "conditions": [condition("Ready", "False", "04:00"), condition("ContainersReady", "False", "04:00")],
            "initContainerStatuses": [{ "name": "init", "state": ended(0, "Completed", "01:02") }],
            "containerStatuses": [{
                "name": "linkerd-proxy", "restartCount": 3, "lastState": ended(137, "OOMKilled", "02:00"),
                "state": { "running": { "startedAt": at("02:01") } },
            }, {
                "name": "pause", "restartCount": 0, "state": { "running": { "startedAt": at("01:03") } },
            }],
        },
    });
    assert_eq!(
        told("Pod", &pod),
        [
            "04:00 Pod mc/gateway-0: Ready became False: Why: a message",
            "02:01 Pod mc/gateway-0: container linkerd-proxy started again, restart 3",
            "02:00 Pod mc/gateway-0: container linkerd-proxy ended: OOMKilled, exit code 137",
            "01:01 Pod mc/gateway-0: started on node node-1",
        ]
    );
}

fn event(name: &str, type_: &str, reason: &str, count: i32, time: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {},
        "involvedObject": { "kind": "Pod", "namespace": "mc", "name": name },
        "type": type_, "reason": reason, "message": "why", "count": count, "lastTimestamp": at(time),
    }))
    .unwrap()
}

#[test]
fn events_about_the_objects_are_folded_and_what_always_happens_is_left_out() {
    let events = [
        event("gateway-0", "Warning", "BackOff", 4, "02:00"),
        event("gateway-0", "Warning", "BackOff", 2, "01:00"),
        event("gateway", "Normal", "Killing", 1, "03:00"),
        event("gateway-0", "Normal", "Pulled", 1, "03:00"),
        event("gateways", "Warning", "BackOff", 1, "03:00"),
    ];
    let said = |names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let mut timeline = Timeline::default();
        timeline.add("west", of_events(&events, &names), &[]);
        let lines = timeline.happened.into_iter();
        lines
            .map(|one| format!("{} {}: {}", one.at.strftime("%H:%M"), one.about, one.what))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        said(&["gateway"]),
        [
            "03:00 Pod mc/gateway: Killing: why",
            "02:00 Pod mc/gateway-0: BackOff: why (6 times)",
        ]
    );
    assert_eq!((said(&[""]).len(), said(&["other"]).len()), (3, 0));
}

#[test]
fn timeline_is_in_order_has_each_entry_once_and_is_bounded() {
    let one = |second: i64| Happened {
        at: Timestamp::from_second(second).unwrap(),
        ..Happened::default()
    };
    let mut timeline = Timeline::default();
    timeline.add("a", vec![one(1), one(3), one(1)], &["x: no".to_owned()]);
    let mut other = Timeline::default();
    other.add("b", vec![one(2)], &["x: no".to_owned()]);
    timeline.merge(&other);
    let shown: Vec<_> = timeline
        .happened
        .iter()
        .map(|one| (one.at.as_second(), one.cluster.as_str()))
        .collect();
    assert_eq!(shown, [(3, "a"), (2, "b"), (1, "a")]);
    assert_eq!(timeline.unseen, ["x: no"]);
    timeline.add("a", (0..3_000).map(one).collect(), &[]);
    assert_eq!(timeline.happened.len(), MOST);
    assert_eq!(timeline.happened[0].at.as_second(), 2_999);
}

proptest! {
    /// Whatever a cluster says, no control character gets into the output.
    #[test]
    fn no_control_character_of_a_cluster_is_kept(text in "\\PC*[\\x00-\\x1f\\x7f-\\u{9f}\u{202e}]{1,8}\\PC*") {
        let object = json!({
            "metadata": {
                "namespace": text, "name": text, "creationTimestamp": at("01:00"),
                "managedFields": [writer(&text, "02:00", &text)],
            },
            "spec": { "nodeName": text },
            "status": {
                "startTime": at("01:00"),
                "conditions": [{ "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": at("03:00") }],
                "containerStatuses": [{ "name": text, "lastState": { "terminated": { "reason": text, "exitCode": 1, "finishedAt": at("01:30") } } }],
            },
        });
        let mut timeline = Timeline::default();
        for kind in ["Pod", "Link", &text] {
            timeline.add(&text, history(kind, &object), std::slice::from_ref(&text));
        }
        let events = [event(&text, &text, &text, 2, "02:00")];
        timeline.add(&text, of_events(&events, &[String::new()].into()), &[]);
        prop_assert!(timeline.happened.len() > 5);
        let texts = timeline.happened.iter().flat_map(|one| [&one.cluster, &one.about, &one.what]);
        for text in texts.chain(&timeline.unseen) {
            prop_assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
        }
    }
}
