//! Plans a key, starts to execute its plan, and handles how its turn ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Client;
use tokio::time::Instant;

use super::{
    blocked::Shortage,
    confirm::{self, Answer, ConfirmationRequest, Precondition},
    state::{self, Done, Engine},
};
use crate::{
    controller::{queue, rate_limit::Change, repeats},
    mirror::{self, Confirmed, Key, Outcome, Plan, Problem, Reason, RemoteRef, ServiceOutcome},
};

/// The message of a Service that waits because no `ClusterIP` is free.
const WAITS: &str =
    "the Service range of this cluster has no free ClusterIP; will retry when one may be free";
/// The message of a Service that waits because too few are free.
const WAITS_FOR_ROOM: &str = "less than a quarter of the Service range of this cluster would be free; \
     will retry when there is room";

/// How the turn of a key ended.
pub(super) enum Turn {
    /// Nothing has to be written, apart from the removals that these clusters have not confirmed.
    InSync(Vec<RemoteRef>),
    /// The plan was executed, without the removals that these clusters have not confirmed.
    Written(Vec<RemoteRef>),
    /// The key is planned again at once.
    Again,
    /// The key is planned again with backoff, after this time at the earliest.
    Retry(Option<Duration>),
    /// The key waits until then.
    Until(Instant),
    /// The key waits until the API server may allow this write; the message of the refusal.
    Denied(String),
    /// The key waits for a `ClusterIP`.
    LacksAddress,
}

impl Engine {
    /// Plans a key, and starts to execute its plan. Removals that are not confirmed are left out, and the confirmations
    /// requested.
    pub(super) fn work(&mut self, key: Key) {
        let now = Instant::now();
        let confirmed = self.confirmed(&key);
        let plan = mirror::plan(&self.state, &key, Confirmed::By(&confirmed));
        self.metrics.planned(now.elapsed());
        let plan = self.affordable(&key, plan);
        self.confirmations.keep(&key, &plan.confirm);
        let lacking = plan.confirm.iter();
        let lacking = lacking.filter(|remote| !confirmed.contains(&remote.cluster));
        let lacking: Vec<RemoteRef> = lacking.cloned().collect();
        let content = repeats::content(&plan);
        if let Some(turn) = self.turn_without_writes(&key, &plan, &lacking, content, now) {
            self.end_turn(&key, turn);
            return;
        }
        self.request(&key, &lacking);
        self.confirmations.use_up(&key);
        let by = self.queue.flow_of(&key);
        self.rate_limit
            .wrote(&key, Change::of(&plan), plan.cost(), &by, now);
        let (writer, metrics) = (self.writer.clone(), self.metrics.clone());
        self.tasks.spawn(async move {
            let done = state::execute(&writer, key, plan, content, lacking).await;
            metrics.applied(now.elapsed());
            done
        });
    }

    /// How the turn of a key ends if its plan is not executed now; `None` if it is.
    fn turn_without_writes(
        &mut self,
        key: &Key,
        plan: &Plan,
        lacking: &[RemoteRef],
        content: u64,
        now: Instant,
    ) -> Option<Turn> {
        let in_sync = plan.writes.is_empty();
        if in_sync {
            self.report_outcomes(key, &plan.report, lacking);
            self.note_preference(key);
            if lacking.is_empty() {
                return Some(Turn::InSync(Vec::new()));
            }
        } else if let Some(until) = self.repeats.not_before(key, content) {
            // The same writes did not last the last times.
            self.report_failure(key, &plan.report, Reason::Error, &repeats::message(plan));
            if until > now {
                return Some(Turn::Until(until));
            }
        }
        let change = if in_sync {
            Change::Traffic
        } else {
            Change::of(plan)
        };
        if let Some(at) = self.rate_limit.not_before(key, change, now) {
            return Some(Turn::Until(at));
        }
        if in_sync {
            return Some(Turn::InSync(lacking.to_vec()));
        }
        // When the creations in progress have ended, the next plan says whether one more is allowed.
        let may_create = self.creating.begin(key, plan, &self.state);
        (!may_create).then_some(Turn::Retry(None))
    }

    /// Handles how the turn of a key ended: when it is planned again, and which keys may be tried now.
    pub(super) fn end_turn(&mut self, key: &Key, turn: Turn) {
        let now = Instant::now();
        match turn {
            Turn::InSync(lacking) if lacking.is_empty() => {
                self.confirmations.forget(key);
                self.problems.recovered(key);
                self.changed.remove(key);
                let next = self.blocked.succeeded(key, now);
                self.enqueue_all(queue::LOCAL, next);
                self.queue.done(key);
            }
            Turn::InSync(lacking) => {
                self.request(key, &lacking);
                // It is enqueued again when a confirmation has arrived.
                self.queue.release(key);
            }
            Turn::Written(lacking) => {
                let next = self.blocked.succeeded(key, now);
                self.enqueue_all(queue::LOCAL, next);
                if let Some(since) = self.changed.remove(key) {
                    self.metrics.propagated(since.elapsed());
                }
                // Planning again costs microseconds, and confirms that the desired state is reached.
                self.queue.enqueue_again(key);
                if lacking.is_empty() {
                    self.queue.done(key);
                } else {
                    self.queue.release(key);
                }
            }
            Turn::Again => {
                self.queue.enqueue_again(key);
                self.queue.done(key);
            }
            Turn::Retry(wait) => self.queue.failed(key, now, wait),
            Turn::Until(at) => {
                self.metrics.postponed();
                self.queue.postponed(key, at);
            }
            Turn::Denied(message) => {
                self.blocked.deny(key, &message, now);
                self.queue.done(key);
            }
            Turn::LacksAddress => {
                self.blocked.lacks_address(key, now);
                self.queue.done(key);
            }
        }
    }

