//! A full mesh of three clusters from one file, while each of them sends requests to the others: linked, rotated, one of
//! them renamed, and taken out.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use linkerd_mc::api::labels::FLEET;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{rotate::OldCredentials, without_failures};
use crate::{
    load::Load,
    rig::{
        NAMESPACE, Rig,
        cluster::Cluster,
        full_mesh::{FullMesh, federated},
        mirrors::FEDERATED,
        third::NORTH,
    },
    table::{Row, seconds},
};

/// What takes over the existing link of `west` to `east`, and adds the five others. Linkerd follows new credentials only
/// after a restart.
const APPLY: &str = "linkerd-mc fleet apply --file fleet.yaml --take-over --yes
    for what in restart 'status --timeout=60s'; do
        kubectl --context west -n linkerd rollout $what deployment/linkerd-destination
    done";
const AGAIN: &str = "linkerd-mc fleet plan --file fleet.yaml";
const ROTATE: &str = "linkerd-mc rotate --file fleet.yaml --yes";
/// Without a context for it, the cluster that has left the file cannot be read.
const LESS: &str = "plan=$(linkerd-mc fleet plan --file fleet.yaml --prune) || [ $? -eq 1 ]
    for account in west east; do grep \"the account $account in north stays\" <<< \"$plan\"; done
    KUBECONFIG=$KUBECONFIG:north linkerd-mc fleet apply --file fleet.yaml --prune --also north --yes";
const NOTHING: &str = "linkerd-mc fleet apply --file fleet.yaml --prune --yes";
/// How long the load continues after the rotation, when the Pods from before it are gone.
const HOLD: Duration = Duration::from_secs(20);
/// What a fleet makes.
const MADE: &str = "links.multicluster.linkerd.io,secrets,serviceaccounts";

/// No request is lost. Credentials are replaced, and what leaves the file leaves nothing behind.
pub(super) async fn of_three(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut mesh = Box::pin(FullMesh::start(rig)).await?;
    let (loads, linked) = link(rig, &mut mesh).await?;
    let rotated = rotate(rig, &mut mesh).await?;
    let gone = mesh.replace_pods(rig).await?;
    mesh.proxies_are_right(rig).await?;
    drop(gone);
    sleep(HOLD).await;

    let (lasting, parting): (Vec<_>, Vec<_>) = loads.into_iter().partition(|load| load.stays);
    let mut rows = finish(parting).await?;
    let renamed = rename(rig, &mut mesh).await?;
    take_north_out(rig, &mut mesh).await?;
    rows.extend(finish(lasting).await?);

    // The next cases have a link that `link-gen` makes.
    write(rig, None, &json!([]))?;
    mesh.shell(rig, NOTHING).await?;
    drop(mesh);
    FullMesh::forget(rig).await?;
    rig.link().await?;
    let mut requests: BTreeMap<&str, u64> = BTreeMap::new();
    for (client, row) in &rows {
        *requests.entry(client).or_default() += row.requests;
    }
    let requests = requests
        .iter()
        .map(|(client, count)| format!("{client} {count}"));
    let requests: Vec<String> = requests.collect();
    let rows = rows.into_iter().map(|(_, row)| row);
    let row = rows.reduce(|all, row| all.and(&row)).context("no load")?;
    Ok(row.with(format!(
        "requests of {}; six links made in {}, rotated in {}: the old tokens are refused; a cluster \
         renamed and named back in {}: its federated Service keeps its ClusterIP; the cluster that leaves the file \
         leaves nothing, in it or in the others",
        requests.join(", "),
        seconds(linked),
        seconds(rotated),
        seconds(renamed)
    )))
}

/// A load of a client.
struct MeshLoad {
    /// The client's cluster.
    client: String,
    /// Whether the mirrors stay when `north` leaves the file.
    stays: bool,
    load: Load,
}

/// Makes the links of the file. Returns the loads on all mirrors, and how long it took. All clients send requests already
/// when it begins, to the federated Service that has only members of their own, and those of `west` also to `east`.
async fn link(rig: &mut Rig, mesh: &mut FullMesh) -> anyhow::Result<(Vec<MeshLoad>, Duration)> {
    let load_of = |client: &str, stays: bool, load: Load| MeshLoad {
        client: client.to_owned(),
        stays,
        load,
    };
    let [west, east, north] = mesh.clusters(rig);
    let mut loads = vec![load_of(west.name(), true, rig.load().await?)];
    for cluster in [east, north] {
        let load = cluster.load(&[federated(&[cluster])]).await?;
        loads.push(load_of(cluster.name(), true, load));
    }

    let kubeconfig = rig.west.place.home.join(NORTH);
    fs::copy(north.cluster.plane.kubeconfig(), kubeconfig)?;
    write(
        rig,
        Some((NORTH, north.cluster)),
        &json!([mesh_of_all(), headless()]),
    )?;
    let began = Instant::now();
    mesh.shell(rig, APPLY).await?;
    mesh.is_linked(rig).await?;
    let linked = began.elapsed();
    for [source, target] in mesh.links(rig) {
        let names = [source.name(), target.name()];
        // Its load has begun already.
        if names != ["west", "east"] {
            let load = source.load(&[target.gated()]).await?;
            loads.push(load_of(source.name(), !names.contains(&NORTH), load));
        }
    }
    mesh.proxies_are_right(rig).await?;
    mesh.shell(rig, AGAIN).await.context("it differs")?;
    Ok((loads, linked))
}

