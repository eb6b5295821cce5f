//! Faults of the Pod that calls.

use serde_json::json;

use super::{Fault, broken, scene::Scene};
use crate::rig::{
    NAMESPACE,
    mirrors::GATED,
    pod::{Pod, PodTemplate},
};

/// The workload of the Pod that calls.
const WORKLOAD: &str = "caller";

pub(super) fn faults() -> Vec<Fault> {
    vec![
        broken(
            "client not injected",
            (GATED, 80),
            ("client", "NotInjected"),
            |s| Box::pin(not_injected(s)),
        )
        .mended_by(|s| Box::pin(restarted(s))),
        broken(
            "client's outbound port skipped",
            (GATED, 80),
            ("client", "OutboundPortSkipped"),
            |s| Box::pin(port_skipped(s)),
        )
        .mended_by(|s| Box::pin(restarted(s))),
        broken(
            "client terminates",
            (GATED, 80),
            ("client", "ClientTerminating"),
            |s| Box::pin(terminating(s)),
        )
        .mended_by(|s| Box::pin(restarted(s))),
    ]
}

/// A Deployment without a Pod, whose Pods the rig starts.
async fn deployment(scene: &Scene<'_>, annotations: serde_json::Value) -> anyhow::Result<()> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "namespace": NAMESPACE, "name": WORKLOAD },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": WORKLOAD } },
            "template": {
                "metadata": { "labels": { "app": WORKLOAD }, "annotations": annotations },
                "spec": { "containers": [{ "name": "app", "image": "app" }] },
            },
        },
    });
    scene.rig.west.apply(&deployment.to_string()).await
}

/// What makes a Pod one of the Deployment.
fn owned(template: &mut PodTemplate) {
    template.template["metadata"]["labels"]["pod-template-hash"] = json!("abc");
    template.template["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{WORKLOAD}-abc"),
        "uid": "00000000-0000-0000-0000-000000000001", "controller": true,
    }]);
}

async fn not_injected(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    deployment(scene, json!({})).await?;
    let mut template = PodTemplate::app(NAMESPACE, "caller-abc-0", "client");
    owned(&mut template);
    let pod = Pod::start_plain(&mut scene.rig.west, template).await?;
    scene.call_from(&pod)?;
    scene.pods.push(pod);
    Ok(())
}

async fn port_skipped(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let skip = json!({ "config.linkerd.io/skip-outbound-ports": "80" });
    deployment(scene, skip.clone()).await?;
    let mut template = PodTemplate::app(NAMESPACE, "caller-abc-1", "client");
    owned(&mut template);
    template.template["metadata"]["annotations"]["config.linkerd.io/skip-outbound-ports"] =
        skip["config.linkerd.io/skip-outbound-ports"].clone();
    let pod = Pod::start(&mut scene.rig.west, template, &[]).await?;
    pod.skip(80)?;
    scene.call_from(&pod)?;
    scene.pods.push(pod);
    Ok(())
}

/// The object stays until a kubelet says that the Pod has ended.
async fn terminating(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let mut pod = scene.rig.start_client_pod().await?;
    scene.call_from(&pod)?;
    let delete = ["-n", NAMESPACE, "delete", "pod", &pod.name, "--wait=false"];
    scene
        .west(&[&delete[..], &["--grace-period=3600"]].concat())
        .await?;
    pod.proxy.kill();
    scene.pods.push(pod);
    Ok(())
}

/// The Deployment starts another Pod, of its new template.
async fn restarted(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let delete = [
        "-n",
        NAMESPACE,
        "delete",
        "deployment",
        WORKLOAD,
        "--ignore-not-found",
    ];
    scene.west(&delete).await?;
    let pod = scene.rig.start_client_pod().await?;
    scene.call_from(&pod)?;
    scene.pods.push(pod);
    Ok(())
}