    /// Reports a plan that could not be executed, and logs it unless the reason is no failure.
    pub(super) fn report_failure(
        &mut self,
        key: &Key,
        report: &[ServiceOutcome],
        reason: Reason,
        message: &str,
    ) {
        if reason == Reason::Error {
            self.problems.failed(key, message);
        }
        self.report_outcomes(key, &failed(report, reason, message), &[]);
    }

    /// Reports that no `ClusterIP` is free for a plan.
    pub(super) fn report_shortage(&mut self, key: &Key, report: &[ServiceOutcome]) {
        self.report_failure(key, report, Reason::NoClusterIp, WAITS);
    }

    /// The part of a plan that may be executed now: while no `ClusterIP` is free, without the Services that need one.
    fn affordable(&mut self, key: &Key, plan: Plan) -> Plan {
        if !plan.needs_cluster_ip() {
            let next = self.blocked.needs_no_address(key);
            self.enqueue_all(queue::LOCAL, next);
            return plan;
        }
        // Probe Services are not created for what a target cluster has, but for its Link.
        let needed = match key {
            Key::Gateway { .. } => 0,
            Key::Mirror { .. } | Key::Federated { .. } => plan.cluster_ips(),
        };
        let why = match self.blocked.may_create(key, needed) {
            Ok(()) => return plan,
            Err(Shortage::NoneFree) => WAITS,
            Err(Shortage::RangeFull) => WAITS_FOR_ROOM,
        };
        let report = failed(&plan.report, Reason::NoClusterIp, why);
        Plan {
            report,
            ..plan.without_cluster_ips()
        }
    }

    /// The clusters that have confirmed what a key asks of them, if this is still valid.
    fn confirmed(&mut self, key: &Key) -> BTreeSet<String> {
        let asked = self.confirmations.clusters_of(key).into_iter();
        let current = asked.filter_map(|cluster| {
            let (current, _) = self.precondition(&cluster)?;
            Some((cluster, current))
        });
        let current: BTreeMap<String, Precondition> = current.collect();
        let current = |cluster: &str| current.get(cluster);
        self.confirmations.confirmed(key, current, Instant::now())
    }

    /// Requests the confirmations that a plan lacks.
    fn request(&mut self, key: &Key, lacking: &[RemoteRef]) {
        for remote in lacking {
            // All keys of a cluster are enqueued when it is connected again.
            if self.is_away(&remote.cluster) {
                self.processed_for(key, &remote.cluster);
            } else {
                self.confirmations.need(key, remote);
            }
        }
    }

    /// Asks target clusters for the confirmations that keys need, up to the limit for each cluster.
    pub(super) fn ask_clusters(&mut self) {
        while let Some(request) = self.confirmations.next() {
            let cluster = request.remote.cluster.as_str();
            if self.is_away(cluster) {
                self.confirmations.answered(&request, None);
                self.processed_for(&request.key, cluster);
                continue;
            }
            let Some((precondition, client)) = self.precondition(cluster) else {
                // The session was just replaced; its successor enqueues the key again.
                self.confirmations.answered(&request, None);
                self.queue.delay(&request.key, cluster, Instant::now());
                continue;
            };
            let RemoteRef {
                namespace, service, ..
            } = &request.remote;
            let preferring = self.state.preferring(cluster, namespace, service);
            let preferred = preferring.is_some();
            self.tasks.spawn(async move {
                let asked = Instant::now();
                let answer = confirm::ask(client, &precondition.target, &request, preferred).await;
                Done::Confirmed {
                    request,
                    precondition: Box::new(precondition),
                    asked,
                    answer,
                }
            });
        }
    }

    /// Handles the answer of a target cluster.
    pub(super) fn on_confirmed(
        &mut self,
        request: &ConfirmationRequest,
        precondition: Precondition,
        asked: Instant,
        answer: &Answer,
    ) {
        let (key, cluster) = (&request.key, &request.remote.cluster);
        let confirmed = matches!(answer, Answer::NotExported).then_some((asked, precondition));
        if self.confirmations.answered(request, confirmed) {
            self.queue.enqueue(key.clone(), cluster);
        }
        if let Answer::None(why) = answer {
            let what =
                format!("failed to confirm with cluster {cluster} that a Service is not exported");
            self.problems.failed(key, &format!("{what}: {why}"));
            self.processed_for(key, cluster);
        }
        if !matches!(answer, Answer::NotExported) {
            // The time that a cluster does not confirm it is not the controller's.
            self.changed.remove(key);
            self.queue.delay(key, cluster, Instant::now());
        }
    }

    /// Whether a target cluster is known not to respond.
    fn is_away(&self, cluster: &str) -> bool {
        let state = self.link_of(cluster).and_then(|link| self.links.get(&link));
        state.is_some_and(|state| matches!(state.facts.connected, Some(Err(_))))
    }

    /// The current precondition of a confirmation of this cluster, and a client to ask it.
    fn precondition(&self, cluster: &str) -> Option<(Precondition, Client)> {
        let (target, _) = self.state.link(cluster)?;
        let session = self.links.get(&target.link)?.current.as_ref()?;
        let precondition = Precondition {
            session: session.id,
            target: target.clone(),
        };
        Some((precondition, session.client.clone()?))
    }
}

/// The report of a plan that could not be executed.
fn failed(report: &[ServiceOutcome], reason: Reason, message: &str) -> Vec<ServiceOutcome> {
    let mut report = report.to_vec();
    for outcome in &mut report {
        if let Outcome::Mirrored { .. } | Outcome::Absent = outcome.report {
            outcome.report = Outcome::Failed(Problem::new(reason, message));
        }
    }
    report
}
