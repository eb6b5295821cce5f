//! Cases that kill the gateway.

use std::time::Duration;

use anyhow::Context as _;
use control_plane::eventually;
use tokio::time::{Instant, sleep, timeout};

use super::{of, without_failures};
use crate::{
    load::{Load, until_answered},
    rig::{
        Rig, condition_of,
        mirrors::{FOLLOWS, GATED},
    },
    table::{Row, seconds},
};

/// How long requests continue once the gateway is back.
const HOLD: Duration = Duration::from_secs(5);

/// Kills the proxy of the gateway and starts it again. The mirror is unready in time and ready again in time, and
/// requests in the other modes do not fail.
pub(super) async fn killed(rig: &mut Rig) -> anyhow::Result<Row> {
    let (period, limit) = probing(rig).await?;
    let load = rig.load().await?;

    rig.gateway.proxy.kill();
    let killed = Instant::now();
    eventually("the mirror to be unready", limit, async || {
        let addresses = rig.slice_addresses(GATED).await?;
        Ok(addresses.is_empty().then_some(()))
    })
    .await?;
    let unready = killed.elapsed();
    // The Link's status is written every two seconds at most.
    is_dead(rig, period).await?;

    rig.gateway.proxy.restart()?;
    rig.gateway.proxy_ready().await?;
    let back = Instant::now();
    let limit_back = period * 2;
    let target = rig.target(GATED).await?;
    timeout(limit_back, until_answered(&rig.source.client, &target))
        .await
        .with_context(|| format!("no answer within {limit_back:?}"))??;
    let first = back.elapsed();
    rig.link_is_ready().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    let recovered = Load::start(&rig.source.client, std::slice::from_ref(&target));
    sleep(HOLD).await;
    without_failures(&recovered.finish().await?).context("after the gateway was alive")?;
    let mut tallies = load.finish().await?;
    let failed = of(&tallies, GATED)?.failed;
    tallies.remove(GATED);
    let row = without_failures(&tallies)?;
    Ok(row.with(format!(
        "unready after {} (limit {}), first answer after {} (limit {}); {failed} requests through the gateway failed \
         meanwhile",
        seconds(unready),
        seconds(limit),
        seconds(first),
        seconds(limit_back),
    )))
}

/// Waits until the Link says that the gateway is dead.
pub(super) async fn is_dead(rig: &Rig, limit: Duration) -> anyhow::Result<()> {
    eventually(
        "the Link to say that its gateway is dead",
        limit,
        async || {
            let link = rig.link_object().await?;
            Ok((condition_of(&link, "GatewayAlive") == Some("False")).then_some(()))
        },
    )
    .await
}

/// The period of the probes, and the maximum time until the gateway counts as dead.
pub(super) async fn probing(rig: &Rig) -> anyhow::Result<(Duration, Duration)> {
    let link = rig.link_object().await?;
    let probe = &link["spec"]["probeSpec"];
    let period = duration(probe["period"].as_str())?;
    let threshold: u32 = probe["failureThreshold"].as_str().unwrap_or("3").parse()?;
    Ok((period, period * threshold + period))
}

/// A duration of a Link, in whole seconds.
fn duration(text: Option<&str>) -> anyhow::Result<Duration> {
    let number = text.and_then(|text| text.strip_suffix('s')?.parse().ok());
    let seconds = number.with_context(|| format!("a strange duration: {text:?}"))?;
    Ok(Duration::from_secs(seconds))
}
