//! Three clusters of one file, while requests go to all mirrors: linked, rotated, and one of them taken out.

use std::{collections::BTreeSet, fs, time::Instant};

use anyhow::{Context as _, ensure};
use linkerd_mc::api::labels::FLEET;
use serde_json::json;

use super::{rotate::OldCredentials, without_failures};
use crate::{
    helper::APP_PORT,
    rig::{
        NAMESPACE, Rig,
        cluster::Cluster,
        deployments::Deployments,
        mirrors::{FEDERATED, FOLLOWS},
        third::{NORTH, Third},
    },
    table::{Row, seconds},
};

/// What takes over the existing link to `east`, and adds `north`. Linkerd follows new credentials after a restart.
const APPLY: &str = "linkerd-mc fleet apply --file fleet.yaml --yes && \
    kubectl --context west -n linkerd rollout restart deployment/linkerd-destination";
const AGAIN: &str = "linkerd-mc fleet plan --file fleet.yaml";
const ROTATE: &str = "linkerd-mc fleet rotate --file fleet.yaml";
/// Without a context for it, the cluster that has left the file cannot be read.
const LESS: &str = "{ linkerd-mc fleet plan --file fleet.yaml || true; } | grep 'the account west in north stays'; \
    KUBECONFIG=$KUBECONFIG:north linkerd-mc fleet apply --file fleet.yaml --yes";
/// What a fleet makes.
const MADE: &str = "links.multicluster.linkerd.io,secrets,serviceaccounts";

/// No request is lost. Credentials are replaced, and what leaves the file leaves nothing behind.
pub(super) async fn of_three(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut deployments = Deployments::new(rig).await?;
    let north = Third::start(rig).await?;
    let load = rig.load().await?;
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let members = rig.expected(FEDERATED);
    let pod = (north.pods[0].address, APP_PORT).into();
    let all = &members | &BTreeSet::from([pod]);

    write(rig, &north, true)?;
    let began = Instant::now();
    deployments.shell(rig, APPLY).await?;
    rig.is_ready(NORTH).await?;
    let linked = began.elapsed();
    rig.oracle.agrees(&federated, &all, FOLLOWS).await?;
    deployments.shell(rig, AGAIN).await.context("it differs")?;

    let old = OldCredentials::keep(rig, &mut deployments).await?;
    let began = Instant::now();
    deployments.shell(rig, ROTATE).await?;
    let rotated = began.elapsed();
    old.are_refused(rig).await?;
    let gone = rig.replace_pod().await?;
    let all = &rig.expected(FEDERATED) | &BTreeSet::from([pod]);
    rig.oracle.agrees(&federated, &all, FOLLOWS).await?;

    write(rig, &north, false)?;
    deployments.shell(rig, LESS).await?;
    rig.proxy_is_right(FOLLOWS).await?;
    let left = made(&north.cluster).await?;
    ensure!(left.is_empty(), "{NORTH} has {left}");
    let left = made(&rig.west).await?;
    ensure!(
        left.contains("east") && !left.contains(NORTH),
        "west has {left}"
    );
    let row = without_failures(&load.finish().await?)?;
    drop(gone);

    // The next cases have a link that `link-gen` makes.
    let unlink = ["unlink", "--cluster-name=east", "--apply", "--yes"];
    rig.west.linkerd_mc(&unlink)?;
    rig.link().await?;
    Ok(row.with(format!(
        "linked {}, rotated {}: the old token is refused; the cluster that leaves the file leaves nothing, in it or in \
         the source",
        seconds(linked),
        seconds(rotated)
    )))
}

/// Writes the file: `west` links to `east`, and to `north` if that is one of the clusters.
fn write(rig: &Rig, north: &Third, with_north: bool) -> anyhow::Result<()> {
    let mut clusters = vec![
        json!({ "name": "west" }),
        json!({ "name": "east", "apiServerAddress": rig.east_api.url() }),
    ];
    let settings = json!({ "enableHeadlessServices": true });
    let mut links = vec![json!({ "source": "west", "target": "east", "settings": settings })];
    if with_north {
        let plane = &north.cluster.plane;
        clusters.push(json!({
            "name": NORTH, "apiServerAddress": plane.url(), "kubeconfig": plane.kubeconfig(),
        }));
        links.push(json!({ "source": "west", "target": NORTH }));
    }
    let file = json!({ "name": "rig", "clusters": clusters, "links": links });
    let home = &rig.west.place.home;
    fs::copy(north.cluster.plane.kubeconfig(), home.join(NORTH))?;
    // JSON is YAML.
    Ok(fs::write(
        rig.west.place.home.join("fleet.yaml"),
        file.to_string(),
    )?)
}

/// The names of what the fleet has made in a cluster, a line each.
async fn made(cluster: &Cluster) -> anyhow::Result<String> {
    let label = format!("{FLEET}=rig");
    let get = ["get", MADE, "--all-namespaces", "-o", "name", "-l", &label];
    cluster.plane.kubectl(&get).await
}
