//! Which Services may be created now that get a `ClusterIP`.
//!
//! When the API server has no free `ClusterIP`, all creations that need one pause, with exponential backoff. After the
//! pause, all keys that wait are planned again. The first success ends the backoff.
//!
//! At least a quarter of the Service range stays free for the cluster's own Services: a target cluster must not be able
//! to take all. How many `ClusterIP`s may be taken is read once a minute, where the API server says how many are taken.
//! A key whose Services do not fit waits alone: what fits is created. Writes that need no `ClusterIP` are not delayed.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use client::timing::Backoff;
use mirror_core::mirror::Key;

/// The first pause. It is short, because an API server that has just started says that the range is full until it has
/// listed its `ServiceCIDR`s (`MetaAllocator` in Kubernetes' ipallocator package).
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);
/// Minimum time between two times at which all keys that wait are planned.
const SPACE: Duration = Duration::from_secs(1);
/// How long no key has waited for a `ClusterIP` when the log says so.
const RECENT: Duration = Duration::from_secs(60);

/// The `ClusterIP`s that may be taken, and the keys that wait for one.
#[derive(Debug)]
pub struct Addresses {
    /// The keys that wait, how many `ClusterIP`s each needs, and what it was told.
    waiting: BTreeMap<Key, (i64, Shortage)>,
    /// How many may be taken: those of the last read, less those that were taken since. `None` if that is unknown,
    /// negative if too many are taken.
    free: Option<i64>,
    /// How many creations in progress may take.
    reserved: i64,
    /// Whether creations pause until `next`.
    paused: bool,
    backoff: Backoff,
    /// When the keys that wait are planned, and when that was the last time.
    next: Option<Instant>,
    last: Instant,
    /// When a key was told last that none is free, until it was logged that no key waits any more.
    short: Option<Instant>,
    is_logged: bool,
}

/// Why a Service with a `ClusterIP` cannot be created now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// None is free.
    NoneFree,
    /// None is free besides those that must stay free.
    RangeFull,
    /// Creations in progress may need those that are free.
    Reserved,
}

impl Addresses {
    pub fn new(now: Instant) -> Self {
        Self {
            waiting: BTreeMap::new(),
            free: None,
            reserved: 0,
            paused: false,
            backoff: Backoff::new(FIRST, LONGEST),
            next: None,
            last: now.checked_sub(SPACE).unwrap_or(now),
            short: None,
            is_logged: false,
        }
    }

    /// Whether this number of Services with a `ClusterIP` may be created for this key. If not, it waits.
    pub fn may_create(&mut self, key: &Key, needed: usize, now: Instant) -> Result<(), Shortage> {
        let needed = number(needed);
        let shortage = if self.free.is_some_and(|free| free < needed) {
            Shortage::RangeFull
        } else if self.paused {
            Shortage::NoneFree
        } else if self.fits(needed) {
            self.waiting.remove(key);
            return Ok(());
        } else {
            Shortage::Reserved
        };
        if shortage != Shortage::Reserved {
            self.short = Some(now);
        }
        self.waiting.insert(key.clone(), (needed, shortage));
        Err(shortage)
    }

    /// Records that a key needs no `ClusterIP`.
    pub fn needs_none(&mut self, key: &Key) {
        self.waiting.remove(key);
    }

    /// Records that the creation of this number of Services with a `ClusterIP` begins.
    pub fn begin(&mut self, needed: usize) {
        self.reserved += number(needed);
    }

    /// Records that such a creation has ended, and how many Services were created.
    pub fn end(&mut self, needed: usize, created: usize, now: Instant) {
        if needed == 0 {
            return;
        }
        self.reserved -= number(needed);
        self.free = self.free.map(|free| free - number(created));
        if created > 0 {
            self.paused = false;
            self.backoff.reset();
        }
        self.hurry(now);
    }

    /// Records that the API server had no free `ClusterIP` for this key.
    pub fn refused(&mut self, key: &Key, needed: usize, now: Instant) {
        let known = (number(needed), Shortage::NoneFree);
        self.waiting.insert(key.clone(), known);
        self.short = Some(now);
        if !self.paused {
            self.paused = true;
            self.next = Some(now + self.backoff.next_pause());
        }
    }

    /// Sets how many `ClusterIP`s may be taken.
    pub fn set_free(&mut self, free: Option<i64>, now: Instant) {
        self.free = free;
        self.hurry(now);
    }

    /// Records that a Service of ours gave its `ClusterIP` back. This ends a pause.
    pub fn freed(&mut self, now: Instant) {
        self.free = self.free.map(|free| free + 1);
        self.paused = false;
        self.hurry(now);
    }

