//! A list that is being taken in: what of it has a place.

use std::{collections::HashSet, sync::Arc};

use super::{
    intake::Limit,
    left_out::LeftOut,
    room::{Lack, Lacks, Weight},
};

/// A list that is being taken in. What is held of it is at most twice the limit.
#[derive(Debug)]
pub struct Listing<'a, T> {
    limit: &'a mut Limit,
    /// Objects that were taken in before, and that were not.
    kept: Vec<Taken<T>>,
    new: Vec<Taken<T>>,
    /// What was taken for them, besides what the limit holds.
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
    /// Begins to take in a list of all there is. Nothing of it counts before its end.
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

    /// Takes in the next object, of this weight. `service` tells of which Service it is, should it be left out.
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
            // What came last makes room for what was there before.
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

    /// Whether there would be room for this if nothing new were taken in.
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
    /// One that broke off gives back what it has taken.
    fn drop(&mut self) {
        self.limit.give_back(self.more);
    }
}
