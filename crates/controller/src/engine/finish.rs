//! Handles the results of tasks: updates the state, and decides when the key of an executed plan is planned again.

use std::{sync::Arc, time::Duration};

use mirror_core::{
    api::k8s::Service,
    mirror::{CLUSTER_IP_COST, Key, Owner, Reason, ServiceOutcome, Target, owner},
};
use tokio::time::Instant;

use super::{
    confirm::{Answer, ConfirmationRequest, Precondition},
    foreign::Name,
    state::{Done, Engine},
    work::{Turn, WAITS},
};
use crate::apply::{Failure, Written};

/// Maximum time for which the API server can pause all writes.
const MAX_THROTTLE: Duration = Duration::from_secs(60);
/// Number of conflicts in a row that are not reported.
const CONFLICTS: u32 = 3;
/// Minimum time until a key is planned again whose namespace is missing.
const NO_NAMESPACE: Duration = Duration::from_secs(1);

impl Engine {
    /// Handles the result of a task. Returns `true` if the lease is lost.
    pub fn on_done(&mut self, done: Done) -> bool {
        match done {
            Done::Plan {
                key,
                cluster_ips,
                cost,
                content,
                report,
                lacking,
                written,
                ended,
            } => {
                let now = Instant::now();
                self.creating.remove(&key);
                let unwritten = cost.saturating_sub(cost_of(&written));
                let created = written.iter().filter(|written| takes_address(written));
                self.addresses.end(cluster_ips, created.count(), now);
                for written in written {
                    self.apply_written(written);
                }
                self.follow_gateway_services(std::slice::from_ref(&key));
                let turn = match ended {
                    Ok(()) => {
                        self.paces.wrote(&key, content, cluster_ips > 0, now);
                        // Writes that are reverted again and again have been reported as a problem. Only a plan without
                        // writes ends it.
                        if !self.paces.is_reverted(&key, content) {
                            self.record_outcomes(&report);
                        }
                        self.processed(&key, &lacking);
                        if let Some(since) = self.changed.remove(&key) {
                            self.metrics.propagated(since.elapsed());
                        }
                        // Planning again costs microseconds, and confirms that the desired state is reached.
                        Turn::Again
                    }
                    Err(Failure::Fenced) => return true,
                    Err(failure) => {
                        self.on_failure(&key, &report, (unwritten, cluster_ips), failure)
                    }
                };
                self.end_turn(&key, turn);
            }
            Done::Status {
                link,
                uid,
                sent,
                ended,
            } => self.on_status_written(&link, uid.as_deref(), *sent, ended.map(|stored| *stored)),
            Done::LookedUp { name, found } => self.on_looked_up(name, found),
            Done::Confirmed {
                request,
                precondition,
                asked,
                answer,
            } => self.on_confirmed(&request, *precondition, asked, &answer),
        }
        false
    }

    /// Reports why a plan was not executed completely, and decides when its key is tried again. `unwritten`: the cost
    /// of the writes that were not made. `cluster_ips`: the number of `ClusterIP`s that the plan needed.
    fn on_failure(
        &mut self,
        key: &Key,
        report: &[ServiceOutcome],
        (unwritten, cluster_ips): (usize, usize),
        failure: Failure,
    ) -> Turn {
        let now = Instant::now();
        match failure {
            // The engine ends before the key has its turn.
            Failure::Fenced => Turn::Retry(None),
            Failure::Outdated(live) => {
                if let Some(live) = live {
                    self.apply_written(*live);
                }
                Turn::Retry(None)
            }
            // The watch is about to show the change of the other writer. If it does not, there is none.
            Failure::Conflict(message) => {
                if self.paces.failures(key) < CONFLICTS && !self.denied.has(key) {
                    return Turn::Retry(None);
                }
                self.report_failure(key, report, Reason::Error, &message);
                Turn::Denied
            }
            Failure::Foreign {
                namespace,
                name,
                who,
            } => {
                let name = (namespace, name);
                self.lookups.found(name.clone(), now);
                self.state.foreign.insert(name, who);
                Turn::Again
            }
            Failure::NoNamespace => {
                let message = "Namespace does not exist";
                self.report_failure(key, report, Reason::MissingNamespace, message);
                Turn::Retry(Some(NO_NAMESPACE))
            }
            Failure::NoClusterIp => {
                self.report_failure(key, report, Reason::NoClusterIp, WAITS);
                match key {
                    // Its Services do not wait for the room that mirrors wait for.
                    Key::Gateway { .. } => Turn::Retry(None),
                    Key::Mirror { .. } | Key::Federated { .. } => {
                        self.addresses.refused(key, cluster_ips, now);
                        Turn::LacksAddress
                    }
                }
            }
            Failure::Refused { message, wait, .. } => {
                self.report_failure(key, report, Reason::Error, &message);
                if let Some(wait) = wait {
                    // This applies to all our writes.
                    self.throttled_until = self.throttled_until.max(now + wait.min(MAX_THROTTLE));
                    return Turn::Retry(Some(wait));
                }
                // Writes that were not made do not count towards the allowance. Further tries do: otherwise a cluster
                // that changes denied Services again and again would cause any number of requests.
                if !self.denied.has(key) {
                    let by = self.queue.flow_of(key);
                    self.allowances.refund(&by, unwritten, now);
                }
                Turn::Denied
            }
        }
    }

