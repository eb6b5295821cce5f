//! Our controller takes over from Linkerd's own service mirror while requests go to its mirrors.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::ensure;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::without_failures;
use crate::{
    load::{Load, Target},
    rig::{
        NAMESPACE, Rig, identity_of,
        mirrors::{FLAT, FOLLOWS, GATED},
        workloads::{PORT, service},
    },
    table::Row,
};

/// Longer than a proxy's stream takes to be told what it has lost.
const HOLD: Duration = Duration::from_secs(30);
const EXPORTED: &str = "mirror.linkerd.io/exported";
/// What the target exports, with the label that says how.
const OLD: [(&str, &str, &str); 3] = [
    ("old-gated", EXPORTED, "true"),
    ("old-flat", EXPORTED, "remote-discovery"),
    ("old-web", "mirror.linkerd.io/federated", "member"),
];
/// The mirrors, each with one that has the same endpoints.
const MIRRORS: [(&str, &str); 3] = [
    ("old-gated-east", GATED),
    ("old-flat-east", FLAT),
    ("old-web-federated", FLAT),
];

/// The original's mirrors get our controller; their addresses stay, and so do their endpoints.
pub(super) async fn under_load(rig: &mut Rig) -> anyhow::Result<Row> {
    rig.controller.kill();
    for (name, label, value) in OLD {
        rig.east
            .apply(&service(name, label, value).to_string())
            .await?;
    }
    for object in originals(rig.gateway.address) {
        rig.west.apply(&object.to_string()).await?;
    }
    let mut targets = Vec::new();
    for (mirror, _) in MIRRORS {
        targets.push(rig.target(mirror).await?);
    }
    let load = Load::start(&rig.client, &targets);
    agree(rig).await?;
    load.count_anew();
    rig.controller.restart().await?;
    rig.link_is_ready().await?;
    sleep(HOLD).await;
    let mut kept = true;
    for Target { name, address, .. } in &targets {
        kept &= rig.target(name).await?.address == *address;
    }
    let agreed = agree(rig).await;
    let tallies = load.finish().await?;
    for (name, _, _) in OLD {
        let services = rig.east.services(NAMESPACE);
        services.delete(name, &DeleteParams::default()).await?;
    }
    let row = without_failures(&tallies)?;
    agreed?;
    ensure!(kept, "a mirror got another ClusterIP");
    Ok(row)
}

/// Waits until the proxy has the endpoints that the mirrors should have.
async fn agree(rig: &Rig) -> anyhow::Result<()> {
    for (mirror, like) in MIRRORS {
        let service = format!("{NAMESPACE}/{mirror}");
        let expected = rig.expected(like);
        rig.oracle.agrees(&service, &expected, FOLLOWS).await?;
    }
    Ok(())
}

/// Mirrors as Linkerd's own service mirror writes them: the one through the gateway has v1 Endpoints.
fn originals(gateway: Ipv4Addr) -> [Value; 4] {
    let labels = |mode: &str| {
        json!({
            "mirror.linkerd.io/mirrored-service": "true",
            "mirror.linkerd.io/cluster-name": "east",
            EXPORTED: mode,
        })
    };
    let full_name = |name: &str| format!("{name}.{NAMESPACE}.svc.cluster.local");
    let mirror = |name: &str, labels: &Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": format!("{name}-east"),
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": {
                    "mirror.linkerd.io/remote-svc-fq-name": full_name(name),
                    "mirror.linkerd.io/remote-resource-version": "1",
                },
            },
            "spec": { "ports": [{ "name": "http", "port": PORT, "protocol": "TCP" }] },
        })
    };
    let gated = labels("true");
    let mut flat = labels("remote-discovery");
    flat["multicluster.linkerd.io/remote-discovery"] = json!("east");
    flat["multicluster.linkerd.io/remote-service"] = json!("old-flat");
    let endpoints = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "old-gated-east",
            "namespace": NAMESPACE,
            "labels": gated,
            "annotations": {
                "mirror.linkerd.io/remote-svc-fq-name": full_name("old-gated"),
                "mirror.linkerd.io/remote-gateway-identity": identity_of("linkerd-gateway", "linkerd-multicluster"),
            },
        },
        "subsets": [{
            "addresses": [{ "ip": gateway }],
            "ports": [{ "name": "http", "port": 4143, "protocol": "TCP" }],
        }],
    });
    let federated = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "old-web-federated",
            "namespace": NAMESPACE,
            "labels": { "mirror.linkerd.io/mirrored-service": "true" },
            "annotations": { "multicluster.linkerd.io/remote-discovery": "old-web@east" },
        },
        "spec": { "ports": [{ "name": "http", "port": PORT, "protocol": "TCP" }] },
    });
    [
        mirror("old-gated", &gated),
        endpoints,
        mirror("old-flat", &flat),
        federated,
    ]
}
