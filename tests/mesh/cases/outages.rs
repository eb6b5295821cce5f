//! Cases in which something is unavailable for a while.

use std::time::Duration;

use anyhow::ensure;
use control_plane::{Fault, eventually};
use tokio::time::{Instant, sleep};

use super::without_failures;
use crate::{
    rig::{NAMESPACE, Rig, condition_of, mirrors::FOLLOWS, pod::Pod, wait::SOON},
    table::{Row, seconds},
};

/// Names are looked up every 30 s, so at least one lookup fails.
const DNS_AWAY: Duration = Duration::from_secs(45);
const API_AWAY: Duration = Duration::from_secs(60);
/// How long after an outage our objects may take to be correct.
const OURS: Duration = Duration::from_secs(10);

/// Names of gateways do not resolve. The gateway stays alive, and so do its mirrors.
pub(super) async fn dns(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    let before = rig.source.dns.unanswered();
    rig.source.dns.away(true);
    let until = Instant::now() + DNS_AWAY;
    let mut alive = true;
    while alive && Instant::now() < until {
        alive = condition_of(&rig.link_object().await?, "GatewayAlive") == Some("True");
        sleep(Duration::from_secs(1)).await;
    }
    rig.source.dns.away(false);
    ensure!(alive, "the gateway was marked dead");
    let unanswered = rig.source.dns.unanswered() - before;
    ensure!(unanswered > 0, "nobody asked for a name meanwhile");
    rig.link_is_ready().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!(
        "alive all the time; {unanswered} questions unanswered"
    )))
}

/// The source cannot reach the target's API server while Pods change there.
pub(super) async fn target_api(rig: &mut Rig) -> anyhow::Result<Row> {
    // This Pod exists before the outage. When Linkerd's watches come back, it may read a slice with a new Pod before it
    // reads the Pod, and does not try again.
    let new = rig.start_pod().await?;
    new.set_ready(false).await?;
    let load = rig.load().await?;
    let new_host = format!("{}-east", new.name);
    let old = cut_off(rig, new, API_AWAY).await?;

    let back = Instant::now();
    let old_host = format!("{}-east", old.name);
    let hosts = [(new_host.as_str(), true), (old_host.as_str(), false)];
    eventually("the mirrors of the hosts", OURS, async || {
        for (host, there) in hosts {
            let found = rig.west.services(NAMESPACE).get_opt(host).await?;
            ensure!(found.is_some() == there, "{host} is there: {}", !there);
        }
        Ok(Some(()))
    })
    .await?;
    let ours = back.elapsed();
    rig.proxy_is_right(SOON).await?;
    let proxies = back.elapsed();
    let row = without_failures(&load.finish().await?)?;
    drop(old);
    Ok(row.with(format!(
        "our objects right after {}, proxies after {}",
        seconds(ours),
        seconds(proxies)
    )))
}

/// Cuts the source off from the target's API server for a while. Meanwhile one Pod becomes ready there, and the oldest
/// one is deleted. Returns the deleted Pod, which answers until it is dropped, like a Pod that terminates.
pub(super) async fn cut_off(rig: &mut Rig, new: Pod, away: Duration) -> anyhow::Result<Pod> {
    rig.east_api.set(Fault::Refuse);
    let until = Instant::now() + away;
    new.set_ready(true).await?;
    rig.east_pods.push(new);
    let old = rig.east_pods.remove(0);
    old.delete().await?;
    sleep(until - Instant::now()).await;
    rig.east_api.set(Fault::None);
    Ok(old)
}
