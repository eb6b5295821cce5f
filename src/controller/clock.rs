//! The only place that reads the wall clock, and the source of jitter.
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
    Timestamp::now()
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
    use super::*;

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
