//! `traffic` beside the load's own count, for all modes.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use control_plane::eventually;
use serde_json::Value;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{MissedTickBehavior, interval},
};

use super::form::is_flat_again;
use crate::{
    helper::Answer,
    load::{Load, Target},
    requests::{Client, get},
    rig::{
        NAMESPACE, Rig,
        federation::Form,
        mirrors::{FEDERATED, FOLLOWS, GATED, MODES},
    },
    table::{Row, percentile},
};

/// Time between the two samples of the command. All requests are sent and answered in between.
const INTERVAL: &str = "40s";
/// Requests to each mirror, and the time between two.
const REQUESTS: usize = 400;
const PERIOD: Duration = Duration::from_millis(50);
/// One of so many answers is late, so that the latency of the slowest hundredth is far from that of the others.
const ONE_OF: usize = 20;
const LATE: Duration = Duration::from_millis(1300);
/// The largest part of the requests by which the counts may differ.
const DIFFERENCE: f64 = 0.02;
/// The ends of the buckets in which proxies count latencies, in milliseconds.
const BOUNDS: [f64; 17] = [
    1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 100.0, 200.0, 300.0, 400.0, 500.0,
    1000.0, 2000.0,
];

/// What reads the metrics of proxies.
const QUERIES: [&str; 2] = [
    include_str!("../../../dashboards/traffic.yaml"),
    include_str!("../../../dashboards/grafana.json"),
];

/// What the load has counted: latencies, by mirror and serving cluster.
type Counted = BTreeMap<(String, String), Vec<Duration>>;

/// The command counts what the load counts, in each mode and for each cluster that serves.
pub(super) async fn counted(rig: &mut Rig) -> anyhow::Result<Row> {
    is_flat_again(rig).await?;
    let flat = compared(rig, &MODES).await?;
    let admin = format!("{}:4191", rig.source.client_pod.address);
    queries_name_what_is_there(&get(&admin, "/metrics").await?.1)?;
    let watched = watched(rig).await?;
    let lost = without_gateway(rig).await?;
    rig.federate_through(Form::Gateway).await?;
    let through_gateway = match federated_through_gateway(rig).await {
        Ok(()) => compared(rig, &[FEDERATED]).await,
        Err(error) => Err(error),
    };
    rig.federate_through(Form::Discovery).await?;
    let through_gateway = through_gateway?;
    is_flat_again(rig).await?;
    let measured = format!(
        "{}; {watched}; through the gateway {}; without it {lost}",
        flat.measured, through_gateway.measured
    );
    Ok(flat.and(&through_gateway).with(measured))
}

/// With `--watch`, each request is in one of the results, and in no second one.
async fn watched(rig: &Rig) -> anyhow::Result<String> {
    const SENT: usize = 200;
    let target = rig.target(GATED).await?;
    let mut command = Traffic::start(rig, &["--watch", "--interval=1s"])?;
    command.first_sample().await?;
    let results = command.results()?;
    load(&rig.source.client, std::slice::from_ref(&target), SENT).await?;
    let sent = f64::from(u32::try_from(SENT)?);
    // One result more than the last requests need shows that nothing is counted again.
    let (counted, several) = spawn_blocking(move || -> anyhow::Result<_> {
        let (mut counted, mut several, mut all) = (0.0, 0, false);
        for line in results.lines().take(60) {
            let result: Value = serde_json::from_str(&line?)?;
            let rows = result["rows"].as_array().into_iter().flatten();
            let own = rows.filter(|row| row["service"] == GATED);
            let new: f64 = own.filter_map(|row| row["requests"].as_f64()).sum();
            counted += new;
            several += usize::from(new > 0.0);
            if all {
                break;
            }
            all = counted >= sent;
        }
        Ok((counted, several))
    })
    .await??;
    ensure!(
        counted.total_cmp(&sent).is_eq() && several > 1,
        "{sent} requests were sent, and {several} results have {counted}"
    );
    Ok(format!(
        "{counted} of {sent} in {several} results of --watch"
    ))
}

