//! How often a key is written, and how much one target cluster has written. No I/O.
//!
//! The first write of a key comes at once, and so does a first sync. What follows is spaced: two writes a second for what
//! traffic depends on, ever fewer for labels and annotations, and for Services that come again after they have gone.
//! What one cluster brings about takes from an allowance of its own: a burst, and so many writes a second after that. Its first list, and what happens here (a Link that changes, a
//! gateway that comes or goes), adds what that takes.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::mirror::{Key, Plan};

/// Time between two writes of a key, on average, and between two that change labels and annotations only or make its
/// Service again, at least.
const SPACE: Duration = Duration::from_millis(500);
/// So much earlier may a key be written than that: three times at once, then twice a second. A mirror is made in steps:
/// the Service, its slice, the endpoints once they are known.
const AHEAD: Duration = Duration::from_secs(1);
/// The same for these two, at most.
const LONGEST_SPACE: Duration = Duration::from_secs(10);
/// A key that was not written for so long is as one that never was.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// Writes that a cluster may bring about at once, besides what was added. A new Service counts as five.
const BURST: f64 = 1000.0;
/// A cluster that has less left than this writes faster than its allowance comes back.
const MUCH: f64 = 0.9 * BURST;
/// Writes that a key may take when all of a cluster is worked on: a headless Service with three hosts takes twenty.
const OF_A_KEY: f64 = 24.0;
/// What was added and not used is forgotten after this time.
const ADDED_FOR: Duration = Duration::from_secs(300);
/// Time between two looks for keys to forget.
const TIDY: Duration = Duration::from_secs(10);

/// What a plan changes, as far as it matters how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Labels and annotations only.
    Labels,
    /// Something that traffic depends on.
    Traffic,
    /// It makes a Service with a `ClusterIP`, which costs the API server most.
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

/// What a cluster may bring about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// What was added for it.
    Added,
    /// Nearly a whole burst.
    Much,
    /// Part of a burst: it writes faster than its allowance comes back.
    Little,
    /// Nothing.
    Nothing,
}

/// When keys and clusters were written last.
#[derive(Debug)]
pub(super) struct Pace {
    written: BTreeMap<Key, Last>,
    /// Keys whose Service was made.
    created: BTreeMap<Key, Created>,
    tidied: Instant,
    clusters: BTreeMap<String, Allowance>,
    /// Writes of a cluster each second.
    each_second: f64,
    /// The most that a cluster may have before it, with all that was added.
    most: f64,
}

/// The last write of a key.
#[derive(Debug)]
struct Last {
    at: Instant,
    /// When the next one would come if all were spaced evenly.
    even: Instant,
    /// Until when changes of labels and annotations wait.
    quiet_until: Instant,
    /// The pause that followed the last of these.
    pause: Duration,
}

/// The last time that the Service of a key was made.
#[derive(Debug)]
struct Created {
    at: Instant,
    /// The pause until the next time.
    pause: Duration,
}

/// Writes that a cluster may still bring about.
#[derive(Debug)]
struct Allowance {
    /// Below zero when more were made than were left.
    left: f64,
    at: Instant,
    /// Until when there may be more than a burst.
    added_until: Instant,
}

impl Pace {
    /// Each cluster may bring about so many writes each second, and has at most so many keys.
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

    /// When a key may be written next, if not now.
    pub(super) fn not_before(&self, key: &Key, change: Change, now: Instant) -> Option<Instant> {
        let last = self.written.get(key)?;
        let created = || self.created.get(key);
        let quiet = match change {
            Change::Labels => last.quiet_until,
            Change::Traffic => now,
            Change::NewService => created().map_or(now, |created| created.at + created.pause),
        };
        let even = last.even.checked_sub(AHEAD);
        Some(even.map_or(quiet, |even| even.max(quiet))).filter(|next| *next > now)
    }

