//! What the gateway of a cluster may forward to, as its Deployment says.

use anyhow::{Context as _, ensure};
use control_plane::eventually;
use serde_json::Value;

use super::{
    cluster::{Cluster, EXTENSION, GATEWAY},
    wait::SOON,
};

/// The annotation of the gateway's Pods with variables for their proxy, and this variable.
pub(crate) const ADDITIONAL_ENV: &str = "config.linkerd.io/proxy-additional-env";
pub(crate) const SUFFIXES: &str = "LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES";

/// The template of the gateway's Pods.
pub(crate) async fn template(east: &Cluster) -> anyhow::Result<Value> {
    let found = east.get(&["deployment", GATEWAY, "-n", EXTENSION]).await?;
    Ok(found["spec"]["template"].clone())
}

/// Waits until the gateway should forward to what fits. Returns the annotation.
pub(crate) async fn forwards_to(
    east: &Cluster,
    fits: impl Fn(&str) -> bool,
) -> anyhow::Result<String> {
    eventually(
        "the controller to write what the gateway forwards to",
        SOON,
        async || {
            let template = template(east).await?;
            let annotation = template["metadata"]["annotations"][ADDITIONAL_ENV].as_str();
            let annotation = annotation.context("no annotation")?.to_owned();
            let env: Value = serde_json::from_str(&annotation)?;
            let value = env[0]["value"].as_str().unwrap_or_default();
            ensure!(
                fits(value) && env[0]["name"] == SUFFIXES,
                "it has {annotation}"
            );
            Ok(Some(annotation))
        },
    )
    .await
}
