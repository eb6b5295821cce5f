//! Which keys wait for a `ClusterIP`, and which may try to get one now.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{mirror::Key, timing::Backoff};

/// Time until the first try. Short, because an API server that has just started says that the range is full until it has
/// listed its `ServiceCIDR`s (`MetaAllocator` in Kubernetes' ipallocator package).
const FIRST: Duration = Duration::from_secs(2);
/// Maximum time between two tries.
const LONGEST: Duration = Duration::from_secs(300);
/// Number of further keys that are tried when one has got a `ClusterIP`.
const MORE: usize = 2;

/// Keys that wait for a `ClusterIP`.
#[derive(Debug)]
pub(in crate::controller::engine) struct Addresses {
    /// Keys in the order of their tries. Keys that are not in `waiting` are skipped.
    order: VecDeque<Key>,
    waiting: BTreeSet<Key>,
    /// Keys that may create their Service now.
    trying: BTreeSet<Key>,
    /// When the next key is tried.
    next: Instant,
    backoff: Backoff,
    /// How many `ClusterIP`s may be taken; `None` if that is unknown, negative if too many are taken.
    room: Option<i64>,
    /// Whether the shortage was logged.
    told: bool,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            waiting: BTreeSet::new(),
            trying: BTreeSet::new(),
            next: Instant::now(),
            backoff: Backoff::new(FIRST, LONGEST),
            room: None,
            told: false,
        }
    }
}

/// What is lacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller::engine) enum Lack {
    /// A free `ClusterIP`.
    Any,
    /// A `ClusterIP` besides those that must stay free.
    Room,
}

impl Addresses {
    /// Whether this number of Services with a `ClusterIP` may be created for this key. If not, it waits for its turn.
    pub(in crate::controller::engine) fn may_create(
        &mut self,
        key: &Key,
        needed: usize,
    ) -> Result<(), Lack> {
        let needed = i64::try_from(needed).unwrap_or(i64::MAX);
        if needed > 0 && self.room.is_some_and(|room| room < needed) {
            self.trying.remove(key);
            self.wait(key);
            return Err(Lack::Room);
        }
        let is_short = !self.waiting.is_empty() || !self.trying.is_empty();
        if is_short && !self.trying.contains(key) {
            self.wait(key);
            return Err(Lack::Any);
        }
        self.room = self.room.map(|room| room - needed);
        Ok(())
    }

    /// Sets how many `ClusterIP`s may be taken. Returns the key to try, if none could be before.
    pub(in crate::controller::engine) fn set_room(&mut self, room: Option<i64>) -> Option<Key> {
        let had_room = self.has_room();
        self.room = room;
        (!had_room).then(|| self.release())?
    }

    /// Records that a Service of ours gave its `ClusterIP` back. Returns the next key to try.
    pub(in crate::controller::engine) fn freed(&mut self) -> Option<Key> {
        self.room = self.room.map(|room| room + 1);
        self.release()
    }

    fn has_room(&self) -> bool {
        self.room.is_none_or(|room| room > 0)
    }

    /// Records that no `ClusterIP` was free for this key.
    pub(in crate::controller::engine) fn none_left(&mut self, key: &Key, now: Instant) {
        self.trying.remove(key);
        self.wait(key);
        if self.backoff.failures() == 0 {
            self.put_off(now);
        }
    }

    /// Records that the plan of a key was executed. If it waited for a `ClusterIP`, returns the keys to try next.
    pub(in crate::controller::engine) fn created(&mut self, key: &Key, now: Instant) -> Vec<Key> {
        if !self.trying.remove(key) {
            return Vec::new();
        }
        self.backoff.reset();
        self.next = now + FIRST;
        (0..MORE).filter_map(|_| self.release()).collect()
    }

    /// Forgets a key that needs no `ClusterIP` any more. If it was its turn, returns the key to try instead.
    pub(in crate::controller::engine) fn forget(&mut self, key: &Key) -> Option<Key> {
        self.waiting.remove(key);
        let had_its_turn = self.trying.remove(key);
        if self.waiting.is_empty() {
            self.order.clear();
        }
        had_its_turn.then(|| self.release())?
    }

    /// The next key to try. Does not check whether it is due, because a `ClusterIP` may have become free.
    pub(in crate::controller::engine) fn release(&mut self) -> Option<Key> {
        if !self.has_room() {
            return None;
        }
        loop {
            let key = self.order.pop_front()?;
            if self.waiting.remove(&key) {
                self.trying.insert(key.clone());
                return Some(key);
            }
        }
    }

    /// The key to try now, if one is due.
    pub(in crate::controller::engine) fn due(&mut self, now: Instant) -> Option<Key> {
        self.next_due().filter(|at| *at <= now)?;
        self.put_off(now);
        self.release()
    }

    /// When the next key is due.
    pub(in crate::controller::engine) fn next_due(&self) -> Option<Instant> {
        (!self.waiting.is_empty() && self.has_room()).then_some(self.next)
    }

