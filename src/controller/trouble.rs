//! Warnings of something that is tried again and again: one line a change, not one a try, and however the words differ
//! each time, one a minute. And so many lines about one target cluster, whatever it does.

use std::time::Duration;

use tokio::time::Instant;

/// What only reads differently than before is told after this time, not sooner.
const REWORDED: Duration = Duration::from_secs(60);
/// So many lines about one target cluster at once, at most.
const LINES: u32 = 20;
/// Time until one line more.
const LINE_EVERY: Duration = Duration::from_secs(6);

/// What was told last of one thing.
#[derive(Debug)]
pub(super) struct Told {
    words: String,
    at: Instant,
    /// How often it read differently since, and was not told.
    untold: u32,
}

impl Told {
    /// It is told for the first time.
    pub(super) fn new(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            at: Instant::now(),
            untold: 0,
        }
    }

    /// It is there again, in these words. If they are to be told: how often others were not since the last time.
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

/// The end of a line that stands for others: of the same thing, and of other things of the same target cluster.
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

/// Lines that may be logged about one target cluster.
#[derive(Debug)]
pub(super) struct Ration {
    lines: u32,
    filled: Instant,
    left_out: u32,
}

impl Default for Ration {
    fn default() -> Self {
        Self {
            lines: LINES,
            filled: Instant::now(),
            left_out: 0,
        }
    }
}

impl Ration {
    /// Takes one line. If there is one: how many were left out since the last.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.fill();
        if self.lines == 0 {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.lines -= 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Whether it is as if none had been taken.
    pub(super) fn is_whole(&mut self) -> bool {
        self.fill();
        self.lines == LINES && self.left_out == 0
    }

    fn fill(&mut self) {
        let passed = self.filled.elapsed().as_secs() / LINE_EVERY.as_secs();
        let passed = u32::try_from(passed).unwrap_or(LINES).min(LINES);
        self.lines = (self.lines + passed).min(LINES);
        self.filled += LINE_EVERY * passed;
        if self.lines == LINES {
            self.filled = Instant::now();
        }
    }
}

/// What is wrong at the moment, if anything.
#[derive(Debug)]
pub(super) struct Trouble {
    what: String,
    now: Option<Told>,
}

impl Trouble {
    /// `what` ends the sentence "failed to …".
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            now: None,
        }
    }

    /// Warns, if the reason is another one than at the last call, and was not just another one. Returns whether it did.
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
        self.now = Some(Told::new(reason));
        true
    }

    /// Says that it works again, if it did not. Returns whether that was so.
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
    async fn only_changes_are_told_and_one_a_minute_while_it_lasts() {
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
    async fn other_words_are_told_once_a_minute_with_how_many_were_not() {
        let mut told = Told::new("0");
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
    async fn a_cluster_has_a_burst_of_lines_and_then_one_now_and_then() {
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
        advance(LINE_EVERY * LINES).await;
        assert!(ration.take().is_some_and(|left_out| left_out > 0));
        advance(LINE_EVERY).await;
        assert!(ration.is_whole());
    }
}
