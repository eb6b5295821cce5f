//! Plans a key, starts to execute its plan, and handles how its turn ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Client;
use mirror_core::{
    api::labels as l,
    mirror::{
        self, Confirmed, Key, Outcome, Plan, Problem, Reason, RemoteRef, ServiceOutcome, State,
    },
};
use tokio::time::Instant;

use super::{
    addresses::Shortage,
    confirm::{self, Precondition},
    link_state::LinkState,
    state::{Done, Engine},
};
use crate::pace::{Change, Content};

/// The message of a Service that waits because no `ClusterIP` is free.
pub const WAITS: &str =
    "the Service range of this cluster has no free ClusterIP; will retry when one may be free";
/// The message of a Service that waits because too few are free.
const WAITS_FOR_ROOM: &str = "less than a quarter of the Service range of this cluster would be free; \
     will retry when there is room";

/// How the turn of a key ended.
#[derive(Clone, Copy)]
pub enum Turn {
    /// Nothing has to be written.
    InSync,
    /// Nothing has to be written, apart from removals that are not confirmed. A confirmation enqueues the key again.
    Unconfirmed,
    /// The key is planned again at once.
    Again,
    /// The key is planned again with backoff, after this time at the earliest.
    Retry(Option<Duration>),
    /// The key waits until then.
    Until(Instant),
    /// The key waits until the API server may allow this write.
    Denied,
    /// The key waits for a `ClusterIP`.
    LacksAddress,
}

impl Engine {
    /// Plans a key, and starts to execute its plan. Removals that are not confirmed are left out, and the confirmations
    /// requested.
    pub fn work(&mut self, key: Key) {
        let now = Instant::now();
        let current = |cluster: &str| Some(precondition(&self.state, &self.links, cluster)?.0);
        let confirmed = self.confirmations.confirmed(&key, current, now);
        let plan = mirror::plan(&self.state, &key, Confirmed::By(&confirmed));
        self.metrics.planned(now.elapsed());
        let (plan, lacks_address) = self.affordable(&key, plan, now);
        if plan.needs_cluster_ip() && !self.queue.may_create(&key) {
            return;
        }
        self.confirmations.keep(&key, &plan.confirm);
        let lacking = plan.confirm.iter();
        let lacking = lacking.filter(|remote| !confirmed.contains(&remote.cluster));
        let lacking: Vec<RemoteRef> = lacking.cloned().collect();
        let content = Content::of(&plan);
        if let Some(turn) = self.turn_without_writes(&key, &plan, &lacking, content, now) {
            let waits = lacks_address && matches!(turn, Turn::InSync | Turn::Unconfirmed);
            self.end_turn(&key, if waits { Turn::LacksAddress } else { turn });
            return;
        }
        self.request(&key, &lacking);
        self.confirmations.use_up(&key);
        let (cluster_ips, cost) = (plan.cluster_ips(), plan.cost());
        self.addresses.begin(cluster_ips);
        let by = self.queue.flow_of(&key);
        self.allowances.take(&by, cost, now);
        self.paces.begins(&key, Change::of(&plan), now);
        let (writer, metrics) = (self.writer.clone(), self.metrics.clone());
        self.tasks.spawn(async move {
            let (written, ended) = writer.apply(plan.writes).await;
            metrics.applied(now.elapsed());
            Done::Plan {
                key,
                cluster_ips,
                cost,
                content,
                report: plan.report,
                lacking,
                written,
                ended,
            }
        });
    }

    /// How the turn of a key ends if its plan is not executed now; `None` if it is.
    fn turn_without_writes(
        &mut self,
        key: &Key,
        plan: &Plan,
        lacking: &[RemoteRef],
        content: Content,
        now: Instant,
    ) -> Option<Turn> {
        let in_sync = plan.writes.is_empty();
        if in_sync {
            self.record_outcomes(&plan.report);
            self.processed(key, lacking);
            self.note_preference(key);
            self.note_members(key);
            if lacking.is_empty() {
                return Some(Turn::InSync);
            }
        } else if self.paces.is_reverted(key, content) {
            self.report_failure(key, &plan.report, Reason::Error, &is_reverted(plan));
        }
        let change = if in_sync {
            Change::Traffic
        } else {
            Change::of(plan)
        };
        if let Some(at) = self.paces.not_before(key, (change, content), now) {
            return Some(Turn::Until(at));
        }
        if in_sync {
            self.request(key, lacking);
            return Some(Turn::Unconfirmed);
        }
        // When the creations in progress have ended, the next plan says whether one more is allowed.
        let may_create = self.may_create_namespace(key, plan);
        (!may_create).then_some(Turn::Retry(None))
    }

    /// Whether a plan may be executed now: unless it creates a namespace that is not allowed in addition to those that
    /// are being created. From now on, its namespace counts as one of these.
    fn may_create_namespace(&mut self, key: &Key, plan: &Plan) -> bool {
        let Some((name, labels)) = plan.creates_namespace() else {
            return true;
        };
        let Some(cluster) = labels.get(l::CLUSTER_NAME) else {
            return true;
        };
        let others = self.creating.values().filter(|(other, of)| {
            of == cluster && other != name && self.state.namespace(other).is_none()
        });
        let others: BTreeSet<&String> = others.map(|(other, _)| other).collect();
        let is_allowed = self.state.may_create_namespace(cluster, others.len());
        if is_allowed {
            let creation = (name.to_owned(), cluster.to_owned());
            self.creating.insert(key.clone(), creation);
        }
        is_allowed
    }

