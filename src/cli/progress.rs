//! A sign of life on stderr while something takes longer than a moment.

use std::{future::Future, io::IsTerminal as _, pin::pin, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::check::printable;

/// What ends sooner needs no sign of life.
const MOMENT: Duration = Duration::from_secs(1);

/// Waits for `work`. If that takes longer than a moment, a spinner says what is awaited, until it ends; where
/// stderr is no terminal nothing is said.
pub(crate) async fn spin<T>(message: &str, work: impl Future<Output = T>) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(MOMENT, work.as_mut()).await {
        return done;
    }
    // A template that does not parse would leave the default style, which will do.
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    let spinner = ProgressBar::new_spinner().with_message(printable(message).replace('\n', " "));
    if let Ok(style) = style {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(120));
    let done = work.await;
    spinner.finish_and_clear();
    done
}
