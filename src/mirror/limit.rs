//! Limits on what is taken in of a target cluster, and what is left out because of them.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use super::{key::Key, queries::Names, world::World};

/// Of so many Services that are left out, or whose slices are, the names are kept.
const NAMED: usize = 10_000;

/// What a watch has left out because of its limit: Services, or slices by their Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    services: Names,
    /// How many more there are, whose names are not kept.
    unnamed: usize,
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

/// What a watch takes in: at most so many objects, and those first that it took in before. What is mirrored does not
/// lose its place to what comes later.
#[derive(Debug)]
pub struct Limit {
    most: usize,
    /// Objects are known by a number that nobody outside can guess: their names would take as much memory as they do.
    numbers: RandomState,
    taken: HashSet<u64>,
    left: HashSet<u64>,
    /// Whether what is left out may be another than the last list said, or has room now.
    stale: bool,
}

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
            numbers: RandomState::new(),
            taken: HashSet::new(),
            left: HashSet::new(),
            stale: false,
        }
    }

    /// Takes these first, as far as there is room.
    #[must_use]
    pub fn first(mut self, names: &Names) -> Self {
        if self.is_limited() {
            let numbers = names.iter().map(|(ns, name)| self.number(ns, name));
            self.taken = numbers.collect();
        }
        self
    }

    /// The most that is taken in.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Begins to take in a list of all there is. Nothing of it counts before its end.
    pub fn list<T>(&mut self) -> Listing<'_, T> {
        Listing {
            limit: self,
            kept: Vec::new(),
            new: Vec::new(),
            left_out: LeftOut::default(),
            left: HashSet::new(),
        }
    }

    /// The object of this number is there, in a new state. Returns whether it is taken in.
    pub fn admits(&mut self, number: u64) -> bool {
        if !self.is_limited() {
            return true;
        }
        let has_room = self.taken.len() < self.most;
        let is_taken = self.taken.contains(&number) || has_room;
        if is_taken {
            self.taken.insert(number);
            self.stale |= self.left.remove(&number);
        } else {
            self.stale |= !self.left.contains(&number);
        }
        is_taken
    }

    /// The object of this number is no longer there.
    pub fn gone(&mut self, number: u64) {
        if self.is_limited() {
            let made_room = self.taken.remove(&number) && !self.left.is_empty();
            self.stale |= made_room || self.left.remove(&number);
        }
    }

    /// Whether only another list can tell what is left out, or can take in what there is room for.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    fn is_limited(&self) -> bool {
        self.most < usize::MAX
    }

    /// The number of an object. Without a limit none is looked at.
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        if self.is_limited() {
            self.numbers.hash_one((namespace, name))
        } else {
            0
        }
    }
}

/// A list that is being taken in. What is held of it is at most twice the limit.
#[derive(Debug)]
pub struct Listing<'a, T> {
    limit: &'a mut Limit,
    kept: Vec<(u64, Arc<T>)>,
    new: Vec<(u64, Arc<T>)>,
    left_out: LeftOut,
    left: HashSet<u64>,
}

impl<T> Listing<'_, T> {
    /// As [`Limit::number`].
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        self.limit.number(namespace, name)
    }

    /// Takes in the next object. `service` tells of which Service it is, should it be left out.
    pub fn put(&mut self, number: u64, object: Arc<T>, service: impl Fn(&T) -> (String, String)) {
        let place = if self.limit.taken.contains(&number) {
            &mut self.kept
        } else {
            &mut self.new
        };
        if place.len() < self.limit.most {
            place.push((number, object));
        } else {
            self.left.insert(number);
            self.left_out.add(service(&object));
        }
    }

    /// Whether there are more than may be.
    pub fn is_over(&self) -> bool {
        !self.left.is_empty() || self.kept.len() + self.new.len() > self.limit.most
    }

    /// All objects that are taken in, and what is left out.
    pub fn end(mut self, service: impl Fn(&T) -> (String, String)) -> (Vec<Arc<T>>, LeftOut) {
        let room = self.limit.most - self.kept.len();
        for (number, object) in self.new.drain(room.min(self.new.len())..) {
            self.left.insert(number);
            self.left_out.add(service(&object));
        }
        self.kept.append(&mut self.new);
        if self.limit.is_limited() {
            self.limit.taken = self.kept.iter().map(|(number, _)| *number).collect();
        }
        self.limit.left = self.left;
        self.limit.stale = false;
        let objects = self.kept.into_iter().map(|(_, object)| object);
        (objects.collect(), self.left_out)
    }
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
