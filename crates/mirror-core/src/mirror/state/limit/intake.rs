//! Which objects of a watch are kept, decided one object after the other.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
};

use super::budget::Budget;
use crate::mirror::key::Names;

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
    /// The objects that are left out.
    pub(crate) left: HashSet<u64>,
    /// The fewest bytes that have to become free for an object that is left out.
    pub(crate) awaited: Option<usize>,
    /// Whether the objects that are left out may differ from those of the last list, or now fit.
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
            self.give_back(known.unwrap_or_default().saturating_sub(cost));
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
            self.give_back(cost);
            self.stale |= !self.left.is_empty();
        }
        self.stale |= self.left.remove(&number);
    }

    /// Whether another list is needed, to know what is left out, or to keep objects that fit now.
    pub fn is_stale(&self) -> bool {
        let budget = self.budget.as_ref().zip(self.awaited);
        self.stale || budget.is_some_and(|(budget, bytes)| budget.has(bytes))
    }

    /// Whether other watches may free the bytes that an object that is left out needs.
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
        let is_free = budget.take(more);
        if !is_free {
            self.wait_for(more);
        }
        is_free
    }

    /// Records that an object is left out until this many bytes are free.
    pub(crate) fn wait_for(&mut self, bytes: usize) {
        self.awaited = Some(self.awaited.map_or(bytes, |awaited| awaited.min(bytes)));
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.give_back(self.kept.values().sum());
    }
}
