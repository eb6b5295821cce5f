//! What keys fail with: logged when it begins and when it changes, and once more when it is over. Not once a try.

use std::collections::BTreeMap;

use crate::mirror::Key;

/// The keys that fail at the moment, and why.
#[derive(Debug, Default)]
pub(super) struct Problems(BTreeMap<Key, String>);

impl Problems {
    /// A key has failed. Logs it, and returns whether this is new.
    pub(super) fn failed(&mut self, key: &Key, message: &str) -> bool {
        if self.0.get(key).is_some_and(|known| known == message) {
            return false;
        }
        tracing::warn!(%key, "{message}");
        self.0.insert(key.clone(), message.to_owned());
        true
    }

    /// A key is as it should be. Logs it if the key had failed before, and returns whether it had.
    pub(super) fn recovered(&mut self, key: &Key) -> bool {
        let failed = self.0.remove(key).is_some();
        if failed {
            tracing::info!(%key, "recovered");
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_when_it_begins_or_changes_and_its_end_once() {
        let (a, b) = (
            Key::mirror("east", "ns", "a"),
            Key::mirror("east", "ns", "b"),
        );
        let mut problems = Problems::default();
        assert!(!problems.recovered(&a));
        assert!(problems.failed(&a, "refused"));
        assert!(!problems.failed(&a, "refused"));
        assert!(problems.failed(&b, "refused"));
        assert!(problems.failed(&a, "no answer"));
        assert!(problems.recovered(&a));
        assert!(!problems.recovered(&a));
        assert!(problems.failed(&a, "no answer"));
    }
}
