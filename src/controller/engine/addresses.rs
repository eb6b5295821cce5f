//! Services that need a `ClusterIP` while the API server has none left.
//!
//! They wait together: one of them is tried after 30 s, then ever later, up to each 5 minutes. One is tried at once when a
//! Service of ours is deleted, and two more whenever one gets what it needs, so that few tries are in vain however many
//! wait. What needs no `ClusterIP` goes on.

mod shortage;

use tokio::time::Instant;

pub(super) use self::shortage::Addresses;
use super::state::Engine;
use crate::{
    controller::queue,
    mirror::{Key, Outcome, Plan, Problem, Reason, ServiceOutcome},
};

/// What is said of a Service that waits.
const WAITS: &str =
    "the Service range of this cluster has no free ClusterIP; will retry when one may be free";

impl Engine {
    /// A plan as it may be executed now: while there are no `ClusterIP`s left, without the Services that need one.
    pub(super) fn affordable(&mut self, key: &Key, plan: Plan) -> Plan {
        if !plan.needs_cluster_ip() {
            let next = self.addresses.forget(key);
            self.try_for_address(next);
            return plan;
        }
        if self.addresses.may_create(key) {
            return plan;
        }
        let report = without_address(&plan.report);
        Plan {
            report,
            ..plan.without_cluster_ips()
        }
    }

    /// There was no `ClusterIP` left for a key.
    pub(super) fn lacks_address(&mut self, key: &Key, report: &[ServiceOutcome]) {
        self.addresses.none_left(key, Instant::now());
        self.record_outcomes(&without_address(report));
        self.settle(key);
    }

    /// Enqueues keys whose turn it is to try for a `ClusterIP`.
    pub(super) fn try_for_address(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.queue.enqueue(key, queue::LOCAL);
        }
    }

    /// Has a key try for a `ClusterIP` if it is time to.
    pub(super) fn try_for_addresses(&mut self) {
        let next = self.addresses.due(Instant::now());
        self.try_for_address(next);
        self.addresses.tell();
    }
}

/// The report of a plan that cannot be executed for want of a `ClusterIP`.
fn without_address(report: &[ServiceOutcome]) -> Vec<ServiceOutcome> {
    let mut report = report.to_vec();
    for said in &mut report {
        if let Outcome::Mirrored { .. } | Outcome::Absent = said.report {
            said.report = Outcome::Failed(Problem::new(Reason::NoClusterIp, WAITS));
        }
    }
    report
}
