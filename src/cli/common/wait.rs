//! Waiting: polls, and shows a spinner on stderr for what takes longer than a second.

use std::{future::Future, io::IsTerminal as _, pin::pin, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, sleep_until};

use crate::api::text::one_line;

/// Time before the spinner appears.
const MOMENT: Duration = Duration::from_secs(1);
/// Time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// A spinner with a message. It is not shown if stderr is not a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A spinner that is not shown yet.
    pub(crate) fn new(message: &str) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // If the template could not be parsed, the default style would stay.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            spinner.set_style(style);
        }
        let progress = Self(spinner);
        progress.say(message);
        progress
    }

    /// Changes the message.
    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(one_line(message));
    }

    /// Waits for `work`, and shows the spinner if it takes long.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        if !std::io::stderr().is_terminal() {
            return work.await;
        }
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(MOMENT, work.as_mut()).await {
            return done;
        }
        self.0.set_draw_target(ProgressDrawTarget::stderr());
        self.0.enable_steady_tick(TICK);
        let done = work.await;
        self.0.finish_and_clear();
        done
    }
}

/// Waits for `work`, with a spinner if it takes long.
pub(crate) async fn spin<T>(message: &str, work: impl Future<Output = T>) -> T {
    Progress::new(message).during(work).await
}

/// Interval for reads of one object.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Calls `attempt` at this interval until it returns `Ok(Ok(_))`, at most for `wait`. Returns its last result, in which
/// `Ok(Err(_))` says what is still pending; `waits` gets it before each pause. The last attempt begins when the time is
/// over. An error of an attempt ends it at once.
pub(crate) async fn poll<T, P, E>(
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
