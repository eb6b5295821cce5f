//! Handles the results of tasks: updates the state, and reports problems.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt as _;
use tokio::time::Instant;

use super::{done::Done, state::Engine};
use crate::{
    api::{k8s::Service, routes::Route},
    controller::{
        apply::{Failure, Written},
        events::{News, What, is_recorded},
        queue,
        trouble::and_untold,
    },
    mirror::{
        CLUSTER_IP_COST, Inserted, Key, ObjectKind, Outcome, Owner, Problem, Reason, RemoteRef,
        ServiceOutcome, owner, status::StatusChange,
    },
};

/// Maximum time for which the API server can pause all writes.
const MAX_THROTTLE: Duration = Duration::from_secs(60);

impl Engine {
    /// Handles the result of a task. Returns `true` if the lease is lost.
    pub(super) fn on_done(&mut self, done: Done) -> bool {
        match done {
            Done::Plan {
                key,
                creates,
                cost,
                content,
                report,
                lacking,
                written,
                ended,
            } => {
                let unwritten = cost.saturating_sub(cost_of(&written));
                let is_reverted =
                    ended.is_ok() && self.repeats.wrote(&key, content, Instant::now());
                if creates && ended.is_ok() {
                    self.pace.created(&key, Instant::now());
                }
                // What does not last has been reported. Only a plan without writes says that it is good.
                let report = if is_reverted { Vec::new() } else { report };
                return self.on_plan_done(&key, (&report, &lacking), written, unwritten, ended);
            }
            Done::Status {
                link,
                uid,
                sent,
                ended,
            } => self.on_status_written(&link, uid.as_deref(), *sent, ended.map(|stored| *stored)),
            Done::LookedUp { name, found } => self.on_looked_up(name, found),
            Done::Confirmed {
                question,
                basis,
                asked,
                said,
            } => self.on_confirmed(&question, *basis, asked, said),
        }
        false
    }

