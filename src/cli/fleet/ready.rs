//! Waits until the Links that were written are ready.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use client::{fingerprint, kubeconfig_in};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use links::{
    fleet::{
        gather::{ReadCluster, ReadClusters},
        loaded::LoadedFleet,
    },
    fleet_file::LinkEnds,
    poll::poll,
};
use manifests::link::ClusterName;
use mirror_core::api::link::Link;

use crate::cli::{common::wait::Progress, link::is_ready};

/// Poll interval for each cluster.
const INTERVAL: Duration = Duration::from_secs(1);

/// Waits for the Links of all clusters side by side. Returns those that are not ready in time, each with a line that says
/// why.
pub async fn wait_until_ready(
    loaded: &LoadedFleet,
    read: &ReadClusters,
    written: &BTreeSet<LinkEnds>,
    wait: Duration,
) -> BTreeMap<LinkEnds, String> {
    let mut by_source: BTreeMap<&ClusterName, Vec<&ClusterName>> = BTreeMap::new();
    for ends in written {
        by_source
            .entry(&ends.source)
            .or_default()
            .push(&ends.target);
    }
    let waits = by_source.iter().filter_map(|(source, targets)| {
        let cluster = read.get(*source)?.as_ref().ok()?;
        Some(of_source(loaded, source, cluster, targets, wait))
    });
    let progress = Progress::new("waiting for the Links to become ready");
    let left = progress.during(join_all(waits)).await;
    left.into_iter().flatten().collect()
}

async fn of_source(
    loaded: &LoadedFleet,
    source: &ClusterName,
    read: &ReadCluster,
    targets: &[&ClusterName],
    wait: Duration,
) -> Vec<(LinkEnds, String)> {
    let links: Api<Link> = read.cluster.api(&loaded.namespace);
    let secrets: Api<Secret> = read.cluster.api(&loaded.namespace);
    let ends = |target: &ClusterName| LinkEnds {
        source: source.clone(),
        target: target.clone(),
    };
    let attempt = async || {
        let mut waiting = Vec::new();
        for target in targets {
            let (link, secret) = (target.to_string(), target.credentials_secret());
            let live = read
                .cluster
                .request("read the Link", links.get_opt(&link))
                .await?;
            let held = read
                .cluster
                .request("read the credentials", secrets.get_opt(&secret))
                .await?;
            let held = held.as_ref().and_then(kubeconfig_in);
            let held = held.map(|text| fingerprint(&text.0)).unwrap_or_default();
            let is_ready = match &live {
                Some(live) => is_ready(live, &held),
                None => Err(Some("it was not written".to_owned())),
            };
            if let Err(why) = is_ready {
                let why = why.unwrap_or_else(|| "no status reported yet".to_owned());
                waiting.push((
                    ends(target),
                    format!("the Link {link} in {source} is not ready: {why}"),
                ));
            }
        }
        anyhow::Ok(if waiting.is_empty() {
            Ok(())
        } else {
            Err(waiting)
        })
    };
    match poll(INTERVAL, wait, attempt, |_| ()).await {
        Ok(Ok(())) => Vec::new(),
        Ok(Err(waiting)) => waiting,
        Err(error) => {
            let why = format!("{source}: {error:#}");
            let all = targets.iter().map(|target| (ends(target), why.clone()));
            all.collect()
        }
    }
}
