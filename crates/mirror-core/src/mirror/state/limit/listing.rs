//! A list that is being received, and which of its objects are kept.

use std::{collections::HashSet, sync::Arc};

use super::{
    intake::Limit,
    left_out::LeftOut,
    room::{Lack, Lacks, Weight},
};

/// A list that is being received. At most twice the limit is in memory.
#[derive(Debug)]
pub struct Listing<'a, T> {
    limit: &'a mut Limit,
    /// Objects that were kept before, and new ones.
    kept: Vec<Taken<T>>,
    new: Vec<Taken<T>>,
    /// The room that was taken for them, beyond what the limit already has.
    more: Weight,
    left_out: LeftOut,
    left: HashSet<u64>,
}

#[derive(Debug)]
struct Taken<T> {
    number: u64,
    weight: Weight,
    object: Arc<T>,
}

impl Limit {
    /// Begins to receive a list of all objects. It has no effect until [`Listing::end`].
    pub fn list<T>(&mut self) -> Listing<'_, T> {
        Listing::new(self)
    }
}

impl<'a, T> Listing<'a, T> {
    fn new(limit: &'a mut Limit) -> Self {
        limit.lightest = Lacks::default();
        Self {
            limit,
            kept: Vec::new(),
            new: Vec::new(),
            more: Weight::default(),
            left_out: LeftOut::default(),
            left: HashSet::new(),
        }
    }

    /// As [`Limit::number`].
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        self.limit.number(namespace, name)
    }

    /// Adds the next object of the list, with its weight. `service` returns its Service, for the case that it is left
    /// out.
    pub fn put(
        &mut self,
        number: u64,
        weight: Weight,
        object: Arc<T>,
        service: impl Fn(&T) -> (String, String),
    ) {
        let taken = Taken {
            number,
            weight,
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
        let more = weight.beyond(known.unwrap_or_default().into());
        let mut fits = self.limit.charge(known, weight);
        while let Err(lack) = fits {
            // The newest object makes room for one that was kept before.
            let takes = |taken: &Taken<T>| taken.weight.of_lack(lack) > 0;
            let makes_room = known.is_some() && self.can_make_room(more);
            let last = self.new.iter().rposition(takes).filter(|_| makes_room);
            let Some(last) = last else { break };
            let other = self.new.remove(last);
            self.limit.give_back(other.weight);
            self.limit.waits_for(lack, other.weight);
            self.lacks(lack);
            self.more = self.more.beyond(other.weight);
            self.leave(&other, &service);
            fits = self.limit.charge(known, weight);
        }
        if let Err(lack) = fits {
            self.lacks(lack);
            self.leave(&taken, &service);
            return;
        }
        self.more = self.more + more;
        if known.is_some() {
            self.kept.push(taken);
        } else {
            self.new.push(taken);
        }
    }

    /// Whether there would be room for this if no new objects were kept.
    fn can_make_room(&self, more: Weight) -> bool {
        let new = self.new.iter().map(|taken| taken.weight);
        let new = new.fold(Weight::default(), std::ops::Add::add);
        let room = self.limit.room.as_ref();
        room.is_some_and(|room| room.has(more.beyond(new)))
    }

    fn lacks(&mut self, lack: Lack) {
        *self.left_out.lacks.of(lack) = true;
    }

    fn leave(&mut self, taken: &Taken<T>, service: impl Fn(&T) -> (String, String)) {
        self.left.insert(taken.number);
        self.left_out.add(service(&taken.object));
    }

    /// Whether the list has more objects than the limit.
    pub fn is_over(&self) -> bool {
        !self.left.is_empty() || self.kept.len() + self.new.len() > self.limit.most
    }

    /// Ends the list. Returns the objects that are kept, and what is left out.
    pub fn end(mut self, service: impl Fn(&T) -> (String, String)) -> (Vec<Arc<T>>, LeftOut) {
        let room = self.limit.most - self.kept.len();
        for taken in self.new.split_off(room.min(self.new.len())) {
            self.leave(&taken, &service);
        }
        let mut all = std::mem::take(&mut self.kept);
        all.append(&mut self.new);
        let limit = &mut *self.limit;
        if limit.is_limited() {
            let known = all.iter().map(|taken| (taken.number, taken.weight.into()));
            limit.taken = known.collect();
            let held = limit.taken.values().copied().map(Weight::from);
            let held = held.fold(Weight::default(), std::ops::Add::add);
            let taken = limit.held + std::mem::take(&mut self.more);
            limit.give_back(taken.beyond(held));
            limit.held = held;
        }
        limit.left = std::mem::take(&mut self.left);
        limit.stale = false;
        let objects = all.into_iter().map(|taken| taken.object);
        (objects.collect(), std::mem::take(&mut self.left_out))
    }
}

impl<T> Drop for Listing<'_, T> {
    /// Gives back the room of a list that was broken off.
    fn drop(&mut self) {
        self.limit.give_back(self.more);
    }
}
