//! Keys with a write that cannot succeed now: the API server does not allow it, for example because of a policy or a
//! quota, or there is no `ClusterIP` for it.
//!
//! They wait in groups: those of one namespace that were refused with the same words, and those that need a `ClusterIP`.
//! Of each group, one key is tried at a time, with exponential backoff. Whenever a try succeeds, two more follow. So the
//! number of requests does not grow with the number of keys, and few tries fail. This also holds if the words of a
//! refusal differ each time: a namespace has a limited number of groups, and a key that changes its group keeps its
//! backoff.
//!
//! At least a quarter of the Service range stays free for the cluster's own Services: a target cluster must not be able
//! to take all. How many `ClusterIP`s may be taken is read once a minute, where the API server says how many are taken.
//! While there are none, no key is tried. When a Service of ours is deleted, one is tried immediately. Writes that need
//! no `ClusterIP` are not delayed.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{
    mirror::Key,
    timing::{Backoff, jittered},
};

/// Number of further keys of a group that are tried when one has succeeded.
const MORE: usize = 2;

/// Number of groups in a namespace from which on all further causes share one group. The words of a refusal may differ
/// each time, for example because they name the request, or how much of a quota is used.
const SEPARATE: usize = 8;
/// The cause that stands for all further ones. It is the first of its namespace in the order of the names.
const FURTHER: &str = "";

/// When the keys of a group are tried.
#[derive(Debug)]
struct Retries {
    /// Time until the first try. It doubles with each further try.
    first: Duration,
    /// Maximum time between two tries of a key that waits alone. If `n` keys wait, one of the group is tried at least every
    /// `longest / n`, unless that is less than `shortest`.
    longest: Duration,
    /// Lower limit of `longest / n`. With many keys, each of them waits for longer than `longest`.
    shortest: Duration,
    /// Whether each time is shortened at random, by up to a quarter.
    jitter: bool,
}

/// Writes that are not allowed.
const DENIED: Retries = Retries {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(60),
    shortest: Duration::from_secs(1),
    jitter: true,
};
/// Services without a `ClusterIP`. The first try is early, because an API server that has just started says that the
/// range is full until it has listed its `ServiceCIDR`s (`MetaAllocator` in Kubernetes' ipallocator package).
const ADDRESSES: Retries = Retries {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(300),
    shortest: Duration::from_secs(300),
    jitter: false,
};

/// The namespace and the cause that the keys of a group of denied ones share.
type GroupName = (Box<str>, Box<str>);

/// Keys with a write that cannot succeed now.
#[derive(Debug)]
pub(super) struct Blocked {
    denied: BTreeMap<GroupName, Group>,
    /// The group of each denied key.
    group_of: BTreeMap<Key, GroupName>,
    /// Keys that need a `ClusterIP`.
    addresses: Group,
    /// How many `ClusterIP`s may be taken; `None` if that is unknown, negative if too many are taken.
    free: Option<i64>,
    /// Whether it was logged that keys wait for a `ClusterIP`.
    is_logged: bool,
}

/// What a Service lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// A free `ClusterIP`.
    NoneFree,
    /// A `ClusterIP` besides those that must stay free.
    RangeFull,
}

impl Default for Blocked {
    fn default() -> Self {
        Self {
            denied: BTreeMap::new(),
            group_of: BTreeMap::new(),
            addresses: Group::new(&ADDRESSES),
            free: None,
            is_logged: false,
        }
    }
}

impl Blocked {
    /// Records that a write of a key was not allowed, and why.
    pub(super) fn deny(&mut self, key: &Key, message: &str, now: Instant) {
        let name = self.group_name(key, message);
        let former = self.group_of.get(key).filter(|former| **former != name);
        let backoff = former.and_then(|former| Some(self.denied.get(former)?.backoff));
        if backoff.is_some() {
            self.leave(key);
        }
        let group = self.denied.entry(name.clone());
        let group = group.or_insert_with(|| Group::denied(backoff, now));
        group.wait(key);
        group.failed(now);
        self.group_of.insert(key.clone(), name);
    }

