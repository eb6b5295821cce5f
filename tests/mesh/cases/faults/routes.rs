//! Faults of routes: those of others over a mirror or a preference, and preferences that fail over.

use std::time::Duration;

use control_plane::eventually;
use serde_json::json;
use tokio::time::sleep;

use super::{
    Fault, broken, degraded,
    scene::{LATE_EAST, Scene},
};
use crate::rig::{NAMESPACE, mirrors::FEDERATED, wait::SOON};

pub(super) fn faults() -> Vec<Fault> {
    let late = (LATE_EAST, 80);
    let federated = (FEDERATED, 80);
    vec![
        broken(
            "HTTPRoute to nowhere",
            late,
            ("objects", "RouteBackendMissing"),
            |s| Box::pin(route_to_nowhere(s)),
        )
        .ended_by(|s| Box::pin(no_route(s))),
        degraded(
            "HTTPRoute over a preference",
            federated,
            ("objects", "RouteConflict"),
            |s| Box::pin(route_over(s)),
        )
        .ended_by(|s| Box::pin(no_preference(s))),
        degraded(
            "ServiceProfile over a preference",
            federated,
            ("objects", "ServiceProfileConflict"),
            |s| Box::pin(profile_over(s)),
        )
        .ended_by(|s| Box::pin(no_preference(s))),
        degraded("failed over", federated, ("objects", "FailedOver"), |s| {
            Box::pin(failed_over(s))
        })
        .mended_by(|s| Box::pin(local_pods_are_back(s)))
        .ended_by(|s| Box::pin(no_preference(s))),
    ]
}

fn route(parent: &str, backend: &str) -> String {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "namespace": NAMESPACE, "name": "of-somebody-else" },
        "spec": {
            "parentRefs": [{ "group": "", "kind": "Service", "name": parent, "port": 80 }],
            "rules": [{ "backendRefs": [{ "group": "", "kind": "Service", "name": backend, "port": 80 }] }],
        },
    })
    .to_string()
}

/// What `kubectl edit` opens names the mirror.
async fn route_to_nowhere(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.people_edit(&format!("s/name: gone/name: {LATE_EAST}/"))?;
    scene.mirror_late().await?;
    scene.rig.west.apply(&route(LATE_EAST, "gone")).await
}

async fn no_route(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let delete = ["-n", NAMESPACE, "delete", "httproute", "of-somebody-else"];
    scene.west(&delete).await.map(|_| ())
}

pub(super) async fn prefers(scene: &mut Scene<'_>, preference: &str) -> anyhow::Result<()> {
    scene.rig.prefer(Some(preference)).await?;
    let what = "the preference to be in force";
    annotated(scene, what, "multicluster.linkerd.io/prefer").await
}

/// Waits until the federated Service has an annotation.
async fn annotated(scene: &Scene<'_>, what: &str, key: &str) -> anyhow::Result<()> {
    let services = scene.rig.west.services(NAMESPACE);
    eventually(what, SOON, async || {
        let found = services.get(FEDERATED).await?.metadata.annotations;
        Ok(found.unwrap_or_default().contains_key(key).then_some(()))
    })
    .await
}

async fn route_over(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    prefers(scene, "east").await?;
    scene.rig.west.apply(&route(FEDERATED, "web")).await
}

async fn profile_over(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    prefers(scene, "east").await?;
    let profile = json!({
        "apiVersion": "linkerd.io/v1alpha2", "kind": "ServiceProfile",
        "metadata": { "namespace": NAMESPACE, "name": format!("{FEDERATED}.{NAMESPACE}.svc.cluster.local") },
        "spec": { "routes": [{ "name": "all", "condition": { "pathRegex": ".*" } }] },
    });
    scene.rig.west.apply(&profile.to_string()).await
}

pub(super) async fn no_preference(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.prefer(None).await
}

/// The preferred Pods of this cluster become unready.
async fn failed_over(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    prefers(scene, "local").await?;
    for pod in &scene.rig.west_pods {
        pod.set_ready(false).await?;
    }
    let key = "multicluster.linkerd.io/failed-over";
    annotated(scene, "others to take over", key).await
}

async fn local_pods_are_back(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    for pod in &scene.rig.west_pods {
        pod.set_ready(true).await?;
    }
    // The hold-down.
    sleep(Duration::from_secs(30)).await;
    Ok(())
}
