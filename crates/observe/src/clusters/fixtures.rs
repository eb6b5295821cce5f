//! Samples of what is read, for tests.

#![expect(clippy::unwrap_used, reason = "only tests have this module")]

use std::collections::BTreeMap;

use client::Identity;
use hints::suggest::ClusterFlags;
use jiff::{SignedDuration, Timestamp};
use mirror_core::api::{k8s::Service, labels};
use serde_json::{Value, json};

use super::{
    leader::{Leader, Leaders},
    link_summary::LinkSummary,
    own_routes::OwnRoute,
    snapshot::{ClusterSnapshot, Known, LinkCredentials, LinkSnapshot},
};

/// A self-signed certificate, created with `openssl req -x509 -newkey ec`.
pub const A: &str = include_str!("testdata/anchor-a.pem");

/// Another one.
pub const B: &str = include_str!("testdata/anchor-b.pem");

/// A Link to `cluster` with this status.
pub fn link(cluster: &str, status: &Value) -> LinkSnapshot {
    LinkSnapshot {
        unreadable: None,
        link: serde_json::from_value(json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": {"name": cluster, "namespace": "linkerd-multicluster"},
            "spec": {
                "targetClusterName": cluster,
                "gatewayAddress": "192.0.2.1",
                "probeSpec": {"path": "/ready"},
            },
            "status": status,
        }))
        .unwrap(),
        credentials: None,
        target: None,
    }
}

/// A condition that last changed at `time`, in seconds of the first minute of 2026.
pub fn condition(type_: &str, status: &str, message: &str, time: u8) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": message,
        "lastTransitionTime": format!("2026-01-01T00:00:{time:02}Z"),
    })
}

/// A route in the namespace `shop`, of the installation in `linkerd-multicluster`.
pub fn route(name: &str) -> OwnRoute {
    let route = json!({ "metadata": {
        "name": name, "namespace": "shop",
        "annotations": { labels::INSTALLATION: labels::MULTICLUSTER_NAMESPACE },
    } });
    OwnRoute::of(&serde_json::from_value(route).unwrap())
}

/// A leader that renewed its Lease 12 minutes before this time.
pub fn silent(now: &str) -> Leader {
    let now: Timestamp = now.parse().unwrap();
    Leader {
        active: false,
        holder: Some("controller-1".to_owned()),
        renewed: Some(now - SignedDuration::from_mins(12)),
        namespace: "linkerd-multicluster".to_owned(),
        ..Leader::default()
    }
}

/// Lets no controller be active for a Link.
pub fn silence(link: &mut LinkSummary, now: &str) {
    let leader = silent(now);
    link.findings = leader
        .silence(&ClusterFlags::default())
        .into_iter()
        .collect();
    link.controller = Some(leader);
}

/// `shop/web-federated` with members in the local cluster, `east` and `west`.
pub fn federated(prefer: &str, failed_over: &str) -> Service {
    let mut annotations = BTreeMap::from([
        (labels::REMOTE_DISCOVERY, "web@east,web@west"),
        (labels::LOCAL_DISCOVERY, "web"),
        (labels::PREFER, prefer),
        (labels::FAILED_OVER, failed_over),
    ]);
    annotations.retain(|_, text| !text.is_empty());
    serde_json::from_value(json!({
        "metadata": {"name": "web-federated", "namespace": "shop", "annotations": annotations},
        "spec": {},
    }))
    .unwrap()
}

/// What identifies the API server at `server` with this authority.
pub fn identity(server: &str, authority: &str) -> Identity {
    Identity {
        server: server.into(),
        authorities: [authority.as_bytes().to_vec()].into(),
        ..Identity::default()
    }
}

/// A cluster with these anchors and Links.
pub fn snapshot(name: &str, anchors: &str, links: Known<Vec<LinkSnapshot>>) -> ClusterSnapshot {
    ClusterSnapshot {
        name: name.into(),
        flags: ClusterFlags::default(),
        identity: identity(&format!("{name}.example:443"), name),
        uid: None,
        links,
        config: Ok(serde_json::from_value(json!({"identityTrustAnchorsPEM": anchors})).unwrap()),
        leaders: Leaders::new(),
    }
}

/// A Link that is ready, to the API server at `server`.
pub fn to(cluster: &str, server: &str, authority: &str) -> LinkSnapshot {
    let status = json!({
        "conditions": [condition("Connected", "True", "", 1), condition("Ready", "True", "", 1)],
        "gateway": {"alive": true, "latencyMs": 3}, "mirrored": 12, "federated": 2, "unhealthy": 1,
    });
    let identity = identity(server, authority);
    LinkSnapshot {
        unreadable: None,
        credentials: Some(Ok(LinkCredentials {
            identity,
            ..LinkCredentials::default()
        })),
        ..link(cluster, &status)
    }
}

/// Four contexts: east and west link to each other, west also links to north (one way, other anchors), south does
/// not respond, and north links to a cluster without a context.
pub fn snapshots() -> Vec<ClusterSnapshot> {
    let elsewhere = "10.0.0.1:6443";
    vec![
        snapshot("east", A, Ok(vec![to("w", "west.example:443", "")])),
        snapshot(
            "west",
            A,
            Ok(vec![to("east", elsewhere, ""), to("n", elsewhere, "north")]),
        ),
        snapshot("north", B, Ok(vec![to("moon", elsewhere, "moon")])),
        snapshot("south", A, Err("no answer".into())),
    ]
}
