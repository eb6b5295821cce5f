//! Many Services of `east`, to measure how fast the controller mirrors them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use control_plane::eventually;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use tokio::time::{Instant, interval, timeout};

use crate::rig::{NAMESPACE, Rig, wait::SOON, workloads::service};

/// Their number.
pub(super) const SERVICES: usize = 1000;
/// How many of them are changed each second.
pub(super) const CHANGES_A_SECOND: u32 = 50;
/// Number of changes.
const CHANGES: usize = 500;
/// Requests at a time.
const AT_ONCE: usize = 8;
/// Label that is changed.
const LABEL: &str = "example.com/change";

fn names() -> impl Iterator<Item = String> {
    (0..SERVICES).map(|number| format!("many-{number}"))
}

/// Creates and exports them.
pub(super) async fn create(rig: &Rig) -> anyhow::Result<()> {
    let services = rig.east.services(NAMESPACE);
    let created = stream::iter(names()).map(async |name| {
        let object = service(&name, "mirror.linkerd.io/exported", "true");
        let object = serde_json::from_value(object)?;
        services.create(&PostParams::default(), &object).await?;
        anyhow::Ok(())
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

/// Deletes them.
pub(super) async fn delete(rig: &Rig) -> anyhow::Result<()> {
    let services = rig.east.services(NAMESPACE);
    let deleted = stream::iter(names()).map(async |name| {
        services.delete(&name, &DeleteParams::default()).await?;
        anyhow::Ok(())
    });
    deleted
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    has_mirrors(rig, 0).await
}

/// Deletes all mirrors while the controller is away, and measures how long it takes to make them again.
pub(super) async fn first_sync(rig: &mut Rig) -> anyhow::Result<Duration> {
    rig.source.controller.kill();
    let of_east = ["-l", "mirror.linkerd.io/cluster-name=east", "--wait=false"];
    let delete = [&["delete", "services", "-n", NAMESPACE], &of_east[..]].concat();
    rig.west.plane.kubectl(&delete).await?;
    has_mirrors(rig, 0).await?;
    rig.source.controller.restart().await?;
    let began = Instant::now();
    has_mirrors(rig, SERVICES).await?;
    Ok(began.elapsed())
}

/// Waits until there is this number of mirrors of them.
async fn has_mirrors(rig: &Rig, number: usize) -> anyhow::Result<()> {
    let services = rig.west.services(NAMESPACE);
    eventually(&format!("{number} mirrors"), SOON * 2, async || {
        let all = services.list_metadata(&ListParams::default()).await?;
        let names = all
            .items
            .iter()
            .filter_map(|found| found.metadata.name.as_deref());
        let there = names.filter(|name| name.starts_with("many-")).count();
        ensure!(there == number, "there are {there}");
        Ok(Some(()))
    })
    .await
}

/// Changes one after the other, at a steady rate. Returns the times until their mirrors have the changes. `round` is
/// unlike that of earlier calls.
pub(super) async fn changes(rig: &Rig, round: &str) -> anyhow::Result<Vec<Duration>> {
    let services = rig.east.services(NAMESPACE);
    let (watched, began) = (rig.west.services(NAMESPACE), Instant::now());
    let changed = async {
        let mut tick = interval(Duration::from_secs(1) / CHANGES_A_SECOND);
        let mut sent = BTreeMap::new();
        for (number, name) in names().take(CHANGES).enumerate() {
            tick.tick().await;
            sent.insert(number.to_string(), began.elapsed());
            let label = json!({ "metadata": { "labels": { LABEL: format!("{round}-{number}") } } });
            services
                .patch(&name, &PatchParams::default(), &Patch::Merge(label))
                .await?;
        }
        anyhow::Ok(sent)
    };
    let seen = async {
        let mut mirrors = watcher(watched, watcher::Config::default())
            .applied_objects()
            .boxed();
        let mut seen = BTreeMap::new();
        while seen.len() < CHANGES {
            let mirror = mirrors.try_next().await?.context("the watch has ended")?;
            let label = mirror
                .metadata
                .labels
                .and_then(|mut labels| labels.remove(LABEL));
            let number = label
                .and_then(|label| Some(label.strip_prefix(round)?.strip_prefix('-')?.to_owned()));
            if let Some(number) = number {
                seen.entry(number).or_insert_with(|| began.elapsed());
            }
        }
        anyhow::Ok(seen)
    };
    let (sent, seen) = timeout(SOON * 2, async { tokio::try_join!(changed, seen) })
        .await
        .context("not all changes were mirrored")??;
    Ok(sent
        .into_iter()
        .filter_map(|(number, sent)| Some(seen.get(&number)?.saturating_sub(sent)))
        .collect())
}
