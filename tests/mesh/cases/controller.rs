//! Cases that kill or replace our controller.

use std::time::Duration;

use control_plane::eventually;
use kube::api::{DeleteParams, PostParams};
use tokio::time::{Instant, sleep};

use super::without_failures;
use crate::{
    rig::{NAMESPACE, Rig, mirrors::FOLLOWS, wait::SOON, workloads::service},
    table::{Row, seconds},
};

const EXPORTED: &str = "mirror.linkerd.io/exported";
const TIMES: usize = 5;
/// How long the controller is stopped, and how long it runs before it is killed again.
const HOLD: Duration = Duration::from_secs(3);

/// A killed leader is replaced within the duration of its lease, plus a moment to observe it.
const REPLACED: Duration = Duration::from_secs(35);
/// A leader that is asked to stop hands over within this time.
const HANDED_OVER: Duration = Duration::from_secs(5);

/// The controller is killed several times, and no request fails. What was exported and removed meanwhile follows.
pub(super) async fn killed(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    let services = rig.east.services(NAMESPACE);
    let mirrors = rig.west.services(NAMESPACE);
    for time in 0..TIMES {
        rig.source.controller.kill();
        let exports = time % 2 == 0;
        if exports {
            let exported = serde_json::from_value(service("unseen", EXPORTED, "true"))?;
            services.create(&PostParams::default(), &exported).await?;
        } else {
            services.delete("unseen", &DeleteParams::default()).await?;
        }
        sleep(HOLD).await;
        rig.source.controller.restart().await?;
        eventually("what changed meanwhile", SOON, async || {
            let mirror = mirrors.get_opt("unseen-east").await?;
            Ok((mirror.is_some() == exports).then_some(()))
        })
        .await?;
        sleep(HOLD).await;
    }
    services.delete("unseen", &DeleteParams::default()).await?;
    rig.link_is_ready().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}

/// The leader of two replicas is killed. Then both are replaced as in a rolling update: new replicas start before old
/// ones end.
pub(super) async fn replicas(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut second = rig.start_replica().await?;
    let load = rig.load().await?;

    rig.source.controller.kill();
    let killed = Instant::now();
    let services = rig.east.services(NAMESPACE);
    let exported = serde_json::from_value(service("meanwhile", EXPORTED, "true"))?;
    services.create(&PostParams::default(), &exported).await?;
    rig.leads(second.name(), REPLACED).await?;
    let replaced = killed.elapsed();
    // The new leader writes it.
    rig.target("meanwhile-east").await?;
    services
        .delete("meanwhile", &DeleteParams::default())
        .await?;

    rig.source.controller.restart().await?;
    let third = rig.start_replica().await?;
    rig.source.controller.terminate()?;
    rig.source.controller.delete().await?;
    let mut fourth = rig.start_replica().await?;
    let exported = serde_json::from_value(service("rolled", EXPORTED, "true"))?;
    services.create(&PostParams::default(), &exported).await?;
    second.terminate()?;
    let ended = Instant::now();
    let new = [third.name(), fourth.name()];
    rig.one_leads(&new, HANDED_OVER).await?;
    let handed_over = ended.elapsed();
    second.delete().await?;
    rig.target("rolled-east").await?;
    services.delete("rolled", &DeleteParams::default()).await?;

    rig.source.controller = third;
    fourth.terminate()?;
    rig.leads(rig.source.controller.name(), HANDED_OVER).await?;
    fourth.delete().await?;
    rig.link_is_ready().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!(
        "replaced after {}, handed over after {}",
        seconds(replaced),
        seconds(handed_over)
    )))
}
