//! States that look unusual, in which `diagnose` has to find nothing: a host of a StatefulSet, preferences and their
//! mirrors, two replicas of the controller, and trust anchors that something else provides and rotates.

use anyhow::Context as _;

use super::{
    routes::{no_preference, prefers},
    scene::{Scene, forget_destination},
    target::{anchors_are_rotated, common_anchor},
};
use crate::{
    helper::APP_PORT,
    load::until_answered,
    rig::{
        Rig,
        mirrors::{FEDERATED, MODES},
        workloads::PORT,
    },
    table::Row,
};

/// The mirror of the member in `east`, while the federated Service prefers it.
const PREFERRED: &str = "web-east";

pub(crate) async fn nothing_is_found(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut scene = Scene::begin(rig).await?;
    let host = scene.rig.east_pods.last().context("no Pods")?;
    let host = format!("{}-east", host.name);
    let mut count = is_well(&mut scene, &[&host], APP_PORT, "a host").await?;

    for (preference, called) in [
        ("local,east", [FEDERATED, PREFERRED]),
        ("east", [FEDERATED, PREFERRED]),
    ] {
        prefers(&mut scene, preference).await?;
        count += is_well(&mut scene, &called, PORT, preference).await?;
    }
    no_preference(&mut scene).await?;

    let mut second = scene.rig.start_replica().await?;
    count += is_well(&mut scene, &MODES, PORT, "two replicas").await?;
    second.terminate()?;
    second.delete().await?;

    anchors_are_rotated(&mut scene).await?;
    count += is_well(&mut scene, &MODES, PORT, "rotated anchors").await?;
    common_anchor(&mut scene).await?;
    scene.clean().await?;
    forget_destination(rig).await?;
    Ok(Row {
        requests: count,
        failed: 0,
        oracle: "right".to_owned(),
        measured: format!("{count} times nothing found"),
    })
}

/// Returns how many Services were called.
async fn is_well(
    scene: &mut Scene<'_>,
    called: &[&str],
    port: u16,
    what: &str,
) -> anyhow::Result<u64> {
    for service in called {
        let target = scene.target(service, port).await?;
        until_answered(&scene.client(), &target).await?;
        scene.is_well(service, port, what).await?;
        println!("  {what}: nothing is wrong with {service}");
    }
    Ok(called.len().try_into()?)
}
