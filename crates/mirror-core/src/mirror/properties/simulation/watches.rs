//! Watches: the events that they send for a change, and how the events change the controller's state and queue.

use std::sync::Arc;

use super::{
    super::{cluster::Changed, operations::CLUSTERS},
    Event, Seen, Simulation, linkerd,
};
use crate::{
    api::{k8s::Service, labels as l, metadata::Metadata, route::RouteKind, wire::StoredObject},
    mirror::{
        Indexed, Inserted, Key, RemoteState, State, Store,
        fixtures::{LINKS, state},
    },
};

impl Simulation {
    pub(crate) fn push(&mut self, lane: &'static str, event: Event) {
        self.lanes.entry(lane).or_default().push_back(event);
    }

    /// Sends the events of the local cluster's watches for these changes.
    pub(crate) fn watched(&mut self, changes: Vec<Changed>) {
        for change in changes {
            match change {
                Changed::Namespace(name) => self.push("namespaces", Event::Namespace(name)),
                Changed::Service(before, after) => {
                    let (before, after) = (before.as_deref(), after.as_deref());
                    if let Some(seen) = seen(before, after, is_mirror, |o| &mut o.metadata) {
                        self.push("mirrors", Event::Mirror(seen));
                    }
                    if let Some(seen) = seen(before, after, is_probe, |o| &mut o.metadata) {
                        self.push("probes", Event::Probe(seen));
                    }
                }
                Changed::Route(before, after) => {
                    let kind = before
                        .as_deref()
                        .or(after.as_deref())
                        .map(|route| route.kind);
                    let (before, after) = (before.as_deref(), after.as_deref());
                    let seen = seen(before, after, |_| true, |o| &mut o.metadata);
                    let seen = seen.filter(|_| self.watches_routes);
                    if let Some((kind, seen)) = kind.zip(seen) {
                        self.push("routes", Event::Route(kind, seen));
                    }
                }
                Changed::Slice(before, after) => {
                    let (before, after) = (before.as_deref(), after.as_deref());
                    linkerd::saw(&mut self.linkerd, before, after);
                    if let Some(seen) = seen(before, after, is_mirror, |o| &mut o.metadata) {
                        self.push("slices", Event::Slice(seen));
                    }
                    if let Some(seen) = seen(before, after, is_probe, |o| &mut o.metadata) {
                        self.push("probe slices", Event::ProbeSlice(seen));
                    }
                }
            }
        }
    }

