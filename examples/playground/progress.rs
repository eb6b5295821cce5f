//! Shows progress on stderr: a spinner on a terminal, and a line for each finished step.

use std::{
    future::Future,
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};

/// Width of the text, so that the seconds are at the right edge of 80 columns.
const TEXT_WIDTH: usize = 68;
const GOOD: Style = AnsiColor::Green.on_default().bold();

/// Steps, one after the other.
pub(crate) struct Progress {
    terminal: bool,
}

impl Progress {
    /// Checks whether stderr is a terminal.
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Runs a step. The text describes the result of the step.
    pub(crate) fn step<'a, T: 'a>(
        &'a self,
        text: &'a str,
        work: impl Future<Output = anyhow::Result<T>> + 'a,
    ) -> impl Future<Output = anyhow::Result<T>> + 'a {
        // On the heap, because the future for three clusters is large.
        let work = Box::pin(work);
        async move {
            let started = Instant::now();
            let spinner = self.terminal.then(|| spinner(text));
            let done = work.await;
            if let Some(spinner) = spinner {
                spinner.finish_and_clear();
            }
            if done.is_ok() {
                let seconds = started.elapsed().as_secs_f32();
                say(&format!(
                    "{GOOD}✔{GOOD:#} {text:<TEXT_WIDTH$} {seconds:>5.1} s"
                ));
            }
            done
        }
    }
}

fn spinner(text: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner:.cyan} {wide_msg} {elapsed:>7}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner()
        .with_style(style)
        .with_message(text.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

/// Writes to stderr, in colour if that is enabled.
pub(crate) fn say(text: &str) {
    // If stderr is closed, the error cannot be reported anywhere.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}
