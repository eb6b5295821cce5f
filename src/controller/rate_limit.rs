//! Limits how often a key is written, and how many writes one target cluster causes. No I/O.
//!
//! The first write of a key is not delayed, and neither is a first sync. Later writes are spaced: two per second for
//! changes that affect traffic. For labels and annotations, and for Services that are created again after their
//! deletion, the pauses double. The writes that one cluster causes count towards its own allowance: a burst, and then a
//! rate per second. Its first list and local changes (of its Link, or of its gateway) increase the allowance by the
//! writes that they need.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{
    mirror::{Key, Plan},
    timing::{Backoff, TokenBucket},
};

/// Average time between two writes of a key. Also the minimum time between two writes that only change labels and
/// annotations, and between two that create its Service again.
const SPACE: Duration = Duration::from_millis(500);
/// How much earlier a key may be written: three times without delay, then twice a second. A mirror is created in steps:
/// the Service, its slice, and the endpoints once they are known.
const AHEAD: Duration = Duration::from_secs(1);
/// Maximum time between two writes of labels and annotations, and between two that create the Service again.
const LONGEST_SPACE: Duration = Duration::from_secs(10);
const BACKOFF: Backoff = Backoff::new(SPACE, LONGEST_SPACE);
/// After this time without a write, a key is treated as one that was never written.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// Burst of writes that a cluster may cause, without additions. A new Service counts as five.
const BURST: f64 = 1000.0;
/// A cluster with less left than this causes writes faster than its allowance is refilled.
const MUCH: f64 = 0.9 * BURST;
/// Writes that are added for each key when all keys of a cluster are processed. A headless Service with three hosts
/// needs twenty.
const OF_A_KEY: f64 = 24.0;
/// Unused additions expire after this time.
const ADDED_FOR: Duration = Duration::from_secs(300);
/// Time between two removals of old keys.
const TIDY: Duration = Duration::from_secs(10);

/// The kind of change in a plan, which determines how soon it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Labels and annotations only.
    Labels,
    /// Something that traffic depends on.
    Traffic,
    /// It creates a Service with a `ClusterIP`, the most expensive write for the API server.
    NewService,
}

impl Change {
    pub(super) fn of(plan: &Plan) -> Self {
        if plan.needs_cluster_ip() {
            Self::NewService
        } else if plan.is_urgent() {
            Self::Traffic
        } else {
            Self::Labels
        }
    }
}

/// The writes that a cluster may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// More than a burst, because of additions.
    Added,
    /// Nearly a whole burst.
    Much,
    /// Part of a burst: it causes writes faster than its allowance is refilled.
    Little,
    Nothing,
}

/// The recent writes of keys, and the allowances of clusters.
#[derive(Debug)]
pub(super) struct RateLimit {
    written: BTreeMap<Key, Last>,
    /// Keys whose Service was created recently.
    created: BTreeMap<Key, Created>,
    tidied: Instant,
    clusters: BTreeMap<String, Allowance>,
    /// Rate at which the allowance of a cluster is refilled, in writes per second.
    each_second: f64,
    /// Maximum allowance of a cluster, including additions.
    most: f64,
}

/// The last write of a key.
#[derive(Debug)]
struct Last {
    at: Instant,
    /// Theoretical arrival time (GCRA): when the next write would be if all were spaced evenly.
    even: Instant,
    /// Until when changes of labels and annotations wait.
    quiet_until: Instant,
    /// The pauses between such changes.
    backoff: Backoff,
}

/// The last time that the Service of a key was created.
#[derive(Debug)]
struct Created {
    at: Instant,
    /// When it may be created again.
    next: Instant,
    backoff: Backoff,
}

/// Writes that a cluster may still cause.
#[derive(Debug)]
struct Allowance {
    /// With a surplus after additions.
    bucket: TokenBucket,
    /// When additions expire.
    added_until: Instant,
}

impl RateLimit {
    /// Limits for clusters that may cause `each_second` writes per second, and have at most `keys` keys.
    pub(super) fn new(each_second: u32, keys: u32) -> Self {
        Self {
            written: BTreeMap::new(),
            created: BTreeMap::new(),
            tidied: Instant::now(),
            clusters: BTreeMap::new(),
            each_second: each_second.into(),
            most: BURST + OF_A_KEY * f64::from(keys),
        }
    }

