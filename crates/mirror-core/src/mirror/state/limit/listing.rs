//! A list that is being received, and which of its objects are kept.

use std::{collections::HashSet, sync::Arc};

use super::{Limit, Omitted};

/// A list that is being received. At most twice the limit is in memory.
#[derive(Debug)]
pub struct Listing<'a, T> {
    limit: &'a mut Limit,
    /// Objects that were kept before, and new ones.
    kept: Vec<Listed<T>>,
    new: Vec<Listed<T>>,
    /// The bytes that were taken for them, beyond those that the limit already has.
    more: usize,
    omitted: Omitted,
    left: HashSet<u64>,
}

#[derive(Debug)]
struct Listed<T> {
    number: u64,
    cost: usize,
    object: Arc<T>,
}

impl Limit {
    /// Begins to receive a list of all objects. It has no effect until [`Listing::end`].
    pub fn list<T>(&mut self) -> Listing<'_, T> {
        self.awaited = None;
        Listing {
            limit: self,
            kept: Vec::new(),
            new: Vec::new(),
            more: 0,
            omitted: Omitted::default(),
            left: HashSet::new(),
        }
    }
}

impl<T> Listing<'_, T> {
    /// As [`Limit::number`].
    pub fn number(&self, namespace: &str, name: &str) -> u64 {
        self.limit.number(namespace, name)
    }

    /// Adds the next object of the list, with its cost. `service` returns its Service, for the case that it is omitted.
    pub fn put(
        &mut self,
        number: u64,
        cost: usize,
        object: Arc<T>,
        service: impl Fn(&T) -> (String, String),
    ) {
        let listed = Listed {
            number,
            cost,
            object,
        };
        let known = self.limit.kept.get(&number).copied();
        let earlier = if known.is_some() {
            &self.kept
        } else {
            &self.new
        };
        if earlier.len() >= self.limit.max {
            self.leave(&listed, &service);
            return;
        }
        let more = cost.saturating_sub(known.unwrap_or_default());
        let mut fits = self.limit.charge(known, cost);
        // The newest objects make way for one that was kept before.
        while !fits && known.is_some() && self.fits_without_new(more) {
            let Some(newest) = self.new.pop() else { break };
            self.limit.release(newest.cost);
            self.limit.wait_for(newest.cost);
            self.more -= newest.cost;
            self.omitted.is_heavy = true;
            self.leave(&newest, &service);
            fits = self.limit.charge(known, cost);
        }
        if !fits {
            self.omitted.is_heavy = true;
            self.leave(&listed, &service);
            return;
        }
        self.more += more;
        if known.is_some() {
            self.kept.push(listed);
        } else {
            self.new.push(listed);
        }
    }

    /// Whether these bytes would be free if no new objects were kept.
    fn fits_without_new(&self, bytes: usize) -> bool {
        let new: usize = self.new.iter().map(|new| new.cost).sum();
        let budget = self.limit.budget.as_ref();
        budget.is_some_and(|budget| budget.has(bytes.saturating_sub(new)))
    }

    fn leave(&mut self, listed: &Listed<T>, service: impl Fn(&T) -> (String, String)) {
        self.left.insert(listed.number);
        self.omitted.add(service(&listed.object));
    }

    /// Whether the list has more objects than the limit.
    pub fn is_over(&self) -> bool {
        !self.left.is_empty() || self.kept.len() + self.new.len() > self.limit.max
    }

    /// Ends the list. Returns the objects that are kept, and what is omitted.
    pub fn end(mut self, service: impl Fn(&T) -> (String, String)) -> (Vec<Arc<T>>, Omitted) {
        let free = self.limit.max - self.kept.len();
        for listed in self.new.split_off(free.min(self.new.len())) {
            self.leave(&listed, &service);
        }
        let mut all = std::mem::take(&mut self.kept);
        all.append(&mut self.new);
        let limit = &mut *self.limit;
        if all.len() == limit.max {
            // Every place is taken, so bytes that become free are of no use to the others.
            limit.awaited = None;
            self.omitted.is_heavy = false;
        }
        if limit.is_limited() {
            let charged = limit.kept.values().sum::<usize>() + std::mem::take(&mut self.more);
            limit.kept = all.iter().map(|of| (of.number, of.cost)).collect();
            limit.release(charged - limit.kept.values().sum::<usize>());
        }
        limit.left = std::mem::take(&mut self.left);
        limit.stale = false;
        let objects = all.into_iter().map(|listed| listed.object);
        (objects.collect(), std::mem::take(&mut self.omitted))
    }
}

impl<T> Drop for Listing<'_, T> {
    /// Gives back the bytes of a list that was broken off.
    fn drop(&mut self) {
        self.limit.release(self.more);
    }
}
