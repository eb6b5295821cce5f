//! A list that is being taken in: what of it has a place.

use std::{collections::HashSet, sync::Arc};

use super::{LeftOut, Limit, to_u32, to_usize};

/// A list that is being taken in. What is held of it is at most twice the limit.
#[derive(Debug)]
pub struct Listing<'a, T> {
    limit: &'a mut Limit,
    /// Objects that were taken in before, and that were not.
    kept: Vec<Taken<T>>,
    new: Vec<Taken<T>>,
    /// Bytes that were taken for them, besides those that the limit holds.
    more: usize,
    left_out: LeftOut,
    left: HashSet<u64>,
}

#[derive(Debug)]
struct Taken<T> {
    number: u64,
    bytes: usize,
    object: Arc<T>,
}

impl<'a, T> Listing<'a, T> {
    pub(super) fn new(limit: &'a mut Limit) -> Self {
        limit.lightest = None;
        Self {
            limit,
            kept: Vec::new(),
            new: Vec::new(),
            more: 0,
            left_out: LeftOut::default(),
            left: HashSet::new(),
        }
    }

    /// As [`Limit::number`].
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        self.limit.number(namespace, name)
    }

    /// Takes in the next object, of so many bytes. `service` tells of which Service it is, should it be left out.
    pub fn put(
        &mut self,
        number: u64,
        bytes: usize,
        object: Arc<T>,
        service: impl Fn(&T) -> (String, String),
    ) {
        let taken = Taken {
            number,
            bytes,
            object,
        };
        let known = self.limit.taken.get(&number).copied();
        let place = if known.is_some() {
            &self.kept
        } else {
            &self.new
        };
        if place.len() >= self.limit.most {
            self.leave(&taken, &service);
            return;
        }
        let mut fits = self.limit.charge(known, bytes);
        let known_bytes = known.map_or(0, to_usize);
        while !fits && known.is_some() && self.can_make_room(bytes.saturating_sub(known_bytes)) {
            // What came last makes room.
            let Some(other) = self.new.pop() else { break };
            self.limit.give_back(other.bytes);
            self.limit.waits_for(other.bytes);
            self.more -= other.bytes;
            self.left_out.heavy = true;
            self.leave(&other, &service);
            fits = self.limit.charge(known, bytes);
        }
        if !fits {
            self.left_out.heavy = true;
            self.leave(&taken, &service);
            return;
        }
        self.more += bytes.saturating_sub(known_bytes);
        if known.is_some() {
            self.kept.push(taken);
        } else {
            self.new.push(taken);
        }
    }

    /// Whether so many bytes would be there if nothing new were taken in.
    fn can_make_room(&self, bytes: usize) -> bool {
        let new: usize = self.new.iter().map(|taken| taken.bytes).sum();
        let budget = self.limit.bytes.as_ref();
        new > 0 && budget.is_some_and(|budget| budget.has(bytes.saturating_sub(new)))
    }

    fn leave(&mut self, taken: &Taken<T>, service: impl Fn(&T) -> (String, String)) {
        self.left.insert(taken.number);
        self.left_out.add(service(&taken.object));
    }

    /// Whether there are more than may be.
    pub fn is_over(&self) -> bool {
        !self.left.is_empty() || self.kept.len() + self.new.len() > self.limit.most
    }

    /// All objects that are taken in, and what is left out.
    pub fn end(mut self, service: impl Fn(&T) -> (String, String)) -> (Vec<Arc<T>>, LeftOut) {
        let room = self.limit.most - self.kept.len();
        for taken in self.new.split_off(room.min(self.new.len())) {
            self.leave(&taken, &service);
        }
        let mut all = std::mem::take(&mut self.kept);
        all.append(&mut self.new);
        let limit = &mut *self.limit;
        if limit.is_limited() {
            let known = all.iter().map(|taken| (taken.number, to_u32(taken.bytes)));
            limit.taken = known.collect();
            let held = limit.taken.values().copied().map(to_usize).sum();
            let taken = limit.held + std::mem::take(&mut self.more);
            limit.give_back(taken.saturating_sub(held));
            limit.held = held;
        }
        limit.left = std::mem::take(&mut self.left);
        limit.stale = false;
        let objects = all.into_iter().map(|taken| taken.object);
        (objects.collect(), std::mem::take(&mut self.left_out))
    }
}

impl<T> Drop for Listing<'_, T> {
    /// One that broke off gives back what it has taken.
    fn drop(&mut self) {
        self.limit.give_back(self.more);
    }
}
