//! The Services whose slices are followed although no selector finds them.

use std::collections::BTreeMap;

use crate::mirror::Names;

/// The Services of one watch, by namespace and name, with their numbers in [`Followed`].
pub(in crate::controller) type Chunk = BTreeMap<(String, String), u64>;

/// Services whose slices are followed. A Service gets a new number each time it is added. So a Service that was removed
/// and added again between two looks at the set has its slices listed again.
#[derive(Clone, Default)]
pub(in crate::controller) struct Followed {
    pub(super) services: Chunk,
    added: u64,
    removed: u64,
}

impl Followed {
    /// Adds a Service. Returns whether it is new.
    pub(in crate::controller) fn insert(&mut self, service: (String, String)) -> bool {
        if self.services.contains_key(&service) {
            return false;
        }
        self.added += 1;
        self.services.insert(service, self.added);
        true
    }

    /// Removes a Service. Returns whether it was there.
    pub(in crate::controller) fn remove(&mut self, service: &(String, String)) -> bool {
        let was_there = self.services.remove(service).is_some();
        self.removed += u64::from(was_there);
        was_there
    }

    /// Applies a change. Returns whether it changed anything.
    pub(super) fn changes(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let before = (self.added, self.removed);
        change(self);
        before != (self.added, self.removed)
    }

    /// The Services of a watch that have been followed without interruption since the watch was started.
    pub(super) fn still(&self, chunk: &Chunk) -> Names {
        let same = |(service, number): &(&(String, String), &u64)| {
            self.services.get(*service) == Some(*number)
        };
        let still = chunk.iter().filter(same);
        still.map(|(service, _)| service.clone()).collect()
    }
}
