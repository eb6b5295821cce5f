//! A sign of life on stderr while something takes longer than a moment.

use std::{future::Future, io::IsTerminal as _, pin::pin, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::check::printable;

/// What ends sooner needs no sign of life.
const MOMENT: Duration = Duration::from_secs(1);
/// Time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// A spinner and what it says. Where stderr is no terminal, nothing is ever said.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A spinner that is not shown yet.
    pub(crate) fn new(message: &str) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // A template that did not parse would leave the default style, which would do.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            spinner.set_style(style);
        }
        let progress = Self(spinner);
        progress.say(message);
        progress
    }

    /// Changes what is said.
    pub(crate) fn say(&self, message: &str) {
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        self.0.set_message(printable(&line));
    }

    /// Waits for `work`, with a sign of life from the moment that it takes long until it ends.
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

/// Waits for `work`, with a sign of life when that takes long.
pub(crate) async fn spin<T>(message: &str, work: impl Future<Output = T>) -> T {
    Progress::new(message).during(work).await
}
