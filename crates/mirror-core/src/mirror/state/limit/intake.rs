//! Which objects of a watch are kept, decided one object after the other.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
};

use super::room::{Lack, Lacks, Room, Weight};
use crate::mirror::key::Names;

/// The limit of one watch: how many objects, bytes and hosts are kept. Objects that were kept before have priority, so
/// that a mirrored object does not lose its place to a later one.
#[derive(Debug)]
pub struct Limit {
    pub(crate) most: usize,
    pub(crate) room: Option<Room>,
    /// Gives each object a number, which a target cluster cannot guess. Names instead of numbers would take as much
    /// memory as the objects.
    numbers: RandomState,
    /// The objects that are kept, with their weights.
    pub(crate) taken: HashMap<u64, Held>,
    /// The weight of all objects that are kept.
    pub(crate) held: Weight,
    pub(crate) left: HashSet<u64>,
    /// The least room that some object that is left out needs.
    pub(crate) lightest: Lacks<Option<usize>>,
    /// Whether the objects that are left out may differ from those of the last list, or now have room.
    pub(crate) stale: bool,
}

/// Maximum number of bytes of one object. A slice of 1,000 endpoints has less than half of that.
pub(crate) const HEAVIEST: usize = 1 << 20;

impl Default for Limit {
    fn default() -> Self {
        Self::of(usize::MAX)
    }
}

impl Limit {
    /// A limit of `most` objects.
    pub fn of(most: usize) -> Self {
        Self {
            most,
            room: None,
            numbers: RandomState::new(),
            taken: HashMap::new(),
            held: Weight::default(),
            left: HashSet::new(),
            lightest: Lacks::default(),
            stale: false,
        }
    }

    /// Limits bytes and hosts too.
    #[must_use]
    pub fn within(mut self, room: Room) -> Self {
        self.room = Some(room);
        self
    }

    /// Gives these objects priority, as if they had been kept before.
    #[must_use]
    pub fn first(mut self, names: &Names) -> Self {
        if self.is_limited() {
            let numbers = names
                .iter()
                .map(|(ns, name)| (self.number(ns, name), Held::default()));
            self.taken = numbers.collect();
        }
        self
    }

    /// The maximum number of objects that are kept.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Records that the object of this number exists, in a new state of this weight. Returns whether it is kept.
    pub fn admits(&mut self, number: u64, weight: Weight) -> bool {
        if !self.is_limited() {
            return true;
        }
        let known = self.taken.get(&number).copied();
        let has_place = known.is_some() || self.taken.len() < self.most;
        let is_taken = has_place && self.charge(known, weight).is_ok();
        if is_taken {
            let before = Weight::from(known.unwrap_or_default());
            self.give_back(before.beyond(weight));
            self.held = self.held.beyond(before) + weight;
            self.taken.insert(number, weight.into());
            self.stale |= self.left.remove(&number);
        } else {
            self.stale |= !self.left.contains(&number);
        }
        is_taken
    }

    /// Records that the object of this number is deleted.
    pub fn gone(&mut self, number: u64) {
        if self.is_limited() {
            let taken = self.taken.remove(&number).map(Weight::from);
            if let Some(weight) = taken {
                self.give_back(weight);
                self.held = self.held.beyond(weight);
            }
            let made_room = taken.is_some() && !self.left.is_empty();
            self.stale |= made_room || self.left.remove(&number);
        }
    }

    /// Whether another list is needed, to know what is left out, or to keep objects for which there is room now.
    pub fn is_stale(&self) -> bool {
        let room = self.room.as_ref();
        self.stale || room.is_some_and(|room| room.has_any(self.lightest))
    }

    /// Whether other watches may free the room that an object that is left out needs.
    pub fn waits_for_room(&self) -> bool {
        self.lightest != Lacks::default()
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.most < usize::MAX || self.room.is_some()
    }

    /// The number of an object. Without a limit, numbers are not used, and this is 0.
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        if self.is_limited() {
            self.numbers.hash_one((namespace, name))
        } else {
            0
        }
    }

    /// Takes the room that an object needs beyond what it already has. `Err` says what is lacking.
    pub(crate) fn charge(&mut self, known: Option<Held>, weight: Weight) -> Result<(), Lack> {
        let Some(room) = &self.room else {
            return Ok(());
        };
        if weight.bytes > HEAVIEST {
            return Err(Lack::Bytes);
        }
        let more = weight.beyond(known.unwrap_or_default().into());
        let taken = room.take(more);
        if let Err(lack) = taken {
            self.waits_for(lack, more);
        }
        taken
    }

    /// Records that an object is left out, and how much room it needs.
    pub(crate) fn waits_for(&mut self, lack: Lack, more: Weight) {
        let least = self.lightest.of(lack);
        *least = Some(least.map_or(more.of_lack(lack), |least| least.min(more.of_lack(lack))));
    }

    pub(crate) fn give_back(&self, weight: Weight) {
        if let Some(room) = &self.room {
            room.give_back(weight);
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

/// A [`Weight`] in half the space. No object has more than [`HEAVIEST`] bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    bytes: u32,
    hosts: u32,
}

impl From<Weight> for Held {
    fn from(weight: Weight) -> Self {
        let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            bytes: narrow(weight.bytes),
            hosts: narrow(weight.hosts),
        }
    }
}

impl From<Held> for Weight {
    fn from(held: Held) -> Self {
        let widen = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            bytes: widen(held.bytes),
            hosts: widen(held.hosts),
        }
    }
}
