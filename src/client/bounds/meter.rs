//! Limits the data rate of a server, because decrypting and parsing take processor time that other clusters need.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Burst in bytes: enough for a first list of some thousand Services.
const BURST: f64 = 16.0 * MIB;
/// Sustained rate in bytes per second.
const EACH_SECOND: f64 = 4.0 * MIB;
const MIB: f64 = 1_048_576.0;

/// Counts all responses of one server together.
#[derive(Clone, Debug)]
pub(super) struct Meter(Arc<Mutex<Left>>);

/// Remaining burst in bytes; negative if more has arrived.
#[derive(Debug)]
struct Left {
    bytes: f64,
    at: Instant,
}

impl Meter {
    /// A meter with a full burst.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Left {
            bytes: BURST,
            at: Instant::now(),
        })))
    }

    /// Counts received bytes. Returns how long to wait before reading more, if at all.
    pub(super) fn pass(&self, bytes: usize) -> Option<Duration> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.saturating_duration_since(left.at).as_secs_f64();
        let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        left.bytes = (left.bytes + passed * EACH_SECOND).min(BURST) - bytes;
        left.at = now;
        (left.bytes < 0.0).then(|| Duration::from_secs_f64(-left.bytes / EACH_SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_is_immediate_and_the_rest_rate_limited() {
        let (meter, mib) = (Meter::new(), 1 << 20);
        assert_eq!(meter.pass(16 * mib), None);
        assert_eq!(meter.pass(mib), Some(Duration::from_millis(250)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meter.pass(3 * mib), None);
        // A server cannot save up more than one burst.
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(meter.pass(20 * mib), Some(Duration::from_secs(1)));
    }
}
