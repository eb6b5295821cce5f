//! Which key is worked on next. No clock of its own, no I/O.
//!
//! A key is in the queue at most once, and never worked on twice at once: marked while it is being worked on,
//! it comes again afterwards. Each target cluster has a lane, and lanes take turns, so that a cluster with
//! much to do does not keep others waiting. A key of several clusters waits in the lanes of all that marked it,
//! and comes when it is its turn in the first. A key that failed comes again after a delay that doubles.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::mirror::Key;

/// First delay after a failure.
const FIRST: Duration = Duration::from_millis(100);
/// Longest delay after a failure.
const LONGEST: Duration = Duration::from_secs(60);
/// The lane of what no target cluster brought about.
pub(super) const LOCAL: &str = "";

/// Name of a lane: of a target cluster, or [`LOCAL`].
type Lane = Arc<str>;

/// Keys to work on. Trees and not hash tables: they give back what a first sync took.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Keys by number of their arrival. A lane is here as long as it has a turn.
    lanes: BTreeMap<Lane, BTreeMap<u64, Key>>,
    turns: VecDeque<Lane>,
    /// Where each key waits.
    queued: BTreeMap<Key, Vec<(Lane, u64)>>,
    arrivals: u64,
    running: BTreeMap<Key, Lane>,
    /// Those of the running that were marked meanwhile.
    again: BTreeMap<Key, Lane>,
    failures: BTreeMap<Key, u32>,
    delayed: BTreeSet<(Instant, Key)>,
    due: BTreeMap<Key, (Instant, Lane)>,
}

impl Queue {
    /// Something about this key may have changed: it is to be worked on, now. `by` is the target cluster that
    /// brought it about, or [`LOCAL`]; a key of a mirror belongs to its own cluster in any case.
    pub(super) fn mark(&mut self, key: Key, by: &str) {
        let lane = self.lane(&key, by);
        self.mark_in(key, lane);
    }

    /// The key, which is being worked on, is to be worked on again.
    pub(super) fn mark_again(&mut self, key: &Key) {
        if let Some(lane) = self.running.get(key) {
            self.again.insert(key.clone(), lane.clone());
        }
    }

    fn mark_in(&mut self, key: Key, lane: Lane) {
        if self.running.contains_key(&key) {
            self.again.insert(key, lane);
            return;
        }
        if let Some((at, _)) = self.due.remove(&key) {
            self.delayed.remove(&(at, key.clone()));
        }
        let places = self.queued.entry(key.clone()).or_default();
        if places.iter().any(|(known, _)| *known == lane) {
            return;
        }
        self.arrivals += 1;
        places.push((lane.clone(), self.arrivals));
        if !self.lanes.contains_key(&lane) {
            self.turns.push_back(lane.clone());
        }
        let waiting = self.lanes.entry(lane).or_default();
        waiting.insert(self.arrivals, key);
    }