    /// Handles how the turn of a key ended: when it is planned again, and which keys may be tried now.
    pub fn end_turn(&mut self, key: &Key, turn: Turn) {
        let now = Instant::now();
        match turn {
            Turn::InSync => {
                self.confirmations.forget(key);
                self.problems.recovered(key);
                self.changed.remove(key);
                if let Key::Gateway { link } = key {
                    // Without writes, also if its Services cannot be written.
                    let problem = self.state.api_server_problem(link);
                    let problem = problem.as_ref().map(|problem| problem.message.as_str());
                    self.note_api_server(link, problem);
                }
                self.try_next(key);
                self.paces.succeeded(key);
            }
            Turn::Unconfirmed => self.try_next(key),
            Turn::Again => self.queue.enqueue_again(key),
            Turn::Retry(wait) => {
                let at = self.paces.failed(key, wait, now);
                return self.queue.retry(key, at);
            }
            Turn::Until(at) => {
                self.metrics.postponed();
                return self.queue.postpone(key, at);
            }
            Turn::Denied => {
                self.denied.deny(key, now);
                self.paces.succeeded(key); // others decide when it is tried again
            }
            Turn::LacksAddress => {
                self.changed.remove(key);
                self.paces.succeeded(key);
            }
        }
        self.queue.done(key);
    }

    /// Enqueues keys that were denied like this one.
    fn try_next(&mut self, key: &Key) {
        let next = self.denied.succeeded(key);
        self.enqueue(next);
    }

    /// Reports a plan that could not be executed. Logs it only if the reason is an error, and not a shortage or a
    /// missing namespace.
    pub fn report_failure(
        &mut self,
        key: &Key,
        report: &[ServiceOutcome],
        reason: Reason,
        message: &str,
    ) {
        if reason == Reason::Error {
            self.problems.failed(key, message);
        }
        self.record_outcomes(&failed(report, reason, message));
        if let Key::Gateway { link } = key {
            self.note_api_server(link, Some(message));
        }
        self.processed(key, &[]);
    }

    /// The part of a plan that may be executed now, without Services that need a `ClusterIP` if none is free; and whether
    /// the key waits for one.
    fn affordable(&mut self, key: &Key, plan: Plan, now: Instant) -> (Plan, bool) {
        let needed = plan.cluster_ips();
        if needed == 0 {
            self.addresses.needs_none(key);
            return (plan, false);
        }
        if let Key::Gateway { .. } = key {
            // Its Services are not created for what a target cluster has, but for its Link.
            return (plan, false);
        }
        let report = match self.addresses.may_create(key, needed, now) {
            Ok(()) => return (plan, false),
            Err(Shortage::NoneFree) => failed(&plan.report, Reason::NoClusterIp, WAITS),
            Err(Shortage::RangeFull) => failed(&plan.report, Reason::NoClusterIp, WAITS_FOR_ROOM),
            // The last report stays until this is known.
            Err(Shortage::Reserved) => Vec::new(),
        };
        let plan = Plan {
            report,
            ..plan.without_cluster_ips()
        };
        (plan, true)
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
    pub fn ask_clusters(&mut self) {
        while let Some(request) = self.confirmations.next() {
            let cluster = request.remote.cluster.as_str();
            let client = precondition(&self.state, &self.links, cluster);
            let Some((precondition, client)) = client.filter(|_| !self.is_away(cluster)) else {
                // The session has ended, or the cluster does not respond. All keys that need it are planned again later.
                self.confirmations.answered(&request, None);
                let others = self.confirmations.withdraw(cluster);
                for key in std::iter::once(&request.key).chain(&others) {
                    self.retry_later(key, cluster);
                }
                continue;
            };
            self.tasks.spawn(async move {
                let asked = Instant::now();
                let answer = confirm::ask(client, &request.remote).await;
                Done::Confirmed {
                    request,
                    precondition: Box::new(precondition),
                    asked,
                    answer,
                }
            });
        }
    }

    /// Delays a key whose confirmation was not given, unless it is in the queue again.
    pub fn retry_later(&mut self, key: &Key, cluster: &str) {
        if !self.queue.has(key) {
            let at = self.paces.failed(key, None, Instant::now());
            self.queue.delay(key, cluster, at);
        }
    }

    /// Whether a target cluster is known not to respond.
    fn is_away(&self, cluster: &str) -> bool {
        let state = self.link_of(cluster).and_then(|link| self.links.get(&link));
        state.is_some_and(|state| matches!(state.connected(), Some(Err(_))))
    }
}

/// The current precondition of a confirmation of this cluster, and a client to ask it.
fn precondition(
    state: &State,
    links: &BTreeMap<String, LinkState>,
    cluster: &str,
) -> Option<(Precondition, Client)> {
    let (target, _) = state.link(cluster)?;
    let link = links.get(&target.link)?;
    let precondition = Precondition {
        session: link.current.as_ref()?.session.id,
        target: target.clone(),
    };
    Some((precondition, link.client()?))
}

/// The message about a plan whose writes are reverted.
fn is_reverted(plan: &Plan) -> String {
    let written = plan.writes.first().map(|write| {
        let (_, kind, namespace, name) = write.describe();
        format!("{kind} {namespace}/{name}")
    });
    let written = written.unwrap_or_else(|| "an object".to_owned());
    format!(
        "{written} is changed back after each write, by an admission webhook or another controller"
    )
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
