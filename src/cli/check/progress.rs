//! Checks one cluster, topic by topic: each is reported as soon as it is known.

use std::{cell::RefCell, collections::BTreeSet, convert::Infallible, time::Duration};

use client::{Cluster, timing};
use links::poll::poll;
use observe::{
    check::rules::{self, CheckResult, Evaluated, Topic, evaluate, first_check},
    clusters::{
        gather::Gathering,
        kube_context::KubeContext,
        snapshot::{ClusterSnapshot, FullSnapshot, Part},
        workloads::ParseArgs,
    },
    finding::{Finding, Level},
};
use tokio::sync::mpsc::UnboundedSender;

use crate::cli::common::wait::Progress;

/// Interval of retries.
const RETRY: Duration = Duration::from_secs(5);

/// The results of a topic in the cluster with this index.
pub struct TopicResults {
    pub at: usize,
    pub topic: Topic,
    pub results: Vec<CheckResult>,
}

/// The checks of all clusters.
pub struct Checks<'a> {
    pub parse: ParseArgs,
    /// How long checks that may pass later are retried.
    pub wait: Duration,
    pub progress: &'a Progress,
    /// For each cluster, the check that is running; empty when all have ended.
    pub running: RefCell<Vec<String>>,
}

/// The checks of one cluster.
struct OneCluster<'a> {
    at: usize,
    cluster: &'a Cluster,
    checks: &'a Checks<'a>,
    send: UnboundedSender<TopicResults>,
    done: RefCell<CheckedTopics>,
}

/// What is known of a cluster.
#[derive(Default)]
struct CheckedTopics {
    /// Topics that were reported.
    topics: BTreeSet<Topic>,
    /// Whether one of them has an error that will not go away.
    is_hopeless: bool,
    /// Topics that were not reported, because they have errors that may go away.
    held: Vec<(Topic, Vec<CheckResult>)>,
    snapshot: Option<ClusterSnapshot>,
}

impl CheckedTopics {
    /// What has to be read for the topics that were not reported yet.
    fn wanted(&self) -> BTreeSet<Part> {
        let left = Topic::ALL.into_iter();
        let left = left.filter(|topic| !self.topics.contains(topic));
        left.flat_map(Topic::needs).copied().collect()
    }

    /// Keeps what is known of the cluster, unless more was known before.
    fn note(&mut self, found: &FullSnapshot) {
        let has_credentials = |cluster: &ClusterSnapshot| {
            let mut links = cluster.links.iter().flatten();
            links.any(|link| link.credentials.is_some())
        };
        if has_credentials(&found.cluster) || !self.snapshot.as_ref().is_some_and(has_credentials) {
            self.snapshot = Some(found.cluster.clone());
        }
    }
}

impl Checks<'_> {
    /// Checks a cluster, and repeats the checks that may still pass, unless another error decides the outcome already.
    /// Returns what is known of the cluster.
    pub async fn run(
        &self,
        at: usize,
        context: &KubeContext,
        send: UnboundedSender<TopicResults>,
    ) -> ClusterSnapshot {
        let cluster = match &context.client {
            Ok(cluster) => cluster,
            Err(why) => {
                // Only fails if nobody listens any more.
                let _ = send.send(TopicResults {
                    at,
                    topic: Topic::Installation,
                    results: vec![rules::unreachable(why)],
                });
                return ClusterSnapshot::unreachable(&context.name, why);
            }
        };
        let one = OneCluster {
            at,
            cluster,
            checks: self,
            send,
            done: RefCell::default(),
        };
        let attempt = async || Ok::<_, Infallible>(Box::pin(one.attempt()).await);
        let waits = |why: &String| self.progress.say(&format!("waiting: {why}"));
        let Ok(_) = poll(RETRY, self.wait, attempt, waits).await;
        let held = std::mem::take(&mut one.done.borrow_mut().held);
        for (topic, results) in held {
            one.report(topic, results);
        }
        self.says(at, String::new());
        let snapshot = one.done.borrow_mut().snapshot.take();
        snapshot
            .unwrap_or_else(|| ClusterSnapshot::unreachable(&context.name, &"not checked".into()))
    }

    /// Sets the check that is running for a cluster, and shows that of the first cluster that has one.
    fn says(&self, at: usize, what: String) {
        let mut running = self.running.borrow_mut();
        running[at] = what;
        if let Some(what) = running.iter().find(|what| !what.is_empty()) {
            self.progress.doing(what);
        }
    }
}

