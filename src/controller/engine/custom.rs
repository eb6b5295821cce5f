//! Services without a selector, and their slices, which no label selector finds.

use std::sync::Arc;

use super::{link_state::record, state::Engine};
use crate::{
    api::k8s::{EndpointSlice, Service},
    controller::{
        session::{Chunk, Session},
        watch::Event,
    },
    mirror::{Grouped as _, Key, LeftOut, Names, Store, Target},
};

impl Engine {
    /// Handles a change of slices from the watch of these Services.
    pub(super) fn on_custom_slices_event(
        &mut self,
        link: &str,
        chunk: &Chunk,
        change: Event<EndpointSlice>,
    ) {
        let Some(session) = self.session(link) else {
            return;
        };
        let followed = session.followed_of(chunk);
        let Some(remote) = self.remote(link) else {
            return;
        };
        let stores = (remote.slices.last_mut(), remote.cut.last_mut());
        let (Some(store), Some(cut)) = stores else {
            return;
        };
        let lists = matches!(change, Event::List { .. });
        let touched = absorb_followed(store, &mut remote.unlisted, cut, &followed, change);
        let cluster = self.cluster(link);
        let touched = touched.iter();
        let keys: Vec<Key> = touched
            .flat_map(|(namespace, name)| self.state.keys_of_endpoints(&cluster, namespace, name))
            .collect();
        self.enqueue_changed(&cluster, keys);
        if lists {
            self.note_limit(link);
        }
    }

    /// The session whose objects are in the state.
    fn session(&self, link: &str) -> Option<&Session> {
        self.links.get(link)?.current.as_ref()
    }

    /// Updates which Services the current session of a Link follows, after a change of these Services. `None`: after a
    /// change of the Link, which may concern all of them.
    pub(super) fn check_followed(&mut self, link: &str, changed: Option<Names>) {
        let by_slices = self.state.by_slices();
        let Some((state, entry)) = record(&mut self.links, &mut self.state, link) else {
            return;
        };
        let (Some(session), Ok(target), Some(remote)) =
            (&state.current, entry.target, entry.remote.as_mut())
        else {
            return;
        };
        let stores = (remote.slices.last_mut(), remote.cut.last_mut());
        let (Some(slices), Some(cut)) = stores else {
            return;
        };
        let following = Following {
            session,
            services: remote.services.iter().collect(),
            slices,
            cut,
            unlisted: &mut remote.unlisted,
        };
        following.update(target, by_slices, changed);
    }
}

/// The Services of a session, and what it knows of those that it follows.
pub(super) struct Following<'a> {
    pub(super) session: &'a Session,
    pub(super) services: Vec<&'a Store<Service>>,
    /// Slices that no selector finds.
    pub(super) slices: &'a mut Store<EndpointSlice>,
    /// Services with slices that are left out because of the limit.
    pub(super) cut: &'a mut LeftOut,
    /// Services whose slices have not been listed yet.
    pub(super) unlisted: &'a mut Names,
}

impl Following<'_> {
    /// Follows those Services whose slices no selector finds, and no others. `changed`: only these Services have changed
    /// since the last update; `None`: the Link has.
    pub(super) fn update(self, target: &Target, by_slices: bool, changed: Option<Names>) {
        let Self {
            session,
            services,
            slices,
            cut,
            unlisted,
        } = self;
        let changed = changed.unwrap_or_else(|| {
            let all = services.iter().flat_map(|store| store.iter());
            let custom = target.unselected(by_slices, all.map(AsRef::as_ref));
            custom.chain(session.followed()).collect()
        });
        let is_custom = |(namespace, name): &(String, String)| {
            let found = services.iter().filter_map(|s| s.get(namespace, name));
            let newest = found.max_by_key(|service| service.metadata.version());
            newest.is_some_and(|service| target.is_unselected(by_slices, service))
        };
        let (are, are_not): (Names, Names) = changed.into_iter().partition(is_custom);
        session.follow(|followed| {
            for id in are {
                if followed.insert(id.clone()) {
                    unlisted.insert(id);
                }
            }
            for id in are_not {
                if followed.remove(&id) {
                    unlisted.remove(&id);
                    cut.retain(|other| *other != id);
                    forget(slices, &id, &Names::new());
                }
            }
        });
    }
}

/// Puts a change into the store. Returns the Services of `followed` that it concerns: those whose slices changed, and
/// those that are now known to have no slices.
pub(super) fn absorb_followed(
    store: &mut Store<EndpointSlice>,
    unlisted: &mut Names,
    cut: &mut LeftOut,
    followed: &Names,
    change: Event<EndpointSlice>,
) -> Names {
    let service = |slice: &EndpointSlice| {
        let name = slice.group().unwrap_or_default();
        (slice.metadata.namespace().to_owned(), name.to_owned())
    };
    let mut touched = Names::new();
    match change {
        Event::List { objects, left_out } => {
            let listed: Names = objects.iter().map(|slice| slice.metadata.id()).collect();
            for id in followed {
                if forget(store, id, &listed) {
                    touched.insert(id.clone());
                }
                if unlisted.remove(id) || cut.names(id) != left_out.names(id) {
                    touched.insert(id.clone());
                }
            }
            cut.retain(|id| !followed.contains(id));
            for id in left_out.services().intersection(followed) {
                cut.add(id.clone());
            }
            for slice in objects {
                let id = service(&slice);
                if followed.contains(&id) {
                    let version = slice.metadata.resource_version.clone();
                    let before = store.put(slice);
                    if before.is_none_or(|before| before.metadata.resource_version != version) {
                        touched.insert(id);
                    }
                }
            }
        }
        Event::Apply(slice) => {
            let id = service(&slice);
            let (namespace, name) = slice.metadata.id();
            if followed.contains(&id) {
                if let Some(before) = store.put(slice) {
                    touched.insert(service(&before));
                }
                touched.insert(id);
            } else if let Some(before) = store.forget(&namespace, &name) {
                touched.insert(service(&before));
            }
        }
        Event::Delete(slice) => {
            touched.extend(store.remove(&slice).map(|before| service(&before)));
        }
    }
    touched.retain(|id| followed.contains(id));
    touched
}

