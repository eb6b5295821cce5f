//! Names of desired Services that belong to somebody else. No watch reports when such a name becomes free, so the names
//! are looked up again and again: with backoff, a few at a time, and not all at the same moment.

mod lookups;

use std::sync::Arc;

use tokio::time::Instant;

pub(super) use self::lookups::Lookups;
use self::lookups::Name;
use super::{done::Done, state::Engine};
use crate::{
    api::k8s::Service,
    controller::{
        apply::{Failure, Written},
        queue,
    },
    mirror::{Owner, owner},
};

impl Engine {
    /// Looks up names that belonged to others, as long as they are still needed.
    pub(super) fn look_up_names(&mut self) {
        while let Some(name) = self.lookups.next(Instant::now()) {
            if !self.state.is_wanted(&name.0, &name.1) {
                self.lookups.looked_up();
                self.lookups.forget(&name);
                self.state.foreign.remove(&name);
                continue;
            }
            let writer = self.writer.clone();
            self.tasks.spawn(async move {
                let found = writer.look(&name.0, &name.1).await;
                Done::LookedUp {
                    name,
                    found: found.map(|found| found.map(Box::new)),
                }
            });
        }
    }

    /// Records that a name belongs to somebody else, which was found when an object of this name was to be created.
    pub(super) fn found_foreign(&mut self, name: Name, who: String) {
        self.lookups.found(name.clone(), Instant::now());
        self.state.foreign.insert(name, who);
    }

    /// Handles the result of a lookup.
    pub(super) fn on_looked_up(
        &mut self,
        name: Name,
        found: Result<Option<Box<Service>>, Failure>,
    ) {
        self.lookups.looked_up();
        let is_foreign = |found: &Service| owner(&found.metadata) == Owner::Foreign;
        let found = match found {
            Ok(found) if !found.as_deref().is_some_and(is_foreign) => found,
            Ok(_) | Err(_) => {
                self.lookups.found_again(name, Instant::now());
                return;
            }
        };
        let mut keys = self.state.keys_for_name(&name.0, &name.1);
        keys.extend(self.state.keys_of_namespace(&name.0));
        self.lookups.forget(&name);
        self.state.foreign.remove(&name);
        if let Some(found) = found {
            self.absorb_written(Written::Service(Arc::from(found)));
        }
        self.follow_probes(&keys);
        self.enqueue_all(queue::LOCAL, keys);
    }
}
