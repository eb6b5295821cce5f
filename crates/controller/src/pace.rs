//! When each key may be written again. No I/O.
//!
//! The first write of a key is not delayed. Later ones are spaced evenly, two per second. Some wait longer, and each time
//! twice as long:
//!
//! - changes of labels and annotations, which no traffic depends on;
//! - Services that are created again after their deletion;
//! - writes that equal many before, because an admission webhook or another controller changes the object back;
//! - writes that failed.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use tokio::time::Instant;

use client::timing::Backoff;
use mirror_core::mirror::{Key, Plan, Write};

/// Average time between two writes of a key.
const SPACE: Duration = Duration::from_millis(500);
/// How much earlier a key may be written: three times without delay, then twice a second. A mirror is created in steps:
/// the Service, its slice, and the endpoints once they are known.
const AHEAD: Duration = Duration::from_secs(1);
/// Between changes of labels and annotations, and between creations of the same Service.
const SLOW: Backoff = Backoff::new(SPACE, Duration::from_secs(10));
/// Between equal writes that are reverted.
const REVERTED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// After this many equal writes in a row, the next one waits.
const TIMES: u32 = 6;
/// After failures, before jitter.
const FAILED: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));
/// A pause that ended this long ago is forgotten: the next one is as short as the first. Equal writes are in a row if the
/// next one becomes necessary within this time.
const FORGOTTEN: Duration = Duration::from_secs(20);

/// The kind of change in a plan, which determines how soon it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Labels and annotations only.
    Labels,
    /// Something that traffic depends on.
    Traffic,
    /// It creates a Service with a `ClusterIP`, the most expensive write for the API server.
    NewService,
}

impl Change {
    pub fn of(plan: &Plan) -> Self {
        if plan.needs_cluster_ip() {
            Self::NewService
        } else if plan.is_urgent() {
            Self::Traffic
        } else {
            Self::Labels
        }
    }
}

/// What a plan writes, apart from the versions of the objects that it changes, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content(u64);

impl Content {
    pub fn of(plan: &Plan) -> Self {
        let mut hasher = DefaultHasher::new();
        for write in &plan.writes {
            write.describe().hash(&mut hasher);
            if let Write::Patch(patch) = write {
                let mut body = patch.body.clone();
                body["metadata"]["resourceVersion"].take();
                body.to_string().hash(&mut hasher);
            }
        }
        Self(hasher.finish())
    }
}

/// The paces of keys that were written recently, or failed.
#[derive(Debug)]
pub struct Paces {
    keys: BTreeMap<Key, Pace>,
    tidied: Instant,
}

/// When a key may be written again.
#[derive(Debug)]
struct Pace {
    /// Theoretical arrival time (GCRA): when the next write would be if all were spaced evenly.
    even: Instant,
    labels: Spacing,
    creation: Spacing,
    /// What was written last, how many times in a row, and until when the same waits.
    content: Option<Content>,
    times: u32,
    reverted: Spacing,
    failures: Backoff,
}

/// A pause that becomes longer each time.
#[derive(Debug)]
struct Spacing {
    until: Instant,
    backoff: Backoff,
}

impl Spacing {
    fn new(backoff: Backoff, now: Instant) -> Self {
        Self {
            until: now,
            backoff,
        }
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        now >= self.until + FORGOTTEN
    }

    /// Begins the next pause.
    fn begin(&mut self, now: Instant) {
        if self.is_forgotten(now) {
            self.backoff.reset();
        }
        self.until = now + self.backoff.next_pause();
    }
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            even: now,
            labels: Spacing::new(SLOW, now),
            creation: Spacing::new(SLOW, now),
            content: None,
            times: 0,
            reverted: Spacing::new(REVERTED, now),
            failures: FAILED,
        }
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        let pauses = [&self.labels, &self.creation, &self.reverted];
        self.failures.failures() == 0
            && now >= self.even + FORGOTTEN
            && pauses.iter().all(|pause| pause.is_forgotten(now))
    }

    fn is_reverted(&self, content: Content) -> bool {
        self.content == Some(content) && self.times >= TIMES
    }
}

impl Paces {
    pub fn new(now: Instant) -> Self {
        Self {
            keys: BTreeMap::new(),
            tidied: now,
        }
    }

    /// When this may be written for a key; `None` for now.
    pub fn not_before(
        &self,
        key: &Key,
        (change, content): (Change, Content),
        now: Instant,
    ) -> Option<Instant> {
        let pace = self.keys.get(key)?;
        let even = pace.even.checked_sub(AHEAD).unwrap_or(now);
        let slow = match change {
            Change::Labels => pace.labels.until,
            Change::Traffic => now,
            Change::NewService => pace.creation.until,
        };
        let reverted = pace.is_reverted(content).then_some(pace.reverted.until);
        let next = even.max(slow).max(reverted.unwrap_or(now));
        (next > now).then_some(next)
    }

    /// Whether the same was written so many times in a row that it will probably be reverted again.
    pub fn is_reverted(&self, key: &Key, content: Content) -> bool {
        let pace = self.keys.get(key);
        pace.is_some_and(|pace| pace.is_reverted(content))
    }

    /// Records that a key is being written.
    pub fn begins(&mut self, key: &Key, change: Change, now: Instant) {
        if now >= self.tidied + FORGOTTEN {
            self.tidied = now;
            self.keys.retain(|_, pace| !pace.is_forgotten(now));
        }
        let pace = self.pace(key, now);
        pace.even = pace.even.max(now) + SPACE;
        if change == Change::Labels {
            pace.labels.begin(now);
        }
    }

    /// Records that all writes of a plan were made.
    pub fn wrote(&mut self, key: &Key, content: Content, creates: bool, now: Instant) {
        let pace = self.pace(key, now);
        if creates {
            pace.creation.begin(now);
        }
        let is_equal = pace.content == Some(content) && !pace.reverted.is_forgotten(now);
        if !is_equal {
            pace.content = Some(content);
            pace.times = 0;
            pace.reverted = Spacing::new(REVERTED, now);
        }
        pace.times = pace.times.saturating_add(1);
        if pace.times >= TIMES {
            pace.reverted.begin(now);
        } else {
            pace.reverted.until = now;
        }
    }

    /// Counts a failure of a key. Returns when it is tried again: after at least `wait`.
    pub fn failed(&mut self, key: &Key, wait: Option<Duration>, now: Instant) -> Instant {
        let pause = self.pace(key, now).failures.next_jittered();
        now + pause.max(wait.unwrap_or_default())
    }

    /// The number of failures of a key in a row.
    pub fn failures(&self, key: &Key) -> u32 {
        let pace = self.keys.get(key);
        pace.map_or(0, |pace| pace.failures.failures())
    }

    /// Ends a row of failures.
    pub fn succeeded(&mut self, key: &Key) {
        if let Some(pace) = self.keys.get_mut(key) {
            pace.failures.reset();
        }
    }

    /// Lets the Services of a cluster be created again without delay, for example because they were deleted with its
    /// Link.
    pub fn may_create_again(&mut self, cluster: &str, now: Instant) {
        for (key, pace) in &mut self.keys {
            if !matches!(key, Key::Mirror { cluster: other, .. } if other != cluster) {
                pace.creation = Spacing::new(SLOW, now);
            }
        }
    }

    fn pace(&mut self, key: &Key, now: Instant) -> &mut Pace {
        let pace = self.keys.entry(key.clone());
        let pace = pace.or_insert_with(|| Pace::new(now));
        if pace.is_forgotten(now) {
            *pace = Pace::new(now);
        }
        pace
    }
}

#[cfg(test)]
mod tests;
