//! Services that need a `ClusterIP` while the API server has no free one, or less than a quarter of the Service range is
//! free. The rest is for the cluster's own Services: a target cluster must not be able to take all.
//!
//! They wait together. The first is tried after 2 s, and further ones after pauses that double, up to 5 minutes. When
//! a Service of ours is deleted, one is tried immediately. Whenever a try succeeds, two more follow. So few tries fail,
//! even if many Services wait. Writes that need no `ClusterIP` are not delayed. While less than a quarter is free, none is
//! tried. How many may be created is read once a minute, where the API server says how many are taken.

mod shortage;

use tokio::time::Instant;

pub(super) use self::shortage::Addresses;
use self::shortage::Lack;
use super::state::Engine;
use crate::{
    controller::queue,
    mirror::{Key, Outcome, Plan, Problem, Reason, ServiceOutcome},
};

/// The message of a Service that waits because no `ClusterIP` is free.
const WAITS: &str =
    "the Service range of this cluster has no free ClusterIP; will retry when one may be free";
/// The message of a Service that waits because too few are free.
const WAITS_FOR_ROOM: &str = "less than a quarter of the Service range of this cluster would be free; \
     will retry when there is room";

impl Engine {
    /// The part of a plan that may be executed now: while no `ClusterIP` is free, without the Services that need one.
    pub(super) fn affordable(&mut self, key: &Key, plan: Plan) -> Plan {
        if !plan.needs_cluster_ip() {
            let next = self.addresses.forget(key);
            self.try_for_address(next);
            return plan;
        }
        // Probe Services are not created for what a target cluster has, but for its Link.
        let needed = match key {
            Key::Probe { .. } => 0,
            Key::Mirror { .. } | Key::Federated { .. } => plan.cluster_ips(),
        };
        let why = match self.addresses.may_create(key, needed) {
            Ok(()) => return plan,
            Err(Lack::Any) => WAITS,
            Err(Lack::Room) => WAITS_FOR_ROOM,
        };
        let report = without_address(&plan.report, why);
        Plan {
            report,
            ..plan.without_cluster_ips()
        }
    }

    /// Records that no `ClusterIP` was free for a key.
    pub(super) fn lacks_address(&mut self, key: &Key, report: &[ServiceOutcome]) {
        self.addresses.none_left(key, Instant::now());
        self.record_outcomes(&without_address(report, WAITS));
        self.settle(key);
    }

    /// Enqueues keys that may try to get a `ClusterIP` now.
    pub(super) fn try_for_address(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.queue.enqueue(key, queue::LOCAL);
        }
    }

    /// Enqueues the next key that needs a `ClusterIP`, if it is due.
    pub(super) fn try_for_addresses(&mut self) {
        let next = self.addresses.due(Instant::now());
        self.try_for_address(next);
        self.addresses.tell();
    }
}

/// The report of a plan that cannot be executed because of this lack of `ClusterIP`s.
fn without_address(report: &[ServiceOutcome], why: &str) -> Vec<ServiceOutcome> {
    let mut report = report.to_vec();
    for said in &mut report {
        if let Outcome::Mirrored { .. } | Outcome::Absent = said.report {
            said.report = Outcome::Failed(Problem::new(Reason::NoClusterIp, why));
        }
    }
    report
}
