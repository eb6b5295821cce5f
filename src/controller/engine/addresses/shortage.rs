//! Who waits for a `ClusterIP`, and whose turn it is to try for one.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::mirror::Key;

/// Time until the first try.
const FIRST: Duration = Duration::from_secs(30);
/// The longest time between two tries.
const LONGEST: Duration = Duration::from_secs(300);
/// So many more are tried when one has got a `ClusterIP`.
const MORE: usize = 2;

/// Keys that wait for a `ClusterIP`.
#[derive(Debug)]
pub(in crate::controller::engine) struct Addresses {
    /// In the order of their tries. Those that are not among `waiting` are passed over.
    order: VecDeque<Key>,
    waiting: BTreeSet<Key>,
    /// Those whose turn it is.
    trying: BTreeSet<Key>,
    /// When the next is tried.
    next: Instant,
    failures: u32,
    /// Whether it was logged that there are such.
    told: bool,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            waiting: BTreeSet::new(),
            trying: BTreeSet::new(),
            next: Instant::now(),
            failures: 0,
            told: false,
        }
    }
}

impl Addresses {
    /// Whether a Service that needs a `ClusterIP` may be created for this key. If not, it waits for its turn.
    pub(in crate::controller::engine) fn may_create(&mut self, key: &Key) -> bool {
        let is_short = !self.waiting.is_empty() || !self.trying.is_empty();
        if !is_short || self.trying.contains(key) {
            return true;
        }
        self.wait(key);
        false
    }

    /// There was none left for this key.
    pub(in crate::controller::engine) fn none_left(&mut self, key: &Key, now: Instant) {
        self.trying.remove(key);
        self.wait(key);
        if self.failures == 0 {
            self.put_off(now);
        }
    }

    /// A key has what it needs. Returns those that are to be tried now.
    pub(in crate::controller::engine) fn created(&mut self, key: &Key, now: Instant) -> Vec<Key> {
        if !self.trying.remove(key) {
            return Vec::new();
        }
        self.failures = 0;
        self.next = now + FIRST;
        (0..MORE).filter_map(|_| self.release()).collect()
    }

    /// A key needs none any more. Returns another one that is to be tried in its place.
    pub(in crate::controller::engine) fn forget(&mut self, key: &Key) -> Option<Key> {
        self.waiting.remove(key);
        let had_its_turn = self.trying.remove(key);
        if self.waiting.is_empty() {
            self.order.clear();
        }
        had_its_turn.then(|| self.release())?
    }

    /// The next key to try, if it is time for one, or if a `ClusterIP` was given back.
    pub(in crate::controller::engine) fn release(&mut self) -> Option<Key> {
        loop {
            let key = self.order.pop_front()?;
            if self.waiting.remove(&key) {
                self.trying.insert(key.clone());
                return Some(key);
            }
        }
    }

    /// The key to try now, if it is time for one.
    pub(in crate::controller::engine) fn due(&mut self, now: Instant) -> Option<Key> {
        self.next_due().filter(|at| *at <= now)?;
        self.put_off(now);
        self.release()
    }

    /// When the next key is to be tried.
    pub(in crate::controller::engine) fn next_due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.next)
    }

    fn wait(&mut self, key: &Key) {
        if self.waiting.insert(key.clone()) {
            self.order.push_back(key.clone());
        }
    }

    fn put_off(&mut self, now: Instant) {
        let pause = FIRST.saturating_mul(1 << self.failures.min(8));
        self.next = now + pause.min(LONGEST);
        self.failures = self.failures.saturating_add(1);
    }

    /// Logs that there are keys that wait, and that there are none any more.
    pub(in crate::controller::engine) fn tell(&mut self) {
        let waiting = self.waiting.len();
        if self.told == (waiting > 0) {
            return;
        }
        self.told = waiting > 0;
        if self.told {
            tracing::warn!(
                "the Service range of this cluster has no free ClusterIP: mirrors are waiting for one"
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

    /// Addresses of which there are none, and this many that wait for one.
    fn short(waiting: usize) -> Addresses {
        let mut addresses = Addresses::default();
        assert!(addresses.may_create(&key(0)));
        for number in 0..waiting {
            addresses.none_left(&key(number), Instant::now());
        }
        addresses
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_many_is_tried_after_half_a_minute_and_then_ever_later() {
        let (started, mut addresses) = (Instant::now(), short(200));
        assert!(!addresses.may_create(&key(500)));
        let mut at = Vec::new();
        while at.len() < 7 {
            tokio::time::sleep_until(addresses.next_due().unwrap()).await;
            let key = addresses.due(Instant::now()).unwrap();
            assert!(addresses.may_create(&key));
            assert_eq!(addresses.due(Instant::now()), None);
            addresses.none_left(&key, Instant::now());
            assert!(!addresses.may_create(&key));
            at.push(started.elapsed().as_secs());
        }
        assert_eq!(at, [30, 90, 210, 450, 750, 1050, 1350]);
    }

    #[tokio::test(start_paused = true)]
    async fn tries_in_vain_are_few_when_some_are_free_again() {
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
    async fn all_go_on_when_none_waits_any_more_and_a_turn_is_handed_on() {
        let mut addresses = short(3);
        advance(FIRST).await;
        let first = addresses.due(Instant::now()).unwrap();
        assert_eq!(first, key(0));
        // It was withdrawn meanwhile.
        assert_eq!(addresses.forget(&first), Some(key(1)));
        assert_eq!(addresses.forget(&key(2)), None);
        assert!(!addresses.may_create(&key(9)));
        assert_eq!(addresses.created(&key(1), Instant::now()), [key(9)]);
        assert_eq!(addresses.created(&key(9), Instant::now()), []);
        assert!(addresses.may_create(&key(10)));
        assert_eq!(addresses.next_due(), None);
    }
}
