//! A federated Service that prefers one cluster, which fails and comes back.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::ensure;
use control_plane::{Fault, eventually};
use tokio::time::{Instant, sleep};

use super::{
    form::is_flat_again,
    gateway::{is_dead, probing},
    of, without_failures,
};
use crate::{
    load::{Load, Tally},
    rig::{
        Rig,
        cluster::EXTENSION,
        condition_of,
        federation::Form,
        mirrors::{FEDERATED, FOLLOWS},
        pod::Pod,
    },
    table::{Row, seconds},
};

/// How long a preferred cluster has to be available again: the default of `install`.
const HOLD_DOWN: Duration = Duration::from_secs(30);
/// How long requests must go to the preferred cluster before anything happens.
const BEFORE: Duration = Duration::from_secs(30);
/// How long requests must stay with the preferred cluster at the end.
const CALM: Duration = Duration::from_secs(300);
/// The requests of this period show where requests go now.
const GLANCE: Duration = Duration::from_millis(500);
/// How long the API server of the preferred cluster is unavailable.
const AWAY: Duration = Duration::from_secs(20);
/// The Link's status is written every two seconds at most.
const STATUS: Duration = Duration::from_secs(2);
/// Within this time, the members of other clusters have to answer.
const SOON: Duration = Duration::from_secs(1);

/// Local Pods are preferred, die, and are replaced.
pub(super) async fn local_pods(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = begin(rig, "local").await?;
    let (west, east) = (names(&rig.west_pods), names(&rig.east_pods));
    let address = rig.target(FEDERATED).await?.address;
    asked(&load, &west, FOLLOWS).await?;
    load.count_anew();
    sleep(BEFORE).await;
    let before = load.so_far();
    let row = without_failures(&before)?;
    only(&before, &west)?;

    // When a node dies, its Pods die too.
    load.count_anew();
    for pod in &mut rig.west_pods {
        pod.proxy.kill();
        pod.delete().await?;
    }
    eventually("the endpoints to go", FOLLOWS, async || {
        let left = rig.slice_addresses("web").await?;
        Ok(left.is_empty().then_some(()))
    })
    .await?;
    let removed = Instant::now();
    let limit = Duration::from_secs(10);
    asked(&load, &east, limit).await?;
    let followed = removed.elapsed().saturating_sub(GLANCE);
    let died = of(&load.so_far(), FEDERATED)?.failed;
    load.count_anew();
    sleep(GLANCE * 4).await;
    only(&load.so_far(), &east)?;
    without_failures(&load.so_far())?;

    // New Pods start, and wait for the hold-down.
    rig.west_pods = vec![rig.start_west_pod().await?];
    let back = Instant::now();
    load.count_anew();
    let new = names(&rig.west_pods);
    sleep(HOLD_DOWN / 2).await;
    only(&load.so_far(), &east)?;
    asked(&load, &new, HOLD_DOWN + FOLLOWS).await?;
    let returned = back.elapsed();
    ensure!(
        returned + Duration::from_secs(1) > HOLD_DOWN,
        "back after {returned:?}"
    );
    without_failures(&load.so_far())?;
    load.count_anew();
    sleep(CALM).await;
    only(&load.so_far(), &new)?;
    let after = load.finish().await?;
    without_failures(&after)?;
    let now = rig.target(FEDERATED).await?.address;
    ensure!(now == address, "the ClusterIP was {address} and is {now}");
    end(rig).await?;
    ensure!(followed < SOON, "others answer after {}", seconds(followed));
    let row = row.and(&Row::of(&after));
    Ok(row.with(format!(
        "all requests to the local Pod for {}; it died: others answer {} after its endpoint went, {died} requests failed; \
         back, it is asked again after {} (hold-down {}), and nobody else for {}",
        seconds(BEFORE),
        seconds(followed),
        seconds(returned),
        seconds(HOLD_DOWN),
        seconds(CALM),
    )))
}

