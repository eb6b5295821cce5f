//! Limits on what is taken in of a target cluster, and what is left out because of them.

mod listing;

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
};

pub use self::listing::Listing;
use super::{budget::Budget, key::Key, queries::Names, world::World};

/// What is taken in of one target cluster, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Bytes of labels and annotations of one Service: of one that has more, none are copied.
    pub metadata: usize,
    /// Bytes of all Services and slices in memory.
    pub bytes: usize,
}

/// Of so many Services that are left out, or whose slices are, the names are kept.
const NAMED: usize = 10_000;

/// What a watch has left out because of its limit: Services, or slices by their Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    services: Names,
    /// How many more there are, whose names are not kept.
    unnamed: usize,
    /// Whether any is left out because of its bytes.
    heavy: bool,
}

impl LeftOut {
    /// Adds one.
    pub fn add(&mut self, service: (String, String)) {
        if self.services.len() < NAMED || self.services.contains(&service) {
            self.services.insert(service);
        } else {
            self.unnamed += 1;
        }
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.unnamed == 0
    }

    /// Whether all names are known.
    pub fn is_complete(&self) -> bool {
        self.unnamed == 0
    }

    /// Whether this one is left out, by all that is known.
    pub fn names(&self, service: &(String, String)) -> bool {
        self.services.contains(service)
    }

    /// The names that are known.
    pub fn services(&self) -> &Names {
        &self.services
    }

    /// Whether any is left out because of its bytes.
    pub fn is_heavy(&self) -> bool {
        self.heavy
    }

    /// How many there are whose names are not known.
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Keeps those that this holds of.
    pub fn retain(&mut self, keep: impl FnMut(&(String, String)) -> bool) {
        self.services.retain(keep);
    }

    /// As if there were too many to name.
    #[cfg(test)]
    pub(super) fn forget_names(&mut self) {
        self.unnamed += std::mem::take(&mut self.services).len();
    }
}

/// What a watch takes in: at most so many objects and bytes, and those first that it took in before. What is mirrored
/// does not lose its place to what comes later.
#[derive(Debug)]
pub struct Limit {
    most: usize,
    bytes: Option<Budget>,
    /// Objects are known by a number that nobody outside can guess: their names would take as much memory as they do.
    numbers: RandomState,
    /// What is taken in, and its bytes.
    taken: HashMap<u64, u32>,
    /// The bytes of all that is taken in.
    held: usize,
    left: HashSet<u64>,
    /// The fewest bytes of what is left out because of them.
    lightest: Option<usize>,
    /// Whether what is left out may be another than the last list said, or has room now.
    stale: bool,
}

/// Bytes of one object, at most. A slice of 1,000 endpoints has less than half of it.
const HEAVIEST: usize = 1 << 20;

impl Default for Limit {
    fn default() -> Self {
        Self::of(usize::MAX)
    }
}

impl Limit {
    /// At most so many objects.
    pub fn of(most: usize) -> Self {
        Self {
            most,
            bytes: None,
            numbers: RandomState::new(),
            taken: HashMap::new(),
            held: 0,
            left: HashSet::new(),
            lightest: None,
            stale: false,
        }
    }

    /// At most so many bytes.
    #[must_use]
    pub fn within(mut self, bytes: Budget) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Takes these first, as far as there is room.
    #[must_use]
    pub fn first(mut self, names: &Names) -> Self {
        if self.is_limited() {
            let numbers = names.iter().map(|(ns, name)| (self.number(ns, name), 0));
            self.taken = numbers.collect();
        }
        self
    }

    /// The most objects that are taken in.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Begins to take in a list of all there is. Nothing of it counts before its end.
    pub fn list<T>(&mut self) -> Listing<'_, T> {
        Listing::new(self)
    }

    /// The object of this number is there, in a new state of so many bytes. Returns whether it is taken in.
    pub fn admits(&mut self, number: u64, bytes: usize) -> bool {
        if !self.is_limited() {
            return true;
        }
        let known = self.taken.get(&number).copied();
        let has_place = known.is_some() || self.taken.len() < self.most;
        let is_taken = has_place && self.charge(known, bytes);
        if is_taken {
            let before = known.map_or(0, to_usize);
            self.give_back(before.saturating_sub(bytes));
            self.held = self.held + bytes - before;
            self.taken.insert(number, to_u32(bytes));
            self.stale |= self.left.remove(&number);
        } else {
            self.stale |= !self.left.contains(&number);
        }
        is_taken
    }

    /// The object of this number is no longer there.
    pub fn gone(&mut self, number: u64) {
        if self.is_limited() {
            let taken = self.taken.remove(&number);
            if let Some(bytes) = taken.map(to_usize) {
                self.give_back(bytes);
                self.held -= bytes;
            }
            let made_room = taken.is_some() && !self.left.is_empty();
            self.stale |= made_room || self.left.remove(&number);
        }
    }

    /// Whether only another list can tell what is left out, or can take in what there is room for.
    pub fn is_stale(&self) -> bool {
        let has = |bytes: usize| self.bytes.as_ref().is_none_or(|budget| budget.has(bytes));
        self.stale || self.lightest.is_some_and(has)
    }

    /// Whether others may make room for what is left out.
    pub fn waits_for_bytes(&self) -> bool {
        self.lightest.is_some()
    }

    fn is_limited(&self) -> bool {
        self.most < usize::MAX || self.bytes.is_some()
    }

    /// The number of an object. Without a limit none is looked at.
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        if self.is_limited() {
            self.numbers.hash_one((namespace, name))
        } else {
            0
        }
    }

    /// Takes the bytes that an object needs besides those it is known to have. Returns whether they were there.
    fn charge(&mut self, known: Option<u32>, bytes: usize) -> bool {
        let Some(budget) = &self.bytes else {
            return true;
        };
        let more = bytes.saturating_sub(known.map_or(0, to_usize));
        if bytes <= HEAVIEST && budget.take(more) {
            return true;
        }
        if bytes <= HEAVIEST {
            self.waits_for(more);
        }
        false
    }

    /// Something is left out that so many bytes would let in.
    fn waits_for(&mut self, bytes: usize) {
        self.lightest = Some(self.lightest.map_or(bytes, |least| least.min(bytes)));
    }

    fn give_back(&self, bytes: usize) {
        if let Some(budget) = &self.bytes {
            budget.give_back(bytes);
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

fn to_usize(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// No object has more than [`HEAVIEST`].
fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl World {
    /// The Services of a target cluster for which something stands here.
    pub fn stands_for(&self, cluster: &str) -> Names {
        let standing = self.mirrors.iter().flat_map(|m| m.of_cluster(cluster));
        let keys = standing.flat_map(|service| self.keys_of_local(service));
        keys.filter_map(|key| match key {
            Key::Mirror {
                cluster: of,
                namespace,
                service,
            } => (of == cluster).then_some((namespace, service)),
            Key::Federated { namespace, service } => Some((namespace, service)),
            Key::Probe { .. } => None,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
