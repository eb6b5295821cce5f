//! Events of sessions: updates the state, and enqueues the keys that they concern.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    absorb::absorb_listed,
    link_state::{LinkState, note},
    state::Engine,
};
use crate::{
    api::{
        conditions::credentials_valid,
        k8s::{EndpointSlice, Service},
    },
    client::fingerprint,
    controller::{
        metrics::{Cache, ResourceKind},
        session::{HEARTBEAT_SOURCE, Session, SessionEvent},
        watch::{ConnectionStatus, Event},
    },
    mirror::{self, Indexed, Key, LinkEntry, Omitted, RemoteState, Store},
    timing,
};

impl Engine {
    /// Handles an event. Events of sessions that were replaced are dropped.
    pub(super) fn on_session_event(&mut self, link: &str, id: u64, report: SessionEvent) {
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let is = |session: &Session| session.id == id;
        let pending = state
            .pending
            .as_ref()
            .is_some_and(|pending| is(&pending.session));
        if !pending && !state.current.as_ref().is_some_and(is) {
            return;
        }
        match report {
            SessionEvent::Client(client, expires, insecure) => {
                if let Some(pending) = &mut state.pending {
                    pending.session.client = Some(client);
                    pending.session.expires = expires;
                    pending.session.insecure = insecure;
                }
                state.set_credentials(Some(Ok(())));
                state.note_credentials(&self.metrics);
            }
            SessionEvent::Unusable(message) => {
                state.set_credentials(Some(Err((
                    credentials_valid::CREDENTIALS_UNUSABLE,
                    message,
                ))));
                state.rejected = state
                    .pending
                    .take()
                    .map(|pending| pending.session.spec.clone());
                state.note_credentials(&self.metrics);
            }
            SessionEvent::ConnectionStatus(source, connection) => {
                self.on_connection(link, pending, source, connection);
            }
            SessionEvent::Services(index, change) => {
                self.on_services_event(link, pending, index, change);
            }
            SessionEvent::Slices(index, change) => {
                self.on_slices_event(link, pending, index, change);
            }
        }
    }

    /// Handles the connection status of one source of a session. `pending`: the session is not the current one.
    fn on_connection(
        &mut self,
        link: &str,
        pending: bool,
        source: usize,
        connection: ConnectionStatus,
    ) {
        let cluster = self.cluster(link);
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        match &connection {
            ConnectionStatus::Alive => self.metrics.last_contact(&cluster, timing::now()),
            ConnectionStatus::Lost(_) => {
                if let Some(kind) = watched(state, source) {
                    self.metrics.watch_restarted(&cluster, kind);
                }
            }
        }
        if let Some(pending) = state.pending.as_mut().filter(|_| pending) {
            note(&mut pending.failures, source, connection.clone());
        }
        // While a new session is pending, the connection status is that of the current one.
        if pending && state.current.is_some() {
            state.evaluate_pending();
        } else if state.set_connection(source, connection) {
            // Keys that waited for the cluster to be reachable do not have to wait any longer.
            let keys = self.state.keys_of_cluster(&cluster);
            self.enqueue_all(&cluster, keys);
        }
    }

    /// What a session knows of its cluster. `pending`: the session is not the current one.
    fn known_of(&mut self, link: &str, pending: bool) -> Option<&mut RemoteState> {
        if pending {
            let pending = self.links.get_mut(link)?.pending.as_mut()?;
            return Some(&mut pending.remote);
        }
        self.remote(link)
    }

    fn on_services_event(
        &mut self,
        link: &str,
        pending: bool,
        index: usize,
        change: Event<Service>,
    ) {
        let lists = matches!(change, Event::List { .. });
        let Some(remote) = self.known_of(link, pending) else {
            return;
        };
        let Some(known) = (remote.services.get_mut(index)).zip(remote.omitted.get_mut(index))
        else {
            return;
        };
        let (touched, limits) = apply(known, change);
        if pending {
            self.listed_by_pending(link, index, lists);
            return;
        }
        let (cluster, now) = (self.cluster(link), Instant::now());
        let mut keys = self.keys_of_limits(link, limits);
        for service in &touched {
            let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
            keys.extend(self.state.keys_of_remote(&cluster, service));
            for wanted in [
                mirror::mirror_name(name, &cluster),
                mirror::federated_name(name),
            ] {
                self.lookups.changed(namespace, &wanted, now);
            }
        }
        self.enqueue_changed(&cluster, keys);
        self.measure_remote(link);
    }

    fn on_slices_event(
        &mut self,
        link: &str,
        pending: bool,
        index: usize,
        change: Event<EndpointSlice>,
    ) {
        let lists = matches!(change, Event::List { .. });
        let Some(remote) = self.known_of(link, pending) else {
            return;
        };
        let watches_of_services = remote.services.len();
        let Some(known) = (remote.slices.get_mut(index)).zip(remote.omitted_slices.get_mut(index))
        else {
            return;
        };
        let (touched, limits) = apply(known, change);
        if pending {
            self.listed_by_pending(link, watches_of_services + index, lists);
            return;
        }
        let cluster = self.cluster(link);
        let mut keys = self.keys_of_limits(link, limits);
        let slices = touched.iter();
        keys.extend(slices.flat_map(|slice| self.state.keys_of_remote_slice(&cluster, slice)));
        self.enqueue_changed(&cluster, keys);
    }