/// Drops the slices of a Service that are not listed. Returns whether there were any.
fn forget(store: &mut Store<EndpointSlice>, service: &(String, String), listed: &Names) -> bool {
    let known = store.in_group(&service.0, &service.1);
    let gone: Vec<(String, String)> = known
        .iter()
        .map(|slice: &Arc<EndpointSlice>| slice.metadata.id())
        .filter(|id| !listed.contains(id))
        .collect();
    for (namespace, name) in &gone {
        store.forget(namespace, name);
    }
    !gone.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(namespace: &str, service: &str, name: &str, version: u32) -> Arc<EndpointSlice> {
        let slice = json!({
            "metadata": {
                "namespace": namespace, "name": name, "resourceVersion": version.to_string(),
                "uid": format!("{namespace}-{name}"), "labels": { "kubernetes.io/service-name": service },
            },
            "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.1"] }], "ports": [],
        });
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    fn names(services: &[(&str, &str)]) -> Names {
        let own = |(namespace, name): &(&str, &str)| ((*namespace).to_owned(), (*name).to_owned());
        services.iter().map(own).collect()
    }

    fn list(objects: Vec<Arc<EndpointSlice>>) -> Event<EndpointSlice> {
        Event::List {
            objects,
            left_out: LeftOut::default(),
        }
    }

    #[test]
    fn list_replaces_only_slices_of_its_own_services() {
        let (mut store, mut unlisted) = (
            Store::default(),
            names(&[("n", "a"), ("n", "b"), ("n", "c")]),
        );
        let mut absorb = |followed: &[(&str, &str)], change| {
            let touched = absorb_followed(
                &mut store,
                &mut unlisted,
                &mut LeftOut::default(),
                &names(followed),
                change,
            );
            (touched, store.len(), unlisted.len())
        };
        let first = [("n", "a"), ("n", "b")];
        let (a, c) = (slice("n", "a", "a-1", 1), slice("n", "c", "c-1", 1));
        assert_eq!(absorb(&first, list(vec![a.clone()])), (names(&first), 1, 1));
        assert_eq!(
            absorb(&[("n", "c")], list(vec![c.clone()])),
            (names(&[("n", "c")]), 2, 0)
        );
        // The same list again changes nothing, and slices from another watch stay.
        assert_eq!(absorb(&first, list(vec![a])), (Names::new(), 2, 0));
        let newer = slice("n", "a", "a-1", 2);
        assert_eq!(
            absorb(&first, list(vec![newer.clone()])),
            (names(&[("n", "a")]), 2, 0)
        );
        assert_eq!(absorb(&first, list(vec![])), (names(&[("n", "a")]), 1, 0));
        assert_eq!(
            absorb(&first, Event::Apply(newer.clone())),
            (names(&[("n", "a")]), 2, 0)
        );
        assert_eq!(
            absorb(&first, Event::Delete(newer)),
            (names(&[("n", "a")]), 1, 0)
        );
        // Slices of a Service that is not followed any more are not kept.
        assert_eq!(absorb(&[], Event::Apply(c)).1, 0);
    }

    #[test]
    fn truncated_list_names_the_services_that_lack_slices() {
        let mut store = Store::default();
        let followed = names(&[("n", "a"), ("n", "b")]);
        let (mut unlisted, mut cut) = (followed.clone(), LeftOut::default());
        let mut absorb = |left_out: &[(&str, &str)]| {
            let mut change = LeftOut::default();
            for id in names(left_out) {
                change.add(id);
            }
            let change = Event::List {
                objects: vec![slice("n", "a", "a-1", 1)],
                left_out: change,
            };
            let touched = absorb_followed(&mut store, &mut unlisted, &mut cut, &followed, change);
            (touched, unlisted.len(), cut.services().clone())
        };
        let (a, b) = (names(&[("n", "a")]), names(&[("n", "b")]));
        // Services of another watch are ignored.
        let first = absorb(&[("n", "b"), ("n", "other")]);
        assert_eq!(first, (followed.clone(), 0, b.clone()));
        assert_eq!(absorb(&[("n", "b")]), (Names::new(), 0, b.clone()));
        assert_eq!(absorb(&[("n", "a")]), (followed.clone(), 0, a.clone()));
        assert_eq!(absorb(&[]), (a, 0, Names::new()));
    }
}
