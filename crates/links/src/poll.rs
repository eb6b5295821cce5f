//! Asks again until something is so, or the time is over.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Interval for reads of one object.
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Calls `attempt` at this interval until it returns `Ok(Ok(_))`, at most for `wait`. Returns its last result, in which
/// `Ok(Err(_))` says what is still pending; `waits` gets it before each pause. The last attempt begins when the time is
/// over. An error of an attempt ends it at once.
pub async fn poll<T, P, E>(
    every: Duration,
    wait: Duration,
    attempt: impl AsyncFn() -> Result<Result<T, P>, E>,
    waits: impl Fn(&P),
) -> Result<Result<T, P>, E> {
    let end = Instant::now() + wait;
    loop {
        let is_last = Instant::now() >= end;
        match attempt().await? {
            Err(pending) if !is_last => waits(&pending),
            result => return Ok(result),
        }
        sleep_until(end.min(Instant::now() + every)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, convert::Infallible};

    use super::*;

    /// When attempts were made, in seconds, if the last that fails is made at this time.
    async fn attempts(wait: u64, failing: u64) -> Vec<u64> {
        let (began, made) = (Instant::now(), RefCell::new(Vec::new()));
        let attempt = async || {
            let at = began.elapsed().as_secs();
            made.borrow_mut().push(at);
            Ok::<_, Infallible>(if at > failing { Ok(()) } else { Err(()) })
        };
        let (every, wait) = (Duration::from_secs(5), Duration::from_secs(wait));
        let _ = poll(every, wait, attempt, |()| ()).await;
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