    fn wait(&mut self, key: &Key) {
        if self.waiting.insert(key.clone()) {
            self.order.push_back(key.clone());
        }
    }

    fn put_off(&mut self, now: Instant) {
        self.next = now + self.backoff.next_pause();
    }

    /// Logs when keys start to wait, and when none waits any more.
    pub(in crate::controller::engine) fn tell(&mut self) {
        let waiting = self.waiting.len();
        if self.told == (waiting > 0) {
            return;
        }
        self.told = waiting > 0;
        if self.told {
            tracing::warn!(
                "the Service range of this cluster has no free ClusterIP, or less than a quarter is free: mirrors are waiting"
            );
        } else {
            tracing::info!("recovered: no mirror is waiting for a ClusterIP");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn key(number: usize) -> Key {
        Key::mirror("east", "ns", &format!("web-{number:03}"))
    }

    /// A shortage for which this number of keys wait.
    fn short(waiting: usize) -> Addresses {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.may_create(&key(0), 1), Ok(()));
        for number in 0..waiting {
            addresses.none_left(&key(number), Instant::now());
        }
        addresses
    }

    #[tokio::test(start_paused = true)]
    async fn first_key_is_tried_after_2_s_and_others_with_backoff() {
        let (started, mut addresses) = (Instant::now(), short(200));
        assert!(addresses.may_create(&key(500), 1).is_err());
        let mut at = Vec::new();
        while at.len() < 10 {
            tokio::time::sleep_until(addresses.next_due().unwrap()).await;
            let key = addresses.due(Instant::now()).unwrap();
            assert_eq!(addresses.may_create(&key, 1), Ok(()));
            assert_eq!(addresses.due(Instant::now()), None);
            addresses.none_left(&key, Instant::now());
            assert_eq!(addresses.may_create(&key, 1), Err(Lack::Any));
            at.push(started.elapsed().as_secs());
        }
        assert_eq!(at, [2, 6, 14, 30, 62, 126, 254, 510, 810, 1110]);
    }

    #[tokio::test(start_paused = true)]
    async fn few_tries_fail_when_some_addresses_are_free_again() {
        let mut addresses = short(200);
        let (mut free, mut vain) = (50, 0);
        let mut next: VecDeque<Key> = addresses.release().into_iter().collect();
        while let Some(key) = next.pop_front() {
            if free > 0 {
                free -= 1;
                next.extend(addresses.created(&key, Instant::now()));
            } else {
                vain += 1;
                addresses.none_left(&key, Instant::now());
            }
        }
        assert_eq!((free, addresses.waiting.len(), vain), (0, 150, 51));
        assert_eq!(addresses.next_due(), Some(Instant::now() + FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_while_too_little_of_the_range_is_free() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.set_room(Some(3)), None);
        assert_eq!(addresses.may_create(&key(0), 2), Ok(()));
        assert_eq!(addresses.may_create(&key(1), 2), Err(Lack::Room));
        // Others wait for their turn, also those that need less.
        assert_eq!(addresses.may_create(&key(2), 1), Err(Lack::Any));
        assert_eq!(addresses.may_create(&key(9), 0), Err(Lack::Any));
        addresses.set_room(Some(-1));
        advance(LONGEST).await;
        assert_eq!(addresses.next_due(), None);
        assert_eq!(addresses.due(Instant::now()), None);
        assert_eq!(addresses.freed(), None);
        assert_eq!(addresses.room, Some(0));
        // As soon as there is room, all follow the first one.
        assert_eq!(addresses.set_room(Some(10)), Some(key(1)));
        assert_eq!(addresses.may_create(&key(1), 2), Ok(()));
        let next = addresses.created(&key(1), Instant::now());
        assert_eq!(next, [key(2), key(9)]);
        for key in next {
            assert_eq!(addresses.may_create(&key, 1), Ok(()));
            addresses.created(&key, Instant::now());
        }
        assert_eq!(addresses.room, Some(6));
        assert_eq!(addresses.set_room(None), None);
        assert_eq!(addresses.may_create(&key(3), 1000), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_need_no_turn_after_a_shortage_and_unused_turns_pass_on() {
        let mut addresses = short(3);
        advance(FIRST).await;
        let first = addresses.due(Instant::now()).unwrap();
        assert_eq!(first, key(0));
        // The Service was deleted meanwhile.
        assert_eq!(addresses.forget(&first), Some(key(1)));
        assert_eq!(addresses.forget(&key(2)), None);
        assert_eq!(addresses.may_create(&key(9), 1), Err(Lack::Any));
        assert_eq!(addresses.created(&key(1), Instant::now()), [key(9)]);
        assert_eq!(addresses.created(&key(9), Instant::now()), []);
        assert_eq!(addresses.may_create(&key(10), 1), Ok(()));
        assert_eq!(addresses.next_due(), None);
    }
}
