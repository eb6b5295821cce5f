//! A mirror changes its mode or its form while requests go to it.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use control_plane::eventually;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::without_failures;
use crate::{
    load::until_answered,
    rig::{
        NAMESPACE, Rig,
        cluster::{Cluster, EXTENSION},
        mirrors::{FEDERATED, FOLLOWS, target},
        wait::SOON,
        workloads::{headless, service},
    },
    table::{Row, seconds},
};

/// How long each mode is held under load, without a new connection of a proxy's streams.
const HOLD: Duration = Duration::from_secs(30);
/// How long a member is away, or there.
const MOMENT: Duration = Duration::from_secs(5);

/// The label's two values.
const GATEWAY: &str = "true";
const DISCOVERY: &str = "remote-discovery";
pub(super) const EXPORTED: &str = "mirror.linkerd.io/exported";
pub(super) const MEMBER: &str = "mirror.linkerd.io/federated";

/// From the gateway to remote discovery and back, and the other way round, each held.
pub(super) async fn switched(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 10;
    let load = rig.load().await?;
    for time in 0..TIMES {
        let (gated, flat) = if time % 2 == 0 {
            (DISCOVERY, GATEWAY)
        } else {
            (GATEWAY, DISCOVERY)
        };
        for (name, mode) in [("gated", gated), ("flat", flat)] {
            label(&rig.east, name, EXPORTED, mode.into()).await?;
        }
        sleep(HOLD).await;
    }
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}

/// The local member leaves its federated Service and joins it again, and then the other cluster's does.
pub(super) async fn members(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 3;
    let load = rig.load().await?;
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let all = rig.expected(FEDERATED);
    let own = rig.expected_unlinked();
    let others = &all - &own;
    for _ in 0..TIMES {
        for (cluster, left) in [(&rig.west, &others), (&rig.east, &own)] {
            label(cluster, "web", MEMBER, Value::Null).await?;
            rig.oracle.agrees(&federated, left, FOLLOWS).await?;
            sleep(MOMENT).await;
            label(cluster, "web", MEMBER, "member".into()).await?;
            rig.oracle.agrees(&federated, &all, FOLLOWS).await?;
        }
    }
    without_failures(&load.finish().await?)
}

/// The Link loses its gateway and gets it back, and still selects Services to mirror through it: these keep the endpoints
/// that they had.
pub(super) async fn gateway_lost(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    lose_gateway(rig).await?;
    sleep(HOLD).await;
    rig.link().await?;
    sleep(MOMENT).await;
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}

/// Takes the gateway off the Link, which still selects Services to mirror through it.
pub(super) async fn lose_gateway(rig: &Rig) -> anyhow::Result<()> {
    let spec = json!({ "gatewayAddress": "", "gatewayPort": "", "gatewayIdentity": "" });
    let change = json!({ "spec": spec }).to_string();
    let link = ["links.multicluster.linkerd.io", "east", "-n", EXTENSION];
    let patch = [&["patch", "--type=merge", "-p", &change], &link[..]].concat();
    rig.west.plane.kubectl(&patch).await.map(|_| ())
}

/// A headless Service gets a ClusterIP and loses it again, which means there that it is deleted and made anew. So is its
/// mirror; the other modes do not notice.
pub(super) async fn headless_and_back(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 5;
    let load = rig.load().await?;
    let db = service("db", EXPORTED, GATEWAY);
    let host = format!("{}-east", rig.east_pods.last().context("no Pods")?.name);
    let mut most = Duration::ZERO;
    for _ in 0..TIMES {
        let began = replace(rig, &db).await?;
        let mirror = rig.target("db-east").await?;
        timeout(SOON, until_answered(&rig.client, &mirror)).await??;
        most = most.max(began.elapsed());

        let began = replace(rig, &headless()).await?;
        let address = rig.target(&host).await?.address;
        let mut host = target(&host, [0, 0, 0, 0].into());
        host.address = address;
        host.address.set_port(crate::helper::APP_PORT);
        timeout(SOON, until_answered(&rig.client, &host)).await??;
        most = most.max(began.elapsed());
    }
    rig.proxy_is_right(FOLLOWS).await?;
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!(
        "from the new Service to an answer through its mirror, or its host's: at most {} of {} times",
        seconds(most),
        2 * TIMES
    )))
}

/// Replaces the Service `db` of the target by this one, and says when that was.
async fn replace(rig: &Rig, service: &Value) -> anyhow::Result<Instant> {
    let services = rig.east.services(NAMESPACE);
    services.delete("db", &DeleteParams::default()).await?;
    let mirrors = rig.west.services(NAMESPACE);
    eventually("the mirrors to go", SOON, async || {
        let all = mirrors.list_metadata(&ListParams::default()).await?;
        let names: BTreeSet<&str> = all
            .iter()
            .filter_map(|mirror| mirror.metadata.name.as_deref())
            .collect();
        let hosts = rig.east_pods.iter().map(|pod| format!("{}-east", pod.name));
        let gone = hosts.chain(["db-east".to_owned()]);
        Ok(gone
            .into_iter()
            .all(|name| !names.contains(name.as_str()))
            .then_some(()))
    })
    .await?;
    rig.east.apply(&service.to_string()).await?;
    Ok(Instant::now())
}

/// Sets a label of a Service, or takes it off.
pub(super) async fn label(
    cluster: &Cluster,
    service: &str,
    key: &str,
    value: Value,
) -> anyhow::Result<()> {
    let label = json!({ "metadata": { "labels": { key: value } } });
    cluster
        .services(NAMESPACE)
        .patch(service, &PatchParams::default(), &Patch::Merge(label))
        .await?;
    Ok(())
}