impl OneCluster<'_> {
    /// Runs all checks, and reports those that were not reported before. `Err`: the first error that may go away, if no
    /// other error decides the outcome.
    async fn attempt(&self) -> Result<(), String> {
        let version = env!("CARGO_PKG_VERSION");
        let wanted = self.done.borrow().wanted();
        let (now, parse) = (timing::now(), self.checks.parse);
        let mut gathering = Gathering::start(self.cluster, now, version, parse, wanted);
        self.done.borrow_mut().held.clear();
        let (mut known, mut judged) = (Vec::new(), BTreeSet::new());
        loop {
            self.shows(&judged, gathering.unanswered());
            let Some(part) = gathering.next().await else {
                break;
            };
            known.push(part);
            for topic in Topic::ALL {
                if !is_complete(topic, &known) || !judged.insert(topic) {
                    continue;
                }
                let Evaluated { results, is_end } =
                    evaluate(gathering.snapshot(), |of| of == topic);
                self.take(topic, results);
                if is_end {
                    self.done.borrow_mut().note(gathering.snapshot());
                    return self.outcome();
                }
            }
        }
        self.done.borrow_mut().note(gathering.snapshot());
        self.outcome()
    }

    fn take(&self, topic: Topic, results: Vec<CheckResult>) {
        let may_pass = results
            .iter()
            .any(|result| result.retry && result.level == Some(Level::Error));
        if may_pass && !self.checks.wait.is_zero() {
            let mut done = self.done.borrow_mut();
            if !done.topics.contains(&topic) {
                done.held.push((topic, results));
            }
        } else {
            self.report(topic, results);
        }
    }

    /// Reports the results of a topic, once.
    fn report(&self, topic: Topic, results: Vec<CheckResult>) {
        let mut done = self.done.borrow_mut();
        if !done.topics.insert(topic) {
            return;
        }
        done.is_hopeless |= is_hopeless(&results);
        let at = self.at;
        // Only fails if nobody listens any more.
        let _ = self.send.send(TopicResults { at, topic, results });
    }

    fn outcome(&self) -> Result<(), String> {
        let done = self.done.borrow();
        let held: Vec<CheckResult> = done
            .held
            .iter()
            .flat_map(|(_, held)| held.clone())
            .collect();
        match awaited(&held) {
            Some(why) if !done.is_hopeless => Err(why),
            _ => Ok(()),
        }
    }

    /// Shows the check that is running.
    fn shows<'a>(&self, judged: &BTreeSet<Topic>, unanswered: impl Iterator<Item = &'a str>) {
        let mut topics = Topic::ALL.into_iter();
        let Some(next) = topics.find(|topic| !judged.contains(topic)) else {
            return;
        };
        let check = first_check(next);
        let unanswered: Vec<&str> = unanswered.take(5).collect();
        let of = match (next, unanswered.as_slice()) {
            (Topic::Targets, [_, ..]) => format!(" ({})", unanswered.join(", ")),
            _ => String::new(),
        };
        let cluster = &self.cluster.name;
        self.checks
            .says(self.at, format!("checking {cluster}: {check}{of}"));
    }
}

/// The first error that may go away. `None` if there is another error that will not.
fn awaited(results: &[CheckResult]) -> Option<String> {
    if is_hopeless(results) {
        return None;
    }
    // A warning does not change the outcome.
    let first = results
        .iter()
        .find(|result| result.retry && result.level == Some(Level::Error))?;
    first.lines(Finding::line).into_iter().next()
}

fn is_hopeless(results: &[CheckResult]) -> bool {
    let mut results = results.iter();
    results.any(|result| result.level == Some(Level::Error) && !result.retry)
}

/// Whether all that a topic needs is known.
fn is_complete(topic: Topic, known: &[Part]) -> bool {
    topic.needs().iter().all(|need| known.contains(need))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_decides_the_outcome_is_waited_for() {
        let of = |level, retry, error: &str| CheckResult {
            level,
            retry,
            findings: vec![error.into()],
            ..CheckResult::default()
        };
        let (well, starting) = (of(None, false, ""), of(Some(Level::Error), true, "0/1"));
        let (unmeshed, broken) = (
            of(Some(Level::Warning), true, "no proxy"),
            of(Some(Level::Error), false, "no"),
        );
        for (results, expected) in [
            (vec![well.clone()], None),
            (vec![well.clone(), starting.clone()], Some("0/1")),
            (vec![well, unmeshed], None),
            (vec![starting, broken], None),
        ] {
            assert_eq!(awaited(&results).as_deref(), expected);
        }
    }

    /// A dead gateway may be waited for, for minutes: no Secret is read again, and no target cluster asked.
    #[test]
    fn repeats_read_what_is_left_to_report() {
        let mut done = CheckedTopics::default();
        assert_eq!(done.wanted(), Part::ALL.into());
        let reported = Topic::ALL.into_iter();
        done.topics = reported.filter(|topic| *topic != Topic::Gateways).collect();
        assert!(
            done.wanted()
                .iter()
                .eq([&Part::Controller, &Part::Services])
        );
    }

    #[test]
    fn a_target_that_does_not_answer_delays_only_what_is_asked_of_it() {
        let all_others = [
            Part::Installation,
            Part::Controller,
            Part::Services,
            Part::Credentials,
            Part::Proxies,
        ];
        let known = |topic: &Topic| is_complete(*topic, &all_others);
        let late: Vec<Topic> = Topic::ALL.into_iter().filter(|t| !known(t)).collect();
        assert_eq!(late, [Topic::Targets]);
    }
}
