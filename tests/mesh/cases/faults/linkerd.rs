//! Faults of Linkerd's control plane in the source cluster.

use std::time::Duration;

use tokio::time::sleep;

use super::{
    Fault, broken, degraded,
    scene::{LATE_EAST, Scene},
};
use crate::rig::mirrors::FLAT;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        broken(
            "Linkerd's Secret missing",
            (FLAT, 80),
            ("discovery", "LinkerdSecretMissing"),
            |s| Box::pin(no_secret(s)),
        ),
        degraded(
            "Linkerd's Secret stale after rotate --no-restart",
            (FLAT, 80),
            ("discovery", "LinkerdSecretStale"),
            |s| Box::pin(stale(s)),
        ),
        broken(
            "destination controller down",
            (LATE_EAST, 80),
            ("discovery", "DestinationDown"),
            |s| Box::pin(down(s)),
        ),
    ]
}

async fn no_secret(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene
        .west(&[
            "-n",
            "linkerd",
            "delete",
            "secret",
            "cluster-credentials-east",
        ])
        .await?;
    // A controller that starts without the Secret knows nothing of the cluster.
    scene.rig.west.linkerd.restart_destination().await?;
    let caller = scene.rig.start_client_pod().await?;
    scene.call_from(&caller)?;
    scene.pods.push(caller);
    Ok(())
}

async fn stale(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    // Times of objects have whole seconds.
    sleep(Duration::from_secs(2)).await;
    scene
        .paste("linkerd-mc rotate east --target east --source west --no-restart")
        .await?;
    Ok(())
}

/// Proxies keep what they know, so the Service is one that no proxy knows.
async fn down(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene
        .paste(
            "kubectl --context west -n linkerd scale deployment/linkerd-destination --replicas=0",
        )
        .await?;
    scene.rig.west.linkerd.stop_destination();
    scene.destination_is_ready(false).await?;
    scene.mirror_late().await
}