    /// Handles the answer of a target cluster.
    fn on_confirmed(
        &mut self,
        request: &ConfirmationRequest,
        precondition: Precondition,
        asked: Instant,
        answer: &Answer,
    ) {
        let (key, cluster) = (&request.key, &request.remote.cluster);
        let is_gone = match answer {
            Answer::Live(Some(live)) => !self.is_wanted(key, &precondition.target, live),
            Answer::Live(None) => true,
            Answer::None(_) => false,
        };
        let confirmed = is_gone.then_some((asked, precondition));
        if self.confirmations.answered(request, confirmed) {
            self.queue.enqueue(key.clone(), cluster);
        }
        if let Answer::None(why) = answer {
            let what =
                format!("failed to confirm with cluster {cluster} that a Service is not exported");
            self.problems.failed(key, &format!("{what}: {why}"));
        }
        if !is_gone {
            self.processed_for(key, cluster);
            // The propagation metric measures the controller. It leaves out changes that the cluster did not confirm.
            self.changed.remove(key);
            self.retry_later(key, cluster);
        }
    }

    /// Whether a key wants an object for this Service of a target cluster, by the rule of its plan.
    pub fn is_wanted(&self, key: &Key, target: &Target, live: &Service) -> bool {
        match key {
            Key::Federated { .. } => self.state.member(target, live),
            Key::Mirror { .. } | Key::Gateway { .. } => self.state.mode(target, live).is_some(),
        }
    }

    /// Looks up names that belonged to others, as long as they are still needed.
    pub fn look_up_names(&mut self) {
        while let Some(name) = self.lookups.next(Instant::now()) {
            if !self.state.is_wanted(&name.0, &name.1) {
                self.lookups.looked_up();
                self.lookups.forget(&name);
                self.state.foreign.remove(&name);
                continue;
            }
            let writer = self.writer.clone();
            self.tasks.spawn(async move {
                let found = writer.look(&name.0, &name.1).await;
                Done::LookedUp {
                    name,
                    found: found.map(|found| found.map(Box::new)),
                }
            });
        }
    }

    /// Handles the result of a lookup.
    fn on_looked_up(&mut self, name: Name, found: Result<Option<Box<Service>>, Failure>) {
        self.lookups.looked_up();
        let is_foreign = |found: &Service| owner(&found.metadata) == Owner::Foreign;
        let found = match found {
            Ok(found) if !found.as_deref().is_some_and(is_foreign) => found,
            Ok(_) | Err(_) => {
                self.lookups.found_again(name, Instant::now());
                return;
            }
        };
        let mut keys = self.state.keys_for_name(&name.0, &name.1);
        keys.extend(self.state.keys_of_namespace(&name.0));
        self.lookups.forget(&name);
        self.state.foreign.remove(&name);
        if let Some(found) = found {
            self.apply_written(Written::Service(Arc::from(found)));
        }
        self.follow_gateway_services(&keys);
        self.enqueue(keys);
    }
}

/// What these writes count towards an allowance.
fn cost_of(written: &[Written]) -> usize {
    let cost = |written: &Written| {
        if takes_address(written) {
            CLUSTER_IP_COST
        } else {
            1
        }
    };
    written.iter().map(cost).sum()
}

/// Whether this created a Service with a `ClusterIP`.
fn takes_address(written: &Written) -> bool {
    matches!(written, Written::Created(service) if !service.is_headless())
}
