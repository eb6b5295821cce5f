//! Changes of the local cluster: updates the state, and enqueues the keys that they concern.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{ResourceExt as _, core::PartialObjectMeta};
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        route::{Route, RouteKind},
    },
    mirror::{Indexed, Key, Local, ObjectKind, Owner, State, Store, owner},
};
use tokio::time::Instant;

use super::{
    first_lists::Required,
    link_state::LinkState,
    state::Engine,
    stores::{apply, apply_optional, namespaces},
};
use crate::{
    apply::{Gone, Written},
    local::LocalEvent,
    watch::Event,
};

impl Engine {
    /// Handles a change of the local cluster, before and after its first lists are complete.
    pub fn on_local_event(&mut self, event: LocalEvent) {
        let lists = Required::listed_by(&event);
        let keys = self.apply_local(event);
        if self.state.local.is_some() {
            self.enqueue(keys);
        }
        let Some(kind) = lists else { return };
        let knew_mirrors = self.first_lists.with_mirrors().is_some();
        if let Some(local) = self.first_lists.on_listed(kind) {
            self.on_listed(local);
        }
        if kind == Required::Mirrors && !knew_mirrors {
            self.check_sessions(&self.names());
        }
    }

    /// Starts to plan: the local cluster has been listed. Target clusters may have been listed before.
    fn on_listed(&mut self, local: Local) {
        // Slices of ours may be in use by streams that began with them. They are kept up to date, which needs the slices
        // of members, also of those in other clusters.
        let (members, routes) = (local.has_federated_slices(), local.has_preferences());
        self.needed.send_if_modified(|needed| {
            let before = *needed;
            needed.members |= members;
            // Preferences may have been enabled before. Routes from that time may still direct requests.
            needed.routes |= routes;
            *needed != before
        });
        self.state.local = Some(local);
        self.enqueue(self.state.keys());
        for name in &self.names() {
            self.follow_probe(name);
            if self.remote(name).is_some() {
                let keys = self.state.keys_of_cluster(&self.cluster(name));
                self.begin_sync(name, keys);
            }
        }
        // The Services that lead to API servers are known.
        self.check_sessions(&self.names());
    }

    /// Applies a change to the state. Returns the keys that it concerns.
    fn apply_local(&mut self, event: LocalEvent) -> Vec<Key> {
        match event {
            LocalEvent::Links(change) => self.on_links_event(change),
            LocalEvent::Secrets(change) => self.on_secrets_event(change),
            LocalEvent::Room(free) => self.addresses.set_free(free, Instant::now()),
            LocalEvent::Recovered => {
                self.queue.hurry();
                self.denied.hurry(Instant::now());
            }
            LocalEvent::Mirrors(change) => return self.apply_mirrors(change),
            LocalEvent::Gateways(change) => {
                let keys_of = State::keys_of_local;
                let keys = self.apply_to(|local| &mut local.gateways, change, keys_of);
                self.follow_gateway_services(&keys);
                return keys;
            }
            LocalEvent::Slices(change) => {
                let keys_of = State::keys_of_local_slice;
                return self.apply_to(|local| &mut local.slices, change, keys_of);
            }
            LocalEvent::GatewaySlices(change) => {
                let keys_of = State::keys_of_local_slice;
                return self.apply_to(|local| &mut local.gateway_slices, change, keys_of);
            }
            LocalEvent::Members(change) => {
                let keys_of = State::keys_of_member;
                return self.apply_to(|local| &mut local.members, change, keys_of);
            }
            LocalEvent::MemberSlices(change) => return self.apply_member_slices(change),
            LocalEvent::Routes(kind, change) => return self.apply_routes(kind, change),
            LocalEvent::Namespaces(change) => return self.apply_namespaces(change),
            LocalEvent::Networks(networks) => {
                self.links
                    .values_mut()
                    .for_each(|state| state.status.mark_dirty());
                if self.state.local.is_some() {
                    return self.state.change_networks(networks);
                }
                self.local().networks = networks;
            }
        }
        Vec::new()
    }

    /// The local cluster, as far as it has been listed.
    fn local(&mut self) -> &mut Local {
        let known = self.state.local.as_mut();
        known.unwrap_or_else(|| self.first_lists.local())
    }

    /// Applies a change to a store of the local cluster. Returns the keys of each object that it concerns.
    fn apply_to<T: Indexed>(
        &mut self,
        store: fn(&mut Local) -> &mut Store<T>,
        change: Event<T>,
        keys_of: fn(&State, &T) -> Vec<Key>,
    ) -> Vec<Key> {
        let touched = apply(store(self.local()), change, true);
        keys_of_all(&touched, |object| keys_of(&self.state, object))
    }

    fn apply_mirrors(&mut self, change: Event<Service>) -> Vec<Key> {
        let now = Instant::now();
        let deletes = matches!(&change, Event::Delete(gone) if !gone.is_headless());
        let touched = apply(&mut self.local().mirrors, change, true);
        let mut keys = Vec::new();
        for service in &touched {
            let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
            self.lookups.changed(namespace, name, now);
            keys.extend(self.state.keys_of_local(service));
        }
        if deletes && !touched.is_empty() {
            // The deleted Service had a ClusterIP.
            self.addresses.freed(now);
        }
        keys
    }

