//! Puts the event of a watch into the store of its objects.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    controller::watch::Event,
    mirror::{Grouped, Inserted, Store},
};

/// Puts a change into a store. Returns the objects that it concerns, in the states before and after.
///
/// `ours`: the store also holds the responses to our own writes, so a single change may be outdated.
pub(super) fn absorb<T: Grouped>(
    store: &mut Option<Store<T>>,
    change: Event<T>,
    ours: bool,
) -> Vec<Arc<T>> {
    let mut touched = Vec::new();
    match change {
        Event::List { objects, .. } => {
            let known = store.get_or_insert_default();
            let listed: BTreeSet<_> = objects
                .iter()
                .map(|object| object.metadata().id())
                .collect();
            for object in objects {
                let before = known.put(object.clone());
                let version = |object: &Arc<T>| object.metadata().resource_version.clone();
                let same = before.as_ref().map(version) == Some(version(&object));
                if !same {
                    touched.extend(before);
                    touched.push(object);
                }
            }
            touched.extend(known.retain_listed(&listed));
        }
        Event::Apply(object) => {
            let Some(known) = store else { return touched };
            let taken = if ours {
                known.insert(object.clone())
            } else {
                Inserted::Taken(known.put(object.clone()))
            };
            if let Inserted::Taken(before) = taken {
                touched.extend(before);
                touched.push(object);
            }
        }
        Event::Delete(object) => {
            let Some(known) = store else { return touched };
            touched.extend(known.remove(&object));
        }
    }
    touched
}
