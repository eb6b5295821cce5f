//! Waiting: polls, and says on stderr what is waited for: a spinner on a terminal, elsewhere a line at the beginning
//! and at each change of the reason.

use std::{cell::RefCell, future::Future, io::IsTerminal as _, pin::pin, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mirror_core::api::text::one_line;
use tokio::time::Instant;

use super::output;

/// Time before the spinner appears, and before the first line without a reason.
const MOMENT: Duration = Duration::from_secs(1);
/// Time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Shows what is waited for: with a spinner, or with lines if stderr is not a terminal.
pub struct Progress {
    spinner: ProgressBar,
    lines: Option<RefCell<Lines>>,
}

/// The lines of a wait whose stderr is not a terminal.
#[derive(Debug, Default)]
struct Lines {
    /// What is to be printed as soon as it may be.
    held: Option<String>,
    /// The line that was printed last, and when.
    printed: Option<(String, Instant)>,
}

impl Lines {
    /// The line to print for this reason. A reason that changes within [`MOMENT`] of a line is held.
    fn next(&mut self, reason: &str) -> Option<String> {
        let now = Instant::now();
        self.held = None;
        if let Some((before, at)) = &self.printed {
            if before == reason {
                return None;
            }
            if now - *at < MOMENT {
                self.held = Some(reason.to_owned());
                return None;
            }
        }
        self.printed = Some((reason.to_owned(), now));
        Some(reason.to_owned())
    }

    /// What was held, if it may be printed now.
    fn due(&mut self) -> Option<String> {
        let held = self.held.take()?;
        self.next(&held)
    }
}

impl Progress {
    /// The progress of a wait for something that others do. Says nothing yet.
    pub fn new(message: &str) -> Self {
        let progress = Self::silent(message);
        if std::io::stderr().is_terminal() {
            return progress;
        }
        let lines = Lines {
            held: Some(one_line(message)),
            printed: None,
        };
        Self {
            lines: Some(RefCell::new(lines)),
            ..progress
        }
    }

    /// The progress of own work, which is only said on a terminal.
    pub fn silent(message: &str) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // If the template could not be parsed, the default style would stay.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            spinner.set_style(style);
        }
        spinner.set_message(one_line(message));
        Self {
            spinner,
            lines: None,
        }
    }

    /// Says why the wait goes on.
    pub fn say(&self, reason: &str) {
        let reason = one_line(reason);
        if let Some(lines) = &self.lines
            && let Some(line) = lines.borrow_mut().next(&reason)
        {
            output::note(&line);
        }
        self.spinner.set_message(reason);
    }

    /// Says what is being done, if it takes long.
    pub fn doing(&self, what: &str) {
        let what = one_line(what);
        if let Some(lines) = &self.lines {
            let mut lines = lines.borrow_mut();
            if lines.printed.is_none() {
                lines.held = Some(what.clone());
            } else if let Some(line) = lines.next(&what) {
                output::note(&line);
            }
        }
        self.spinner.set_message(what);
    }

    /// Prints, without the spinner in the way.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.spinner.suspend(print)
    }

    /// Waits for `work`, and says so if it takes long.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(MOMENT, work.as_mut()).await {
            return done;
        }
        if let Some(lines) = &self.lines {
            loop {
                if let Some(line) = lines.borrow_mut().due() {
                    output::note(&line);
                }
                if let Ok(done) = tokio::time::timeout(MOMENT, work.as_mut()).await {
                    return done;
                }
            }
        }
        if !std::io::stderr().is_terminal() || output::is_quiet() {
            return work.await;
        }
        self.spinner.set_draw_target(ProgressDrawTarget::stderr());
        self.spinner.enable_steady_tick(TICK);
        let done = work.await;
        self.spinner.finish_and_clear();
        done
    }
}

/// Waits for own work, such as requests, with a spinner if it takes long.
pub async fn spin<T>(message: &str, work: impl Future<Output = T>) -> T {
    Progress::silent(message).during(work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_change_of_the_reason_is_one_line() {
        let mut lines = Lines {
            held: Some("waiting for east".into()),
            printed: None,
        };
        let second = || tokio::time::advance(MOMENT);
        assert_eq!(lines.due().as_deref(), Some("waiting for east"));
        assert_eq!(lines.due(), None, "once");
        assert_eq!(lines.next("refused"), None, "too soon");
        assert_eq!(lines.due(), None, "still too soon");
        second().await;
        assert_eq!(lines.due().as_deref(), Some("refused"), "nothing is lost");
        second().await;
        assert_eq!(lines.next("refused"), None, "the same reason");
        assert_eq!(lines.next("timed out").as_deref(), Some("timed out"));
        assert_eq!(lines.next("refused"), None, "too soon");
        assert_eq!(lines.next("timed out"), None, "as printed");
        second().await;
        assert_eq!(lines.due(), None, "no change is left");
        let mut lines = Lines {
            held: Some("waiting for east".into()),
            printed: None,
        };
        assert_eq!(lines.next("refused").as_deref(), Some("refused"));
        assert_eq!(lines.due(), None, "the reason says more");
    }
}