    /// A key is being written, on account of this cluster, which costs so many writes.
    pub(super) fn wrote(&mut self, key: &Key, change: Change, cost: usize, by: &str, now: Instant) {
        if now >= self.tidied + TIDY {
            self.tidied = now;
            self.written.retain(|_, last| now < last.at + FORGOTTEN);
            self.created.retain(|_, last| now < last.at + FORGOTTEN);
            let each_second = self.each_second;
            self.clusters
                .retain(|_, known| known.now(now, each_second) != BURST);
        }
        let before = self
            .written
            .get(key)
            .filter(|last| now < last.at + FORGOTTEN);
        let pause = match before {
            Some(last) if change == Change::Labels => longer(last.pause),
            Some(last) => last.pause,
            None => SPACE,
        };
        let quiet_until = if change == Change::Labels {
            now + pause
        } else {
            before.map_or(now, |last| last.quiet_until)
        };
        let last = Last {
            at: now,
            even: before.map_or(now, |last| last.even.max(now)) + SPACE,
            quiet_until,
            pause,
        };
        self.written.insert(key.clone(), last);
        if !by.is_empty() {
            self.change(by, -number(cost), now);
        }
    }

    /// The Service of a key was made.
    pub(super) fn created(&mut self, key: &Key, now: Instant) {
        let before = self.created.get(key);
        let before = before.filter(|last| now < last.at + FORGOTTEN);
        let pause = before.map_or(SPACE, |last| longer(last.pause));
        self.created.insert(key.clone(), Created { at: now, pause });
    }

    /// All of so many keys of a cluster are to be worked on, and it is not the cluster that has brought that about; or it
    /// is its first list. Services that went with its Link come again at once.
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

    /// What a cluster may bring about now.
    pub(super) fn allowance(&self, by: &str, now: Instant) -> Allowed {
        match self.left(by, now) {
            left if left > BURST => Allowed::Added,
            left if left >= MUCH => Allowed::Much,
            left if left >= 0.0 => Allowed::Little,
            _ => Allowed::Nothing,
        }
    }

    fn change(&mut self, by: &str, more: f64, now: Instant) {
        let left = self.left(by, now) + more;
        let added_until = self.clusters.get(by).map_or(now, |known| known.added_until);
        let known = Allowance {
            left,
            at: now,
            added_until,
        };
        self.clusters.insert(by.to_owned(), known);
    }

    /// When the first of those that may not can again.
    pub(super) fn next_allowed(&self, now: Instant) -> Option<Instant> {
        let waits = self.clusters.values().filter_map(|known| {
            let left = known.now(now, self.each_second);
            (left < 0.0).then(|| now + Duration::from_secs_f64(-left / self.each_second))
        });
        waits.min()
    }

    fn left(&self, by: &str, now: Instant) -> f64 {
        let known = self.clusters.get(by);
        known.map_or(BURST, |known| known.now(now, self.each_second))
    }
}

impl Allowance {
    /// What is left by now.
    fn now(&self, now: Instant, each_second: f64) -> f64 {
        if self.left > BURST && now < self.added_until {
            return self.left;
        }
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + passed * each_second).min(BURST)
    }
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_SPACE)
}

fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    use Change::{Labels, NewService, Traffic};

    /// Writes a key whenever it may be, for so many seconds. Returns when that was, milliseconds.
    fn written(pace: &mut Pace, change: Change, seconds: u64) -> Vec<u128> {
        let key = Key::mirror("east", "ns", "a");
        let began = Instant::now();
        let (mut now, mut times) = (began, Vec::new());
        while now < began + Duration::from_secs(seconds) {
            if let Some(next) = pace.not_before(&key, change, now) {
                now = next;
                continue;
            }
            pace.wrote(&key, change, 1, "east", now);
            if change == NewService {
                pace.created(&key, now);
            }
            times.push((now - began).as_millis());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_write_comes_at_once_and_what_follows_is_spaced() {
        let mut pace = Pace::new(100, 10);
        assert_eq!(written(&mut pace, Traffic, 2), [0, 0, 0, 500, 1000, 1500]);
        let mut pace = Pace::new(100, 10);
        let labels = written(&mut pace, Labels, 40);
        assert_eq!(labels, [0, 500, 1500, 3500, 7500, 15_500, 25_500, 35_500]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_traffic_depends_on_does_not_wait_for_labels() {
        let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
        let at = |ms| now + Duration::from_millis(ms);
        let mut pace = Pace::new(100, 10);
        for (ms, change) in [(0, Labels), (500, Labels), (1500, Labels), (1600, Traffic)] {
            assert_eq!(pace.not_before(&key, change, at(ms)), None, "{ms}");
            pace.wrote(&key, change, 1, "", at(ms));
        }
        // Labels go on to wait as long as they would have.
        assert_eq!(pace.not_before(&key, Labels, at(2500)), Some(at(3500)));
        assert_eq!(pace.not_before(&key, Traffic, at(2500)), None);
        // After a while all begins anew.
        assert_eq!(pace.not_before(&key, Labels, at(30_000)), None);
        pace.wrote(&key, Labels, 1, "", at(30_000));
        assert_eq!(pace.not_before(&key, Labels, at(30_000)), Some(at(30_500)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_comes_and_goes_is_made_ever_less_often() {
        let mut pace = Pace::new(100, 10);
        let times = written(&mut pace, NewService, 40);
        assert_eq!(times, [0, 500, 1500, 3500, 7500, 15_500, 25_500, 35_500]);
        let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
        let next = |pace: &Pace, change| pace.not_before(&key, change, now);
        let mut pace = Pace::new(100, 10);
        for _ in 0..3 {
            pace.created(&key, now);
        }
        pace.wrote(&key, NewService, 5, "east", now);
        assert_eq!(next(&pace, NewService), Some(now + Duration::from_secs(2)));
        // It goes as soon as anything that traffic depends on.
        assert_eq!(next(&pace, Traffic), None);
        // Those of other clusters wait on; what comes again with its Link does not.
        pace.adds("west", 1, now);
        assert!(next(&pace, NewService).is_some());
        pace.adds("east", 1, now);
        assert_eq!(next(&pace, NewService), None);
    }

    #[tokio::test(start_paused = true)]
    async fn clusters_have_an_allowance_each_that_comes_back() {
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut pace = Pace::new(2, 10);
        let other = Key::mirror("west", "ns", "a");
        pace.wrote(&other, Traffic, 1001, "west", now);
        let allowed = |pace: &Pace, by, now| pace.allowance(by, now);
        assert_eq!(allowed(&pace, "west", now), Allowed::Nothing);
        assert_eq!(allowed(&pace, "east", now), Allowed::Much);
        assert_eq!(pace.next_allowed(now), Some(at(500)));
        assert_eq!(allowed(&pace, "west", at(500)), Allowed::Little);
        assert_eq!(pace.next_allowed(at(500)), None);
        assert_eq!(allowed(&pace, "west", at(449_999)), Allowed::Little);
        assert_eq!(allowed(&pace, "west", at(451_000)), Allowed::Much);
        // What nobody abroad has brought about is not counted.
        pace.wrote(&other, Traffic, 100, "", now);
        assert_eq!(allowed(&pace, "", now), Allowed::Much);
        // Nobody saves up more than a burst, and what is full is forgotten.
        assert!((pace.left("west", at(600_000)) - BURST).abs() < 0.01);
        pace.wrote(&other, Traffic, 1, "", at(600_001));
        assert!(pace.clusters.is_empty());
        assert_eq!(pace.written.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_list_takes_is_added_for_a_while_and_no_more_than_all_keys_take() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut pace = Pace::new(2, 100);
        let key = Key::mirror("west", "ns", "a");
        let has_more = |pace: &Pace, now| pace.allowance("west", now) == Allowed::Added;
        assert!(!has_more(&pace, now));
        pace.adds("west", 50, now);
        pace.adds("west", 80, now);
        assert!((pace.left("west", at(299)) - BURST - 2400.0).abs() < 0.01);
        assert!(has_more(&pace, at(299)) && !has_more(&pace, at(300)));
        pace.wrote(&key, Traffic, 2400, "west", at(1));
        assert_eq!(pace.allowance("west", at(1)), Allowed::Much);
        // What is not used is not kept, and nothing is added to nobody's.
        pace.adds("west", 1, at(2));
        assert!((pace.left("west", at(302)) - BURST).abs() < 0.01);
        pace.adds("", 1, at(2));
        pace.adds("east", 0, at(2));
        assert_eq!(pace.clusters.len(), 1);
    }
}
