//! A mirror changes its mode while requests go to it.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    rig::{NAMESPACE, Rig, mirrors::FOLLOWS},
    table::Row,
};

/// How long each mode is held under load, without a new connection of a proxy's streams.
const HOLD: Duration = Duration::from_secs(30);

/// The label's two values.
const GATEWAY: &str = "true";
const DISCOVERY: &str = "remote-discovery";

/// From the gateway to remote discovery and back, and the other way round, each held.
pub(super) async fn switched(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    for (gated, flat) in [(DISCOVERY, GATEWAY), (GATEWAY, DISCOVERY)] {
        for (name, mode) in [("gated", gated), ("flat", flat)] {
            let label = json!({ "metadata": { "labels": { "mirror.linkerd.io/exported": mode } } });
            rig.east
                .services(NAMESPACE)
                .patch(name, &PatchParams::default(), &Patch::Merge(label))
                .await?;
        }
        sleep(HOLD).await;
    }
    rig.proxy_is_right(FOLLOWS).await?;
    super::without_failures(&load.finish().await?)
}
