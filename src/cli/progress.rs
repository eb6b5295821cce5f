//! A spinner on stderr for operations that take longer than a second.

use std::{future::Future, io::IsTerminal as _, pin::pin, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