/// Requests to a mirror whose gateway is dead are counted too, once each.
async fn without_gateway(rig: &mut Rig) -> anyhow::Result<String> {
    const LOST: usize = 100;
    let target = rig.target(GATED).await?;
    let mut command = Traffic::start(rig, &["--interval", INTERVAL])?;
    command.first_sample().await?;
    rig.gateway.proxy.kill();
    let answers = load(&rig.source.client, std::slice::from_ref(&target), LOST).await;
    rig.gateway.proxy.restart()?;
    rig.gateway.proxy_ready().await?;
    rig.link_is_ready().await?;
    let failed = answers?
        .iter()
        .filter(|(_, answer)| answer.status != 200)
        .count();
    let rows = command.rows().await?;
    let of = |row: &&Value| row["service"] == GATED;
    let all = rows
        .iter()
        .filter(of)
        .filter_map(|row| row["requests"].as_f64());
    let all: f64 = all.sum();
    let sent = f64::from(u32::try_from(LOST)?);
    ensure!(
        (all - sent).abs() <= sent * DIFFERENCE,
        "{sent} requests were sent without a gateway, {failed} failed, and {all} are counted: {rows:?}"
    );
    let lost = rows
        .iter()
        .filter(of)
        .find(|row| row["withoutEndpoint"] == true);
    let lost = lost.with_context(|| format!("no request without an endpoint: {rows:?}"))?;
    ensure!(
        lost["successRate"] == 0.0 && lost["cluster"].is_null(),
        "{lost}"
    );
    Ok(format!(
        "{all} of {sent}, {} without an endpoint",
        lost["requests"]
    ))
}

/// Checks that the series and labels of proxies that our queries name are in the metrics of a real one.
fn queries_name_what_is_there(metrics: &str) -> anyhow::Result<()> {
    let words = QUERIES
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c)));
    let words: BTreeSet<&str> = words.collect();
    let of_gateway = |name: &str| {
        let mut lines = metrics.lines();
        let begin = format!("{name}{{direction=\"outbound\"");
        lines.find(|line| line.starts_with(&begin) && line.contains("dst_target_cluster=\"east\""))
    };
    let series: Vec<&str> = words
        .iter()
        .copied()
        .filter(|w| w.starts_with("response_"))
        .collect();
    ensure!(series.len() == 2, "the queries read {series:?}");
    for name in series {
        of_gateway(name).with_context(|| format!("the proxy has no {name} of the gateway"))?;
    }
    let labels = words
        .iter()
        .filter(|word| word.starts_with("dst_") || ["authority", "classification"].contains(*word));
    let line = of_gateway("response_total").unwrap_or_default();
    for label in labels {
        ensure!(
            line.contains(&format!(",{label}=\"")),
            "no {label} in {line}"
        );
    }
    Ok(())
}

/// Waits until the client's proxy knows the gateway as an endpoint of the federated Service.
async fn federated_through_gateway(rig: &Rig) -> anyhow::Result<()> {
    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    let expected = &rig.expected_unlinked() | &rig.expected(GATED);
    let service = format!("{NAMESPACE}/{FEDERATED}");
    rig.source
        .oracle
        .agrees(&service, &expected, FOLLOWS)
        .await?;
    load.finish().await.map(|_| ())
}

/// Sends requests to these mirrors, and compares the counts of the command with those of the load.
async fn compared(rig: &Rig, mirrors: &[&str]) -> anyhow::Result<Row> {
    let mut targets = Vec::new();
    for mirror in mirrors {
        targets.push(rig.target(mirror).await?);
    }
    // So that the proxy knows all endpoints. All these requests are answered before the first sample.
    let before = Load::start(&rig.source.client, &targets);
    eventually("answers from all mirrors", FOLLOWS, async || {
        let so_far = before.so_far();
        let answered = so_far.values().all(|tally| !tally.answers.is_empty());
        Ok(answered.then_some(()))
    })
    .await?;
    before.finish().await?;
    let mut command = Traffic::start(rig, &["--interval", INTERVAL])?;
    command.first_sample().await?;
    let counted = count(load(&rig.source.client, &targets, REQUESTS).await?)?;
    let rows = command.rows().await?;
    let mut told = Vec::new();
    for ((mirror, cluster), mut times) in counted.clone() {
        let row = rows
            .iter()
            .find(|row| row["service"] == mirror.as_str() && row["cluster"] == cluster.as_str());
        let row = row.with_context(|| format!("no row for {mirror} in {cluster}: {rows:?}"))?;
        let requests = row["requests"].as_f64().context("no requests")?;
        let sent = f64::from(u32::try_from(times.len())?);
        ensure!(
            (requests - sent).abs() <= sent * DIFFERENCE,
            "{mirror} in {cluster}: {sent} requests were sent, and {requests} counted"
        );
        ensure!(row["successRate"] == 1.0, "{mirror}: {row}");
        let own = percentile(&mut times, 99).as_secs_f64() * 1000.0;
        let p99 = row["p99Ms"].as_f64().context("no p99")?;
        // With few requests, the slowest hundredth is one of them.
        if times.len() >= 100 {
            let (start, end) = bucket(own)?;
            ensure!(
                start <= p99 && p99 <= end,
                "{mirror} in {cluster}: p99 is {own} ms, and the command says {p99} ms"
            );
        }
        told.push(format!(
            "{mirror} by {cluster}: {requests} of {sent}, p99 {p99:.0} of {own:.0} ms"
        ));
    }
    // The command has counted no other requests to these mirrors.
    for row in &rows {
        let place = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let place = (place("service"), place("cluster"));
        let mirrored = MODES.contains(&place.0.as_str());
        ensure!(
            counted.contains_key(&place) || !mirrored || row["requests"] == 0.0,
            "nobody has sent {row}"
        );
    }
    Ok(Row {
        requests: u64::try_from(counted.values().map(Vec::len).sum::<usize>())?,
        failed: 0,
        oracle: "-".to_owned(),
        measured: told.join(", "),
    })
}

