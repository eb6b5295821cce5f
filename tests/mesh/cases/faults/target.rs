//! Faults of the target cluster.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Fault, broken, scene::Scene};
use crate::rig::{
    Root,
    mirrors::{FLAT, GATED},
};

/// Linkerd's configuration.
const CONFIG: &str = "linkerd-config";

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
        broken(
            "trust anchors differ",
            (GATED, 80),
            ("target", "TrustRootsDiffer"),
            |s| Box::pin(other_anchor(s)),
        )
        .mended_by(|s| Box::pin(common_anchor(s))),
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

/// `west` gets a trust anchor of its own, and a client that was started since then.
async fn other_anchor(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let root = Root::new()?;
    let west = &mut scene.rig.west;
    let folder = west.place.home.join("other-root");
    west.linkerd.trust(&folder, &root).await?;
    let anchors = root.certificate();
    anchors_are(scene, &anchors, &anchors).await?;
    another_client(scene).await
}

/// `west` has another trust anchor beside the common one, as in a rotation with trust-manager: it writes the bundle, which
/// the injector gives to proxies, and Linkerd's configuration has none.
pub(super) async fn anchors_are_rotated(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let east = configs(&scene.rig.east.plane.client());
    let bundle = Root::new()?.certificate() + &anchors(&values(&east).await?)?;
    anchors_are(scene, &bundle, &bundle).await?;
    another_client(scene).await?;
    anchors_are(scene, "", &bundle).await
}

/// The printed commands show both anchors. People give both clusters a common one, and restart workloads.
pub(super) async fn common_anchor(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.west.linkerd.trust_again().await?;
    let east = configs(&scene.rig.east.plane.client());
    let anchors = anchors(&values(&east).await?)?;
    anchors_are(scene, &anchors, &anchors).await?;
    another_client(scene).await
}

async fn another_client(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let caller = scene.rig.start_client_pod().await?;
    scene.call_from(&caller)?;
    scene.pods.push(caller);
    Ok(())
}

fn configs(client: &kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "linkerd")
}

/// Linkerd's configuration.
async fn values(configs: &Api<ConfigMap>) -> anyhow::Result<Value> {
    let data = configs.get(CONFIG).await?.data.unwrap_or_default();
    let values = data.get("values").context("linkerd-config has no values")?;
    Ok(serde_saphyr::from_str(values)?)
}

fn anchors(values: &Value) -> anyhow::Result<String> {
    let anchors = values["identityTrustAnchorsPEM"].as_str();
    Ok(anchors.context("no trust anchors")?.to_owned())
}

/// Writes the trust anchors of `west` into Linkerd's configuration, from which `linkerd inject` gives them to proxies, and
/// into the bundle of its own.
async fn anchors_are(scene: &Scene<'_>, anchors: &str, bundle: &str) -> anyhow::Result<()> {
    let west = configs(&scene.rig.west.plane.client());
    let mut values = values(&west).await?;
    values["identityTrustAnchorsPEM"] = json!(anchors);
    // JSON is YAML.
    for (name, data) in [
        (CONFIG, json!({ "values": values.to_string() })),
        (
            "linkerd-identity-trust-roots",
            json!({ "ca-bundle.crt": bundle }),
        ),
    ] {
        let change = Patch::Merge(json!({ "data": data }));
        west.patch(name, &PatchParams::default(), &change).await?;
    }
    Ok(())
}