    /// The keys that a change of what the limit omits concerns.
    fn keys_of_limits(&mut self, link: &str, limits: Option<(Omitted, Omitted)>) -> Vec<Key> {
        let Some((before, now)) = limits else {
            return Vec::new();
        };
        if let Some(state) = self.links.get_mut(link) {
            state.status.touch();
        }
        let cluster = self.cluster(link);
        self.state.keys_of_limit(&cluster, &before, &now)
    }

    /// Handles a change in the watch of this number of a pending session. The last missing list completes the session.
    fn listed_by_pending(&mut self, link: &str, watch: usize, lists: bool) {
        let state = self.links.get_mut(link);
        if let Some(pending) = state.and_then(|state| state.pending.as_mut())
            && lists
        {
            pending.unlisted.remove(&watch);
        }
        self.complete_pending(link);
    }

    /// Replaces the current session by the pending one if that has listed everything, and its Link is valid.
    pub(super) fn complete_pending(&mut self, link: &str) {
        let entry = self.state.links.get(link);
        let state = self.links.get_mut(link);
        let pending = state.and_then(|state| state.pending.as_mut());
        let is_valid = entry.is_some_and(|entry| entry.target.is_ok());
        let complete = pending.filter(|pending| is_valid && pending.unlisted.is_empty());
        if let Some(pending) = complete {
            let remote = std::mem::take(&mut pending.remote);
            self.on_synced(link, remote);
        }
    }

    /// Makes the objects of a session that has listed everything the state of the target cluster.
    fn on_synced(&mut self, link: &str, remote: RemoteState) {
        let cluster = self.cluster(link);
        let keys = self
            .state
            .change_link(link, |links| links.listed(link, remote));
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let Some(pending) = state.pending.take() else {
            return;
        };
        state.current = Some(pending.session);
        let in_use = state.current.as_ref().map(|session| &session.spec);
        state.facts.credentials_in_use = in_use.map(|spec| fingerprint(&spec.kubeconfig));
        state.note_credentials(&self.metrics);
        state.set_credentials(Some(Ok(())));
        state.set_held_up(None);
        state.take_failures(pending.failures);
        state.status.touch();
        tracing::info!(
            link,
            cluster,
            keys = keys.len(),
            "listed the target cluster"
        );
        if self.state.local.is_some() {
            self.begin_sync(link, keys);
        }
        self.measure_remote(link);
    }

    /// Enqueues the keys of a target cluster, once it and the local cluster have been listed. When the keys of the first
    /// time are processed, the Link is synced.
    pub(super) fn begin_sync(&mut self, link: &str, keys: Vec<Key>) {
        let cluster = self.cluster(link);
        if let Some(state) = self.links.get_mut(link)
            && !state.facts.settled
        {
            let own =
                |key: &&Key| !matches!(key, Key::Mirror { cluster: of, .. } if *of != cluster);
            state.outstanding = keys.iter().filter(own).cloned().collect();
            state.facts.settled = state.outstanding.is_empty();
        }
        self.enqueue_gradually(&cluster, keys);
    }

    pub(super) fn remote(&mut self, link: &str) -> Option<&mut RemoteState> {
        self.state.links.get_mut(link)?.remote.as_mut()
    }

    /// The cluster of a Link, or the one that it named last if it names none any more.
    pub(super) fn cluster(&self, link: &str) -> String {
        let entry = self.state.links.get(link);
        let known = entry.and_then(LinkEntry::known_cluster);
        let named = || self.links.get(link)?.named.as_deref();
        known.or_else(named).unwrap_or_default().to_owned()
    }

    fn measure_remote(&mut self, link: &str) {
        let cluster = self.cluster(link);
        let sizes = self.remote(link).map(|remote| {
            let services: usize = remote.services.iter().map(Store::len).sum();
            let slices: usize = remote.slices.iter().map(Store::len).sum();
            (services, slices)
        });
        if let Some((services, slices)) = sizes {
            self.metrics.cache_size(Cache::Services, &cluster, services);
            self.metrics.cache_size(Cache::Endpoints, &cluster, slices);
        }
        let state = self.links.get(link);
        if let Some(session) = state.and_then(|state| state.current.as_ref()) {
            self.metrics.taken_in(&cluster, session.bytes.used());
        }
    }
}

/// Applies a change to the objects of a watch. Returns the objects that it concerns, in the states before and after. If
/// it is a list, also which objects were omitted before, and which are now.
fn apply<T: Indexed>(
    (store, omitted): (&mut Store<T>, &mut Omitted),
    change: Event<T>,
) -> (Vec<Arc<T>>, Option<(Omitted, Omitted)>) {
    let limits = match &change {
        Event::List { omitted: now, .. } => {
            Some((std::mem::replace(omitted, now.clone()), now.clone()))
        }
        Event::Apply(_) | Event::Delete(_) => None,
    };
    (absorb_listed(store, change, false), limits)
}

/// The kind of objects that a source of a session watches; `None` for the heartbeat.
fn watched(state: &LinkState, source: usize) -> Option<ResourceKind> {
    let pending = state.pending.as_ref().map(|pending| &pending.session);
    let selectors = pending.or(state.current.as_ref())?.spec.services.len();
    match source {
        HEARTBEAT_SOURCE => None,
        services if services < selectors => Some(ResourceKind::Service),
        _ => Some(ResourceKind::EndpointSlice),
    }
}