/// The bucket of a latency.
fn bucket(latency: f64) -> anyhow::Result<(f64, f64)> {
    let ends = BOUNDS.iter().position(|bound| latency <= *bound);
    let ends = ends.with_context(|| format!("{latency} ms are too long"))?;
    let start = ends.checked_sub(1).map_or(0.0, |before| BOUNDS[before]);
    Ok((start, BOUNDS[ends]))
}

/// Sends requests. Each is answered when this returns.
async fn load(
    client: &Client,
    targets: &[Target],
    requests: usize,
) -> anyhow::Result<Vec<(String, Answer)>> {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = JoinSet::new();
    for number in 0..requests {
        ticks.tick().await;
        for target in targets {
            let (client, target) = (client.clone(), target.clone());
            let delay = if number % ONE_OF == 0 {
                LATE
            } else {
                Duration::ZERO
            };
            asked.spawn(async move {
                let answer = client.get_after(target.address, &target.host, delay).await;
                (target.name, answer)
            });
        }
    }
    let mut answers = Vec::new();
    while let Some(answered) = asked.join_next().await {
        let (mirror, answer) = answered?;
        answers.push((mirror, answer?));
    }
    Ok(answers)
}

/// Counts answers, all of which succeeded.
fn count(answers: Vec<(String, Answer)>) -> anyhow::Result<Counted> {
    let mut counted = Counted::new();
    for (mirror, answer) in answers {
        ensure!(answer.status == 200, "{mirror}: {answer:?}");
        let pod = answer.pod.unwrap_or_default();
        let cluster = if pod.starts_with("web-west") {
            "local"
        } else {
            "east"
        };
        let times = counted.entry((mirror, cluster.to_owned())).or_default();
        times.push(answer.took);
    }
    Ok(counted)
}

/// The running command.
struct Traffic(Option<Child>);

impl Traffic {
    fn start(rig: &Rig, more: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"));
        command
            .args(["traffic", "--namespace", NAMESPACE, "--output=json"])
            .arg("--verbose")
            .args(more)
            .env("KUBECONFIG", rig.west.plane.kubeconfig());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start linkerd-mc traffic")?;
        Ok(Self(Some(child)))
    }

    /// Waits until the proxies have been read once.
    async fn first_sample(&mut self) -> anyhow::Result<()> {
        let child = self.0.as_mut().context("it has ended")?;
        let stderr = child.stderr.take().context("it has no stderr")?;
        spawn_blocking(move || {
            let mut lines = BufReader::new(stderr);
            let (mut line, mut all) = (String::new(), String::new());
            while lines.read_line(&mut line)? > 0 {
                if line.contains("proxies sampled") {
                    // The rest is read, so that the command can write it.
                    std::thread::spawn(move || lines.read_to_string(&mut String::new()));
                    return Ok(());
                }
                all += &line;
                line.clear();
            }
            bail!("the command has ended: {all}")
        })
        .await?
    }

    /// What it prints from now on.
    fn results(&mut self) -> anyhow::Result<BufReader<ChildStdout>> {
        let child = self.0.as_mut().context("it has ended")?;
        let stdout = child.stdout.take().context("it has no stdout")?;
        Ok(BufReader::new(stdout))
    }

    /// Waits for the result.
    async fn rows(mut self) -> anyhow::Result<Vec<Value>> {
        let child = self.0.take().context("it has ended")?;
        let output = spawn_blocking(move || child.wait_with_output()).await??;
        let text = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "the command failed: {text}");
        let result: Value = serde_json::from_str(&text)?;
        let clients = &result["clusters"][0];
        ensure!(clients["unread"] == serde_json::json!([]), "{clients}");
        ensure!(clients["notes"] == serde_json::json!([]), "{clients}");
        let rows = result["rows"].as_array().cloned();
        rows.with_context(|| format!("no rows: {text}"))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