    /// The next key, if one is due. It has to be given back with [`Self::done`], [`Self::failed`] or
    /// [`Self::release`].
    pub(super) fn pop(&mut self, now: Instant) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            if let Some((_, lane)) = self.due.remove(&key) {
                self.mark_in(key, lane);
            }
        }
        while let Some(lane) = self.turns.pop_front() {
            let first = self.lanes.get_mut(&lane).and_then(BTreeMap::pop_first);
            let Some((_, key)) = first else {
                self.lanes.remove(&lane); // all it had was worked on in other lanes
                continue;
            };
            for (other, at) in self.queued.remove(&key).unwrap_or_default() {
                if let Some(waiting) = self.lanes.get_mut(&other) {
                    waiting.remove(&at);
                }
            }
            if self.lanes.get(&lane).is_some_and(BTreeMap::is_empty) {
                self.lanes.remove(&lane);
            } else {
                self.turns.push_back(lane.clone());
            }
            self.running.insert(key.clone(), lane);
            return Some(key);
        }
        None
    }

    /// The key was worked on, all is well.
    pub(super) fn done(&mut self, key: &Key) {
        self.failures.remove(key);
        self.finish(key);
    }

    /// The key was not worked on, and waits for something that is not in the queue. It comes again if it was marked
    /// meanwhile, or is marked later.
    pub(super) fn release(&mut self, key: &Key) {
        self.finish(key);
    }

    /// The key was worked on, and has to be worked on again: after a delay, at least `wait`.
    pub(super) fn failed(&mut self, key: &Key, now: Instant, wait: Option<Duration>) {
        let lane = self.running.get(key).cloned();
        let lane = lane.unwrap_or_else(|| self.lane(key, LOCAL));
        let at = self.after_failure(key, now, wait);
        if !self.finish(key) {
            self.delayed.insert((at, key.clone()));
            self.due.insert(key.clone(), (at, lane));
        }
    }

    /// What a released key waited for has failed: it is worked on again after a delay, if not sooner.
    pub(super) fn delay(&mut self, key: &Key, by: &str, now: Instant) {
        if self.running.contains_key(key)
            || self.queued.contains_key(key)
            || self.due.contains_key(key)
        {
            return;
        }
        let lane = self.lane(key, by);
        let at = self.after_failure(key, now, None);
        self.delayed.insert((at, key.clone()));
        self.due.insert(key.clone(), (at, lane));
    }

    /// When a key that has failed once more is due.
    fn after_failure(&mut self, key: &Key, now: Instant, wait: Option<Duration>) -> Instant {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = FIRST.saturating_mul(1 << (*failures).min(16)).min(LONGEST);
        *failures += 1;
        let jittered = delay.mul_f64(0.75 + fastrand::f64() / 2.0).min(LONGEST);
        now + jittered.max(wait.unwrap_or_default())
    }

    /// Ends the work on a key; says whether it was marked meanwhile and is in the queue again.
    fn finish(&mut self, key: &Key) -> bool {
        self.running.remove(key);
        match self.again.remove(key) {
            Some(lane) => {
                self.mark_in(key.clone(), lane);
                true
            }
            None => false,
        }
    }

    /// What made keys fail may be over: those that wait do so no longer.
    pub(super) fn hurry(&mut self) {
        self.delayed.clear();
        for (key, (_, lane)) in std::mem::take(&mut self.due) {
            self.mark_in(key, lane);
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

    /// The lane that a key waits in if `by` marks it.
    fn lane(&self, key: &Key, by: &str) -> Lane {
        let name = match key {
            Key::Mirror { cluster, .. } => cluster,
            Key::Federated { .. } | Key::Probe { .. } => by,
        };
        let known = self.lanes.get_key_value(name);
        known.map_or_else(|| name.into(), |(lane, _)| lane.clone())
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
        queue.mark(key("east", "a"), LOCAL);
        queue.mark(key("east", "a"), LOCAL);
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.pop(now), Some(key("east", "a")));
        queue.mark(key("east", "a"), LOCAL);
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
            queue.mark(key("busy", service), LOCAL);
        }
        queue.mark(key("idle", "1"), LOCAL);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(now))
            .map(|k| k.to_string())
            .collect();
        assert_eq!(order, ["ns/1@busy", "ns/1@idle", "ns/2@busy", "ns/3@busy"]);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_a_minute_and_end_with_success() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        let mut delays = Vec::new();
        queue.mark(key("east", "a"), LOCAL);
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
        queue.mark(key.clone(), LOCAL);
        queue.pop(now);
        queue.failed(&key, now, None);
        assert!(queue.next_due().unwrap() - now < Duration::from_millis(200));
    }

    #[tokio::test(start_paused = true)]
    async fn news_end_a_delay_and_the_server_may_lengthen_it() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.mark(key("east", "a"), LOCAL);
        let key = queue.pop(now).unwrap();
        queue.failed(&key, now, Some(Duration::from_secs(5)));
        assert!(queue.next_due().unwrap() >= now + Duration::from_secs(5));
        queue.mark(key.clone(), LOCAL);
        assert_eq!(queue.pop(now), Some(key.clone()));
        assert_eq!(queue.next_due(), None);
        queue.failed(&key, now, Some(Duration::from_secs(5)));
        queue.hurry();
        assert_eq!(queue.pop(now), Some(key));
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_of_several_clusters_take_turns_by_who_marked_them() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for number in 0..10_000 {
            queue.mark(Key::federated("ns", &format!("busy-{number:05}")), "busy");
        }
        queue.mark(Key::federated("ns", "idle"), "idle");
        queue.mark(Key::probe("idle"), "idle");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(now))
            .map(|key| key.to_string())
            .take(4)
            .collect();
        assert_eq!(
            order,
            [
                "ns/busy-00000-federated",
                "ns/idle-federated",
                "ns/busy-00001-federated",
                "probe-idle"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_two_clusters_marked_comes_once_and_with_the_first_turn() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let shared = Key::federated("ns", "shared");
        for service in ["1", "2", "3"] {
            queue.mark(key("busy", service), LOCAL);
        }
        queue.mark(shared.clone(), "busy");
        queue.mark(shared.clone(), "idle");
        queue.mark(shared.clone(), "idle");
        assert_eq!(queue.len(), 4);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(now)).collect();
        let expected = [
            key("busy", "1"),
            shared.clone(),
            key("busy", "2"),
            key("busy", "3"),
        ];
        assert_eq!(order, expected);
        assert!(queue.lanes.is_empty() && queue.turns.is_empty());
        // It keeps its lane while it fails, and while it is worked on again.
        queue.failed(&shared, now, None);
        queue.mark(key("idle", "1"), LOCAL);
        queue.hurry();
        assert_eq!(queue.pop(now), Some(key("idle", "1")));
        assert_eq!(queue.pop(now), Some(shared.clone()));
        queue.mark_again(&shared);
        queue.done(&shared);
        assert_eq!(queue.queued[&shared][0].0.as_ref(), "idle");
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_key_comes_again_when_it_is_marked_or_after_a_delay() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let a = key("east", "a");
        queue.mark(a.clone(), LOCAL);
        queue.pop(now);
        queue.mark(a.clone(), LOCAL);
        queue.release(&a);
        assert_eq!(queue.pop(now), Some(a.clone()));
        queue.release(&a);
        assert_eq!((queue.pop(now), queue.running()), (None, 0));
        queue.delay(&a, "east", now);
        let due = queue.next_due().unwrap();
        assert!(due > now);
        queue.delay(&a, "east", due);
        assert_eq!(queue.next_due(), Some(due), "a delay is not made longer");
        assert_eq!(queue.pop(due), Some(a.clone()));
        // Somebody is at it already.
        queue.delay(&a, "east", due);
        assert_eq!(queue.next_due(), None);
        queue.release(&a);
        queue.delay(&a, "east", now);
        assert!(queue.next_due().unwrap() - now > due - now, "delays double");
    }
}
