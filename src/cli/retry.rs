//! Repeats something until it succeeds, or the time is over.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Repeats `attempt` while `is_pending`, with this pause, for as long as `wait`. The last attempt begins when the time is
/// over.
pub(crate) async fn retried<T>(
    wait: Duration,
    pause: Duration,
    attempt: impl AsyncFn() -> T,
    is_pending: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + wait;
    loop {
        let is_last = Instant::now() >= end;
        let result = attempt().await;
        if is_last || !is_pending(&result) {
            return result;
        }
        sleep_until(end.min(Instant::now() + pause)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// When attempts were made, in seconds, if the last that fails is made at this time.
    async fn attempts(wait: u64, failing: u64) -> Vec<u64> {
        let (began, made) = (Instant::now(), RefCell::new(Vec::new()));
        let attempt = async || {
            made.borrow_mut().push(began.elapsed().as_secs());
            began.elapsed().as_secs()
        };
        let (wait, pause) = (Duration::from_secs(wait), Duration::from_secs(5));
        retried(wait, pause, attempt, |at| *at <= failing).await;
        made.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn last_attempt_is_made_when_the_time_is_over() {
        assert_eq!(attempts(18, 60).await, [0, 5, 10, 15, 18]);
        assert_eq!(attempts(20, 60).await, [0, 5, 10, 15, 20]);
        assert_eq!(attempts(20, 7).await, [0, 5, 10]);
        assert_eq!(attempts(2, 60).await, [0, 2]);
        assert_eq!(attempts(0, 60).await, [0]);
    }
}
