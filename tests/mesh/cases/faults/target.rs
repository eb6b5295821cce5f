//! Faults of the target cluster.

use super::{Fault, broken, scene::Scene};
use crate::rig::mirrors::{FLAT, GATED};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        broken(
            "no ready Pods in the target, through the gateway",
            (GATED, 80),
            ("target", "NoReadyPods"),
            |s| Box::pin(unready(s)),
        )
        .mended_by(|s| Box::pin(ready(s))),
        broken(
            "no ready Pods in the target, Pod to Pod",
            (FLAT, 80),
            ("target", "NoReadyPods"),
            |s| Box::pin(unready(s)),
        )
        .mended_by(|s| Box::pin(ready(s))),
    ]
}

async fn unready(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    for pod in &scene.rig.east_pods {
        pod.set_ready(false).await?;
    }
    Ok(())
}

async fn ready(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    for pod in &scene.rig.east_pods {
        pod.set_ready(true).await?;
    }
    Ok(())
}
