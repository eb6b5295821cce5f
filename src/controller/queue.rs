//! Which key is worked on next. No clock of its own, no I/O.
//!
//! A key is in the queue at most once, and never worked on twice at once: marked while it is being worked on,
//! it comes again afterwards. Each target cluster has a lane, and lanes take turns, so that a cluster with
//! much to do does not keep others waiting. A key of several clusters waits in the lanes of all that enqueued it,
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
pub(super) type Lane = Arc<str>;

/// How many keys of a lane may be under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    most: usize,
    /// While other lanes wait.
    beside_others: usize,
}

impl Share {
    pub(super) const NONE: Self = Self::of(0, 0);
    const ALL: Self = Self::of(usize::MAX, usize::MAX);

    pub(super) const fn of(most: usize, beside_others: usize) -> Self {
        Self {
            most,
            beside_others,
        }
    }
}

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
    /// Those of the running that were enqueued meanwhile.
    again: BTreeMap<Key, Lane>,
    failures: BTreeMap<Key, u32>,
    delayed: BTreeSet<(Instant, Key)>,
    due: BTreeMap<Key, (Instant, Lane)>,
}

impl Queue {
    /// Something about this key may have changed: it is to be worked on, now. `by` is the target cluster that
    /// brought it about, or [`LOCAL`]; a key of a mirror belongs to its own cluster in any case.
    pub(super) fn enqueue(&mut self, key: Key, by: &str) {
        let lane = self.lane(&key, by);
        self.enqueue_in(key, lane);
    }

    /// The key, which is being worked on, is to be worked on again.
    pub(super) fn enqueue_again(&mut self, key: &Key) {
        if let Some(lane) = self.running.get(key) {
            self.again.insert(key.clone(), lane.clone());
        }
    }

    fn enqueue_in(&mut self, key: Key, lane: Lane) {
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

    /// The next key, if one is due. It has to be given back with [`Self::done`], [`Self::failed`], [`Self::postponed`] or
    /// [`Self::release`].
    ///
    /// A cluster that has its `share` of the keys that are being worked on has to wait.
    pub(super) fn pop(&mut self, now: Instant, share: impl Fn(&str) -> Share) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            if let Some((_, lane)) = self.due.remove(&key) {
                self.enqueue_in(key, lane);
            }
        }
        while let Some(lane) = self.next_turn(&share) {
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

    /// Takes the lane out whose turn it is: the first that has not its share beside others, else the first that has not
    /// its share.
    fn next_turn(&mut self, share: impl Fn(&str) -> Share) -> Option<Lane> {
        let running = |lane: &Lane| self.running.values().filter(|known| *known == lane).count();
        let mut later = None;
        let mut next = None;
        for (place, lane) in self.turns.iter().enumerate() {
            let share = if lane.as_ref() == LOCAL {
                Share::ALL
            } else {
                share(lane)
            };
            let running = running(lane);
            if running < share.beside_others {
                next = Some(place);
                break;
            }
            if running < share.most {
                later = later.or(Some(place));
            }
        }
        self.turns.remove(next.or(later)?)
    }

    /// The key was worked on, all is well.
    pub(super) fn done(&mut self, key: &Key) {
        self.failures.remove(key);
        self.finish(key);
    }

    /// The key was not worked on, and waits for something that is not in the queue. It comes again if it was enqueued
    /// meanwhile, or is enqueued later.
    pub(super) fn release(&mut self, key: &Key) {
        self.finish(key);
    }

    /// The key was worked on, and has to be worked on again: after a delay, at least `wait`.
    pub(super) fn failed(&mut self, key: &Key, now: Instant, wait: Option<Duration>) {
        let lane = self.lane_of(key);
        let at = self.after_failure(key, now, wait);
        if !self.finish(key) {
            self.delayed.insert((at, key.clone()));
            self.due.insert(key.clone(), (at, lane));
        }
    }

    /// The key was not worked on: it is its turn again at this time, or later if it is enqueued then.
    pub(super) fn postponed(&mut self, key: &Key, at: Instant) {
        let lane = self.lane_of(key);
        self.running.remove(key);
        self.again.remove(key);
        self.delayed.insert((at, key.clone()));
        self.due.insert(key.clone(), (at, lane));
    }

    /// The lane that a key which is being worked on came in.
    pub(super) fn lane_of(&self, key: &Key) -> Lane {
        let lane = self.running.get(key).cloned();
        lane.unwrap_or_else(|| self.lane(key, LOCAL))
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

    /// Ends the work on a key; says whether it was enqueued meanwhile and is in the queue again.
    fn finish(&mut self, key: &Key) -> bool {
        self.running.remove(key);
        match self.again.remove(key) {
            Some(lane) => {
                self.enqueue_in(key.clone(), lane);
                true
            }
            None => false,
        }
    }

    /// What made keys fail may be over: those that wait do so no longer.
    pub(super) fn hurry(&mut self) {
        self.delayed.clear();
        for (key, (_, lane)) in std::mem::take(&mut self.due) {
            self.enqueue_in(key, lane);
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

    /// The lane that a key waits in if `by` enqueues it.
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
mod tests;
