//! The load: requests at a steady rate, each on its own connection, and their results.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{helper::Answer, requests::Client};

/// Time between two requests to the same Service.
const PERIOD: Duration = Duration::from_millis(50);
/// The same while the Service does not answer yet.
const IMPATIENT: Duration = Duration::from_millis(20);
/// How long to wait for the first answer.
const ANSWERED: Duration = Duration::from_secs(60);

/// The target of a load.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The mirror's name.
    pub(crate) name: String,
    /// Its ClusterIP and port.
    pub(crate) address: SocketAddr,
    /// The host in the requests.
    pub(crate) host: String,
}

/// The results of the requests to one Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// Number of answers of each Pod, by the identity of the client that it saw.
    pub(crate) answers: BTreeMap<(String, String), u64>,
    /// Number of occurrences of each error.
    pub(crate) errors: BTreeMap<String, u64>,
    /// When the first and the last failed request were sent, since the start of the load.
    pub(crate) failures: Option<(Duration, Duration)>,
}

impl Tally {
    fn count(&mut self, answer: Answer, sent: Duration) {
        self.requests += 1;
        if answer.status == 200 {
            let by = answer.pod.unwrap_or_default();
            let to = answer.client.unwrap_or_default();
            *self.answers.entry((by, to)).or_default() += 1;
            return;
        }
        self.failed += 1;
        let error = answer.error.unwrap_or_else(|| "no reason given".to_owned());
        let error = format!("{} {error}", answer.status);
        *self.errors.entry(error).or_default() += 1;
        let (first, last) = self.failures.unwrap_or((sent, sent));
        self.failures = Some((first.min(sent), last.max(sent)));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} requests failed", self.failed, self.requests)?;
        if let Some((first, last)) = self.failures {
            write!(
                out,
                " between {:.1} s and {:.1} s",
                first.as_secs_f64(),
                last.as_secs_f64()
            )?;
        }
        for (error, times) in &self.errors {
            write!(out, "\n      {times} × {error}")?;
        }
        Ok(())
    }
}

/// Sends requests, without waiting for answers, until one has succeeded. Returns how many it took.
pub(crate) async fn until_answered(client: &Client, target: &Target) -> anyhow::Result<u64> {
    timeout(ANSWERED, first_answer(client, target))
        .await
        .with_context(|| format!("no answer from {} within {ANSWERED:?}", target.name))?
}

async fn first_answer(client: &Client, target: &Target) -> anyhow::Result<u64> {
    let mut ticks = interval(IMPATIENT);
    let mut asked = FuturesUnordered::new();
    let mut requests = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                requests += 1;
                asked.push(client.get(target.address, &target.host));
            }
            Some(answer) = asked.next() => if answer?.status == 200 {
                return Ok(requests);
            },
        }
    }
}

/// The results of a load so far.
struct Counts {
    started: Instant,
    /// Requests that were sent before this time since the start of the load do not count.
    from: Duration,
    tallies: BTreeMap<String, Tally>,
}

/// A load that runs until it is finished.
pub(crate) struct Load {
    stop: CancellationToken,
    counts: Arc<Mutex<Counts>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts a load on each of these targets.
    pub(crate) fn start(client: &Client, targets: &[Target]) -> Self {
        let stop = CancellationToken::new();
        let counts = Arc::new(Mutex::new(Counts {
            started: Instant::now(),
            from: Duration::ZERO,
            // Also for targets that get no requests.
            tallies: targets
                .iter()
                .map(|target| (target.name.clone(), Tally::default()))
                .collect(),
        }));
        let tasks = targets
            .iter()
            .map(|target| {
                let (client, target) = (client.clone(), target.clone());
                tokio::spawn(run(client, target, stop.clone(), counts.clone()))
            })
            .collect();
        Self {
            stop,
            counts,
            tasks,
        }
    }

    /// Starts a load, and counts requests from the time when `settled` has ended and all targets answer.
    pub(crate) async fn settled(
        client: &Client,
        targets: &[Target],
        settled: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Self> {
        let load = Self::start(client, targets);
        settled.await?;
        for target in targets {
            until_answered(client, target).await?;
        }
        load.count_anew();
        Ok(load)
    }

    /// The results so far, by the mirror's name.
    pub(crate) fn so_far(&self) -> BTreeMap<String, Tally> {
        lock(&self.counts).tallies.clone()
    }

    /// From now on, counts only new requests.
    pub(crate) fn count_anew(&self) {
        let mut counts = lock(&self.counts);
        counts.from = counts.started.elapsed();
        for tally in counts.tallies.values_mut() {
            *tally = Tally::default();
        }
    }

    /// Ends it, waits for the last answers, and returns the results.
    pub(crate) async fn finish(mut self) -> anyhow::Result<BTreeMap<String, Tally>> {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            task.await.context("a load has ended early")?;
        }
        Ok(self.so_far())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(client: Client, target: Target, stop: CancellationToken, counts: Arc<Mutex<Counts>>) {
    let started = lock(&counts).started;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let (client, target, counts) = (client.clone(), target.clone(), counts.clone());
        let sent = started.elapsed();
        asked.spawn(async move {
            let answer = client.get(target.address, &target.host).await;
            let answer = answer.unwrap_or_else(|error| Answer {
                error: Some(format!("{error:#}")),
                ..Answer::default()
            });
            let mut counts = lock(&counts);
            if let Some(sent) = sent.checked_sub(counts.from) {
                let tally = counts.tallies.entry(target.name).or_default();
                tally.count(answer, sent);
            }
        });
        while asked.try_join_next().is_some() {}
    }
    while asked.join_next().await.is_some() {}
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
