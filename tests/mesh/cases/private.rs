//! A target cluster of which only the gateway can be reached: the controller reaches the API server through it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use control_plane::{AuditEvent, Fault, eventually};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    form::is_flat_again,
    many,
    rotate::{OldCredentials, ROTATE},
    without_failures,
};
use crate::{
    changes::Changes,
    impostor::Gate,
    load::{Load, Target},
    rig::{
        NAMESPACE, Rig, Trust,
        cluster::{API_GATEWAY as API_GATEWAY_DEPLOYMENT, EXTENSION, GATEWAY},
        condition_of,
        controller::OURS,
        deployments::Deployments,
        federation::Form,
        identity_of,
        mirrors::{FEDERATED, FLAT, FOLLOWS, GATED, GATEWAY_PORT},
        network::Walls,
        pod::Pod,
        wait::SOON,
        workloads::{PORT, service},
    },
    table::{Row, percentile, seconds},
};

/// The Service through which the API server of `east` is reached, and the Link's annotation about the way there.
const API: &str = "api-east";
const API_GATEWAY: &str = "multicluster.linkerd.io/api-gateway";
/// How long requests must not fail between two deaths of the gateway.
const STEADY: Duration = Duration::from_secs(3);
/// How long the load continues in each state.
const HOLD: Duration = Duration::from_secs(10);
/// How long after a disturbance everything may take to be right.
const RIGHT: Duration = Duration::from_secs(10);
/// By how much a change may take longer through the gateway.
const SLOWER: Duration = Duration::from_millis(20);
/// How often the gateway's proxy is killed.
const KILLS: usize = 5;

/// An `east` of which nothing can be reached but its gateways.
pub(super) struct Private {
    walls: Walls,
    /// The gateway that leads to its API server.
    gateway: Pod,
}

/// From now on, nothing of `east` can be reached from `west` but its gateways. The Link says so.
pub(super) async fn begin(rig: &mut Rig) -> anyhow::Result<Private> {
    rig.east_api.set(Fault::Refuse);
    let gateway = rig.start_api_gateway().await?;
    let walls = Walls::around(&[rig.gateway.address, gateway.address])?;
    rig.link_through_gateway().await?;
    // As `link` says.
    let linkerds = ["secret", "cluster-credentials-east", "-n", "linkerd"];
    let delete = [&["delete", "--ignore-not-found"], &linkerds[..]].concat();
    rig.west.plane.kubectl(&delete).await?;
    Ok(Private { walls, gateway })
}

/// Restores the rig.
pub(super) async fn end(rig: &mut Rig, private: Private) -> anyhow::Result<()> {
    let Private { walls, gateway } = private;
    drop(walls);
    rig.east_api.set(Fault::None);
    rig.link().await?;
    rig.federate_through(Form::Discovery).await?;
    eventually("the Service for the API server to go", SOON, async || {
        let found = rig.west.services(EXTENSION).get_opt(API).await?;
        Ok(found.is_none().then_some(()))
    })
    .await?;
    gateway.delete().await?;
    is_flat_again(rig).await
}

/// A load on what can be reached through the gateway.
async fn load(rig: &Rig) -> anyhow::Result<Load> {
    let targets = [
        rig.target(GATED).await?,
        rig.target(FEDERATED).await?,
        rig.host().await?,
    ];
    let load = Load::start(&rig.source.client, &targets);
    is_right(rig).await?;
    load.count_anew();
    Ok(load)
}

/// Waits until the client's proxy has the endpoints that can be reached.
async fn is_right(rig: &Rig) -> anyhow::Result<()> {
    let federated = &rig.expected_unlinked() | &rig.expected(GATED);
    for (mirror, expected) in [(GATED, rig.expected(GATED)), (FEDERATED, federated)] {
        let service = format!("{NAMESPACE}/{mirror}");
        rig.source
            .oracle
            .agrees(&service, &expected, FOLLOWS)
            .await?;
    }
    Ok(())
}

