//! Faults of the way between the clusters.

use control_plane::eventually;
use serde_json::json;
use tokio::time::sleep;

use super::{Fault, broken, scene::Scene};
use crate::{
    load::Load,
    rig::{
        FORGOTTEN, NAMESPACE,
        mirrors::{FLAT, GATED},
        wait::SOON,
        workloads::plain,
    },
};

const LINK: &str = "links.multicluster.linkerd.io";

pub(super) fn faults() -> Vec<Fault> {
    let gated = (GATED, 80);
    vec![
        broken("gateway down", gated, ("network", "GatewayDown"), |s| {
            Box::pin(gateway_down(s))
        })
        .mended_by(|s| Box::pin(gateway_up(s))),
        broken(
            "gateway's probe port closed",
            gated,
            ("network", "ProbePortClosed"),
            |s| Box::pin(probe_port_closed(s)),
        )
        .mended_by(|s| Box::pin(ports_open(s))),
        broken(
            "gateway's port closed, and its probe's open",
            gated,
            ("answers", "GatewayPortClosed"),
            |s| Box::pin(port_closed(s)),
        )
        .mended_by(|s| Box::pin(ports_open(s))),
        broken(
            "gateway's identity wrong",
            gated,
            ("network", "GatewayIdentityWrong"),
            |s| Box::pin(identity_wrong(s)),
        )
        .mended_by(|s| Box::pin(alive(s))),
        broken(
            "gateway's port wrong",
            gated,
            ("network", "GatewayPortWrong"),
            |s| Box::pin(port_wrong(s)),
        )
        .mended_by(|s| Box::pin(alive(s))),
        broken(
            "Pod networks overlap",
            (FLAT, 80),
            ("network", "NetworksOverlap"),
            |s| Box::pin(networks_overlap(s)),
        )
        .mended_by(|s| Box::pin(forgotten(s)))
        .ended_by(|s| Box::pin(networks_apart(s))),
    ]
}

async fn gateway_down(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.gateway.proxy.kill();
    scene.rig.gateway.set_ready(false).await?;
    scene.link_is("GatewayAlive", "False").await
}

async fn gateway_up(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.gateway.proxy.restart()?;
    scene.rig.gateway.proxy_ready().await?;
    scene.rig.gateway.set_ready(true).await?;
    alive(scene).await
}

async fn alive(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.link_is("GatewayAlive", "True").await
}

async fn probe_port_closed(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.gateway.close(4191)?;
    scene.link_is("GatewayAlive", "False").await
}

/// A new client, whose proxy has no connection to the gateway yet.
async fn port_closed(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.gateway.close(4143)?;
    let pod = scene.rig.start_client_pod().await?;
    scene.call_from(&pod)?;
    scene.pods.push(pod);
    let target = scene.rig.target(GATED).await?;
    scene.load = Some(Load::start(&scene.client(), &[target]));
    Ok(())
}

async fn ports_open(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.load = None;
    scene.rig.gateway.open()?;
    alive(scene).await
}

async fn edit_link(scene: &Scene<'_>, field: &str, value: &str) -> anyhow::Result<()> {
    scene
        .patch_west(LINK, "east", &json!({ "spec": { field: value } }))
        .await
}

async fn identity_wrong(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    edit_link(
        scene,
        "gatewayIdentity",
        "other.app.serviceaccount.identity.linkerd.cluster.local",
    )
    .await
}

async fn port_wrong(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    edit_link(scene, "gatewayPort", "4144").await
}

/// The only ready Pod of `east` has an address of `west`'s network. A new client, whose proxy knows no other Pod.
async fn networks_overlap(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    for pod in &scene.rig.east_pods {
        pod.set_ready(false).await?;
    }
    let west = &scene.rig.west.network;
    scene.rig.east.network.lend_from(west)?;
    let pod = scene.rig.start_pod().await?;
    scene.pods.push(pod);
    let caller = scene.rig.start_client_pod().await?;
    scene.call_from(&caller)?;
    scene.pods.push(caller);
    Ok(())
}

/// A client that asked before has to pause: its proxy goes on with what it was told.
async fn forgotten(_: &mut Scene<'_>) -> anyhow::Result<()> {
    sleep(FORGOTTEN).await;
    Ok(())
}

/// The Service is discovered again.
async fn networks_apart(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    for pod in &scene.rig.east_pods {
        pod.set_ready(true).await?;
    }
    scene.rig.east.apply(&plain()).await?;
    let services = scene.rig.west.services(NAMESPACE);
    eventually("the mirror to be discovered", SOON, async || {
        let labels = services.get(FLAT).await?.metadata.labels;
        let is_discovered = labels
            .is_some_and(|labels| labels.contains_key("multicluster.linkerd.io/remote-discovery"));
        Ok(is_discovered.then_some(()))
    })
    .await
}
