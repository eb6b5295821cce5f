//! Plans a key, starts to execute its plan, and records for which Links the key was processed.

use tokio::time::Instant;

use super::{done, finish::failed, link_state::LinkState, state::Engine};
use crate::{
    controller::{pace::Change, queue, repeats},
    mirror::{self, Confirmed, Key, Plan, Reason, RemoteRef},
};

impl Engine {
    /// Plans a key, and starts to execute its plan. Removals that are not confirmed are left out, and the confirmations
    /// requested.
    pub(super) fn work(&mut self, key: Key) {
        let started = Instant::now();
        let confirmed = self.confirmed(&key);
        let plan = mirror::plan(&self.state, &key, Confirmed::By(&confirmed));
        self.metrics.planned(started.elapsed());
        let plan = self.affordable(&key, plan);
        self.confirmations.keep(&key, &plan.confirm);
        let lacking = plan
            .confirm
            .iter()
            .filter(|remote| !confirmed.contains(&remote.cluster));
        let lacking: Vec<RemoteRef> = lacking.cloned().collect();
        let is_done = plan.writes.is_empty();
        if is_done {
            self.record_outcomes(&plan.report);
            self.note_preference(&key);
            self.settle_beside(&key, &lacking);
        }
        if is_done && lacking.is_empty() {
            self.confirmations.forget(&key);
            self.problems.recovered(&key);
            self.changed.remove(&key);
            self.allowed(&key);
            self.queue.done(&key);
            return;
        }
        let content = repeats::content(&plan);
        if !is_done && self.is_reverted(&key, &plan, content, started) {
            return;
        }
        let change = if is_done {
            Change::Traffic
        } else {
            Change::of(&plan)
        };
        if let Some(at) = self.pace.not_before(&key, change, started) {
            self.metrics.postponed();
            self.queue.postponed(&key, at);
            return;
        }
        self.request(&key, &lacking);
        if is_done {
            // It is enqueued again when a confirmation has arrived.
            self.queue.release(&key);
            return;
        }
        if !self.creating.begin(&key, &plan, &self.state) {
            // The key is planned again when the creations in progress have ended. That plan says whether one more is
            // allowed.
            self.queue.failed(&key, started, None);
            return;
        }
        self.confirmations.use_up(&key);
        let by = self.queue.lane_of(&key);
        self.pace.wrote(&key, change, plan.cost(), &by, started);
        let (writer, metrics) = (self.writer.clone(), self.metrics.clone());
        self.tasks.spawn(async move {
            let done = done::execute(&writer, key, plan, content, lacking).await;
            metrics.applied(started.elapsed());
            done
        });
    }

    /// Whether a plan waits because the same writes did not last the last times. Then it is reported.
    fn is_reverted(&mut self, key: &Key, plan: &Plan, content: u64, now: Instant) -> bool {
        let Some(until) = self.repeats.not_before(key, content) else {
            return false;
        };
        let message = repeats::message(plan);
        self.problems.failed(key, &message);
        self.record_outcomes(&failed(&plan.report, Reason::Error, &message));
        self.settle(key);
        if until <= now {
            return false;
        }
        self.metrics.postponed();
        self.queue.postponed(key, until);
        true
    }

    /// Records that nothing of a key is denied. If something was, the cause may be gone for others too.
    pub(super) fn allowed(&mut self, key: &Key) {
        for next in self.denied.allow(key) {
            self.queue.enqueue(next, queue::LOCAL);
        }
    }

    /// Enqueues keys with denied writes that are due.
    pub(super) fn try_denied(&mut self) {
        for key in self.denied.due(Instant::now()) {
            self.queue.enqueue(key, queue::LOCAL);
        }
    }

    /// Records that a key was processed. When all keys of the first sync are processed, the Link is synced.
    pub(super) fn settle(&mut self, key: &Key) {
        self.settle_beside(key, &[]);
    }

    /// As [`Self::settle`], except for the Links of clusters that have to confirm something for this key.
    pub(super) fn settle_beside(&mut self, key: &Key, lacking: &[RemoteRef]) {
        let lacking = lacking.iter().map(|remote| &*remote.cluster);
        let waiting: Vec<String> = lacking.filter_map(|of| self.link_of(of)).collect();
        // Only the Link of its cluster waits for a mirror. Any Link may wait for other keys.
        let only = match key {
            Key::Mirror { cluster, .. } => self.link_of(cluster),
            Key::Federated { .. } | Key::Probe { .. } => None,
        };
        let links: &mut dyn Iterator<Item = (&String, &mut LinkState)> = match &only {
            Some(link) => &mut self
                .links
                .get_mut(link)
                .map(|state| (link, state))
                .into_iter(),
            None => &mut self.links.iter_mut(),
        };
        for (_, state) in links.filter(|(link, _)| !waiting.contains(link)) {
            state.settle(key);
        }
    }

    /// Records that a key was processed as far as this cluster is concerned.
    pub(super) fn settle_for(&mut self, key: &Key, cluster: &str) {
        let link = self.link_of(cluster);
        if let Some(state) = link.and_then(|link| self.links.get_mut(&link)) {
            state.settle(key);
        }
    }

    /// The name of the Link in charge of a cluster.
    fn link_of(&self, cluster: &str) -> Option<String> {
        let (target, _) = self.state.link(cluster)?;
        Some(target.link.clone())
    }
}
