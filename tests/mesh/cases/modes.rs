//! Mirrors that change their mode or form while they get requests.

use std::{collections::BTreeSet, time::Duration};

use control_plane::eventually;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    newcomer::Newcomer,
    order::{has_slices_first, versions},
    without_failures,
};
use crate::{
    load::until_answered,
    rig::{
        NAMESPACE, Rig,
        cluster::{Cluster, EXTENSION},
        mirrors::{FEDERATED, FLAT, FOLLOWS, GATED},
        wait::SOON,
        workloads::{headless, service},
    },
    table::{Row, seconds},
};

/// How long the load continues with each mode, while the streams of proxies stay open.
const HOLD: Duration = Duration::from_secs(30);
/// How long a member is removed, or present.
const MOMENT: Duration = Duration::from_secs(5);

/// The two values of the label.
const GATEWAY: &str = "true";
const DISCOVERY: &str = "remote-discovery";
pub(super) const EXPORTED: &str = "mirror.linkerd.io/exported";
pub(super) const MEMBER: &str = "mirror.linkerd.io/federated";

/// Changes from the gateway to remote discovery and back, and the other way round. Each mode is kept under load, and
/// new streams use it.
pub(super) async fn switched(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 10;
    let newcomer = Newcomer::start(rig).await?;
    let load = rig.load().await?;
    for time in 0..TIMES {
        let before = versions(rig).await?;
        let (gated, flat) = if time % 2 == 0 {
            (DISCOVERY, GATEWAY)
        } else {
            (GATEWAY, DISCOVERY)
        };
        for (name, mode) in [("gated", gated), ("flat", flat)] {
            label(&rig.east, name, EXPORTED, mode.into()).await?;
        }
        sleep(HOLD).await;
        for (mirror, mode) in [(GATED, gated), (FLAT, flat)] {
            let identity = if mode == DISCOVERY {
                rig.west.identity_of("client", NAMESPACE)
            } else {
                rig.east.identity_of("linkerd-gateway", EXTENSION)
            };
            newcomer.is_seen_as(rig, mirror, &identity).await?;
        }
        // Later on, slices stay from one change to the next.
        if time == 0 {
            has_slices_first(rig, FLAT, &before).await?;
        }
    }
    newcomer.delete().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}

/// The local member leaves its federated Service and joins it again, then the member of the other cluster does.
pub(super) async fn members(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 3;
    let load = rig.load().await?;
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let all = rig.expected(FEDERATED);
    let own = rig.expected_unlinked();
    let others = &all - &own;
    let leaving = [(&rig.west, &others), (&rig.east, &own)];
    let staying = usize::from(rig.is_strict());
    for _ in 0..TIMES {
        for (cluster, left) in leaving.into_iter().skip(staying) {
            label(cluster, "web", MEMBER, Value::Null).await?;
            rig.source.oracle.agrees(&federated, left, FOLLOWS).await?;
            sleep(MOMENT).await;
            label(cluster, "web", MEMBER, "member".into()).await?;
            rig.source.oracle.agrees(&federated, &all, FOLLOWS).await?;
        }
    }
    without_failures(&load.finish().await?)
}

/// The Link loses its gateway and gets it back. It still selects Services to mirror through the gateway, and these keep
/// their endpoints.
pub(super) async fn gateway_lost(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    lose_gateway(rig).await?;
    sleep(HOLD).await;
    rig.link().await?;
    sleep(MOMENT).await;
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}

/// Removes the gateway from the Link, which still selects Services to mirror through it.
pub(super) async fn lose_gateway(rig: &Rig) -> anyhow::Result<()> {
    let spec = json!({ "gatewayAddress": "", "gatewayPort": "", "gatewayIdentity": "" });
    let change = json!({ "spec": spec }).to_string();
    let link = ["links.multicluster.linkerd.io", "east", "-n", EXTENSION];
    let patch = [&["patch", "--type=merge", "-p", &change], &link[..]].concat();
    rig.west.plane.kubectl(&patch).await.map(|_| ())
}

/// A headless Service is replaced by one with a ClusterIP, and back. Kubernetes requires that it is deleted and created
/// again, so its mirror is too. Requests in the other modes do not fail.
pub(super) async fn headless_and_back(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 6;
    let load = rig.load().await?;
    let mut most = Duration::ZERO;
    for time in 0..TIMES {
        most = most.max(replace_headless(rig, How::ALL[time % How::ALL.len()]).await?);
    }
    rig.proxy_is_right(FOLLOWS).await?;
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!(
        "from the new Service to an answer through its mirror, or its host's: at most {} of {} times",
        seconds(most),
        2 * TIMES
    )))
}

/// How a Service is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The new one is created when the mirrors of the old one are gone.
    Later,
    /// As `kubectl replace --force` does it.
    AtOnce,
    /// While our controller is away, so that it sees only the new one.
    Unseen,
}

impl How {
    const ALL: [Self; 3] = [Self::AtOnce, Self::Unseen, Self::Later];
}

/// Replaces the headless Service by one with a ClusterIP, and back. Returns the longest time from a new Service, or the
/// start of our controller, to the first answer.
pub(super) async fn replace_headless(rig: &mut Rig, how: How) -> anyhow::Result<Duration> {
    let began = replace(rig, &service("db", EXPORTED, GATEWAY), how).await?;
    let mirror = rig.target("db-east").await?;
    until_answered(&rig.source.client, &mirror).await?;
    let first = began.elapsed();
    let began = replace(rig, &headless(), how).await?;
    until_answered(&rig.source.client, &rig.host().await?).await?;
    Ok(first.max(began.elapsed()))
}

/// Replaces the Service `db` of the target by this one, and returns when.
async fn replace(rig: &mut Rig, service: &Value, how: How) -> anyhow::Result<Instant> {
    if how == How::Unseen {
        rig.source.controller.kill();
    }
    let services = rig.east.services(NAMESPACE);
    services.delete("db", &DeleteParams::default()).await?;
    if how == How::Later {
        let mirrors = rig.west.services(NAMESPACE);
        eventually("the mirrors to go", SOON, async || {
            let all = mirrors.list_metadata(&ListParams::default()).await?;
            let names: BTreeSet<&str> = all
                .iter()
                .filter_map(|mirror| mirror.metadata.name.as_deref())
                .collect();
            let hosts = rig.east_pods.iter().map(|pod| format!("{}-east", pod.name));
            let mut gone = hosts.chain(["db-east".to_owned()]);
            Ok(gone
                .all(|name| !names.contains(name.as_str()))
                .then_some(()))
        })
        .await?;
    }
    rig.east.apply(&service.to_string()).await?;
    let replaced = Instant::now();
    if how == How::Unseen {
        rig.source.controller.restart().await?;
    }
    Ok(replaced)
}

/// Sets or removes a label of a Service.
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
