//! A cluster is drained, its Pods are deleted, and it rejoins, while requests go to the federated Service.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::ensure;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    modes::{MEMBER, label},
    without_failures,
};
use crate::{
    load::Load,
    rig::{
        NAMESPACE, Rig,
        mirrors::{FEDERATED, FOLLOWS},
    },
    table::{Row, seconds},
};

const TIMES: usize = 5;
const DRAIN: [&str; 2] = ["drain", "east"];
const END: [&str; 3] = ["drain", "east", "--end"];
/// The minimum duration of a drain.
const SHORTEST: Duration = Duration::from_secs(60);
/// How long the last member answers all requests.
const MOMENT: Duration = Duration::from_secs(5);

/// Drains the cluster five times, and each time kills a Pod as soon as the command has ended. Then drains it as the
/// last member. Then waits until a drain ends by itself.
pub(super) async fn under_load(rig: &mut Rig) -> anyhow::Result<Row> {
    let target = rig.target(FEDERATED).await?;
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    let own = rig.expected_unlinked();
    rig.source
        .oracle
        .agrees(&federated, &rig.expected(FEDERATED), FOLLOWS)
        .await?;
    load.count_anew();
    let mut followed = Duration::ZERO;
    for _ in 0..TIMES {
        let new = rig.start_pod().await?;
        rig.east_pods.push(new);
        let all = rig.expected(FEDERATED);
        rig.source.oracle.agrees(&federated, &all, FOLLOWS).await?;
        rig.west.linkerd_mc(&DRAIN)?;
        let ended = Instant::now();
        let mut old = rig.east_pods.remove(0);
        old.proxy.kill();
        rig.source.oracle.agrees(&federated, &own, FOLLOWS).await?;
        followed = followed.max(ended.elapsed());
        old.delete().await?;
        rig.west.linkerd_mc(&END)?;
        let all = rig.expected(FEDERATED);
        rig.source.oracle.agrees(&federated, &all, FOLLOWS).await?;
    }

    let all = rig.expected(FEDERATED);
    if !rig.is_strict() {
        last_member_stays(rig, &own).await?;
    }

    // A second drain sets a new end.
    rig.west
        .linkerd_mc(&[&DRAIN[..], &["--duration=1m"]].concat())?;
    let began = Instant::now();
    rig.source
        .oracle
        .agrees(&federated, &all, SHORTEST + FOLLOWS)
        .await?;
    let ended = began.elapsed();
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!(
        "the proxy has let go of the Pods {} after the command, at most; after a drain of 1m it has them again {} after the command",
        seconds(followed),
        seconds(ended)
    )))
}

/// The drained cluster stays until the local member is back.
async fn last_member_stays(rig: &Rig, own: &BTreeSet<SocketAddr>) -> anyhow::Result<()> {
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let all = rig.expected(FEDERATED);
    let others = &all - own;
    label(&rig.west, "web", MEMBER, Value::Null).await?;
    rig.source
        .oracle
        .agrees(&federated, &others, FOLLOWS)
        .await?;
    ensure!(
        rig.west.linkerd_mc(&DRAIN).is_err(),
        "the last member has left"
    );
    sleep(MOMENT).await;
    rig.source
        .oracle
        .agrees(&federated, &others, FOLLOWS)
        .await?;
    label(&rig.west, "web", MEMBER, "member".into()).await?;
    rig.source.oracle.agrees(&federated, own, FOLLOWS).await
}
