//! Warnings about operations that are retried: one line per change, not one per try. If the message differs each time,
//! one line a minute. The lines about one target cluster are rate-limited together.

use std::time::Duration;

use tokio::time::Instant;

use client::timing::TokenBucket;

/// Minimum time between two lines about the same failure with different messages.
const REWORDED: Duration = Duration::from_secs(60);
/// Maximum burst of lines about one target cluster.
const LINES: f64 = 20.0;
/// Lines per second after that: one in six seconds.
const LINES_PER_SECOND: f64 = 1.0 / 6.0;

/// The failure of one operation that was logged last, so that only changes are logged.
#[derive(Debug, Default)]
pub struct FailureLog(Option<LoggedFailure>);

#[derive(Debug)]
struct LoggedFailure {
    message: String,
    at: Instant,
    /// How many different messages were suppressed since.
    suppressed: u32,
}

impl FailureLog {
    /// Records a failure. If it has to be logged, returns how many with other messages were suppressed since the last
    /// line.
    pub fn failed(&mut self, message: &str) -> Option<u32> {
        let suppressed = match &mut self.0 {
            None => 0,
            Some(last) if last.message == message => return None,
            Some(last) if last.at.elapsed() < REWORDED => {
                last.suppressed = last.suppressed.saturating_add(1);
                return None;
            }
            Some(last) => last.suppressed,
        };
        self.0 = Some(LoggedFailure {
            message: message.to_owned(),
            at: Instant::now(),
            suppressed: 0,
        });
        Some(suppressed)
    }

    /// Records a success. Returns whether it follows a failure.
    pub fn recovered(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// The end of a line, with the numbers of suppressed lines: about the same failure, and about the same target cluster.
pub fn suppressed(about_failure: u32, about_cluster: u32) -> String {
    let failure = match about_failure {
        0 => String::new(),
        n => format!(" (failed {n} more times with other messages since the last line)"),
    };
    match about_cluster {
        0 => failure,
        n => format!("{failure} ({n} earlier lines about this cluster were suppressed)"),
    }
}

/// The rate limit of lines about one target cluster.
#[derive(Debug)]
pub struct LogLimit {
    lines: TokenBucket,
    suppressed: u32,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self {
            lines: TokenBucket::new(LINES, LINES_PER_SECOND, Instant::now()),
            suppressed: 0,
        }
    }
}

impl LogLimit {
    /// Takes one line. If it is allowed, returns how many were suppressed since the last one.
    pub fn take(&mut self) -> Option<u32> {
        if !self.lines.try_take(Instant::now()) {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Whether the bucket is full, and no suppressed line waits to be mentioned.
    pub fn is_whole(&self) -> bool {
        self.lines.is_full(Instant::now()) && self.suppressed == 0
    }
}

/// The current failure of an operation, if there is one.
#[derive(Debug)]
pub struct Trouble {
    what: String,
    log: FailureLog,
}

impl Trouble {
    /// `what` ends the sentence "failed to …".
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            log: FailureLog::default(),
        }
    }

    /// Logs a warning, if the reason has changed and the last line is old enough. Returns whether it did.
    pub fn set(&mut self, reason: &str) -> bool {
        let Some(repeats) = self.log.failed(reason) else {
            return false;
        };
        let suppressed = suppressed(repeats, 0);
        tracing::warn!("failed to {}, will retry: {reason}{suppressed}", self.what);
        true
    }

    /// Logs the recovery, if there was a failure. Returns whether there was one.
    pub fn clear(&mut self) -> bool {
        let has_failed = self.log.recovered();
        if has_failed {
            tracing::info!("recovered: {}", self.what);
        }
        has_failed
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
        let mut log = FailureLog::default();
        assert_eq!(log.failed("0"), Some(0));
        let mut lines = Vec::new();
        for second in 1..=180 {
            advance(Duration::from_secs(1)).await;
            lines.extend(
                log.failed(&second.to_string())
                    .map(|suppressed| (second, suppressed)),
            );
        }
        assert_eq!(lines, [(60, 59), (120, 59), (180, 59)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_about_a_cluster_are_rate_limited_after_a_burst() {
        let mut limit = LogLimit::default();
        let mut lines = Vec::new();
        for second in 0..120 {
            let taken = (0..100).filter_map(|_| limit.take());
            lines.extend(taken.map(|left_out| (second, left_out)));
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines.len(), 20 + 19);
        assert_eq!(lines[..20], [(0, 0); 20]);
        assert_eq!(lines[20..22], [(6, 80 + 500), (12, 99 + 500)]);
        assert!(!limit.is_whole());
        advance(Duration::from_secs(120)).await;
        assert!(limit.take().is_some_and(|left_out| left_out > 0));
        advance(Duration::from_secs(6)).await;
        assert!(limit.is_whole());
    }
}
