//! Limits of the size, duration and data rate of responses.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mirror_core::budget::Budget;
use tokio::time::Instant;

use crate::timing::TokenBucket;

/// Maximum time without data in a response body.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a watch, in bytes. Then it is opened again.
pub const MAX_WATCH: usize = 64 << 20;
/// Maximum size of one event of a watch, in bytes. etcd accepts objects of up to 1.5 MiB.
pub const MAX_EVENT: usize = 4 << 20;
/// Bytes of each response that need no budget: some objects.
pub const SMALL: usize = 64 << 10;
/// Maximum size of a page for the controller, in bytes: 500 objects of 16 KiB; most are much smaller.
const MAX_PAGE: usize = 8 << 20;
/// Maximum size of all pages of target clusters that the controller receives at the same time, without the first
/// [`SMALL`] of each. A Link may have one page of the largest size, so that it cannot take the room of all others.
const MAX_TOTAL: usize = 32 << 20;
/// Timeout for the head of a response to the controller.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum duration of a request for a page. After that, fewer objects are requested.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a response for a command, which may be a whole list, in bytes.
const MAX_LIST: usize = 256 << 20;

/// Burst in bytes: enough for a first list of some thousand Services.
const BURST: f64 = 16.0 * MIB;
/// Sustained rate in bytes per second.
const EACH_SECOND: f64 = 4.0 * MIB;
const MIB: f64 = 1_048_576.0;

/// Limits of the responses to one client.
#[derive(Clone, Debug)]
pub struct ResponseLimits {
    /// Maximum size of one response in bytes, except watches.
    pub max_size: usize,
    /// Timeout for its head, also of a watch.
    pub head_timeout: Duration,
    /// Maximum duration of a request, from the connection to the last byte, except watches.
    pub timeout: Duration,
    /// Budget for all responses that are received at the same time.
    pub total: Budget,
    /// Limit of the data rate, including watches; `None` for no limit.
    pub meter: Option<Meter>,
}

impl ResponseLimits {
    /// For a long-running process. Its clients share the budget.
    pub fn of_pages() -> Self {
        Self {
            max_size: MAX_PAGE,
            head_timeout: HEAD_TIMEOUT,
            timeout: PAGE_TIMEOUT,
            total: Budget::new(MAX_TOTAL),
            meter: None,
        }
    }

    /// The same for the clients of a Link: a part of the budget, and a limited data rate.
    #[must_use]
    pub fn of_link(&self) -> Self {
        Self {
            total: self.total.part(MAX_PAGE),
            meter: Some(Meter::new()),
            ..self.clone()
        }
    }

    /// The same for the local cluster: without a budget, because it is trusted, and target clusters must not delay it.
    #[must_use]
    pub fn of_local(&self) -> Self {
        Self {
            total: Budget::new(usize::MAX),
            ..self.clone()
        }
    }

    /// For a one-shot command, whose requests end within `deadline`.
    pub fn of_lists(deadline: Duration) -> Self {
        Self {
            max_size: MAX_LIST,
            head_timeout: deadline,
            timeout: deadline,
            total: Budget::new(usize::MAX),
            meter: None,
        }
    }
}

/// The data rate of a server, all its responses together. It is limited, because decrypting and parsing take processor
/// time that other clusters need.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Mutex<TokenBucket>>);

impl Meter {
    /// A meter with a full burst.
    pub fn new() -> Self {
        let bucket = TokenBucket::new(BURST, EACH_SECOND, Instant::now());
        Self(Arc::new(Mutex::new(bucket)))
    }

    /// Counts received bytes. Returns how long to wait before reading more, if at all.
    pub fn pass(&self, bytes: usize) -> Option<Duration> {
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