/// Rotates all links, and returns how long it took. The old credentials of each are refused, and the new ones accepted.
async fn rotate(rig: &mut Rig, mesh: &mut FullMesh) -> anyhow::Result<Duration> {
    let mut all = Vec::new();
    for [source, target] in mesh.links(rig) {
        all.push(OldCredentials::keep(source.cluster, target.cluster).await?);
    }
    let began = Instant::now();
    mesh.shell(rig, ROTATE).await?;
    let rotated = began.elapsed();
    for ([source, target], old) in mesh.links(rig).into_iter().zip(&all) {
        let link = || format!("the link of {} to {}", source.name(), target.name());
        old.are_refused(target.cluster).await.with_context(link)?;
        let replaced = old.are_replaced(source.cluster, target.cluster).await;
        replaced.with_context(link)?;
    }
    mesh.shell(rig, AGAIN).await.context("it differs")?;
    Ok(rotated)
}

/// Gives `north` another name in the file, and then the old one again. Returns how long that took. Federated Services stay,
/// and lead to the same Pods.
async fn rename(rig: &mut Rig, mesh: &mut FullMesh) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let [west, east, _] = mesh.clusters(rig);
    let before = [stands(west.cluster).await?, stands(east.cluster).await?];
    for name in ["nord", NORTH] {
        let [.., north] = mesh.clusters(rig);
        let links = json!([mesh_of_all(), headless()]);
        write(rig, Some((name, north.cluster)), &links)?;
        mesh.shell(rig, NOTHING).await?;
        let clusters = mesh.clusters(rig);
        for cluster in &clusters {
            cluster.balances(&federated(&clusters)).await?;
        }
        let [west, east, _] = clusters;
        for (cluster, before) in [west, east].into_iter().zip(&before) {
            let mirror = format!("gated-{name}");
            cluster.cluster.target(&mirror).await?;
            let after = stands(cluster.cluster).await?;
            ensure!(
                after == *before,
                "{}: {after}, not {before}",
                cluster.name()
            );
        }
    }
    mesh.shell(rig, AGAIN).await.context("it differs")?;
    Ok(began.elapsed())
}

/// UID and ClusterIP of the federated Service.
async fn stands(cluster: &Cluster) -> anyhow::Result<String> {
    let path = "jsonpath={.metadata.uid} {.spec.clusterIP}";
    let get = ["-n", NAMESPACE, "get", "service", FEDERATED, "-o", path];
    cluster.plane.kubectl(&get).await
}

/// Takes `north` out of the file. Nothing of it stays, and the two others are as before.
async fn take_north_out(rig: &mut Rig, mesh: &mut FullMesh) -> anyhow::Result<()> {
    write(rig, None, &json!([mesh_of_all(), headless()]))?;
    mesh.shell(rig, LESS).await?;

    let [west, east, north] = mesh.clusters(rig);
    north.balances(&federated(&[north])).await?;
    for [source, target] in [[west, east], [east, west]] {
        source.balances(&federated(&[west, east])).await?;
        source.balances(&target.gated()).await?;
        let left = made(source.cluster).await?;
        ensure!(
            left.contains(target.name()) && !left.contains(NORTH),
            "{} has {left}",
            source.name()
        );
    }
    let left = made(north.cluster).await?;
    ensure!(left.is_empty(), "{NORTH} has {left}");
    Ok(())
}

/// Ends loads. Returns the row of each, and the client's cluster. Fails if a request failed.
async fn finish(loads: Vec<MeshLoad>) -> anyhow::Result<Vec<(String, Row)>> {
    let mut rows = Vec::new();
    for MeshLoad { client, load, .. } in loads {
        let row = without_failures(&load.finish().await?);
        let row = row.with_context(|| format!("the client of {client}"))?;
        rows.push((client, row));
    }
    Ok(rows)
}

/// The entry of a full mesh.
fn mesh_of_all() -> Value {
    json!({ "mesh": "all" })
}

/// The entry of the link that exists already, with its settings.
fn headless() -> Value {
    let settings = json!({ "enableHeadlessServices": true });
    json!({ "source": "west", "target": "east", "settings": settings })
}

/// Writes the file: `west` and `east`, and `north` under this name if it is given, with these entries of links.
fn write(rig: &Rig, north: Option<(&str, &Cluster)>, links: &Value) -> anyhow::Result<()> {
    let mut clusters = vec![
        json!({ "name": "west" }),
        json!({ "name": "east", "apiServerAddress": rig.east_api.url() }),
    ];
    if let Some((name, north)) = north {
        clusters.push(json!({
            "name": name,
            "context": NORTH,
            "kubeconfig": north.plane.kubeconfig(),
            "apiServerAddress": north.plane.url(),
        }));
    }
    let file = json!({ "name": "rig", "id": "mesh", "clusters": clusters, "links": links });
    // JSON is YAML.
    Ok(fs::write(
        rig.west.place.home.join("fleet.yaml"),
        file.to_string(),
    )?)
}

/// The names of what the fleet has made in a cluster, a line each.
async fn made(cluster: &Cluster) -> anyhow::Result<String> {
    let label = format!("{FLEET}=rig.mesh");
    let get = ["get", MADE, "--all-namespaces", "-o", "name", "-l", &label];
    cluster.plane.kubectl(&get).await
}
