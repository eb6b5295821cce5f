//! Events of sessions: updates the state, and enqueues the keys that they concern.

use std::sync::Arc;

use client::timing;
use mirror_core::{
    api::k8s::{EndpointSlice, Service},
    mirror::{self, Indexed, Key, LinkEntry, Omitted, RemoteState, State, Store},
};
use tokio::time::Instant;

use super::{
    link_state::{TargetSession, record},
    state::Engine,
    stores::apply,
};
use crate::{
    metrics::{Cache, ResourceKind},
    session::SessionEvent,
    watch::{ConnectionStatus, Event},
};

/// The store of one watch, and what its limit leaves out.
type WatchStore<'a, T> = Option<(&'a mut Store<T>, &'a mut Omitted)>;

impl Engine {
    /// Handles an event. Events of sessions that were replaced are dropped.
    pub fn on_session_event(&mut self, link: &str, id: u64, event: SessionEvent) {
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let Some(session) = state.session(id) else {
            return;
        };
        match event {
            SessionEvent::Usable(credentials) => {
                session.credentials = Some(credentials);
                state.status.mark_dirty();
                state.measure_credentials(&self.metrics);
            }
            SessionEvent::Unusable(why) => {
                let next = state.next.take();
                state.rejected = next.map(|next| (next.session.spec.clone(), why));
                state.status.mark_dirty();
                state.measure_credentials(&self.metrics);
            }
            SessionEvent::ConnectionStatus(source, status) => {
                self.on_connection(link, id, source, status);
            }
            SessionEvent::Services(index, change) => {
                self.on_services_event(link, id, index, change);
            }
            SessionEvent::Slices(index, change) => self.on_slices_event(link, id, index, change),
        }
    }

    /// Handles the connection status of one source of a session.
    fn on_connection(&mut self, link: &str, id: u64, source: usize, status: ConnectionStatus) {
        let cluster = self.cluster(link);
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let Some(session) = state.session(id) else {
            return;
        };
        match (&status, session.kind_of(source)) {
            (ConnectionStatus::Alive, _) => self.metrics.last_contact(&cluster, timing::now()),
            (ConnectionStatus::Lost(_), Some(kind)) => self.metrics.watch_restarted(&cluster, kind),
            (ConnectionStatus::Lost(_), None) => {}
        }
        if session.connections.get(&source) == Some(&status) {
            return;
        }
        if matches!(status, ConnectionStatus::Lost(_))
            && let Some(way) = &state.api_gateway
        {
            way.suspect();
        }
        let is_back = state.change_sessions(|state| {
            if let Some(session) = state.session(id) {
                session.connections.insert(source, status);
            }
        });
        if is_back {
            if let Some(way) = &state.api_gateway {
                way.trust();
            }
            // Keys that waited for the cluster to be reachable do not have to wait any longer.
            let keys = self.state.keys_of_cluster(&cluster);
            self.enqueue_all(&cluster, keys);
        }
    }

    fn on_services_event(&mut self, link: &str, id: u64, index: usize, change: Event<Service>) {
        let watch = (ResourceKind::Service, index);
        let touched = self.apply_remote(
            (link, id, watch),
            change,
            |remote| (remote.services.get_mut(index)).zip(remote.omitted.get_mut(index)),
            State::keys_of_remote,
        );
        let (cluster, now) = (self.cluster(link), Instant::now());
        for service in &touched {
            let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
            for wanted in [
                mirror::mirror_name(name, &cluster),
                mirror::federated_name(name),
            ] {
                self.lookups.changed(namespace, &wanted, now);
            }
        }
    }

    fn on_slices_event(&mut self, link: &str, id: u64, index: usize, change: Event<EndpointSlice>) {
        let watch = (ResourceKind::EndpointSlice, index);
        self.apply_remote(
            (link, id, watch),
            change,
            |remote| (remote.slices.get_mut(index)).zip(remote.omitted_slices.get_mut(index)),
            State::keys_of_remote_slice,
        );
    }

