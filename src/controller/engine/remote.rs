//! Events of sessions: updates the state, and enqueues the keys that they concern.

use tokio::time::Instant;

use super::{
    absorb::{absorb, absorb_listed},
    link_state::{LinkState, complete, note},
    state::Engine,
};
use crate::{
    api::{conditions::credentials_valid, k8s::Service},
    client::fingerprint,
    controller::{
        metrics::{Cache, ResourceKind},
        session::{HEARTBEAT_SOURCE, Session, SessionEvent},
        watch::{ConnectionStatus, Event},
    },
    mirror::{self, Key, LeftOut, LinkEntry, RemoteState, Store, status::Exceeded},
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
                    note(&mut pending.troubles, source, connection.clone());
                }
                // While a new session is pending, the connection status is that of the current one.
                if !pending || state.current.is_none() {
                    if state.set_connection(source, connection) {
                        // Keys that waited for the cluster to be reachable do not have to wait any longer.
                        let keys = self.state.keys_of_cluster(&cluster);
                        self.enqueue_all(&cluster, keys);
                    }
                } else {
                    state.judge_pending();
                }
            }
            SessionEvent::Services(..) | SessionEvent::Slices(..) if pending => {
                self.on_pending_event(link, report);
            }
            SessionEvent::Services(index, change) => self.on_services_event(link, index, change),
            SessionEvent::Slices(index, change) => {
                let Some(remote) = self.remote(link) else {
                    return;
                };
                let Some(store) = remote.slices.get_mut(index) else {
                    return;
                };
                let news = take_left_out(&mut remote.cut, index, &change);
                let touched = absorb_listed(store, change, false);
                let cluster = self.cluster(link);
                let mut keys: Vec<_> = touched
                    .iter()
                    .flat_map(|slice| self.state.keys_of_remote_slice(&cluster, slice))
                    .collect();
                if let Some((before, now)) = news {
                    keys.extend(self.state.keys_of_limit(&cluster, &before, &now));
                    self.note_limit(link);
                }
                self.enqueue_changed(&cluster, keys);
            }
        }
    }

    /// Handles an event of a pending session. The last missing list completes the session.
    fn on_pending_event(&mut self, link: &str, report: SessionEvent) {
        let Some(pending) = self
            .links
            .get_mut(link)
            .and_then(|state| state.pending.as_mut())
        else {
            return;
        };
        match report {
            SessionEvent::Services(index, change) => {
                take_left_out(&mut pending.left_out, index, &change);
                let Some(store) = pending.services.get_mut(index) else {
                    return;
                };
                absorb(store, change, false);
            }
            SessionEvent::Slices(index, change) => {
                take_left_out(&mut pending.cut, index, &change);
                if let Some(store) = pending.slices.get_mut(index) {
                    absorb(store, change, false);
                }
            }
            SessionEvent::Client(..)
            | SessionEvent::Unusable(_)
            | SessionEvent::ConnectionStatus(..) => return,
        }
        self.complete_pending(link);
    }

    /// Replaces the current session by the pending one if that has listed everything, and its Link is valid.
    pub(super) fn complete_pending(&mut self, link: &str) {
        let entry = self.state.links.get(link);
        let state = self.links.get_mut(link);
        let pending = state.and_then(|state| state.pending.as_mut());
        let is_valid = entry.is_some_and(|entry| entry.target.is_ok());
        if let Some(remote) = pending.filter(|_| is_valid).and_then(complete) {
            self.on_synced(link, remote);
        }
    }

    /// Makes the objects of a session that has listed everything the state of the target cluster.
    fn on_synced(&mut self, link: &str, remote: RemoteState) {
        let cluster = self.cluster(link);
        let keys = self
            .state
            .change_link(link, |links| links.listed(link, remote));
        self.note_limit(link);
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let troubles = state
            .pending
            .as_mut()
            .map(|p| std::mem::take(&mut p.troubles));
        state.current = state.pending.take().map(|pending| pending.session);
        let in_use = state.current.as_ref().map(|session| &session.spec);
        state.facts.credentials_in_use = in_use.map(|spec| fingerprint(&spec.kubeconfig));
        state.note_credentials(&self.metrics);
        state.set_credentials(Some(Ok(())));
        state.set_held_up(None);
        state.take_troubles(troubles.unwrap_or_default());
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

    fn on_services_event(&mut self, link: &str, index: usize, change: Event<Service>) {
        let Some(remote) = self.remote(link) else {
            return;
        };
        let Some(store) = remote.services.get_mut(index) else {
            return;
        };
        let news = take_left_out(&mut remote.left_out, index, &change);
        let touched = absorb_listed(store, change, false);
        let (cluster, now) = (self.cluster(link), Instant::now());
        let mut keys = Vec::new();
        if let Some((before, now)) = news {
            keys.extend(self.state.keys_of_limit(&cluster, &before, &now));
            self.note_limit(link);
        }
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

    /// Updates what the status says about the objects that the limit leaves out.
    pub(super) fn note_limit(&mut self, link: &str) {
        let limits = self.settings.limits;
        let now = self
            .remote(link)
            .and_then(|remote| Exceeded::of(remote, limits));
        if let Some(state) = self.links.get_mut(link)
            && state.facts.exceeded != now
        {
            state.facts.exceeded = now;
            state.status.touch();
        }
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
            self.metrics.taken_in(&cluster, session.bytes.taken());
        }
    }
}

/// Updates which objects a list left out. Returns those left out before, and now.
fn take_left_out<T>(
    known: &mut [LeftOut],
    index: usize,
    change: &Event<T>,
) -> Option<(LeftOut, LeftOut)> {
    let (Event::List { left_out, .. }, Some(known)) = (change, known.get_mut(index)) else {
        return None;
    };
    let before = std::mem::replace(known, left_out.clone());
    Some((before, left_out.clone()))
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
