//! The only place that reads the wall clock, and the source of jitter.
//!
//! Wall-clock time is for people: status fields (also whether a token has expired), events, the lease's times, and until
//! when a cluster is drained, which people say. Nothing else may be decided by it; waiting, and the end of a lease, use the
//! monotonic [`tokio::time::Instant`].

use std::time::Duration;

use jiff::Timestamp;

/// The time of day.
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one reader of the wall clock"
    )]
    Timestamp::now()
}

/// A uniformly random duration in `[0, below)`; zero when `below` is zero.
///
/// It spreads what would otherwise happen at once. It is no source of secrets.
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