    /// Applies a change in one watch of a session. If the session is the current one, enqueues the keys that this
    /// concerns, and returns the objects that have changed.
    fn apply_remote<T: Indexed>(
        &mut self,
        (link, id, watch): (&str, u64, (ResourceKind, usize)),
        change: Event<T>,
        store: impl FnOnce(&mut RemoteState) -> WatchStore<'_, T>,
        keys_of: fn(&State, &str, &T) -> Vec<Key>,
    ) -> Vec<Arc<T>> {
        let cluster = self.cluster(link);
        let Some((state, entry)) = record(&mut self.links, &mut self.state, link) else {
            return Vec::new();
        };
        let next = state.next.as_mut();
        let mut next = next.filter(|next| next.session.id == id);
        let is_next = next.is_some();
        if let (Some(next), Event::List { .. }) = (&mut next, &change) {
            next.unlisted.remove(&watch);
        }
        let remote = next.map_or(entry.remote.as_mut(), |next| Some(&mut next.remote));
        let Some((store, omitted)) = remote.and_then(store) else {
            return Vec::new();
        };
        let mut limits = None;
        if let Event::List { omitted: now, .. } = &change {
            state.status.mark_dirty();
            limits = Some((std::mem::replace(omitted, now.clone()), now.clone()));
        }
        let touched = apply(store, change, false);
        if is_next {
            self.promote(link);
            return Vec::new();
        }
        let limits = limits.map(|(before, now)| self.state.keys_of_limit(&cluster, &before, &now));
        let mut keys = limits.unwrap_or_default();
        for object in &touched {
            keys.extend(keys_of(&self.state, &cluster, object));
        }
        self.enqueue_changed(&cluster, keys);
        self.measure_remote(link);
        touched
    }

    /// Makes the next session the current one if it has listed everything, and its Link is valid. Its objects become the
    /// state of the target cluster.
    pub fn promote(&mut self, link: &str) {
        let cluster = self.cluster(link);
        let entry = self.state.links.get(link);
        let is_valid = entry.is_some_and(|entry| entry.target.is_ok());
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let is_complete = |next: &mut TargetSession| is_valid && next.unlisted.is_empty();
        let Some(mut next) = state.next.take_if(is_complete) else {
            return;
        };
        let remote = std::mem::take(&mut next.remote);
        state.change_sessions(|state| state.current = Some(next));
        state.measure_credentials(&self.metrics);
        let change = self
            .state
            .change_link(link, |links| links.listed(link, remote));
        tracing::info!(
            link,
            cluster,
            keys = change.len(),
            "listed the target cluster"
        );
        if self.state.local.is_some() {
            self.begin_sync(link, change);
        }
        self.measure_remote(link);
    }

    /// Enqueues the keys of a target cluster, once it and the local cluster have been listed. The Link is synced when
    /// the keys of the first such call have been processed.
    pub fn begin_sync(&mut self, link: &str, keys: Vec<Key>) {
        let cluster = self.cluster(link);
        if let Some(state) = self.links.get_mut(link) {
            state.changes(&keys, &cluster);
        }
        self.enqueue_gradually(&cluster, keys);
    }

    pub fn remote(&mut self, link: &str) -> Option<&mut RemoteState> {
        self.state.links.get_mut(link)?.remote.as_mut()
    }

    /// The cluster of a Link, or the one that it named last if it names none any more.
    pub fn cluster(&self, link: &str) -> String {
        let entry = self.state.links.get(link);
        let known = entry.and_then(LinkEntry::known_cluster);
        let named = || self.links.get(link)?.named.as_deref();
        known.or_else(named).unwrap_or_default().to_owned()
    }

    fn measure_remote(&self, link: &str) {
        let entry = self.state.links.get(link);
        let remote = entry.and_then(|entry| entry.remote.as_ref());
        let current = self
            .links
            .get(link)
            .and_then(|state| state.current.as_ref());
        let (Some(remote), Some(current)) = (remote, current) else {
            return;
        };
        let (cluster, metrics) = (self.cluster(link), &self.metrics);
        let services = remote.services.iter().map(Store::len).sum();
        let slices = remote.slices.iter().map(Store::len).sum();
        metrics.cache_size(Cache::Services, &cluster, services);
        metrics.cache_size(Cache::Endpoints, &cluster, slices);
        metrics.taken_in(&cluster, current.session.bytes.used());
    }
}
