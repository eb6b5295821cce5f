//! Which Pods get requests, and which identity of the client they see.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::sleep;

use super::{of, without_failures};
use crate::{
    load::Load,
    rig::{
        NAMESPACE, Rig,
        mirrors::{FEDERATED, FLAT, FOLLOWS, GATED},
        pod::Pod,
    },
    table::Row,
};

/// How long the load continues in each state.
const HOLD: Duration = Duration::from_secs(10);

/// Requests in each mode reach all Pods that they should, and these see the right identity.
pub(super) async fn all_modes(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    sleep(HOLD).await;
    let tallies = load.finish().await?;
    let row = without_failures(&tallies)?;
    let client = rig.west.identity_of("client", NAMESPACE);
    let gateway = rig
        .east
        .identity_of("linkerd-gateway", "linkerd-multicluster");
    let names =
        |pods: &[Pod]| -> BTreeSet<String> { pods.iter().map(|pod| pod.name.clone()).collect() };
    let east = names(&rig.east_pods);
    let all = &east | &names(&rig.west_pods);
    for (mirror, identity, pods) in [
        (GATED, &gateway, &east),
        (FLAT, &client, &east),
        (FEDERATED, &client, &all),
    ] {
        let answers = &of(&tallies, mirror)?.answers;
        let seen: BTreeSet<&str> = answers.keys().map(|(_, seen)| seen.as_str()).collect();
        ensure!(
            seen == BTreeSet::from([identity.as_str()]),
            "{mirror}: Pods see {seen:?}, not {identity}"
        );
        let from: BTreeSet<String> = answers.keys().map(|(pod, _)| pod.clone()).collect();
        ensure!(from.is_subset(pods), "{mirror}: {from:?} have answered");
    }
    let told = tallies
        .iter()
        .map(|(name, tally)| format!("{name} {}", tally.requests));
    let told: Vec<String> = told.collect();
    Ok(row.with(told.join(", ")))
}

/// A host of a headless Service is reached through the gateway, by its own mirror.
pub(super) async fn host(rig: &mut Rig) -> anyhow::Result<Row> {
    let pod = rig.east_pods.last().context("no Pods")?.name.clone();
    let target = rig.host().await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    let service = format!("{NAMESPACE}/{}", target.name);
    let gateway = rig.expected(GATED);
    rig.source
        .oracle
        .agrees(&service, &gateway, FOLLOWS)
        .await?;
    sleep(HOLD).await;
    let tallies = load.finish().await?;
    let row = without_failures(&tallies)?;
    let answers = &of(&tallies, &target.name)?.answers;
    let from: BTreeSet<&str> = answers.keys().map(|(pod, _)| pod.as_str()).collect();
    ensure!(
        from == BTreeSet::from([pod.as_str()]),
        "{from:?} have answered for {pod}"
    );
    Ok(row)
}