    /// The keys to plan now, at the end of a pause or when others may fit.
    pub fn due(&mut self, now: Instant) -> Vec<Key> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.next = None;
        self.paused = false;
        let all = std::mem::take(&mut self.waiting).into_iter();
        // What waits for creations in progress may now have to wait for room.
        let (keys, others): (BTreeMap<_, _>, _) = all.partition(|(_, (needed, shortage))| {
            self.fits(*needed) || *shortage == Shortage::Reserved
        });
        self.waiting = others;
        self.last = now;
        keys.into_keys().collect()
    }

    /// When keys are due.
    pub fn next_due(&self) -> Option<Instant> {
        self.next
    }

    /// Logs when keys start to wait for a `ClusterIP`, and when none has waited for a while.
    pub fn log(&mut self, now: Instant) {
        let lasts = |short: &Instant| !self.waiting.is_empty() || now < *short + RECENT;
        self.short = self.short.filter(lasts);
        let is_short = self.short.is_some();
        if std::mem::replace(&mut self.is_logged, is_short) == is_short {
            return;
        }
        if is_short {
            tracing::warn!(
                "the Service range of this cluster has no free ClusterIP, or less than a quarter is free: mirrors are waiting"
            );
        } else {
            tracing::info!("recovered: no mirror is waiting for a ClusterIP");
        }
    }

    fn fits(&self, needed: i64) -> bool {
        self.free.is_none_or(|free| needed <= free - self.reserved)
    }

    /// Plans the keys that wait as soon as possible, unless there is a pause.
    fn hurry(&mut self, now: Instant) {
        if !self.paused && !self.waiting.is_empty() {
            self.next = Some(now.max(self.last + SPACE));
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn key(number: usize) -> Key {
        Key::mirror("east", "ns", &format!("web-{number:03}"))
    }

    fn addresses(free: Option<i64>) -> Addresses {
        let mut addresses = Addresses::new(Instant::now());
        addresses.set_free(free, Instant::now());
        addresses
    }

    fn may(addresses: &mut Addresses, key: &Key, needed: usize) -> Result<(), Shortage> {
        addresses.may_create(key, needed, Instant::now())
    }

    /// Tries to create one Service of a key, which the API server refuses.
    fn refuse(addresses: &mut Addresses, key: &Key) {
        assert_eq!(may(addresses, key, 1), Ok(()));
        addresses.begin(1);
        addresses.end(1, 0, Instant::now());
        addresses.refused(key, 1, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_until_something_is_created() {
        let mut addresses = addresses(None);
        refuse(&mut addresses, &key(0));
        assert_eq!(may(&mut addresses, &key(1), 1), Err(Shortage::NoneFree));
        let (mut at, started) = (Vec::new(), Instant::now());
        while at.len() < 10 {
            tokio::time::sleep_until(addresses.next_due().unwrap()).await;
            assert_eq!(addresses.due(Instant::now()), [key(0), key(1)]);
            assert_eq!(addresses.next_due(), None);
            refuse(&mut addresses, &key(0));
            // One that began before the refusal changes nothing.
            addresses.refused(&key(1), 1, Instant::now());
            at.push(started.elapsed().as_secs());
        }
        assert_eq!(at, [2, 6, 14, 30, 62, 126, 254, 510, 810, 1110]);
        // One that began before the refusal succeeds.
        addresses.begin(1);
        addresses.end(1, 1, Instant::now());
        advance(SPACE).await;
        assert_eq!(addresses.due(Instant::now()), [key(0), key(1)]);
        refuse(&mut addresses, &key(0));
        assert_eq!(addresses.next_due(), Some(Instant::now() + FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fits_is_created_and_what_does_not_waits() {
        let mut addresses = addresses(Some(3));
        assert_eq!(may(&mut addresses, &key(0), 4), Err(Shortage::RangeFull));
        assert_eq!(may(&mut addresses, &key(1), 2), Ok(()));
        addresses.begin(2);
        assert_eq!(may(&mut addresses, &key(2), 2), Err(Shortage::Reserved));
        assert_eq!(may(&mut addresses, &key(3), 1), Ok(()));
        // The first one was not allowed. The second one has its turn at once.
        addresses.end(2, 0, Instant::now());
        assert_eq!(addresses.due(Instant::now()), [key(2)]);
        addresses.begin(2);
        addresses.end(2, 2, Instant::now());
        assert_eq!(addresses.free, Some(1));
        advance(SPACE).await;
        assert_eq!(addresses.due(Instant::now()), []);
        // Services of gateways do not ask.
        addresses.begin(4);
        addresses.end(4, 4, Instant::now());
        assert_eq!(may(&mut addresses, &key(5), 1), Err(Shortage::RangeFull));
        addresses.needs_none(&key(5));
        advance(SPACE).await;
        for _ in 0..7 {
            addresses.freed(Instant::now());
        }
        assert_eq!(addresses.due(Instant::now()), [key(0)]);
        assert_eq!(addresses.waiting.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn address_that_is_given_back_ends_a_pause_at_most_once_a_second() {
        let mut addresses = addresses(None);
        refuse(&mut addresses, &key(0));
        addresses.set_free(None, Instant::now());
        assert_eq!(addresses.due(Instant::now()), [], "a read ends no pause");
        for _ in 0..3 {
            addresses.freed(Instant::now());
            assert_eq!(addresses.due(Instant::now()), [key(0)]);
            refuse(&mut addresses, &key(0));
            addresses.freed(Instant::now());
            assert_eq!(addresses.due(Instant::now()), []);
            advance(SPACE).await;
        }
    }
}