    fn apply_member_slices(&mut self, change: Event<EndpointSlice>) -> Vec<Key> {
        let store = &mut self.local().member_slices;
        let is_new = store.is_none();
        let touched = apply_optional(store, change);
        let mut keys = keys_of_all(&touched, |slice| self.state.keys_of_member_slice(slice));
        if is_new {
            keys.extend(self.state.keys_of_members());
        }
        keys
    }

    /// Applies a change of routes of a kind; `None` if the API server does not have the kind.
    fn apply_routes(&mut self, kind: RouteKind, change: Option<Event<Route>>) -> Vec<Key> {
        let routes = &mut self.local().routes;
        let was_served = routes.get(&kind).map(Option::is_some);
        let is_new = was_served != Some(change.is_some());
        let store = routes.entry(kind).or_default();
        let touched = match change {
            Some(change) => apply_optional(store, change),
            None => store.take().iter().flat_map(Store::iter).cloned().collect(),
        };
        let mut keys = keys_of_all(&touched, |route| self.state.keys_of_route(route));
        if is_new {
            keys.extend(self.state.keys_of_all_routed());
        }
        keys
    }

    fn apply_namespaces(&mut self, change: Event<PartialObjectMeta<Namespace>>) -> Vec<Key> {
        let (is_listed, now) = (self.state.local.is_some(), Instant::now());
        let mut keys = Vec::new();
        for (name, namespace) in namespaces(&self.local().namespaces, change) {
            if !is_listed {
                self.local().namespaces.set(&name, namespace);
            } else if let Some(concerned) = self.state.change_namespace(&name, namespace) {
                self.lookups.namespace_changed(&name, now);
                keys.extend(concerned);
            }
        }
        keys
    }

    /// Puts the response to a write into the same store as the watch's event, which follows a moment later. Enqueues the
    /// keys of others that may have waited for it.
    pub fn apply_written(&mut self, written: Written) {
        let Some(local) = &mut self.state.local else {
            return;
        };
        let keys = match written {
            Written::Created(service) | Written::Service(service) => {
                let store = match owner(&service.metadata) {
                    Owner::Gateway(_) => &mut local.gateways,
                    _ => &mut local.mirrors,
                };
                let touched = apply(store, Event::Apply(service), true);
                keys_of_all(&touched, |service| self.state.keys_of_preference(service))
            }
            Written::Slice(slice) => {
                let store = match slice.metadata.labels.get(l::MIRRORED_GATEWAY) {
                    Some(_) => &mut local.gateway_slices,
                    None => &mut local.slices,
                };
                apply(store, Event::Apply(slice), true);
                Vec::new()
            }
            Written::Route(route) => {
                let store = local.routes.get_mut(&route.kind).and_then(Option::as_mut);
                let touched = store.map(|store| apply(store, Event::Apply(route), true));
                let touched = touched.unwrap_or_default();
                keys_of_all(&touched, |route| self.state.keys_of_route(route))
            }
            Written::Namespace(name, labels) => self.state.created_namespace(&name, labels),
            Written::Gone(gone) => self.apply_deletion(&gone),
        };
        self.enqueue(keys);
    }

    /// Removes an object that we deleted. Returns the keys that may have waited for its name.
    fn apply_deletion(&mut self, gone: &Gone) -> Vec<Key> {
        let local = self.local();
        match gone.kind {
            ObjectKind::EndpointSlice => {
                for store in [&mut local.slices, &mut local.gateway_slices] {
                    gone.forget(store);
                }
                Vec::new()
            }
            ObjectKind::Route(kind) => {
                let store = local.routes.get_mut(&kind).and_then(Option::as_mut);
                let route = store.and_then(|store| gone.forget(store));
                route.map_or_else(Vec::new, |route| self.state.keys_of_route(&route))
            }
            ObjectKind::Service | ObjectKind::Namespace => {
                let probe = gone.forget(&mut local.gateways);
                let mirror = gone.forget(&mut local.mirrors);
                let Some(service) = mirror.or(probe) else {
                    return Vec::new();
                };
                if !service.is_headless() {
                    self.addresses.freed(Instant::now());
                }
                self.state.keys_of_local(&service)
            }
        }
    }

    fn on_secrets_event(&mut self, change: Event<Secret>) {
        let changed = match &change {
            Event::List { .. } => None,
            Event::Apply(secret) | Event::Delete(secret) => Some(secret.name_any()),
        };
        self.sessions.on_secrets_event(change);
        let uses = |state: &LinkState| {
            let own = &state.link.spec.cluster_credentials_secret;
            changed.as_ref().is_none_or(|changed| changed == own)
        };
        let links = self.links.iter().filter(|(_, state)| uses(state));
        let links: Vec<String> = links.map(|(name, _)| name.clone()).collect();
        self.check_sessions(&links);
    }
}

/// The keys of objects.
fn keys_of_all<T>(objects: &[Arc<T>], keys_of: impl Fn(&T) -> Vec<Key>) -> Vec<Key> {
    objects.iter().flat_map(|object| keys_of(object)).collect()
}
