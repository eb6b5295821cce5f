//! Reports of sessions: into the world, and what they concern into the queue.

use kube::ResourceExt as _;

use super::{
    Engine, Names,
    link_state::{LinkState, complete},
    local::absorb,
};
use crate::{
    api::k8s::Service,
    client::credentials_expiry,
    controller::{
        clock,
        metrics::{Cache, Kind},
        session::Report,
        watch::{Change, Contact},
    },
    mirror::{self, Key, Mode, Objects, Remote, Target},
};

impl Engine {
    /// Takes in a report. Reports of sessions that were replaced are dropped.
    pub(super) fn report(&mut self, link: &str, id: u64, report: Report) {
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        let is = |session: &super::session::Session| session.id == id;
        let pending = state
            .pending
            .as_ref()
            .is_some_and(|pending| is(&pending.session));
        if !pending && !state.current.as_ref().is_some_and(is) {
            return;
        }
        match report {
            Report::Client(client) => {
                if let Some(pending) = &mut state.pending {
                    pending.session.client = Some(client);
                }
                state.set_credentials(Some(Ok(())));
            }
            Report::Unusable(message) => {
                state.set_credentials(Some(Err(("CredentialsUnusable", message))));
                state.rejected = state
                    .pending
                    .take()
                    .map(|pending| pending.session.spec.clone());
            }
            Report::Contact(source, contact) => {
                let cluster = state.link.spec.target_cluster_name.clone();
                match &contact {
                    Contact::Alive => self.metrics.last_contact(&cluster, clock::now()),
                    Contact::Lost(_) => {
                        if let Some(kind) = watched(state, source) {
                            self.metrics.watch_restarted(&cluster, kind);
                        }
                    }
                }
                // While a new session is tried, what the present one meets counts.
                if !pending || state.current.is_none() {
                    if state.set_contact(source, contact) {
                        // What waited for the cluster to answer need not wait any longer.
                        let keys = self.world.keys_of_cluster(&cluster);
                        self.mark_all(keys);
                    }
                } else if let Contact::Lost(message) = contact {
                    state.not_taken(&message);
                }
            }
            Report::Services(..) | Report::Slices(..) if pending => self.listed(link, report),
            Report::Services(index, change) => self.services_changed(link, index, change),
            Report::Slices(index, change) => {
                let Some(remote) = self.remote(link) else {
                    return;
                };
                let Some(store) = remote.slices.get_mut(index) else {
                    return;
                };
                let touched = with(store, |store| absorb(store, change, false));
                let cluster = self.cluster(link);
                let keys: Vec<_> = touched
                    .iter()
                    .flat_map(|slice| self.world.keys_of_remote_slice(&cluster, slice))
                    .collect();
                self.mark_changed(keys);
            }
        }
    }

    /// Takes in a list for a session that is not complete; completes it when it was the last one.
    fn listed(&mut self, link: &str, report: Report) {
        let Some(pending) = self
            .links
            .get_mut(link)
            .and_then(|state| state.pending.as_mut())
        else {
            return;
        };
        match report {
            Report::Services(index, change) => {
                if let Change::List { more: true, .. } = change {
                    pending.over_limit = true;
                }
                if let Some(store) = pending.services.get_mut(index) {
                    absorb(store, change, false);
                }
                let target = self
                    .world
                    .links
                    .as_ref()
                    .and_then(|l| l.get(link))
                    .map(|e| &e.target);
                if let (Some(Ok(target)), true) =
                    (target, pending.services.iter().all(Option::is_some))
                {
                    let services = pending.services.iter().flatten().flat_map(Objects::iter);
                    let names = unselected(target, services.map(AsRef::as_ref));
                    pending.session.poll_slices_of(names);
                }
            }
            Report::Slices(index, change) => {
                if let Some(store) = pending.slices.get_mut(index) {
                    absorb(store, change, false);
                }
            }
            Report::Client(_) | Report::Unusable(_) | Report::Contact(..) => return,
        }
        if let Some(remote) = complete(pending) {
            self.synced(link, remote);
        }
    }

    /// A session has listed everything: its view becomes the world's.
    fn synced(&mut self, link: &str, remote: Remote) {
        let cluster = self.cluster(link);
        let mut keys = self.world.keys_of_cluster(&cluster);
        if let Some(entry) = self
            .world
            .links
            .as_mut()
            .and_then(|links| links.get_mut(link))
        {
            *entry.remote = Some(remote);
        }
        keys.extend(self.world.keys_of_cluster(&cluster));
        let limit = self.settings.max_services;
        let over = self.remote(link).is_some_and(|remote| remote.over_limit);
        let Some(state) = self.links.get_mut(link) else {
            return;
        };
        state.current = state.pending.take().map(|pending| pending.session);
        let in_use = state.current.as_ref().map(|session| &session.spec);
        let expiry = in_use.and_then(|spec| credentials_expiry(&spec.kubeconfig));
        self.metrics.credentials_expire(link, expiry);
        state.set_credentials(Some(Ok(())));
        state.troubles.clear();
        state.set_contact(0, Contact::Alive);
        state.facts.limit = over.then_some(limit);
        if !state.facts.settled {
            state.outstanding = keys.iter().cloned().collect();
            state.facts.settled = state.outstanding.is_empty();
        }
        state.status.touch();
        tracing::info!(link, cluster, keys = keys.len(), "listed");
        self.mark_all(keys);
        self.measure_remote(link);
    }

