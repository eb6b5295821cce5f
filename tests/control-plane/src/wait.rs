//! Waiting for something to become true, with a limit: the only place in the tests' foundations that sleeps.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep, timeout_at};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Calls `probe` until it gives a value, and returns that value.
///
/// `Ok(None)` and `Err` both mean "not yet"; when `limit` has passed, the error says `what` was waited for and, if the
/// last try ended in an error, that one as its cause. A probe that hangs is cut off at the limit too.
///
/// Takes a closure that returns a future, not an [`AsyncFnMut`], whose futures cannot be sent to another thread;
/// `async || { .. }` will do as long as it changes nothing that it captures.
pub async fn eventually<T, F>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        let last = match timeout_at(deadline, probe()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => bail!("waited {limit:?} for {what}; the last look at it never came back"),
        };
        if Instant::now() + pause > deadline {
            let message = format!("waited {limit:?} for {what}");
            return match last {
                Some(error) => Err(error).context(message),
                None => bail!(message),
            };
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn gives_the_first_value() {
        let mut calls = 0;
        let value = eventually("three calls", Duration::from_secs(5), || {
            calls += 1;
            ready(Ok((calls == 3).then_some(calls)))
        });
        assert_eq!(value.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn says_what_it_waited_for_and_the_last_error() {
        let error = eventually::<(), _>("the moon", Duration::from_millis(30), async || {
            bail!("cloudy")
        })
        .await
        .unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 30ms for the moon: cloudy");
    }

    #[tokio::test]
    async fn cuts_off_a_probe_that_hangs() {
        let error = eventually::<(), _>("godot", Duration::from_millis(30), async || {
            std::future::pending().await
        });
        assert!(
            error
                .await
                .unwrap_err()
                .to_string()
                .contains("never came back")
        );
    }
}