    fn on_plan_done(
        &mut self,
        key: &Key,
        (report, lacking): (&[ServiceOutcome], &[RemoteRef]),
        written: Vec<Written>,
        unwritten: usize,
        ended: Result<(), Failure>,
    ) -> bool {
        let now = Instant::now();
        self.creating.end(key);
        for written in written {
            self.absorb_written(written);
        }
        self.follow_probes(std::slice::from_ref(key));
        match ended {
            Ok(()) => {
                let next = self.addresses.created(key, now);
                self.try_for_address(next);
                self.allowed(key);
                self.record_outcomes(report);
                self.settle_beside(key, lacking);
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
            Err(Failure::Fenced) => return true,
            Err(Failure::Outdated(live)) => {
                if let Some(live) = live {
                    self.absorb_written(*live);
                }
                self.queue.failed(key, now, None);
            }
            Err(Failure::Foreign {
                namespace,
                name,
                who,
            }) => {
                self.found_foreign((namespace, name), who);
                self.queue.enqueue_again(key);
                self.queue.done(key);
            }
            Err(Failure::NoNamespace) => {
                self.record_outcomes(&failed(
                    report,
                    Reason::MissingNamespace,
                    "Namespace does not exist",
                ));
                self.settle(key);
                self.queue.failed(key, now, Some(Duration::from_secs(1)));
            }
            Err(Failure::NoClusterIp) => {
                self.lacks_address(key, report);
                self.queue.done(key);
            }
            Err(Failure::Refused {
                message,
                denied: true,
                ..
            }) => {
                self.problems.failed(key, &message);
                self.record_outcomes(&failed(report, Reason::Error, &message));
                self.settle(key);
                // What was not written does not count.
                let by = self.queue.lane_of(key);
                self.pace.refund(&by, unwritten, now);
                self.denied.deny(key, &message, now);
                self.queue.done(key);
            }
            Err(Failure::Refused { message, wait, .. }) => {
                self.problems.failed(key, &message);
                self.record_outcomes(&failed(report, Reason::Error, &message));
                self.settle(key);
                // A `Retry-After` of the API server applies to all our writes.
                if let Some(wait) = wait {
                    self.throttled_until = self.throttled_until.max(now + wait.min(MAX_THROTTLE));
                }
                self.queue.failed(key, now, wait);
            }
        }
        false
    }

    /// Puts the response to a write into the same store as the watch's event, which follows a moment later.
    pub(super) fn absorb_written(&mut self, written: Written) {
        let Some(local) = &mut self.state.local else {
            return;
        };
        match written {
            Written::Service(service) => {
                let store = match owner(&service.metadata) {
                    Owner::Probe(_) => &mut local.probes,
                    _ => &mut local.mirrors,
                };
                if let Inserted::Taken(before) = store.insert(service.clone()) {
                    let states = before.into_iter().chain([service]);
                    let keys = states.flat_map(|state| self.state.keys_of_preference(&state));
                    let keys: Vec<Key> = keys.collect();
                    self.enqueue_all(queue::LOCAL, keys);
                }
            }
            Written::Slice(slice) => {
                let probe = slice
                    .metadata
                    .labels
                    .contains_key(crate::api::labels::MIRRORED_GATEWAY);
                let store = if probe {
                    &mut local.probe_slices
                } else {
                    &mut local.slices
                };
                store.insert(slice);
            }
            Written::Route(route) => {
                let keys = match local.routes.get_mut(&route.kind) {
                    Some(Some(store)) => {
                        let before = match store.insert(route.clone()) {
                            Inserted::Stale => return,
                            Inserted::Taken(before) => before,
                        };
                        let states = before.into_iter().chain([route]);
                        states
                            .flat_map(|route| self.state.keys_of_route(&route))
                            .collect()
                    }
                    _ => Vec::new(),
                };
                self.enqueue_all(queue::LOCAL, keys);
            }
            Written::Namespace(name, labels) => {
                let keys = self.state.created_namespace(&name, labels);
                self.enqueue_all(queue::LOCAL, keys);
            }
            Written::Gone(gone) => {
                let gone = match gone.kind {
                    ObjectKind::EndpointSlice => {
                        for store in [&mut local.slices, &mut local.probe_slices] {
                            gone.forget(store);
                        }
                        None
                    }
                    ObjectKind::Route(kind) => {
                        let store = local.routes.get_mut(&kind).and_then(Option::as_mut);
                        let gone = store.and_then(|store| gone.forget(store));
                        let keys = gone.map(|gone: Arc<Route>| self.state.keys_of_route(&gone));
                        self.enqueue_all(queue::LOCAL, keys.into_iter().flatten());
                        return;
                    }
                    ObjectKind::Service | ObjectKind::Namespace => {
                        let probe = gone.forget(&mut local.probes);
                        let mirror = gone.forget(&mut local.mirrors);
                        mirror.or(probe)
                    }
                };
                // Others may wait for the name and for the address that are free now.
                if gone.as_ref().is_some_and(|gone| !gone.is_headless()) {
                    let next = self.addresses.freed();
                    self.try_for_address(next);
                }
                let keys = gone.map(|gone: Arc<Service>| self.state.keys_of_local(&gone));
                self.enqueue_all(queue::LOCAL, keys.into_iter().flatten());
            }
        }
    }

    /// Records what a plan reports about its Services, and creates Events for new problems.
    pub(super) fn record_outcomes(&mut self, report: &[ServiceOutcome]) {
        for said in report {
            let Some((target, entry)) = self.state.link(&said.remote.cluster) else {
                continue;
            };
            let link = target.link.clone();
            let Some(state) = self.links.get_mut(&link) else {
                continue;
            };
            match state.outcomes.record(said) {
                StatusChange::None => continue,
                StatusChange::Words => {
                    state.status.reword();
                    continue;
                }
                StatusChange::Change => state.status.touch(),
            }
            let Outcome::Failed(problem) = &said.report else {
                continue;
            };
            if problem.reason == Reason::Drained {
                continue; // drained on purpose
            }
            let remote = &said.remote;
            let service = entry
                .remote
                .as_ref()
                .and_then(|r| r.service(&remote.namespace, &remote.service));
            let news = News {
                link: (self.state.config.namespace.clone(), link),
                link_uid: state.link.uid(),
                what: What::Skipped {
                    remote: remote.clone(),
                    uid: service.and_then(|s| s.metadata.uid.as_deref().map(str::to_owned)),
                    client: state.client(),
                    problem: problem.clone(),
                },
            };
            if let Some(left_out) = self.problems.line(&remote.cluster) {
                tracing::info!(
                    service = format!("{}/{}", remote.namespace, remote.service),
                    cluster = remote.cluster,
                    reason = problem.reason.as_str(),
                    "not mirrored: {}{}",
                    problem.message,
                    and_untold(0, left_out)
                );
            }
            let before = state.link.status.as_ref();
            if before.is_some_and(|status| is_recorded(status, remote, problem)) {
                continue;
            }
            // Events are rate-limited. If the channel is full, this one is dropped; the status still reports the
            // problem.
            let _ = self.news.try_send(news);
        }
    }
}

/// What these writes count towards an allowance, at most.
fn cost_of(written: &[Written]) -> usize {
    let cost = written.iter().map(|written| match written {
        Written::Service(service) if !service.is_headless() => CLUSTER_IP_COST,
        _ => 1,
    });
    cost.sum()
}

/// The report of a plan that could not be executed.
pub(super) fn failed(
    report: &[ServiceOutcome],
    reason: Reason,
    message: &str,
) -> Vec<ServiceOutcome> {
    let mut report = report.to_vec();
    for said in &mut report {
        if let Outcome::Mirrored { .. } | Outcome::Absent = said.report {
            said.report = Outcome::Failed(Problem::new(reason, message));
        }
    }
    report
}