/// Exports a Service, and returns the time until its mirror exists.
async fn export(rig: &Rig, name: &str, limit: Duration) -> anyhow::Result<(Target, Duration)> {
    let object = serde_json::from_value(service(name, "mirror.linkerd.io/exported", "true"))?;
    let services = rig.east.services(NAMESPACE);
    let began = Instant::now();
    services.create(&PostParams::default(), &object).await?;
    let mirror = format!("{name}-east");
    let mirror = timeout(limit, rig.target(&mirror));
    let mirror = mirror
        .await
        .with_context(|| format!("no mirror of {name} within {limit:?}"))??;
    Ok((mirror, began.elapsed()))
}

async fn unexport(rig: &Rig, name: &str) -> anyhow::Result<()> {
    let services = rig.east.services(NAMESPACE);
    services.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Writes of our controller in `west` since a mark, except those of its lease.
fn writes(rig: &Rig, mark: u64) -> anyhow::Result<Vec<AuditEvent>> {
    let mut events = rig.west.plane.audit_since(mark)?;
    let ours = format!("system:serviceaccount:{EXTENSION}:linkerd-multicluster-controller");
    events.retain(|event| event.user == ours && event.is_write() && event.resource != "leases");
    Ok(events)
}

/// Link, export, answer and unlink, as with an API server that can be reached.
pub(super) async fn linked(rig: &mut Rig) -> anyhow::Result<Row> {
    let began = Instant::now();
    let private = begin(rig).await?;
    let ready = began.elapsed();
    eventually("the Service that needs discovery to go", SOON, async || {
        let link = rig.link_object().await?;
        let reason = reason_of(&link, "flat");
        ensure!(
            reason.as_deref() == Some("NoDiscovery"),
            "the reason for {FLAT} is {reason:?}"
        );
        Ok(Some(()))
    })
    .await?;
    let load = load(rig).await?;
    let mut times = Vec::new();
    for number in 0..20 {
        let name = format!("private-{number}");
        times.push(export(rig, &name, RIGHT).await?.1);
        unexport(rig, &name).await?;
    }
    sleep(HOLD).await;
    let row = without_failures(&load.finish().await?)?;

    rig.unlink()?;
    let left = rig.west.services(EXTENSION).get_opt(API).await?;
    end(rig, private).await?;
    ensure!(left.is_none(), "unlink has left {API}");
    let [half, most] = [50, 99].map(|percent| percentile(&mut times, percent).as_millis());
    Ok(row.with(format!(
        "ready {} after the Link; export to mirror p50 {half} ms, p99 {most} ms; unlinked without a trace",
        seconds(ready)
    )))
}

/// The reason in the status of a Service of `east`.
pub(super) fn reason_of(link: &serde_json::Value, name: &str) -> Option<String> {
    let all = link["status"]["mirrorServices"].as_array()?;
    let found = all
        .iter()
        .find(|service| service["remoteRef"]["name"] == name)?;
    found["conditions"][0]["reason"].as_str().map(str::to_owned)
}

/// The proxy of the gateway that leads to the API server is killed and comes back under load, while exports change. No
/// request notices. The controller catches up without a write that changes nothing, and then rests.
pub(super) async fn gateway_killed(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut private = begin(rig).await?;
    let load = load(rig).await?;
    let changes = Changes::watch(&rig.west.plane.client()).await?;
    let mark = rig.west.plane.audit_mark()?;
    let mut caught_up = Vec::new();
    for round in 0..KILLS {
        private.gateway.proxy.kill();
        eventually("the Link to have no connection", SOON, async || {
            let link = rig.link_object().await?;
            Ok((condition_of(&link, "Connected") == Some("False")).then_some(()))
        })
        .await?;
        let name = format!("missed-{round}");
        let object = serde_json::from_value(service(&name, "mirror.linkerd.io/exported", "true"))?;
        let services = rig.east.services(NAMESPACE);
        services.create(&PostParams::default(), &object).await?;
        private.gateway.proxy.restart()?;
        private.gateway.proxy_ready().await?;
        let back = Instant::now();
        rig.target(&format!("{name}-east")).await?;
        rig.link_is_ready().await?;
        is_right(rig).await?;
        caught_up.push(back.elapsed());
        sleep(STEADY).await;
        without_failures(&load.so_far()).with_context(|| format!("after return {round}"))?;
        unexport(rig, &name).await?;
    }
    let most = caught_up.iter().max().copied().unwrap_or_default();
    ensure!(
        most < RIGHT,
        "right {most:?} after the gateway's return (limit {RIGHT:?})"
    );
    let meanwhile = writes(rig, mark)?;
    changes.include(&meanwhile).await?;
    // The status may still follow.
    sleep(HOLD).await;
    let mark = rig.west.plane.audit_mark()?;
    load.count_anew();
    sleep(HOLD).await;
    let row = without_failures(&load.finish().await?)?;
    let more = writes(rig, mark)?;
    ensure!(more.is_empty(), "writes at rest: {more:?}");
    end(rig, private).await?;
    Ok(row.with(format!(
        "{KILLS} times; right up to {} after its return; {} writes \
         meanwhile, each with a change, and 0 at rest",
        seconds(most),
        meanwhile.len(),
    )))
}

/// Another Pod at another address becomes the gateway that leads to the API server: first its name leads there, then the
/// Link. No request notices.
pub(super) async fn gateway_moved(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut private = begin(rig).await?;
    let load = load(rig).await?;
    let next = rig.start_api_gateway().await?;
    private.walls.open(next.address)?;
    let by_name = moves_to(rig, &mut private, next).await?;
    ensure!(
        by_name < RIGHT,
        "right {by_name:?} after the name leads elsewhere (limit {RIGHT:?})"
    );

    let next = rig.start_api_gateway().await?;
    rig.name_api_gateway(private.gateway.address);
    private.walls.open(next.address)?;
    let link = rig.link_object().await?;
    let way = link["metadata"]["annotations"][API_GATEWAY].as_str();
    let mut way: Value = serde_json::from_str(way.context("no gateway")?)?;
    way["addresses"] = json!([next.address]);
    let patch = json!({ "metadata": { "annotations": { API_GATEWAY: way.to_string() } } });
    let link = ["links.multicluster.linkerd.io", "east", "-n", EXTENSION];
    let patch = patch.to_string();
    let edit = [&["patch"], &link[..], &["--type=merge", "-p", &patch]].concat();
    rig.west.plane.kubectl(&edit).await?;
    let by_edit = moves_to(rig, &mut private, next).await?;
    ensure!(
        by_edit < RIGHT,
        "right {by_edit:?} after the Link's annotation was changed (limit {RIGHT:?})"
    );
    sleep(HOLD).await;
    let row = without_failures(&load.finish().await?)?;
    end(rig, private).await?;
    Ok(row.with(format!(
        "right {} after its name leads elsewhere, {} after the Link's annotation was changed",
        seconds(by_name),
        seconds(by_edit)
    )))
}

/// Makes this Pod the gateway, and deletes the old one. Returns the time until a new Service is mirrored.
async fn moves_to(rig: &Rig, private: &mut Private, next: Pod) -> anyhow::Result<Duration> {
    let moved = Instant::now();
    let old = std::mem::replace(&mut private.gateway, next);
    old.delete().await?;
    drop(old);
    export(rig, "moved", SOON).await?;
    rig.link_is_ready().await?;
    let right = moved.elapsed();
    unexport(rig, "moved").await?;
    Ok(right)
}

/// Somebody with a certificate of this account asks the gateway that leads to the API server for a Service and port. Then
/// the answer: a server of HTTPS says 400 to a request of HTTP.
type ApiTry = (
    &'static str,
    (&'static str, &'static str),
    (&'static str, u16),
    &'static str,
);

#[rustfmt::skip]
const TRIES: &[ApiTry] = &[
    ("the controller", (OURS, EXTENSION), SERVED, "400"),
    ("Linkerd's controller", ("linkerd-destination", "linkerd"), SERVED, "400"),
    ("a workload", ("default", "stolen"), SERVED, REFUSED),
    ("the gateway", (GATEWAY, EXTENSION), SERVED, REFUSED),
    ("the controller, to an exported Service", (OURS, EXTENSION), ("gated.app", PORT), REFUSED),
    ("the controller, to the API server by its other name", (OURS, EXTENSION), ("kubernetes.default", 443), REFUSED),
];
/// The only Service behind that gateway.
const SERVED: (&str, u16) = ("kubernetes-api.linkerd-multicluster", 8443);
/// Any answer but one of the Service.
const REFUSED: &str = "refused";

/// Only controllers reach the API server through its gateway, and they reach nothing else through it.
pub(super) async fn controllers_only(rig: &mut Rig) -> anyhow::Result<Row> {
    let private = begin(rig).await?;
    let issuer = rig.root.issuer(Trust::Common, "cluster.local")?;
    let (anchor, identity) = (
        rig.root.certificate(),
        rig.east.identity_of(API_GATEWAY_DEPLOYMENT, EXTENSION),
    );
    let mut said = Vec::new();
    for (who, (account, namespace), (service, port), expected) in TRIES {
        let service = format!("{service}.svc.cluster.local");
        let gate = Gate {
            address: (private.gateway.address, GATEWAY_PORT).into(),
            identity: &identity,
            anchor: &anchor,
            service: (&service, *port),
            authority: None,
        };
        let name = format!("DNS:{}", identity_of(account, namespace));
        let answer = match gate.ask_as(&issuer, &[&name]).await {
            Ok(line) => line.split(' ').nth(1).unwrap_or_default().to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let fits = match *expected {
            REFUSED => !["200", "400"].contains(&answer.as_str()),
            status => answer == status,
        };
        ensure!(fits, "{who}: got {answer}, not {expected}");
        said.push(format!("{who}: {answer}"));
    }
    end(rig, private).await?;
    Ok(Row::of(&BTreeMap::new()).with(said.join("; ")))
}

/// New credentials under load; and the controller and Linkerd's destination controller are restarted at once.
pub(super) async fn restarted(rig: &mut Rig) -> anyhow::Result<Row> {
    let private = begin(rig).await?;
    let mut deployments = Deployments::new(&rig.west).await?;
    // Other links may use the first token, so it is kept.
    deployments.shell(rig, ROTATE).await?;
    let old = OldCredentials::keep(&rig.west, &rig.east).await?;
    let load = load(rig).await?;
    deployments.shell(rig, ROTATE).await?;
    old.are_refused(&rig.east).await?;
    export(rig, "rotated", RIGHT).await?;
    unexport(rig, "rotated").await?;
    let rotated = without_failures(&load.finish().await?)?;

    rig.source.controller.kill();
    let restarted = Instant::now();
    let (linkerd, controller) =
        tokio::join!(rig.west.linkerd.restart(), rig.source.controller.restart());
    linkerd?;
    controller?;
    export(rig, "restarted", SOON).await?;
    let connected = restarted.elapsed();
    unexport(rig, "restarted").await?;
    end(rig, private).await?;
    Ok(rotated.with(format!(
        "the old token is refused; connected {} after the controller and all of Linkerd's were killed at once",
        seconds(connected)
    )))
}

/// How long many Services take until all are mirrored, and changes after that, directly and through the gateway.
pub(super) async fn compared(rig: &mut Rig) -> anyhow::Result<Row> {
    rig.source.controller.kill();
    many::create(rig).await?;
    let direct = Times::measured(rig, "direct").await?;
    let private = begin(rig).await?;
    let through = Times::measured(rig, "gateway").await?;
    many::delete(rig).await?;
    end(rig, private).await?;
    let ratio = through.first_sync.as_secs_f64() / direct.first_sync.as_secs_f64();
    let row = Row {
        requests: 0,
        failed: 0,
        oracle: "-".to_owned(),
        measured: format!(
            "first sync of {}: {} through the gateway, {} directly ({ratio:.2} times); {} changes a second: p99 {} ms \
             through the gateway, {} ms directly",
            many::SERVICES,
            seconds(through.first_sync),
            seconds(direct.first_sync),
            many::CHANGES_A_SECOND,
            through.change.as_millis(),
            direct.change.as_millis()
        ),
    };
    ensure!(ratio < 1.3, "{}", row.measured);
    ensure!(through.change < direct.change + SLOWER, "{}", row.measured);
    Ok(row)
}

/// How long the controller takes.
struct Times {
    first_sync: Duration,
    /// p99 from a change of a Service to that of its mirror.
    change: Duration,
}

impl Times {
    async fn measured(rig: &mut Rig, round: &str) -> anyhow::Result<Self> {
        Ok(Self {
            first_sync: many::first_sync(rig).await?,
            change: percentile(&mut many::changes(rig, round).await?, 99),
        })
    }
}
