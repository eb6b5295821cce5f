//! Logs failures of keys: when they begin, when they change, and when they end, but not for every try. A key whose
//! message differs each time gets one line a minute. The lines for all keys of a target cluster are rate-limited
//! together.

use std::collections::BTreeMap;

use mirror_core::mirror::Key;

use crate::trouble::{FailureLog, LogLimit, suppressed};

/// The keys that currently fail, and the reasons.
#[derive(Debug, Default)]
pub struct Problems {
    keys: BTreeMap<Key, FailureLog>,
    /// Rate limits of target clusters that had lines recently.
    limits: BTreeMap<String, LogLimit>,
}

impl Problems {
    /// Records that a key has failed. Logs it if it is new, and returns whether it was logged.
    pub fn failed(&mut self, key: &Key, message: &str) -> bool {
        let log = self.keys.entry(key.clone()).or_default();
        let Some(repeats) = log.failed(message) else {
            return false;
        };
        let Some(lines) = self.line(cluster(key)) else {
            return false;
        };
        tracing::warn!(%key, "{message}{}", suppressed(repeats, lines));
        true
    }

    /// Records that a key has reached its desired state. If the key had failed before, logs the recovery and returns
    /// `true`.
    pub fn recovered(&mut self, key: &Key) -> bool {
        let has_failed = self.keys.remove(key).is_some();
        if has_failed && let Some(lines) = self.line(cluster(key)) {
            tracing::info!(%key, "recovered{}", suppressed(0, lines));
        }
        has_failed
    }

    /// Takes a line about a target cluster from its rate limit. If the line is allowed, returns how many were
    /// suppressed since the last one.
    pub fn line(&mut self, cluster: &str) -> Option<u32> {
        self.limits.retain(|_, limit| !limit.is_whole());
        self.limits.entry(cluster.to_owned()).or_default().take()
    }
}

/// The target cluster of a key; empty for keys of several clusters, which share one rate limit.
fn cluster(key: &Key) -> &str {
    match key {
        Key::Mirror { cluster, .. } => cluster,
        Key::Federated { .. } | Key::Gateway { .. } => "",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn problem_is_logged_at_its_begin_change_and_end() {
        let (a, b) = (
            Key::mirror("east", "ns", "a"),
            Key::mirror("east", "ns", "b"),
        );
        let mut problems = Problems::default();
        assert!(!problems.recovered(&a));
        assert!(problems.failed(&a, "refused"));
        assert!(!problems.failed(&a, "refused"));
        assert!(problems.failed(&b, "refused"));
        assert!(!problems.failed(&a, "no answer"));
        advance(Duration::from_secs(60)).await;
        assert!(problems.failed(&a, "no answer"));
        assert!(problems.recovered(&a));
        assert!(!problems.recovered(&a));
        assert!(problems.failed(&a, "no answer"));
    }

    #[tokio::test(start_paused = true)]
    async fn key_with_changing_messages_is_logged_once_a_minute() {
        let key = Key::mirror("east", "ns", "a");
        let (mut problems, mut lines) = (Problems::default(), 0);
        for attempt in 0..600 {
            lines += usize::from(problems.failed(&key, &format!("refused: {attempt}")));
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn log_limit_of_one_cluster_does_not_affect_another() {
        let (mut problems, mut lines) = (Problems::default(), 0);
        for number in 0..10_000 {
            let key = Key::mirror("hostile", "ns", &number.to_string());
            lines += usize::from(problems.failed(&key, "refused"));
        }
        assert_eq!(lines, 20);
        assert!(problems.failed(&Key::mirror("east", "ns", "a"), "refused"));
        advance(Duration::from_secs(600)).await;
        assert!(problems.failed(&Key::mirror("hostile", "ns", "new"), "refused"));
        advance(Duration::from_secs(6)).await;
        assert!(problems.line("east").is_some());
        assert_eq!(problems.limits.len(), 1);
    }
}