    /// Whether the last write of a key was not allowed.
    pub(super) fn is_denied(&self, key: &Key) -> bool {
        self.group_of.contains_key(key)
    }

    /// The group of a key that was refused with this message.
    fn group_name(&self, key: &Key, message: &str) -> GroupName {
        let namespace = namespace(key);
        let own: GroupName = (namespace.into(), cause(message));
        let shared: GroupName = (namespace.into(), FURTHER.into());
        let groups = self.denied.range(&shared..);
        let groups = groups.take_while(|((of, _), _)| **of == *namespace);
        if self.denied.contains_key(&own) || groups.take(SEPARATE).count() < SEPARATE {
            own
        } else {
            shared
        }
    }

    /// Records that a key needed a `ClusterIP`, and that none was free.
    pub(super) fn lacks_address(&mut self, key: &Key, now: Instant) {
        self.addresses.wait(key);
        self.addresses.failed(now);
    }

    /// Whether this number of Services with a `ClusterIP` may be created for this key. If not, it waits for its turn.
    pub(super) fn may_create(&mut self, key: &Key, needed: usize) -> Result<(), Shortage> {
        let needed = i64::try_from(needed).unwrap_or(i64::MAX);
        if needed > 0 && self.free.is_some_and(|free| free < needed) {
            self.addresses.wait(key);
            return Err(Shortage::RangeFull);
        }
        if !self.addresses.keys.is_empty() && !self.addresses.is_tried(key) {
            self.addresses.wait(key);
            return Err(Shortage::NoneFree);
        }
        self.free = self.free.map(|free| free - needed);
        Ok(())
    }

    /// Records that this number of `ClusterIP`s is taken by Services that do not wait for room in the range: those of
    /// gateways.
    pub(super) fn takes(&mut self, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.free = self.free.map(|free| free.saturating_sub(number));
    }

    /// Records that a key needs no `ClusterIP` any more. If it was its turn, returns the key to try instead.
    pub(super) fn needs_no_address(&mut self, key: &Key) -> Option<Key> {
        let had_its_turn = self.addresses.remove(key);
        had_its_turn.then(|| self.next_for_address())?
    }

    /// Records that the plan of a key was executed, or had nothing to write. Returns the keys to try next, if it was
    /// denied before, or has a `ClusterIP` now.
    pub(super) fn succeeded(&mut self, key: &Key, now: Instant) -> Vec<Key> {
        let mut next = Vec::new();
        if self.addresses.is_tried(key) {
            self.addresses.remove(key);
            self.addresses.reset(now);
            next.extend((0..MORE).filter_map(|_| self.next_for_address()));
        }
        let group = self.leave(key);
        if let Some(group) = group.and_then(|group| self.denied.get_mut(&group)) {
            next.extend((0..MORE).filter_map(|_| group.turn()));
        }
        next
    }

    /// Sets how many `ClusterIP`s may be taken. If there were none before, returns the key to try now.
    pub(super) fn set_free(&mut self, free: Option<i64>) -> Option<Key> {
        let had_some = self.has_free();
        self.free = free;
        (!had_some).then(|| self.next_for_address())?
    }

    /// Records that a Service of ours gave its `ClusterIP` back. Returns the next key to try.
    pub(super) fn freed(&mut self) -> Option<Key> {
        self.free = self.free.map(|free| free + 1);
        self.next_for_address()
    }

    fn has_free(&self) -> bool {
        self.free.is_none_or(|free| free > 0)
    }

    fn next_for_address(&mut self) -> Option<Key> {
        self.has_free().then(|| self.addresses.turn())?
    }

