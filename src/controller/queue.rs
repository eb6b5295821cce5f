//! The work queue: which key is processed next. No clock, no I/O.
//!
//! A key is in the queue at most once, and never processed twice concurrently: if it is enqueued while it is processed,
//! it comes again afterwards. Each target cluster has a lane, and lanes take turns, so that a cluster with many keys
//! does not delay others. Every other turn of a lane is for the key that arrived last, so that a change does not wait for
//! the end of a first sync. A key of several clusters waits in the lanes of all clusters that enqueued it, and is
//! processed at the first turn in one of them. Failed keys are retried with exponential backoff.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{mirror::Key, timing::Backoff};

/// First delay after a failure.
const FIRST: Duration = Duration::from_millis(100);
/// Maximum delay after failures.
const LONGEST: Duration = Duration::from_secs(60);
/// The lane of keys that no target cluster enqueued.
pub(super) const LOCAL: &str = "";

/// Name of a lane: of a target cluster, or [`LOCAL`].
pub(super) type Lane = Arc<str>;

/// How many keys of a lane may be processed concurrently.
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

/// Keys to process. Trees instead of hash tables, because they release the memory of a first sync.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// A lane is in this map as long as it is in `turns`.
    lanes: BTreeMap<Lane, Waiting>,
    turns: VecDeque<Lane>,
    /// The lanes in which each key waits.
    queued: BTreeMap<Key, Vec<(Lane, u64)>>,
    arrivals: u64,
    running: BTreeMap<Key, Lane>,
    /// Running keys that were enqueued meanwhile, with the lanes.
    again: BTreeMap<Key, BTreeSet<Lane>>,
    failures: BTreeMap<Key, Backoff>,
    delayed: BTreeSet<(Instant, Key)>,
    /// When each delayed key is due, and in which lanes.
    due: BTreeMap<Key, (Instant, BTreeSet<Lane>)>,
}

/// The keys of a lane.
#[derive(Debug, Default)]
struct Waiting {
    /// By number of their arrival.
    keys: BTreeMap<u64, Key>,
    /// Whether the next turn is for the key that arrived last.
    newest_is_next: bool,
}

impl Waiting {
    fn pop(&mut self) -> Option<Key> {
        let (_, key) = if self.newest_is_next {
            self.keys.pop_last()?
        } else {
            self.keys.pop_first()?
        };
        self.newest_is_next = !self.newest_is_next;
        Some(key)
    }
}

impl Queue {
    /// Enqueues a key without delay. `by` is the target cluster that caused it, or [`LOCAL`]. A key of a mirror always
    /// waits in the lane of its own cluster.
    pub(super) fn enqueue(&mut self, key: Key, by: &str) {
        let lane = self.lane(&key, by);
        self.enqueue_in(key, lane);
    }

    /// Enqueues a running key, to be processed again.
    pub(super) fn enqueue_again(&mut self, key: &Key) {
        if let Some(lane) = self.running.get(key) {
            let again = self.again.entry(key.clone()).or_default();
            again.insert(lane.clone());
        }
    }

    fn enqueue_in(&mut self, key: Key, lane: Lane) {
        if self.running.contains_key(&key) {
            self.again.entry(key).or_default().insert(lane);
            return;
        }
        if let Some((at, lanes)) = self.due.remove(&key) {
            self.delayed.remove(&(at, key.clone()));
            for other in lanes {
                self.wait_in(key.clone(), other);
            }
        }
        self.wait_in(key, lane);
    }

    fn wait_in(&mut self, key: Key, lane: Lane) {
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
        waiting.keys.insert(self.arrivals, key);
    }