    /// When a key may be written; `None` for now.
    pub(super) fn not_before(&self, key: &Key, change: Change, now: Instant) -> Option<Instant> {
        let last = self.written.get(key)?;
        let created = || self.created.get(key);
        let quiet = match change {
            Change::Labels => last.quiet_until,
            Change::Traffic => now,
            Change::NewService => created().map_or(now, |created| created.next),
        };
        let even = last.even.checked_sub(AHEAD);
        Some(even.map_or(quiet, |even| even.max(quiet))).filter(|next| *next > now)
    }

    /// Records that a key is being written. `by` is the cluster that caused it, and `cost` the number of writes.
    pub(super) fn wrote(&mut self, key: &Key, change: Change, cost: usize, by: &str, now: Instant) {
        if now >= self.tidied + TIDY {
            self.tidied = now;
            self.written.retain(|_, last| now < last.at + FORGOTTEN);
            self.created.retain(|_, last| now < last.at + FORGOTTEN);
            self.clusters.retain(|_, known| known.left(now) != BURST);
        }
        let before = self
            .written
            .get(key)
            .filter(|last| now < last.at + FORGOTTEN);
        let mut backoff = before.map_or(BACKOFF, |last| last.backoff);
        let mut quiet_until = before.map_or(now, |last| last.quiet_until);
        if change == Change::Labels {
            quiet_until = now + backoff.next_pause();
        } else if before.is_none() {
            backoff.next_pause();
        }
        let last = Last {
            at: now,
            even: before.map_or(now, |last| last.even.max(now)) + SPACE,
            quiet_until,
            backoff,
        };
        self.written.insert(key.clone(), last);
        if !by.is_empty() {
            self.change(by, -number(cost), now);
        }
    }

    /// Gives back what was counted for writes that the API server has not allowed.
    pub(super) fn refund(&mut self, by: &str, cost: usize, now: Instant) {
        if !by.is_empty() && cost > 0 {
            self.change(by, number(cost), now);
        }
    }

    /// Records that the Service of a key was created.
    pub(super) fn created(&mut self, key: &Key, now: Instant) {
        let before = self.created.get(key);
        let before = before.filter(|last| now < last.at + FORGOTTEN);
        let mut backoff = before.map_or(BACKOFF, |last| last.backoff);
        let next = now + backoff.next_pause();
        let created = Created {
            at: now,
            next,
            backoff,
        };
        self.created.insert(key.clone(), created);
    }

    /// Adds to the allowance of a cluster, because this number of its keys have to be processed after a local change or
    /// its first list. Services that were deleted with its Link may be created again without delay.
    pub(super) fn adds(&mut self, by: &str, keys: usize, now: Instant) {
        if !by.is_empty() && keys > 0 {
            self.created
                .retain(|key, _| matches!(key, Key::Mirror { cluster, .. } if cluster != by));
            let most = self.most - self.left(by, now);
            self.change(by, (OF_A_KEY * number(keys)).min(most), now);
            if let Some(known) = self.clusters.get_mut(by) {
                known.added_until = now + ADDED_FOR;
            }
        }
    }

    /// The writes that a cluster may cause now.
    pub(super) fn allowance(&self, by: &str, now: Instant) -> Allowed {
        match self.left(by, now) {
            left if left > BURST => Allowed::Added,
            left if left >= MUCH => Allowed::Much,
            left if left >= 0.0 => Allowed::Little,
            _ => Allowed::Nothing,
        }
    }

    fn change(&mut self, by: &str, more: f64, now: Instant) {
        let each_second = self.each_second;
        let known = self.clusters.entry(by.to_owned());
        let known = known.or_insert_with(|| Allowance {
            bucket: TokenBucket::new(BURST, each_second, now),
            added_until: now,
        });
        known.bucket.set(known.left(now) + more, now);
    }

    /// When the first cluster without allowance has some again.
    pub(super) fn next_allowed(&self, now: Instant) -> Option<Instant> {
        let clusters = self.clusters.values();
        let waits = clusters.filter_map(|known| known.bucket.overdrawn(now));
        Some(now + waits.min()?)
    }

    fn left(&self, by: &str, now: Instant) -> f64 {
        let known = self.clusters.get(by);
        known.map_or(BURST, |known| known.left(now))
    }
}

impl Allowance {
    /// The number of writes that are left now.
    fn left(&self, now: Instant) -> f64 {
        let left = self.bucket.tokens(now);
        if now < self.added_until {
            left
        } else {
            left.min(BURST)
        }
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests;
