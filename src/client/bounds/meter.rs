//! Limits the data rate of a server, because decrypting and parsing take processor time that other clusters need.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::timing::TokenBucket;

/// Burst in bytes: enough for a first list of some thousand Services.
const BURST: f64 = 16.0 * MIB;
/// Sustained rate in bytes per second.
const EACH_SECOND: f64 = 4.0 * MIB;
const MIB: f64 = 1_048_576.0;

/// Counts all responses of one server together.
#[derive(Clone, Debug)]
pub(super) struct Meter(Arc<Mutex<TokenBucket>>);

impl Meter {
    /// A meter with a full burst.
    pub(super) fn new() -> Self {
        let bucket = TokenBucket::new(BURST, EACH_SECOND, Instant::now());
        Self(Arc::new(Mutex::new(bucket)))
    }

    /// Counts received bytes. Returns how long to wait before reading more, if at all.
    pub(super) fn pass(&self, bytes: usize) -> Option<Duration> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        bucket.take(bytes.into(), now);
        bucket.overdrawn(now)
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