    /// The next key, if one is due. The caller has to return it with [`Self::done`], [`Self::failed`],
    /// [`Self::postponed`] or [`Self::release`].
    ///
    /// Keys of a cluster wait while its `share` of the running keys is used up.
    pub(super) fn pop(&mut self, now: Instant, share: impl Fn(&str) -> Share) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            for lane in self
                .due
                .remove(&key)
                .into_iter()
                .flat_map(|(_, lanes)| lanes)
            {
                self.wait_in(key.clone(), lane);
            }
        }
        while let Some(lane) = self.next_turn(&share) {
            let Some(key) = self.lanes.get_mut(&lane).and_then(Waiting::pop) else {
                self.lanes.remove(&lane); // its keys were processed in the turns of other lanes
                continue;
            };
            for (other, at) in self.queued.remove(&key).unwrap_or_default() {
                if let Some(waiting) = self.lanes.get_mut(&other) {
                    waiting.keys.remove(&at);
                }
            }
            if self
                .lanes
                .get(&lane)
                .is_some_and(|waiting| waiting.keys.is_empty())
            {
                self.lanes.remove(&lane);
            } else {
                self.turns.push_back(lane.clone());
            }
            self.running.insert(key.clone(), lane);
            return Some(key);
        }
        None
    }

    /// Removes and returns the lane whose turn it is: the first with less than its share beside others, otherwise the
    /// first with less than its maximum share.
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

    /// Returns a key that was processed successfully.
    pub(super) fn done(&mut self, key: &Key) {
        self.failures.remove(key);
        self.finish(key);
    }

    /// Returns a key that was not processed, because it waits for something outside the queue. It comes again if it was
    /// enqueued meanwhile, or is enqueued later.
    pub(super) fn release(&mut self, key: &Key) {
        self.finish(key);
    }

    /// Returns a key that failed. It is processed again after a delay of at least `wait`.
    pub(super) fn failed(&mut self, key: &Key, now: Instant, wait: Option<Duration>) {
        let lane = self.lane_of(key);
        let at = self.after_failure(key, now, wait);
        if !self.finish(key) {
            self.delay_until(key, at, [lane].into());
        }
    }

    /// Returns a key that was not processed. It comes again at this time, or earlier if it is enqueued after this call.
    pub(super) fn postponed(&mut self, key: &Key, at: Instant) {
        let mut lanes = self.again.remove(key).unwrap_or_default();
        lanes.insert(self.lane_of(key));
        self.running.remove(key);
        self.delay_until(key, at, lanes);
    }

    fn delay_until(&mut self, key: &Key, at: Instant, lanes: BTreeSet<Lane>) {
        self.delayed.insert((at, key.clone()));
        self.due.insert(key.clone(), (at, lanes));
    }

    /// The lane that a running key came from.
    pub(super) fn lane_of(&self, key: &Key) -> Lane {
        let lane = self.running.get(key).cloned();
        lane.unwrap_or_else(|| self.lane(key, LOCAL))
    }

    /// Schedules a released key after a delay, because what it waited for has failed. Does nothing if the key is in the
    /// queue already.
    pub(super) fn delay(&mut self, key: &Key, by: &str, now: Instant) {
        if self.running.contains_key(key)
            || self.queued.contains_key(key)
            || self.due.contains_key(key)
        {
            return;
        }
        let lane = self.lane(key, by);
        let at = self.after_failure(key, now, None);
        self.delay_until(key, at, [lane].into());
    }

    /// Counts a failure of a key, and returns when the key is due again.
    fn after_failure(&mut self, key: &Key, now: Instant, wait: Option<Duration>) -> Instant {
        let backoff = self.failures.entry(key.clone());
        let backoff = backoff.or_insert(Backoff::new(FIRST, LONGEST));
        now + backoff.next_jittered().max(wait.unwrap_or_default())
    }

    /// Ends the processing of a key. Returns whether it was enqueued meanwhile, and so is in the queue again.
    fn finish(&mut self, key: &Key) -> bool {
        self.running.remove(key);
        let lanes = self.again.remove(key).unwrap_or_default();
        let comes_again = !lanes.is_empty();
        for lane in lanes {
            self.enqueue_in(key.clone(), lane);
        }
        comes_again
    }

    /// Makes all delayed keys due now, because the cause of their failures may be resolved.
    pub(super) fn hurry(&mut self) {
        self.delayed.clear();
        for (key, (_, lanes)) in std::mem::take(&mut self.due) {
            for lane in lanes {
                self.enqueue_in(key.clone(), lane);
            }
        }
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// The number of waiting keys, including delayed ones.
    pub(super) fn len(&self) -> usize {
        self.queued.len() + self.delayed.len()
    }

    /// The number of running keys.
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
