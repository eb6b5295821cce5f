//! Limits on the objects of a target cluster that are kept, and what is omitted because of them.
//!
//! Objects that were kept before have priority over new ones, and the order of the list decides among the rest. An object
//! is omitted if its watch has as many objects as it may have, or if its cost does not fit into the budget of its Link.

mod listing;

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
};

use super::store::Indexed;
use crate::{
    budget::Budget,
    mirror::{key::Names, target::Target},
};

/// Maximum of what is kept for one target cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Bytes of labels and annotations of one Service. If a Service has more, none of them are copied.
    pub metadata: usize,
    /// Bytes of all Services and slices in memory, and of the endpoint mirrors of their hosts.
    pub bytes: usize,
    /// Bytes that a host of a headless Service counts in addition to its endpoint.
    pub host: usize,
}

impl Limits {
    /// About the memory that an endpoint mirror takes: a Service and a slice in the local cluster.
    pub const HOST: usize = 3 << 10;

    /// The limits for one target cluster: hosts have a cost only if its Link mirrors them with endpoint mirrors.
    #[must_use]
    pub fn of(self, target: &Target) -> Self {
        let host = if target.headless { self.host } else { 0 };
        Self { host, ..self }
    }

    /// The cost of an object in bytes.
    pub fn cost(&self, object: &impl Indexed) -> usize {
        object.weight() + self.host * object.hosts().len()
    }
}

/// Maximum number of names in one [`Omitted`]. Further Services are only counted.
pub(crate) const NAMED: usize = 10_000;

/// What a watch has omitted because of its limit: Services, or slices by their Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    services: Names,
    /// Number of Services whose names are not kept.
    unnamed: usize,
    /// Whether any is omitted because of its bytes.
    is_heavy: bool,
}

impl Omitted {
    /// Adds one.
    pub fn add(&mut self, service: (String, String)) {
        if self.services.len() < NAMED || self.services.contains(&service) {
            self.services.insert(service);
        } else {
            self.unnamed += 1;
        }
    }

    /// Whether nothing is omitted.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.unnamed == 0
    }

    /// Whether all names are known.
    pub fn is_complete(&self) -> bool {
        self.unnamed == 0
    }

    /// Whether this Service is known to be omitted, by name.
    pub fn names(&self, service: &(String, String)) -> bool {
        self.services.contains(service)
    }

    /// The names that are known.
    pub fn services(&self) -> &Names {
        &self.services
    }

    /// Whether any is omitted because of its bytes.
    pub fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// Number of Services whose names are not known.
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Keeps only the names for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&(String, String)) -> bool) {
        self.services.retain(keep);
    }

    /// Forgets the names, as if there were too many to keep.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn forget_names(&mut self) {
        self.unnamed += std::mem::take(&mut self.services).len();
    }
}

/// The limit of one watch: how many objects are kept, and how many bytes. Objects that were kept before have priority, so
/// that a mirrored object does not lose its place to a later one.
#[derive(Debug)]
pub struct Limit {
    pub(crate) max: usize,
    pub(crate) budget: Option<Budget>,
    /// Gives each object a number, which a target cluster cannot guess. Names instead of numbers would take as much
    /// memory as the objects.
    numbers: RandomState,
    /// The objects that are kept, with their costs.
    pub(crate) kept: HashMap<u64, usize>,
    /// The objects that are omitted.
    pub(crate) left: HashSet<u64>,
    /// The fewest bytes that have to become free for an object that is omitted.
    pub(crate) awaited: Option<usize>,
    /// Whether the objects that are omitted may differ from those of the last list, or now fit.
    pub(crate) stale: bool,
}

/// Maximum cost of one object. A slice of 1,000 endpoints has less than half of that in bytes.
pub(crate) const MAX_COST: usize = 4 << 20;

impl Default for Limit {
    fn default() -> Self {
        Self::of(usize::MAX)
    }
}

impl Limit {
    /// A limit of `max` objects.
    pub fn of(max: usize) -> Self {
        Self {
            max,
            budget: None,
            numbers: RandomState::new(),
            kept: HashMap::new(),
            left: HashSet::new(),
            awaited: None,
            stale: false,
        }
    }

    /// Limits bytes too.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Gives these objects priority, as if they had been kept before.
    #[must_use]
    pub fn first(mut self, names: &Names) -> Self {
        if self.is_limited() {
            let numbers = names.iter().map(|(ns, name)| (self.number(ns, name), 0));
            self.kept = numbers.collect();
        }
        self
    }

    /// The maximum number of objects that are kept.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Records that the object of this number exists, in a new state of this cost. Returns whether it is kept.
    pub fn admits(&mut self, number: u64, cost: usize) -> bool {
        if !self.is_limited() {
            return true;
        }
        let known = self.kept.get(&number).copied();
        let may_stay = known.is_some() || self.kept.len() < self.max;
        let is_kept = may_stay && self.charge(known, cost);
        if is_kept {
            self.release(known.unwrap_or_default().saturating_sub(cost));
            self.kept.insert(number, cost);
            self.stale |= self.left.remove(&number);
        } else {
            self.stale |= !self.left.contains(&number);
        }
        is_kept
    }

    /// Records that the object of this number is deleted.
    pub fn gone(&mut self, number: u64) {
        if let Some(cost) = self.kept.remove(&number) {
            self.release(cost);
            self.stale |= !self.left.is_empty();
        }
        self.stale |= self.left.remove(&number);
    }

    /// Whether another list is needed, to know what is omitted, or to keep objects that fit now.
    pub fn is_stale(&self) -> bool {
        let budget = self.budget.as_ref().zip(self.awaited);
        self.stale || budget.is_some_and(|(budget, bytes)| budget.has(bytes))
    }

    /// Whether other watches may free the bytes that an object that is omitted needs.
    pub fn waits(&self) -> bool {
        self.awaited.is_some()
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.max < usize::MAX || self.budget.is_some()
    }

    /// The number of an object. Without a limit, numbers are not used, and this is 0.
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        if self.is_limited() {
            self.numbers.hash_one((namespace, name))
        } else {
            0
        }
    }

    /// Takes the bytes that an object needs beyond those that it already has. Returns whether they were free.
    pub(crate) fn charge(&mut self, known: Option<usize>, cost: usize) -> bool {
        let Some(budget) = &self.budget else {
            return true;
        };
        if cost > MAX_COST {
            return false;
        }
        let more = cost.saturating_sub(known.unwrap_or_default());
        let is_free = budget.try_reserve(more);
        if !is_free {
            self.wait_for(more);
        }
        is_free
    }

    /// Records that an object is omitted until this many bytes are free.
    pub(crate) fn wait_for(&mut self, bytes: usize) {
        self.awaited = Some(self.awaited.map_or(bytes, |awaited| awaited.min(bytes)));
    }

    pub(crate) fn release(&self, bytes: usize) {
        if let Some(budget) = &self.budget {
            budget.release(bytes);
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.release(self.kept.values().sum());
    }
}

#[cfg(test)]
mod tests;
