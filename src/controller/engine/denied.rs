//! Keys with a write that the API server does not allow, for example because of a policy or a quota.
//!
//! They wait in groups: those of one namespace that were refused with the same words. Of each group, one key is tried at
//! a time. The pauses double, up to a minute for each key of the group, but are no longer than a second if there are
//! many. Whenever a try succeeds, two more follow. So the number of requests does not grow with the number of keys, and
//! the writes that are not executed count towards no allowance.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    mirror::Key,
    timing::{Backoff, jittered},
};

/// Pause after the first refusal.
const FIRST: Duration = Duration::from_millis(100);
/// Maximum time between two tries of a key, in a small group.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum time between two tries in a large group.
const SHORTEST: Duration = Duration::from_secs(1);
/// Number of further keys that are tried when one has succeeded.
const MORE: usize = 2;

/// Namespace and cause.
type Group = (Box<str>, Box<str>);

/// Keys with a write that is not allowed.
#[derive(Debug, Default)]
pub(super) struct Denied {
    groups: BTreeMap<Group, Waiting>,
    of: BTreeMap<Key, Group>,
}

/// The keys of a group.
#[derive(Debug)]
struct Waiting {
    /// In the order of their tries.
    keys: VecDeque<Key>,
    /// When the next one is tried.
    next: Instant,
    backoff: Backoff,
}

impl Denied {
    /// Records that a write of a key was not allowed, and why.
    pub(super) fn deny(&mut self, key: &Key, message: &str, now: Instant) {
        let group = (namespace(key).into(), cause(message));
        if self.of.get(key) == Some(&group) {
            return; // it has its place already
        }
        self.remove(key);
        let waiting = self.groups.entry(group.clone()).or_insert_with(|| {
            let mut backoff = Backoff::new(FIRST, LONGEST);
            Waiting {
                keys: VecDeque::new(),
                next: now + backoff.next_pause(),
                backoff,
            }
        });
        waiting.keys.push_back(key.clone());
        self.of.insert(key.clone(), group);
    }

    /// Records that nothing of a key is denied any more. Returns the keys to try next, if it was denied before.
    pub(super) fn allow(&mut self, key: &Key) -> Vec<Key> {
        let Some(group) = self.remove(key) else {
            return Vec::new();
        };
        let waiting = self.groups.get_mut(&group);
        waiting.map_or_else(Vec::new, |waiting| {
            (0..MORE).filter_map(|_| waiting.turn()).collect()
        })
    }

    /// The keys to try now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Key> {
        let due = self.groups.values_mut().filter(|group| group.next <= now);
        due.filter_map(|group| {
            group.put_off(now);
            group.turn()
        })
        .collect()
    }

    /// Makes one key of each group due now, because the cause of the refusals may be gone.
    pub(super) fn hurry(&mut self, now: Instant) {
        for group in self.groups.values_mut() {
            group.next = now;
            group.backoff.reset();
        }
    }

    /// When the next key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.groups.values().map(|group| group.next).min()
    }

    fn remove(&mut self, key: &Key) -> Option<Group> {
        let group = self.of.remove(key)?;
        if let Some(waiting) = self.groups.get_mut(&group) {
            waiting.keys.retain(|waits| waits != key);
            if waiting.keys.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(group)
    }
}

impl Waiting {
    /// The first key, which becomes the last one.
    fn turn(&mut self) -> Option<Key> {
        let key = self.keys.pop_front()?;
        self.keys.push_back(key.clone());
        Some(key)
    }

    fn put_off(&mut self, now: Instant) {
        let count = u32::try_from(self.keys.len()).unwrap_or(u32::MAX).max(1);
        let longest = (LONGEST / count).max(SHORTEST);
        self.next = now + jittered(self.backoff.next_pause().min(longest));
    }
}

fn namespace(key: &Key) -> &str {
    match key {
        Key::Mirror { namespace, .. } | Key::Federated { namespace, .. } => namespace,
        Key::Probe { .. } => "",
    }
}

/// A message without what it quotes: the names of the object.
fn cause(message: &str) -> Box<str> {
    let unquoted = message.split('"').step_by(2);
    unquoted.collect::<Vec<_>>().join("…").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::mirror("east", "bulk", &format!("s-{number}"))
    }

    /// Denies keys, and tries those that are due for this number of seconds. Returns the times of the tries.
    async fn tried(denied: &mut Denied, seconds: u64) -> Vec<Instant> {
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut times = Vec::new();
        while let Some(next) = denied.next_due().filter(|next| *next < end) {
            tokio::time::sleep_until(next).await;
            for key in denied.due(Instant::now()) {
                denied.deny(&key, "no", Instant::now());
                times.push(Instant::now());
            }
        }
        times
    }

    fn group_of(count: usize) -> Denied {
        let mut denied = Denied::default();
        for number in 0..count {
            denied.deny(&key(number), "no", Instant::now());
        }
        denied
    }

    #[tokio::test(start_paused = true)]
    async fn many_denied_keys_cause_one_request_a_second() {
        for count in [60, 1_500] {
            let tries = tried(&mut group_of(count), 600).await;
            assert!(
                (600..=810).contains(&tries.len()),
                "{count}: {}",
                tries.len()
            );
        }
        // Each of a few is tried about once a minute.
        let tries = tried(&mut group_of(3), 600).await;
        assert!((28..=60).contains(&tries.len()), "{}", tries.len());
        assert!(tries[1] - tries[0] < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn when_one_succeeds_the_others_of_its_group_follow() {
        let mut denied = group_of(100);
        denied.deny(
            &Key::federated("bulk", "x"),
            "another cause",
            Instant::now(),
        );
        denied.deny(&Key::mirror("east", "other", "x"), "no", Instant::now());
        let (mut open, mut rounds) = (vec![key(0)], 0);
        while !open.is_empty() {
            open = open.iter().flat_map(|key| denied.allow(key)).collect();
            rounds += 1;
        }
        assert!(rounds <= 9, "{rounds}");
        assert_eq!(denied.of.len(), 2);
        assert_eq!(denied.allow(&key(0)), []);
    }

    #[tokio::test(start_paused = true)]
    async fn the_names_in_a_message_do_not_make_another_cause() {
        let mut denied = Denied::default();
        for number in 0..3 {
            let message = format!("services \"s-{number}-east\" is forbidden: no");
            denied.deny(&key(number), &message, Instant::now());
        }
        assert_eq!(denied.groups.len(), 1);
        denied.deny(&key(0), "exceeded quota", Instant::now());
        assert_eq!(denied.groups.len(), 2);
        assert_eq!(denied.of.len(), 3);
    }
}
