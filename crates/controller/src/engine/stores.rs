//! Puts the event of a watch into the store of its objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt as _, core::PartialObjectMeta};
use mirror_core::mirror::{self, Indexed, Inserted, Namespaces, Store};

use crate::watch::Event;

/// Puts a change into a store of local objects that may not have been listed. Returns what [`apply`] does.
pub fn apply_optional<T: Indexed>(store: &mut Option<Store<T>>, change: Event<T>) -> Vec<Arc<T>> {
    if let Event::List { .. } = change {
        store.get_or_insert_default();
    }
    let store = store.as_mut();
    store.map_or_else(Vec::new, |store| apply(store, change, true))
}

/// Puts a change into a store. Returns the objects that it concerns, in the states before and after.
///
/// `is_local`: the store also holds the responses to our own writes, so a single change may be outdated.
pub fn apply<T: Indexed>(known: &mut Store<T>, change: Event<T>, is_local: bool) -> Vec<Arc<T>> {
    let mut touched = Vec::new();
    match change {
        Event::List { objects, .. } => {
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
            let taken = if is_local {
                known.insert(object.clone())
            } else {
                Inserted::Taken(known.put(object.clone()))
            };
            if let Inserted::Taken(before) = taken {
                touched.extend(before);
                touched.push(object);
            }
        }
        Event::Delete(object) => touched.extend(known.remove(&object)),
    }
    touched
}

/// The namespaces in a change, with their new state.
pub fn namespaces(
    known: &Namespaces,
    change: Event<PartialObjectMeta<Namespace>>,
) -> BTreeMap<String, Option<mirror::Namespace>> {
    let now = |object: &PartialObjectMeta<Namespace>| Some(mirror::Namespace::of(&object.metadata));
    match change {
        Event::List { objects, .. } => {
            let known = known.names();
            let mut all: BTreeMap<_, _> = known.map(|name| (name.to_owned(), None)).collect();
            all.extend(
                objects
                    .iter()
                    .map(|object| (object.name_any(), now(object))),
            );
            all
        }
        Event::Apply(object) => [(object.name_any(), now(&object))].into(),
        Event::Delete(object) => [(object.name_any(), None)].into(),
    }
}