/// The other cluster is preferred. Its API server is unavailable, it is drained, its Link is deleted, and its gateway
/// dies.
pub(super) async fn other_cluster(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = begin(rig, "east").await?;
    let (west, east) = (names(&rig.west_pods), names(&rig.east_pods));
    asked(&load, &east, FOLLOWS).await?;
    load.count_anew();

    rig.east_api.set(Fault::Stall);
    sleep(AWAY).await;
    rig.east_api.set(Fault::None);
    only(&load.so_far(), &east)?;

    rig.west.linkerd_mc(&["drain", "east"])?;
    asked(&load, &west, FOLLOWS).await?;
    rig.west.linkerd_mc(&["drain", "east", "--end"])?;
    asked(&load, &east, FOLLOWS).await?;

    let link = [
        "delete",
        "links.multicluster.linkerd.io",
        "east",
        "-n",
        "linkerd-multicluster",
    ];
    rig.west.plane.kubectl(&link).await?;
    asked(&load, &west, FOLLOWS).await?;
    rig.link().await?;
    rig.federate_through(Form::Gateway).await?;
    asked(&load, &east, FOLLOWS).await?;
    let row = without_failures(&load.so_far())?;

    let (_, limit) = probing(rig).await?;
    asked_through_gateway(rig, &load).await?;
    load.count_anew();
    rig.gateway.proxy.kill();
    let killed = Instant::now();
    asked(&load, &west, limit + GLANCE).await?;
    let followed = killed.elapsed().saturating_sub(GLANCE);
    let died = of(&load.so_far(), FEDERATED)?.failed;
    // The proxy of the client is the first to notice. Without the controller, there is no hold-down.
    is_dead(rig, limit + STATUS).await?;
    rig.gateway.proxy.restart()?;
    rig.gateway.proxy_ready().await?;
    let back = Instant::now();
    load.count_anew();
    asked(&load, &east, HOLD_DOWN + FOLLOWS).await?;
    let returned = back.elapsed();
    ensure!(
        returned + Duration::from_secs(1) > HOLD_DOWN,
        "back after {returned:?}"
    );
    load.count_anew();
    sleep(CALM).await;
    only(&load.so_far(), &east)?;
    let after = load.finish().await?;
    without_failures(&after)?;
    let alive = condition_of(&rig.link_object().await?, "GatewayAlive").map(str::to_owned);
    ensure!(
        alive.as_deref() == Some("True"),
        "the gateway is alive, and the Link says {alive:?}"
    );
    end(rig).await?;
    let row = row.and(&Row::of(&after));
    Ok(row.with(format!(
        "API server away {}, drained and back, Link deleted and applied again: no request failed; gateway's proxy killed: \
         all go elsewhere after {} (limit {}), {died} failed; back, it is asked again after {} (hold-down {}), and nobody \
         else for {}",
        seconds(AWAY),
        seconds(followed),
        seconds(limit),
        seconds(returned),
        seconds(HOLD_DOWN),
        seconds(CALM),
    )))
}

/// Makes members take part through gateways, sets the preference, and starts a load on the federated Service.
async fn begin(rig: &Rig, preference: &str) -> anyhow::Result<Load> {
    rig.federate_through(Form::Gateway).await?;
    rig.prefer(Some(preference)).await?;
    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    rig.follows_route().await?;
    Ok(load)
}

/// Removes the preference, and makes Linkerd discover the members again.
async fn end(rig: &Rig) -> anyhow::Result<()> {
    rig.prefer(None).await?;
    rig.federate_through(Form::Discovery).await?;
    rig.link_is_ready().await?;
    is_flat_again(rig).await
}

pub(super) fn names(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

/// Waits until only these Pods answer.
pub(super) async fn asked(
    load: &Load,
    pods: &BTreeSet<String>,
    limit: Duration,
) -> anyhow::Result<()> {
    eventually(&format!("only {pods:?} to answer"), limit, async || {
        let before = answers(&load.so_far());
        sleep(GLANCE).await;
        let mut now = answers(&load.so_far());
        now.retain(|pod, count| before.get(pod).is_none_or(|before| before < count));
        let only = now.keys().all(|pod| pods.contains(pod));
        Ok((only && !now.is_empty()).then_some(()))
    })
    .await
}

/// Waits until all requests go through the gateway.
async fn asked_through_gateway(rig: &Rig, load: &Load) -> anyhow::Result<()> {
    let gateway = rig.east.identity_of("linkerd-gateway", EXTENSION);
    eventually("requests to go through the gateway", FOLLOWS, async || {
        load.count_anew();
        sleep(GLANCE).await;
        let so_far = load.so_far();
        let mut seen = of(&so_far, FEDERATED)?
            .answers
            .keys()
            .map(|(_, seen)| seen)
            .peekable();
        let only = seen.peek().is_some() && seen.all(|seen| *seen == gateway);
        Ok(only.then_some(()))
    })
    .await
}

/// Number of answers of each Pod.
fn answers(tallies: &BTreeMap<String, Tally>) -> BTreeMap<String, u64> {
    let mut answers = BTreeMap::new();
    for ((pod, _), count) in tallies
        .get(FEDERATED)
        .iter()
        .flat_map(|tally| &tally.answers)
    {
        *answers.entry(pod.clone()).or_default() += count;
    }
    answers
}

/// Checks that only these Pods have answered.
pub(super) fn only(
    tallies: &BTreeMap<String, Tally>,
    pods: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let answers = &of(tallies, FEDERATED)?.answers;
    let others: Vec<_> = answers
        .iter()
        .filter(|((pod, _), _)| !pods.contains(pod))
        .collect();
    // One request in a million may go to any member.
    ensure!(
        others.is_empty(),
        "others than {pods:?} have answered: {others:?}"
    );
    Ok(())
}
