//! Changes that depend on the time of day: drains of target clusters end, and preferred clusters that were unavailable
//! receive requests again.

use jiff::Timestamp;
use tokio::time::Instant;

use super::state::Engine;
use crate::controller::queue;

impl Engine {
    /// Updates the time of day. Clusters whose drain has ended join federated Services again. Preferred clusters that
    /// have been available long enough receive requests again.
    pub(super) fn tell_time(&mut self, now: Timestamp) {
        let (drained, returned) = self.state.advance(now);
        self.enqueue_all(queue::LOCAL, returned);
        for (cluster, keys) in drained {
            let link = self.state.link(&cluster);
            let link = link.map(|(target, _)| target.link.clone());
            if let Some(state) = link.and_then(|link| self.links.get_mut(&link)) {
                state.status.touch();
            }
            self.enqueue_gradually(&cluster, keys);
        }
    }

    /// When the next drain ends, or the next preferred cluster receives requests again.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        let left = self.state.next_turn()?.duration_since(self.state.now);
        now.checked_add(left.unsigned_abs())
    }
}
