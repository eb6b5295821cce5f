//! Limits how many writes each target cluster causes. No I/O.
//!
//! The writes that one cluster causes count towards its own allowance: a burst, and then a rate per second. Its first
//! list and local changes (of its Link, or of its gateway) increase the allowance by the writes that they need, so that a
//! first sync is not delayed.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use client::timing::TokenBucket;

/// Burst of writes that a cluster may cause, without additions. A new Service counts as five.
const BURST: f64 = 1000.0;
/// A cluster with less left than this causes writes faster than its allowance is refilled.
const MUCH: f64 = 0.9 * BURST;
/// Writes that are added for each key when all keys of a cluster are processed. A headless Service with three hosts
/// needs twenty.
const OF_A_KEY: f64 = 24.0;
/// Unused additions expire after this time.
const ADDED_FOR: Duration = Duration::from_secs(300);
/// Time between two removals of full allowances.
const TIDY: Duration = Duration::from_secs(10);

/// The writes that a cluster may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// More than a burst, because of additions.
    Added,
    /// Nearly a whole burst.
    Much,
    /// Part of a burst: it causes writes faster than its allowance is refilled.
    Little,
    Nothing,
}

/// The allowances of clusters.
#[derive(Debug)]
pub struct Allowances {
    /// Those that are not full.
    clusters: BTreeMap<String, Allowance>,
    tidied: Instant,
    /// Rate at which the allowance of a cluster is refilled, in writes per second.
    each_second: f64,
    /// Maximum allowance of a cluster, including additions.
    most: f64,
}

/// Writes that a cluster may still cause.
#[derive(Debug)]
struct Allowance {
    /// With a surplus after additions.
    bucket: TokenBucket,
    /// When additions expire.
    added_until: Instant,
}

impl Allowances {
    /// Allowances of clusters that may cause `each_second` writes per second, and have at most `keys` keys.
    pub fn new(each_second: u32, keys: u32) -> Self {
        Self {
            clusters: BTreeMap::new(),
            tidied: Instant::now(),
            each_second: each_second.into(),
            most: BURST + OF_A_KEY * f64::from(keys),
        }
    }

    /// Counts writes that a cluster causes. Those that none causes (`by` is empty) are not counted.
    pub fn take(&mut self, by: &str, cost: usize, now: Instant) {
        if now >= self.tidied + TIDY {
            self.tidied = now;
            self.clusters.retain(|_, known| known.left(now) != BURST);
        }
        if !by.is_empty() {
            self.change(by, -number(cost), now);
        }
    }

    /// Gives back what was counted for writes that the API server has not allowed.
    pub fn refund(&mut self, by: &str, cost: usize, now: Instant) {
        if !by.is_empty() && cost > 0 {
            self.change(by, number(cost), now);
        }
    }

    /// Adds to the allowance of a cluster, because this number of its keys have to be processed after a local change or
    /// its first list.
    pub fn adds(&mut self, by: &str, keys: usize, now: Instant) {
        if !by.is_empty() && keys > 0 {
            let most = self.most - self.left(by, now);
            self.change(by, (OF_A_KEY * number(keys)).min(most), now);
            if let Some(known) = self.clusters.get_mut(by) {
                known.added_until = now + ADDED_FOR;
            }
        }
    }

    /// The writes that a cluster may cause now.
    pub fn of(&self, by: &str, now: Instant) -> Allowed {
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
    pub fn next_allowed(&self, now: Instant) -> Option<Instant> {
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