    fn services_changed(&mut self, link: &str, index: usize, change: Change<Service>) {
        let limit = self.settings.max_services;
        let Some(remote) = self.remote(link) else {
            return;
        };
        let Some(store) = remote.services.get_mut(index) else {
            return;
        };
        match &change {
            Change::List { more, .. } => remote.over_limit = *more,
            Change::Apply(service) => {
                let known = store.get(service.metadata.namespace(), service.metadata.name());
                if known.is_none() && store.len() >= limit {
                    remote.over_limit = true;
                    self.note_limit(link);
                    return;
                }
            }
            Change::Delete(_) => {}
        }
        let touched = with(store, |store| absorb(store, change, false));
        let cluster = self.cluster(link);
        let mut keys = Vec::new();
        for service in &touched {
            let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
            keys.extend(self.world.keys_of_remote(&cluster, namespace, name));
        }
        self.mark_changed(keys);
        self.note_limit(link);
        self.poll_unselected(link);
        self.measure_remote(link);
    }

    fn note_limit(&mut self, link: &str) {
        let limit = self.settings.max_services;
        let over = self.remote(link).is_some_and(|remote| remote.over_limit);
        if let Some(state) = self.links.get_mut(link) {
            let now = over.then_some(limit);
            if state.facts.limit != now {
                state.facts.limit = now;
                state.status.touch();
            }
        }
    }

    fn poll_unselected(&mut self, link: &str) {
        let entry = self.world.links.as_ref().and_then(|links| links.get(link));
        let Some((Ok(target), Some(remote))) = entry.map(|e| (&e.target, &e.remote)) else {
            return;
        };
        let names = unselected(target, remote.services().map(AsRef::as_ref));
        if let Some(session) = self
            .links
            .get(link)
            .and_then(|state| state.current.as_ref())
        {
            session.poll_slices_of(names);
        }
    }

    /// A key was worked on: one less that the first sync of its Link waits for.
    pub(super) fn settle(&mut self, key: &Key) {
        for state in self.links.values_mut().filter(|state| !state.facts.settled) {
            if state.outstanding.remove(key) && state.outstanding.is_empty() {
                state.facts.settled = true;
                state.status.touch();
                tracing::info!(
                    link = state.link.name_any(),
                    "in step with its target cluster"
                );
            }
        }
    }

    fn remote(&mut self, link: &str) -> Option<&mut Remote> {
        self.world.links.as_mut()?.get_mut(link)?.remote.as_mut()
    }

    fn cluster(&self, link: &str) -> String {
        let state: Option<&LinkState> = self.links.get(link);
        state
            .map(|state| state.link.spec.target_cluster_name.clone())
            .unwrap_or_default()
    }

    fn measure_remote(&mut self, link: &str) {
        let cluster = self.cluster(link);
        let sizes = self.remote(link).map(|remote| {
            let services: usize = remote.services.iter().map(Objects::len).sum();
            let slices: usize = remote.slices.iter().map(Objects::len).sum();
            (services, slices)
        });
        if let Some((services, slices)) = sizes {
            self.metrics.cache_size(Cache::Services, &cluster, services);
            self.metrics.cache_size(Cache::Endpoints, &cluster, slices);
        }
    }
}

/// What a source of a session watches; `None` for those that watch nothing.
fn watched(state: &LinkState, source: usize) -> Option<Kind> {
    let pending = state.pending.as_ref().map(|pending| &pending.session);
    let selectors = pending.or(state.current.as_ref())?.spec.services.len();
    match source {
        services if services < selectors => Some(Kind::Service),
        slices if slices == selectors => Some(Kind::EndpointSlice),
        _ => None,
    }
}

/// Runs `change` on a store that is there.
fn with<T, R>(store: &mut Objects<T>, change: impl FnOnce(&mut Option<Objects<T>>) -> R) -> R {
    let mut some = Some(std::mem::take(store));
    let result = change(&mut some);
    *store = some.unwrap_or_default();
    result
}

/// Exported Services in gateway mode without a selector: Kubernetes does not copy the Service's labels to
/// slices that people make, so no selector of ours finds them.
fn unselected<'a>(target: &Target, services: impl Iterator<Item = &'a Service>) -> Names {
    services
        .filter(|service| service.spec.selector.is_empty())
        .filter(|service| mirror::mode(target, service) == Some(Mode::Gateway))
        .map(|service| service.metadata.id())
        .take(POLLED_AT_MOST)
        .collect()
}

/// So many Services without a selector are looked at, at most: each costs a request now and then.
const POLLED_AT_MOST: usize = 200;
