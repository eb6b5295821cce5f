//! What commands say meanwhile, on the terminal.

use hints::console::{Console, Work};

use super::{output, wait::Progress};

/// Prints what commands do meanwhile.
#[derive(Debug)]
pub struct Terminal;

impl Console for Terminal {
    fn note(&self, text: &str) {
        output::note(text);
    }

    fn warning(&self, text: &str) {
        output::warning(text);
    }

    fn error(&self, why: &anyhow::Error) {
        output::error(why);
    }

    fn working<'w>(&self, message: &str, work: Work<'w>) -> Work<'w> {
        let progress = Progress::silent(message);
        Box::pin(async move { progress.during(work).await })
    }

    fn waiting<'w>(&self, message: &str, work: Work<'w>) -> Work<'w> {
        let progress = Progress::new(message);
        Box::pin(async move { progress.during(work).await })
    }
}
