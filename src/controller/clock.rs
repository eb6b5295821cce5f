//! The only place that reads the wall clock, except for the expiry of an exec plugin's token, and the source of jitter.
//!
//! Wall-clock time is only for times that people read or set: status fields (also whether a token has expired), events,
//! the times in the lease, the end of a drain, and the hold-down of preferred clusters. Everything else, such as
//! waiting and the end of a lease, uses the monotonic [`tokio::time::Instant`].

use std::time::Duration;

use jiff::Timestamp;

/// The time of day.
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the only reader of the wall clock"
    )]
    let now = Timestamp::now();
    #[cfg(test)]
    let now = tests::with_virtual_time(now);
    now
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

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    /// The time of day in a test that lets time pass without waiting.
    pub(super) fn with_virtual_time(now: Timestamp) -> Timestamp {
        let (moved, real) = (Instant::now().into_std(), std::time::Instant::now());
        now + moved.saturating_duration_since(real) - real.saturating_duration_since(moved)
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_day_follows_the_virtual_time_of_tests() {
        let before = now();
        advance(Duration::from_secs(3600)).await;
        let passed = now().duration_since(before).as_secs_f32();
        assert!((passed - 3600.0).abs() < 1.0, "{passed} s");
    }

    #[test]
    fn jitter_stays_below_its_bound_and_varies() {
        assert_eq!(jitter(Duration::ZERO), Duration::ZERO);
        assert_eq!(jitter(Duration::from_nanos(1)), Duration::ZERO);
        let bound = Duration::from_millis(300);
        let drawn: Vec<_> = (0..1000).map(|_| jitter(bound)).collect();
        assert!(drawn.iter().all(|d| *d < bound));
        // All 1,000 draws fall into one half with a probability of 2^-999.
        assert!(drawn.iter().any(|d| *d < bound / 2));
        assert!(drawn.iter().any(|d| *d >= bound / 2));
    }
}
