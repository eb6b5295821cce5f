//! What keys fail with: logged when it begins and when it changes, and once more when it is over. Not once a try, one
//! line a minute for a key that fails in other words each time, and so many lines for all keys of a target cluster.

use std::collections::BTreeMap;

use crate::{
    controller::trouble::{Ration, Told, and_untold},
    mirror::Key,
};

/// The keys that fail at the moment, and why.
#[derive(Debug, Default)]
pub(super) struct Problems {
    keys: BTreeMap<Key, Told>,
    /// Lines about target clusters that had some lately.
    rations: BTreeMap<String, Ration>,
}

impl Problems {
    /// A key has failed. Logs it if this is new, and returns whether it was logged.
    pub(super) fn failed(&mut self, key: &Key, message: &str) -> bool {
        let untold = if let Some(told) = self.keys.get_mut(key) {
            told.again(message)
        } else {
            self.keys.insert(key.clone(), Told::new(message));
            Some(0)
        };
        let Some(untold) = untold else {
            return false;
        };
        let Some(left_out) = self.line(cluster(key)) else {
            return false;
        };
        tracing::warn!(%key, "{message}{}", and_untold(untold, left_out));
        true
    }

    /// A key is as it should be. Logs it if the key had failed before, and returns whether it had.
    pub(super) fn recovered(&mut self, key: &Key) -> bool {
        let failed = self.keys.remove(key).is_some();
        if failed && let Some(left_out) = self.line(cluster(key)) {
            tracing::info!(%key, "recovered{}", and_untold(0, left_out));
        }
        failed
    }

    /// Takes a line about a target cluster. If there is one: how many were left out since the last.
    pub(super) fn line(&mut self, cluster: &str) -> Option<u32> {
        self.rations.retain(|_, ration| !ration.is_whole());
        self.rations.entry(cluster.to_owned()).or_default().take()
    }
}

/// The target cluster that a key is about; those of several have the empty name in common.
fn cluster(key: &Key) -> &str {
    match key {
        Key::Mirror { cluster, .. } => cluster,
        Key::Federated { .. } | Key::Probe { .. } => "",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_problem_is_told_when_it_begins_or_changes_and_its_end_once() {
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
    async fn a_key_that_fails_in_other_words_each_time_has_one_line_a_minute() {
        let key = Key::mirror("east", "ns", "a");
        let (mut problems, mut lines) = (Problems::default(), 0);
        for attempt in 0..600 {
            lines += usize::from(problems.failed(&key, &format!("refused: {attempt}")));
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_of_one_cluster_leave_lines_to_those_of_another() {
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
        assert_eq!(problems.rations.len(), 1);
    }
}
