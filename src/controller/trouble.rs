//! Warnings about operations that are retried: one line per change, not one per try. If the message differs each time,
//! one line a minute. The lines about one target cluster are rate-limited together.

use std::time::Duration;

use tokio::time::Instant;

use crate::timing::TokenBucket;

/// Minimum time between two lines about the same failure with different messages.
const REWORDED: Duration = Duration::from_secs(60);
/// Maximum burst of lines about one target cluster.
const LINES: f64 = 20.0;
/// Lines per second after that: one in six seconds.
const LINES_PER_SECOND: f64 = 1.0 / 6.0;

/// The last logged message about one failure.
#[derive(Debug)]
pub(super) struct LastLogged {
    words: String,
    at: Instant,
    /// How many different messages were suppressed since.
    untold: u32,
}

impl LastLogged {
    /// A failure that is logged for the first time.
    pub(super) fn new(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            at: Instant::now(),
            untold: 0,
        }
    }

    /// Records that the failure happened again, with this message. If it has to be logged, returns how many others were
    /// suppressed since the last line.
    pub(super) fn again(&mut self, words: &str) -> Option<u32> {
        if self.words == words {
            return None;
        }
        if self.at.elapsed() < REWORDED {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        let untold = self.untold;
        *self = Self::new(words);
        Some(untold)
    }
}

/// The end of a line, with the numbers of suppressed lines: about the same failure, and about the same target cluster.
pub(super) fn and_untold(untold: u32, left_out: u32) -> String {
    let words = match untold {
        0 => String::new(),
        _ => format!(" (failed {untold} more times with other messages since the last line)"),
    };
    match left_out {
        0 => words,
        _ => format!("{words} ({left_out} earlier lines about this cluster were suppressed)"),
    }
}

/// The rate limit of lines about one target cluster.
#[derive(Debug)]
pub(super) struct Ration {
    lines: TokenBucket,
    left_out: u32,
}

impl Default for Ration {
    fn default() -> Self {
        Self {
            lines: TokenBucket::new(LINES, LINES_PER_SECOND, Instant::now()),
            left_out: 0,
        }
    }
}

impl Ration {
    /// Takes one line. If it is allowed, returns how many were suppressed since the last one.
    pub(super) fn take(&mut self) -> Option<u32> {
        if !self.lines.try_take(Instant::now()) {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }

    /// Whether the bucket is full, and no suppressed line waits to be mentioned.
    pub(super) fn is_whole(&self) -> bool {
        self.lines.is_full(Instant::now()) && self.left_out == 0
    }
}

/// The current failure of an operation, if there is one.
#[derive(Debug)]
pub(super) struct Trouble {
    what: String,
    now: Option<LastLogged>,
}

impl Trouble {
    /// `what` ends the sentence "failed to …".
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            now: None,
        }
    }

    /// Logs a warning, if the reason has changed and the last line is old enough. Returns whether it did.
    pub(super) fn set(&mut self, reason: &str) -> bool {
        let untold = match &mut self.now {
            None => Some(0),
            Some(told) => told.again(reason),
        };
        let Some(untold) = untold else {
            return false;
        };
        let untold = and_untold(untold, 0);
        tracing::warn!("failed to {}, will retry: {reason}{untold}", self.what);
        self.now = Some(LastLogged::new(reason));
        true
    }

    /// Logs the recovery, if there was a failure. Returns whether there was one.
    pub(super) fn clear(&mut self) -> bool {
        let was = self.now.take().is_some();
        if was {
            tracing::info!("recovered: {}", self.what);
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_changes_are_logged_and_at_most_one_a_minute() {
        let mut trouble = Trouble::new("test");
        assert!(!trouble.clear());
        assert!(trouble.set("refused"));
        assert!(!trouble.set("refused"));
        assert!(!trouble.set("timed out"));
        advance(REWORDED).await;
        assert!(!trouble.set("refused"));
        assert!(trouble.set("timed out"));
        assert!(trouble.clear());
        assert!(!trouble.clear());
        assert!(trouble.set("timed out"));
    }

    #[tokio::test(start_paused = true)]
    async fn different_messages_are_logged_once_a_minute_with_their_number() {
        let mut told = LastLogged::new("0");
        let mut lines = Vec::new();
        for second in 1..=180 {
            advance(Duration::from_secs(1)).await;
            lines.extend(
                told.again(&second.to_string())
                    .map(|untold| (second, untold)),
            );
        }
        assert_eq!(lines, [(60, 59), (120, 59), (180, 59)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_about_a_cluster_are_rate_limited_after_a_burst() {
        let mut ration = Ration::default();
        let mut lines = Vec::new();
        for second in 0..120 {
            let taken = (0..100).filter_map(|_| ration.take());
            lines.extend(taken.map(|left_out| (second, left_out)));
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines.len(), 20 + 19);
        assert_eq!(lines[..20], [(0, 0); 20]);
        assert_eq!(lines[20..22], [(6, 80 + 500), (12, 99 + 500)]);
        assert!(!ration.is_whole());
        advance(Duration::from_secs(120)).await;
        assert!(ration.take().is_some_and(|left_out| left_out > 0));
        advance(Duration::from_secs(6)).await;
        assert!(ration.is_whole());
    }
}
