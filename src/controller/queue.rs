//! Which key is worked on next. No clock of its own, no I/O.
//!
//! A key is in the queue at most once, and never worked on twice at once: marked while it is being worked on,
//! it comes again afterwards. Each target cluster has a lane, and lanes take turns, so that a cluster with
//! much to do does not keep others waiting. A key that failed comes again after a delay that doubles.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::mirror::Key;

/// First delay after a failure.
const FIRST: Duration = Duration::from_millis(100);
/// Longest delay after a failure.
const LONGEST: Duration = Duration::from_secs(60);

/// Keys to work on. Trees and not hash tables: they give back what a first sync took.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: BTreeMap<String, VecDeque<Key>>,
    turns: VecDeque<String>,
    queued: BTreeSet<Key>,
    running: BTreeSet<Key>,
    again: BTreeSet<Key>,
    failures: BTreeMap<Key, u32>,
    delayed: BTreeSet<(Instant, Key)>,
    due: BTreeMap<Key, Instant>,
}

impl Queue {
    /// Something about this key may have changed: it is to be worked on, now.
    pub(super) fn mark(&mut self, key: Key) {
        if self.running.contains(&key) {
            self.again.insert(key);
            return;
        }
        if let Some(at) = self.due.remove(&key) {
            self.delayed.remove(&(at, key.clone()));
        }
        if !self.queued.insert(key.clone()) {
            return;
        }
        let lane = self.lanes.entry(lane(&key).to_owned()).or_default();
        if lane.is_empty() {
            self.turns.push_back(self::lane(&key).to_owned());
        }
        lane.push_back(key);
    }

    /// The next key, if one is due. It has to be given back with [`Self::done`] or [`Self::failed`].
    pub(super) fn pop(&mut self, now: Instant) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            self.due.remove(&key);
            self.mark(key);
        }
        let name = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&name)?;
        let key = lane.pop_front()?;
        if lane.is_empty() {
            self.lanes.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        self.queued.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// The key was worked on, all is well.
    pub(super) fn done(&mut self, key: &Key) {
        self.failures.remove(key);
        self.finish(key);
    }

    /// The key was worked on, and has to be worked on again: after a delay, at least `wait`.
    pub(super) fn failed(&mut self, key: &Key, now: Instant, wait: Option<Duration>) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = FIRST.saturating_mul(1 << (*failures).min(16)).min(LONGEST);
        *failures += 1;
        let jittered = delay.mul_f64(0.75 + fastrand::f64() / 2.0).min(LONGEST);
        let at = now + jittered.max(wait.unwrap_or_default());
        if !self.finish(key) {
            self.delayed.insert((at, key.clone()));
            self.due.insert(key.clone(), at);
        }
    }

    /// Ends the work on a key; says whether it was marked meanwhile and is in the queue again.
    fn finish(&mut self, key: &Key) -> bool {
        self.running.remove(key);
        let again = self.again.remove(key);
        if again {
            self.mark(key.clone());
        }
        again
    }

    /// What made keys fail may be over: those that wait do so no longer.
    pub(super) fn hurry(&mut self) {
        let waiting: Vec<Key> = self.due.keys().cloned().collect();
        for key in waiting {
            self.mark(key);
        }
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Keys that wait, delayed ones included.
    pub(super) fn len(&self) -> usize {
        self.queued.len() + self.delayed.len()
    }

    /// Keys that are being worked on.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }
}

fn lane(key: &Key) -> &str {
    match key {
        Key::Mirror { cluster, .. } => cluster,
        Key::Federated { .. } | Key::Probe { .. } => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, service: &str) -> Key {
        Key::mirror(cluster, "ns", service)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_never_worked_on_twice_at_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.mark(key("east", "a"));
        queue.mark(key("east", "a"));
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.pop(now), Some(key("east", "a")));
        queue.mark(key("east", "a"));
        assert_eq!(queue.pop(now), None);
        queue.done(&key("east", "a"));
        assert_eq!(queue.pop(now), Some(key("east", "a")));
        queue.done(&key("east", "a"));
        assert_eq!((queue.pop(now), queue.len(), queue.running()), (None, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn clusters_take_turns() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for service in ["1", "2", "3"] {
            queue.mark(key("busy", service));
        }
        queue.mark(key("idle", "1"));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(now))
            .map(|k| k.to_string())
            .collect();
        assert_eq!(order, ["ns/1@busy", "ns/1@idle", "ns/2@busy", "ns/3@busy"]);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_a_minute_and_end_with_success() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        let mut delays = Vec::new();
        queue.mark(key("east", "a"));
        for _ in 0..14 {
            let key = queue.pop(now).unwrap();
            queue.failed(&key, now, None);
            let due = queue.next_due().unwrap();
            assert_eq!(queue.pop(due - Duration::from_millis(1)), None);
            delays.push(due - now);
            now = due;
        }
        assert!(delays[0] < Duration::from_millis(200), "{delays:?}");
        assert!(delays.iter().all(|delay| *delay <= LONGEST), "{delays:?}");
        assert!(delays[13] > Duration::from_secs(40), "{delays:?}");
        let key = queue.pop(now).unwrap();
        queue.done(&key);
        queue.mark(key.clone());
        queue.pop(now);
        queue.failed(&key, now, None);
        assert!(queue.next_due().unwrap() - now < Duration::from_millis(200));
    }

    #[tokio::test(start_paused = true)]
    async fn news_end_a_delay_and_the_server_may_lengthen_it() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.mark(key("east", "a"));
        let key = queue.pop(now).unwrap();
        queue.failed(&key, now, Some(Duration::from_secs(5)));
        assert!(queue.next_due().unwrap() >= now + Duration::from_secs(5));
        queue.mark(key.clone());
        assert_eq!(queue.pop(now), Some(key.clone()));
        assert_eq!(queue.next_due(), None);
        queue.failed(&key, now, Some(Duration::from_secs(5)));
        queue.hurry();
        assert_eq!(queue.pop(now), Some(key));
        assert_eq!(queue.next_due(), None);
    }
}
