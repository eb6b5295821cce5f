//! The time of day, as far as it decides what stands: drains of target clusters end by it.

use jiff::Timestamp;
use tokio::time::Instant;

use super::Engine;

impl Engine {
    /// Takes in the time of day. Clusters whose drain has ended take part in federated Services again.
    pub(super) fn tell_time(&mut self, now: Timestamp) {
        for (cluster, keys) in self.world.advance(now) {
            let link = self.world.link(&cluster);
            let link = link.map(|(target, _)| target.link.clone());
            if let Some(state) = link.and_then(|link| self.links.get_mut(&link)) {
                state.status.touch();
            }
            self.mark_wave(&cluster, keys);
        }
    }

    /// When the next drain ends.
    pub(super) fn next_drain_end(&self, now: Instant) -> Option<Instant> {
        let left = self.world.next_drain_end()?.duration_since(self.world.now);
        now.checked_add(left.unsigned_abs())
    }
}