    pub(crate) fn deliver(&mut self, event: Event) {
        match event {
            Event::Mirror(seen) => {
                let touched = store(&mut self.state.here().mirrors, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.state.keys_of_local(s))
                    .collect();
                self.mark(keys);
            }
            Event::Probe(seen) => {
                let touched = store(&mut self.state.here().gateways, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.state.keys_of_local(s))
                    .collect();
                self.mark(keys);
            }
            Event::Slice(seen) => {
                let touched = store(&mut self.state.here().slices, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.state.keys_of_local_slice(s))
                    .collect();
                self.mark(keys);
            }
            Event::ProbeSlice(seen) => {
                let touched = store(&mut self.state.here().gateway_slices, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.state.keys_of_local_slice(s))
                    .collect();
                self.mark(keys);
            }
            Event::Member(seen) => {
                let touched = store(&mut self.state.here().members, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.state.keys_of_member(s))
                    .collect();
                self.mark(keys);
            }
            Event::MemberSlice(seen) => {
                let touched = store(
                    self.state.here().member_slices.get_or_insert_default(),
                    seen,
                );
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.state.keys_of_member_slice(s))
                    .collect();
                self.mark(keys);
            }
            Event::Routes => {
                let listed = self.fresh_world().local.unwrap().routes;
                self.state.here().routes = listed;
                self.mark(self.state.keys_of_all_routed());
            }
            // The routes are listed first, and the list has this change.
            Event::Served(_) | Event::Route(..) if self.state.here().routes.is_empty() => {}
            Event::Served(kind) => {
                let mut listed = self.fresh_world().local.unwrap().routes;
                let listed = listed.remove(&kind).flatten();
                self.state.here().routes.insert(kind, listed);
                self.mark(self.state.keys_of_all_routed());
            }
            Event::Route(kind, seen) => {
                let known = self.state.here().routes.entry(kind).or_default();
                let touched = store(known.get_or_insert_default(), seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|route| self.state.keys_of_route(route))
                    .collect();
                self.mark(keys);
            }
            Event::Namespace(name) => {
                let now = self.cluster.namespaces.get(&name).cloned();
                let keys = self.state.change_namespace(&name, now);
                self.mark(keys.unwrap_or_default());
            }
            Event::Synced(link) => self.synced(&link),
            Event::Listed(link) => self.listed(&link),
            Event::ListedSlices(link) => self.listed_slices(&link),
            Event::Remote(link, seen) => {
                let limited = self.limited(&link);
                let Some((cluster, remote)) = self.remote_of(&link) else {
                    return;
                };
                let name = match &seen {
                    Seen::Apply(object) | Seen::Delete(object) => object.metadata.name(),
                };
                if limited.omits(name) {
                    self.push("remote", Event::Listed(link)); // only a list tells
                    return;
                }
                // Enqueue keys of the states before and after the change: others may now get a name.
                let touched = store(&mut remote.services[0], seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|service| self.state.keys_of_remote(&cluster, service))
                    .collect();
                self.mark(keys);
            }
            Event::RemoteSlice(link, seen) => {
                let limited = self.limited(&link);
                let Some((cluster, remote)) = self.remote_of(&link) else {
                    return;
                };
                let name = match &seen {
                    Seen::Apply(object) | Seen::Delete(object) => object.metadata.name(),
                };
                if limited.cuts(name) {
                    self.push("remote slices", Event::ListedSlices(link));
                    return;
                }
                let touched = store(&mut remote.slices[0], seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|slice| self.state.keys_of_remote_slice(&cluster, slice))
                    .collect();
                self.mark(keys);
            }
        }
    }

    /// Forgets all routes: the controller has not listed them yet.
    pub(crate) fn unlist_routes(&mut self) {
        if self.watches_routes {
            self.state.here().routes.clear();
            self.push("routes", Event::Routes);
        }
    }

    /// Somebody removes the CRD of a kind of routes, or creates it.
    pub(crate) fn serve_routes(&mut self, kind: RouteKind, on: bool) {
        let gone = self.cluster.serve_routes(kind, on);
        self.watched(gone);
        if self.watches_routes {
            self.push("routes", Event::Served(kind));
        }
    }

    pub(crate) fn remote_of(&mut self, link: &str) -> Option<(String, &mut RemoteState)> {
        let links = &mut self.state.links;
        let cluster = links.get(link)?.known_cluster()?.to_owned();
        let remote = links.get_mut(link)?.remote.as_mut()?;
        Some((cluster, remote))
    }

    /// Whether a controller that starts now watches routes: preferences are enabled, or a federated Service says that it
    /// had routes.
    pub(crate) fn needs_routes(&self) -> bool {
        let mut services = self.cluster.services.values().filter(|s| is_mirror(*s));
        let prefers = |s: &Service| s.metadata.annotations.contains_key(l::PREFER);
        self.state.config.routes.is_some() || services.any(prefers)
    }

    /// The state of a controller that starts now and has listed everything.
    pub(crate) fn fresh_world(&self) -> State {
        let mut fresh = state();
        fresh.config = self.state.config.clone();
        fresh.now = self.state.now;
        fresh.here().namespaces = self.cluster.namespaces.clone().into_iter().collect();
        let known = self.state.local.as_ref().unwrap();
        fresh.here().networks.clone_from(&known.networks);
        for service in self.cluster.services.values() {
            if is_mirror(service) {
                put(&mut fresh.here().mirrors, service);
            }
            if is_probe(service) {
                put(&mut fresh.here().gateways, service);
            }
        }
        for slice in self.cluster.slices.values() {
            if is_mirror(slice) {
                put(&mut fresh.here().slices, slice);
            }
            if is_probe(slice) {
                put(&mut fresh.here().gateway_slices, slice);
            }
        }
        if self.needs_routes() {
            let is_served = |kind| !self.cluster.unserved.contains(&kind);
            let listed = RouteKind::ALL.map(|kind| (kind, is_served(kind).then(Store::default)));
            fresh.here().routes = listed.into();
            for route in self.cluster.routes.values() {
                let known = fresh.here().routes.entry(route.kind).or_default();
                put(known.get_or_insert_default(), route);
            }
        }
        for member in self.members.values() {
            put(&mut fresh.here().members, member);
        }
        for slice in self.member_slices.values() {
            put(fresh.here().member_slices.get_or_insert_default(), slice);
        }
        let entries = self.links.iter().map(|(link, linked)| {
            let far = self.far.get(CLUSTERS[linked.made.cluster]);
            (
                link.clone(),
                linked.entry(link, Some(linked.list(link, far))),
            )
        });
        fresh.links = entries.collect();
        fresh
    }
}

pub(crate) fn is_mirror(object: &impl StoredObject) -> bool {
    object.metadata().labels.get(l::MIRRORED_SERVICE) == Some("true")
}

pub(crate) fn is_probe(object: &impl StoredObject) -> bool {
    object.metadata().labels.get(l::MIRRORED_GATEWAY) == Some("true")
        && object.metadata().namespace.as_deref() == Some(LINKS)
}

/// The event that a watch with a label selector sends for a change.
fn seen<T: StoredObject>(
    before: Option<&T>,
    after: Option<&T>,
    watched: fn(&T) -> bool,
    metadata: fn(&mut T) -> &mut Metadata,
) -> Option<Seen<T>> {
    let was = before.filter(|before| watched(before));
    match (was, after) {
        (_, Some(after)) if watched(after) => Some(Seen::Apply(Arc::new(after.clone()))),
        (Some(was), after) => {
            // Kubernetes sends the last state that matched, with the version of the change.
            let mut gone = was.clone();
            if let Some(after) = after {
                let version = &after.metadata().resource_version;
                metadata(&mut gone).resource_version.clone_from(version);
            }
            Some(Seen::Delete(Arc::new(gone)))
        }
        (None, _) => None,
    }
}

fn put<T: Indexed + Clone>(store: &mut Store<T>, object: &T) {
    store.put(Arc::new(object.clone()));
}

fn store<T: Indexed>(known: &mut Store<T>, seen: Seen<T>) -> Vec<Arc<T>> {
    match seen {
        Seen::Apply(object) => match known.insert(object.clone()) {
            Inserted::Stale => Vec::new(),
            Inserted::Taken(before) => before.into_iter().chain([object]).collect(),
        },
        Seen::Delete(object) => known.remove(&object).into_iter().collect(),
    }
}
