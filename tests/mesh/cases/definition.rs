//! Cases that replace the CRD for Links.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::without_failures;
use crate::{
    rig::{NAMESPACE, Rig, condition_of, mirrors::FOLLOWS, workloads::service},
    table::Row,
};

const NAME: &str = "links.multicluster.linkerd.io";
/// Fields of a Link's status in Linkerd's own CRD.
const LINKERDS_FIELDS: [&str; 2] = ["mirrorServices", "federatedServices"];
/// What Linkerd's own CRD does not say of a Link's status: that fields which it does not name are kept, and a default.
const OURS: [&str; 2] = ["x-kubernetes-preserve-unknown-fields", "default"];
/// How long the load continues with each CRD.
const HOLD: Duration = Duration::from_secs(10);

/// The CRD for Links is replaced by that of Linkerd's own extension, which lacks most of the status, and then by ours,
/// as in an upgrade.
pub(super) async fn upgraded(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    replace_by_linkerds(rig).await?;
    // The controller works on, and its status loses what this CRD does not have.
    let exported = service("meanwhile", "mirror.linkerd.io/exported", "true");
    rig.east.apply(&exported.to_string()).await?;
    rig.target("meanwhile-east").await?;
    sleep(HOLD).await;
    let link = rig.link_object().await?;
    ensure!(
        condition_of(&link, "Ready").is_none(),
        "the CRD keeps our conditions"
    );
    rig.west.install().await?;
    // The same controller writes it again, before the next one starts.
    rig.link_is_ready().await?;
    sleep(HOLD).await;
    let services = rig.east.services(NAMESPACE);
    services
        .delete("meanwhile", &DeleteParams::default())
        .await?;
    // An upgrade replaces the controller too.
    rig.source.controller.restart().await?;
    rig.link_is_ready().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}

/// Replaces the CRD for Links by that of Linkerd's own extension.
pub(super) async fn replace_by_linkerds(rig: &Rig) -> anyhow::Result<()> {
    let change = downgrade(&rig.west.get(&["crd", NAME]).await?)?;
    let patch = ["patch", "crd", NAME, "--type=json", "-p", &change];
    rig.west.plane.kubectl(&patch).await.map(|_| ())
}

/// The JSON patch that removes from our CRD what Linkerd's own does not have in a Link's status, in all versions.
fn downgrade(definition: &Value) -> anyhow::Result<String> {
    let versions = definition["spec"]["versions"].as_array();
    let mut changes = Vec::new();
    for (number, version) in versions.context("no versions")?.iter().enumerate() {
        let pointer = "/schema/openAPIV3Schema/properties/status";
        let Some(status) = version.pointer(pointer) else {
            continue;
        };
        let known = status["properties"].as_object().into_iter().flatten();
        let ours = known.filter(|(field, _)| !LINKERDS_FIELDS.contains(&field.as_str()));
        let fields = ours.map(|(field, _)| format!("properties/{field}"));
        let others = OURS.into_iter().filter(|key| status.get(*key).is_some());
        for part in others.map(str::to_owned).chain(fields) {
            let path = format!("/spec/versions/{number}{pointer}/{part}");
            changes.push(json!({ "op": "remove", "path": path }));
        }
    }
    ensure!(
        !changes.is_empty(),
        "the definition has no status of our own"
    );
    Ok(Value::from(changes).to_string())
}