    /// The keys to try now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Key> {
        let has_free = self.has_free();
        let addresses = Some(&mut self.addresses).filter(|_| has_free);
        let groups = self.denied.values_mut().chain(addresses);
        let due = groups.filter(|group| group.next_due().is_some_and(|due| due <= now));
        due.filter_map(|group| {
            group.put_off(now);
            group.turn()
        })
        .collect()
    }

    /// When the next key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let addresses = Some(&self.addresses).filter(|_| self.has_free());
        let groups = self.denied.values().chain(addresses);
        groups.filter_map(Group::next_due).min()
    }

    /// Makes one denied key of each group due now, because the cause of the refusals may be gone.
    pub(super) fn hurry(&mut self, now: Instant) {
        for group in self.denied.values_mut() {
            group.next = now;
            group.backoff.reset();
        }
    }

    /// Logs when keys start to wait for a `ClusterIP`, and when none waits any more.
    pub(super) fn log(&mut self) {
        let is_short = self.addresses.waiting().next().is_some();
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

    /// Removes a key from the group of denied keys that it is in.
    fn leave(&mut self, key: &Key) -> Option<GroupName> {
        let name = self.group_of.remove(key)?;
        if let Some(group) = self.denied.get_mut(&name) {
            group.remove(key);
            if group.keys.is_empty() {
                self.denied.remove(&name);
            }
        }
        Some(name)
    }
}

/// Keys that wait for the same.
#[derive(Debug)]
struct Group {
    retries: &'static Retries,
    backoff: Backoff,
    /// The place of each waiting key: the lowest number is tried next. `None` while the key is tried.
    keys: BTreeMap<Key, Option<u64>>,
    /// The number that was given out last.
    last: u64,
    /// When the next key is tried.
    next: Instant,
}

impl Group {
    fn new(retries: &'static Retries) -> Self {
        Self {
            retries,
            backoff: Backoff::new(retries.first, retries.longest),
            keys: BTreeMap::new(),
            last: 0,
            next: Instant::now(),
        }
    }

    /// A group of denied keys. If its first key comes from another group, the backoff of that one continues.
    fn denied(backoff: Option<Backoff>, now: Instant) -> Self {
        let mut group = Self::new(&DENIED);
        if let Some(backoff) = backoff {
            group.backoff = backoff;
            group.put_off(now);
        }
        group
    }

    /// Adds a key at the end, unless it waits already.
    fn wait(&mut self, key: &Key) {
        let number = self.keys.entry(key.clone()).or_default();
        if number.is_none() {
            self.last += 1;
            *number = Some(self.last);
        }
    }

    fn is_tried(&self, key: &Key) -> bool {
        self.keys.get(key) == Some(&None)
    }

    fn waiting(&self) -> impl Iterator<Item = (u64, &Key)> {
        let keys = self.keys.iter();
        keys.filter_map(|(key, number)| Some(((*number)?, key)))
    }

    /// Removes a key. Returns whether it was being tried.
    fn remove(&mut self, key: &Key) -> bool {
        self.keys.remove(key) == Some(None)
    }

    /// The next key to try. Does not check whether it is due, because the cause may be gone.
    fn turn(&mut self) -> Option<Key> {
        let (_, key) = self.waiting().min()?;
        let key = key.clone();
        self.keys.insert(key.clone(), None);
        Some(key)
    }

    fn next_due(&self) -> Option<Instant> {
        self.waiting().next().map(|_| self.next)
    }

    /// Records a failure. The first one starts the backoff, later ones follow tries that are spaced already.
    fn failed(&mut self, now: Instant) {
        if self.backoff.failures() == 0 {
            self.put_off(now);
        }
    }

    /// Resets the backoff.
    fn reset(&mut self, now: Instant) {
        self.backoff.reset();
        self.next = now + self.backoff.pause();
    }

    fn put_off(&mut self, now: Instant) {
        let count = u32::try_from(self.waiting().count()).unwrap_or(u32::MAX);
        let longest = (self.retries.longest / count.max(1)).max(self.retries.shortest);
        let pause = self.backoff.next_pause().min(longest);
        let is_spread = self.retries.jitter;
        self.next = now + if is_spread { jittered(pause) } else { pause };
    }
}

fn namespace(key: &Key) -> &str {
    match key {
        Key::Mirror { namespace, .. } | Key::Federated { namespace, .. } => namespace,
        Key::Gateway { .. } => "",
    }
}

/// A message without what it quotes: the names of the object.
fn cause(message: &str) -> Box<str> {
    let unquoted = message.split('"').step_by(2);
    unquoted.collect::<Vec<_>>().join("…").into()
}

#[cfg(test)]
mod tests;
