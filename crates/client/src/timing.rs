//! The clock, jitter, backoff and rate limits.
//!
//! Wall-clock time is only for times that people read or set: status fields (also whether a token has expired), events,
//! the times in the lease, the end of a drain, and the hold-down of preferred clusters. Everything else, such as
//! waiting and the end of a lease, uses the monotonic [`tokio::time::Instant`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The time of day.
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the only reader of the wall clock"
    )]
    let now = Timestamp::now();
    #[cfg(any(test, feature = "fixtures"))]
    let now = with_virtual_time(now);
    now
}

/// The time of day in a test that lets time pass without waiting.
#[cfg(any(test, feature = "fixtures"))]
fn with_virtual_time(now: Timestamp) -> Timestamp {
    let (moved, real) = (Instant::now().into_std(), std::time::Instant::now());
    now + moved.saturating_duration_since(real) - real.saturating_duration_since(moved)
}

/// A uniformly random duration in `[0, below)`; zero when `below` is zero.
///
/// It spreads work that would otherwise start at the same time. It must not be used for secrets.
pub fn jitter(below: Duration) -> Duration {
    match u64::try_from(below.as_nanos()).unwrap_or(u64::MAX) {
        0 => Duration::ZERO,
        nanos => Duration::from_nanos(fastrand::u64(..nanos)),
    }
}

/// A pause, shortened by up to a quarter at random, so that not all that failed together is retried together.
pub fn jittered(pause: Duration) -> Duration {
    pause.saturating_sub(jitter(pause / 4))
}

/// Exponential backoff: pauses that double with each failure in a row, up to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff without failures.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// The number of failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause after the next failure.
    pub fn pause(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// Counts a failure. Returns the pause after it.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.pause();
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// The same, [jittered].
    pub fn next_jittered(&mut self) -> Duration {
        jittered(self.next_pause())
    }

    /// Records a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A rate limit with a burst: a token bucket, which begins full.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    burst: f64,
    per_second: f64,
    /// The tokens at the time `at`. Negative after more was taken than there was.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A bucket of `burst` tokens, which is refilled at a rate of `per_second`.
    pub fn new(burst: f64, per_second: f64, now: Instant) -> Self {
        Self {
            burst,
            per_second,
            tokens: burst,
            at: now,
        }
    }

    /// The tokens that are left. Tokens beyond the burst, as set by [`Self::set`], stay until they are taken.
    pub fn tokens(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let refilled = (self.tokens + passed * self.per_second).min(self.burst);
        refilled.max(self.tokens)
    }

    /// Whether the bucket is full.
    pub fn is_full(&self, now: Instant) -> bool {
        self.tokens(now) >= self.burst
    }

    /// Takes one token, if there is one. Returns whether there was.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let is_there = self.tokens(now) >= 1.0;
        if is_there {
            self.take(1.0, now);
        }
        is_there
    }

    /// Takes tokens for what has happened already, also more than there are.
    pub fn take(&mut self, count: f64, now: Instant) {
        self.set(self.tokens(now) - count, now);
    }

    /// Sets how many tokens there are.
    pub fn set(&mut self, tokens: f64, now: Instant) {
        (self.tokens, self.at) = (tokens, now);
    }

    /// How long it takes to refill an overdrawn bucket to zero; `None` if it is not overdrawn.
    pub fn overdrawn(&self, now: Instant) -> Option<Duration> {
        let tokens = self.tokens(now);
        (tokens < 0.0).then(|| Duration::from_secs_f64(-tokens / self.per_second))
    }
}
