//! Links come, change and go; so do their sessions, their probes and all that is known through them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, ResourceExt as _, core::DeserializeGuard};
use tokio_util::sync::CancellationToken;

use super::{Engine, status::StatusState};
use crate::{
    api::link::Link,
    controller::{
        gateway, probe,
        session::{Session, Spec},
        watch::{Change, Contact},
    },
    mirror::{
        Gateway, GatewayState, Key, LinkEntry, Liveness, Objects, Remote, Selector, Target,
        probe_name,
        status::{Facts, GatewayFacts, Ledger},
    },
};

/// What the controller knows of a Link besides what the core has to know.
pub(super) struct LinkState {
    pub(super) link: Arc<Link>,
    pub(super) facts: Facts,
    pub(super) ledger: Ledger,
    pub(super) status: StatusState,
    /// The session whose view is the world's.
    pub(super) current: Option<Session>,
    /// A session that is still listing, to take the place of the current one.
    pub(super) pending: Option<Pending>,
    /// What the sessions meet, by source.
    pub(super) troubles: BTreeMap<usize, String>,
    /// Keys of the first sync that have not been worked on yet.
    pub(super) outstanding: BTreeSet<Key>,
    /// A spec that proved useless; not tried again as it is.
    pub(super) rejected: Option<Spec>,
    watched: Option<GatewayWatch>,
}

/// A session whose lists are not complete.
pub(super) struct Pending {
    pub(super) session: Session,
    pub(super) services: Vec<Option<Objects<crate::api::k8s::Service>>>,
    pub(super) slices: Vec<Option<Objects<crate::api::k8s::EndpointSlice>>>,
    pub(super) over_limit: bool,
}

/// Something that a gateway's tasks report.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// Addresses were resolved, or not.
    Resolved(gateway::Resolution),
    /// A probe has news.
    Probed(probe::ProbeReport),
}

/// The tasks that resolve and probe one gateway. They end when this is dropped.
struct GatewayWatch {
    id: u64,
    gateway: Gateway,
    stop: CancellationToken,
}

impl Drop for GatewayWatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Time between two looks at DNS.
const RESOLVE_EVERY: Duration = gateway::PERIOD;

impl LinkState {
    fn new(link: Arc<Link>) -> Self {
        Self {
            status: StatusState::seeded(&link),
            link,
            facts: Facts::default(),
            ledger: Ledger::default(),
            current: None,
            pending: None,
            troubles: BTreeMap::new(),
            outstanding: BTreeSet::new(),
            rejected: None,
            watched: None,
        }
    }

    /// A client of the target cluster.
    pub(super) fn client(&self) -> Option<Client> {
        self.current.as_ref()?.client.clone()
    }

    /// A client of the target cluster, if it is this one.
    pub(super) fn client_of(&self, cluster: &str) -> Option<Client> {
        (self.link.spec.target_cluster_name == cluster).then(|| self.client())?
    }

    fn end_sessions(&mut self) {
        self.current = None;
        self.pending = None;
        self.troubles.clear();
        self.facts.connected = None;
        self.facts.credentials = None;
        self.facts.settled = false;
    }
}

impl Engine {
    /// Takes in a change of Links. Links that differ only in status or metadata restart nothing.
    pub(super) fn links_changed(&mut self, change: Change<DeserializeGuard<Link>>) {
        let name = |object: &DeserializeGuard<Link>| match &object.0 {
            Ok(link) => link.name_any(),
            Err(invalid) => invalid.metadata.name.clone().unwrap_or_default(),
        };
        match change {
            Change::List { objects, .. } => {
                self.world.links.get_or_insert_default();
                let listed: BTreeSet<String> = objects.iter().map(|object| name(object)).collect();
                let gone: Vec<_> = self
                    .links
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                gone.iter().for_each(|name| self.link_gone(name));
                objects.iter().for_each(|object| self.link_seen(object));
            }
            Change::Apply(object) => self.link_seen(&object),
            Change::Delete(object) => self.link_gone(&name(&object)),
        }
        self.check_duplicates();
        self.check_sessions();
    }

    fn link_seen(&mut self, object: &DeserializeGuard<Link>) {
        let link = match &object.0 {
            Ok(link) => Arc::new(link.clone()),
            Err(invalid) => {
                // What it was before stays; there is no status to write for what cannot be read.
                tracing::warn!(
                    link = invalid.metadata.name,
                    "a Link cannot be read: {}",
                    invalid.error
                );
                return;
            }
        };
        let name = link.name_any();
        if self
            .links
            .get(&name)
            .is_some_and(|known| known.link.uid() != link.uid())
        {
            self.link_gone(&name); // deleted and created again, unseen
        }
        let target = Target::parse(&link, self.settings.headless);
        let entries = self.world.links.get_or_insert_default();
        let state = self
            .links
            .entry(name.clone())
            .or_insert_with(|| LinkState::new(link.clone()));
        let news = entries
            .get(&name)
            .is_none_or(|entry| entry.target != target);
        if state.facts.generation != link.metadata.generation {
            state.facts.generation = link.metadata.generation;
            state.status.touch();
        }
        state.facts.invalid = target.as_ref().err().map(ToString::to_string);
        state.link = link.clone();
        if !news {
            return;
        }
        state.status.touch();
        let cluster = link.spec.target_cluster_name.clone();
        let before = entries.get(&name).map(|entry| entry.cluster.clone());
        let moved = before.as_ref().is_some_and(|before| *before != cluster);
        let mut keys = before
            .map(|before| self.world.keys_of_cluster(&before))
            .unwrap_or_default();
        if moved {
            // Another cluster: nothing that is known of the old one is true of it.
            if let Some(state) = self.links.get_mut(&name) {
                state.end_sessions();
                state.ledger = Ledger::default();
            }
        }
        let old = self.world.links.get_or_insert_default().remove(&name);
        let (remote, gateway) = old
            .filter(|_| !moved)
            .map_or((None, None), |old| (old.remote, Some(old.gateway)));
        let gateway = gateway.unwrap_or_else(|| self.remembered(&name));
        let entry = LinkEntry {
            cluster: cluster.clone(),
            target,
            remote,
            gateway,
        };
        self.world
            .links
            .get_or_insert_default()
            .insert(name.clone(), entry);
        self.watch_gateway(&name);
        keys.extend(self.world.keys_of_cluster(&cluster));
        keys.push(Key::probe(&name));
        self.mark_all(keys);
    }

    /// What the Link's status says of the gateway: after a restart that is what is known, until it is probed.
    fn remembered(&self, name: &str) -> GatewayState {
        let status = self
            .links
            .get(name)
            .and_then(|state| state.link.status.as_ref());
        let liveness = match status
            .and_then(|s| s.gateway.as_ref())
            .and_then(|g| g.alive)
        {
            None => Liveness::Unknown,
            Some(true) => Liveness::Alive,
            Some(false) => Liveness::Dead,
        };
        GatewayState {
            addresses: None,
            liveness,
        }
    }

    fn link_gone(&mut self, name: &str) {
        let Some(state) = self.links.remove(name) else {
            return;
        };
        let cluster = state.link.spec.target_cluster_name.clone();
        let mut keys = self.world.keys_of_cluster(&cluster);
        if let Some(links) = &mut self.world.links {
            links.remove(name);
        }
        keys.extend(self.world.keys_of_cluster(&cluster));
        keys.push(Key::probe(name));
        self.mark_all(keys);
        if self.world.link(&cluster).is_none() {
            self.metrics.remove_link(name, &cluster);
        }
    }

    /// Where two Links name one cluster, the older has it; the other says so and does nothing.
    pub(super) fn check_duplicates(&mut self) {
        let names: Vec<String> = self.links.keys().cloned().collect();
        for name in names {
            let Some(state) = self.links.get(&name) else {
                continue;
            };
            let cluster = state.link.spec.target_cluster_name.clone();
            let owner = self
                .world
                .link(&cluster)
                .map(|(target, _)| target.link.clone());
            let Some(state) = self.links.get_mut(&name) else {
                continue;
            };
            let duplicate = owner.filter(|owner| *owner != name && state.facts.invalid.is_none());
            if state.facts.duplicate_of == duplicate {
                continue;
            }
            let idle = duplicate.is_some();
            state.facts.duplicate_of = duplicate;
            state.status.touch();
            if idle {
                state.end_sessions();
                state.watched = None;
                state.ledger = Ledger::default();
                if let Some(entry) = self.world.links.as_mut().and_then(|l| l.get_mut(&name)) {
                    *entry.remote = None;
                }
            } else {
                self.watch_gateway(&name);
            }
            let mut keys = self.world.keys_of_cluster(&cluster);
            keys.push(Key::probe(&name));
            self.mark_all(keys);
        }
    }

    /// Sees to it that each Link in charge has the session that its spec and credentials ask for.
    pub(super) fn check_sessions(&mut self) {
        let Some(secrets) = self.secrets.as_ref().filter(|_| self.leading) else {
            return;
        };
        for (name, state) in &mut self.links {
            let target = self
                .world
                .links
                .as_ref()
                .and_then(|l| l.get(name))
                .map(|e| &e.target);
            let Some(Ok(target)) = target else { continue };
            if state.facts.duplicate_of.is_some() {
                continue;
            }
            let secret = &state.link.spec.cluster_credentials_secret;
            let missing = |reason: &'static str, what: String| Some(Err((reason, what)));
            let kubeconfig = match secrets.get(secret) {
                Some(Some(kubeconfig)) => kubeconfig.clone(),
                Some(None) => {
                    let what = format!("Secret {secret} has no key kubeconfig");
                    state.set_credentials(missing("SecretMalformed", what));
                    continue;
                }
                None => {
                    let what = format!(
                        "there is no Secret {secret} of type mirror.linkerd.io/remote-kubeconfig"
                    );
                    state.set_credentials(missing("SecretMissing", what));
                    continue;
                }
            };
            let spec = Spec {
                kubeconfig,
                services: target
                    .service_selectors()
                    .iter()
                    .map(Selector::query)
                    .collect(),
                slices: target.gateway_selector.as_ref().map(Selector::query),
                limit: self.settings.max_services,
            };
            let has = |session: Option<&Session>| session.is_some_and(|s| s.spec == spec);
            let newest = state
                .pending
                .as_ref()
                .map(|p| &p.session)
                .or(state.current.as_ref());
            if has(newest) || state.rejected.as_ref() == Some(&spec) {
                continue;
            }
            if has(state.current.as_ref()) {
                state.pending = None; // the change was taken back
                state.set_credentials(Some(Ok(())));
                continue;
            }
            self.sessions += 1;
            let services = spec.services.iter().map(|_| None).collect();
            let session = Session::start(name, self.sessions, spec, self.outbox.clone());
            state.rejected = None;
            state.pending = Some(Pending {
                session,
                services,
                slices: vec![None, None],
                over_limit: false,
            });
        }
    }

    /// Starts, restarts or ends the tasks that resolve and probe a Link's gateway.
    pub(super) fn watch_gateway(&mut self, name: &str) {
        if !self.leading {
            return;
        }
        let links = self.world.links.as_ref();
        let target = links
            .and_then(|links| links.get(name))
            .map(|entry| entry.target.clone());
        let Some(Ok(target)) = target else { return };
        let entry = self
            .world
            .links
            .as_mut()
            .and_then(|links| links.get_mut(name));
        let (Some(state), Some(entry)) = (self.links.get_mut(name), entry) else {
            return;
        };
        let wanted = target
            .gateway
            .as_ref()
            .filter(|_| state.facts.duplicate_of.is_none());
        if state.watched.as_ref().map(|watched| &watched.gateway) == wanted {
            return;
        }
        let before = state.watched.take();
        let Some(wanted) = wanted else {
            *entry.gateway = GatewayState::default();
            state.facts.gateway = None;
            self.metrics.gateway_enabled(&target.cluster, false);
            return;
        };
        self.sessions += 1;
        let (id, stop) = (self.sessions, CancellationToken::new());
        if before.is_some_and(|before| before.gateway.hosts != wanted.hosts) {
            entry.gateway.addresses = None;
        }
        if let Some(addresses) = gateway::fixed(&wanted.hosts) {
            entry.gateway.addresses = Some(addresses); // nothing to wait for
        } else {
            let (hosts, stop) = (wanted.hosts.clone(), stop.clone());
            let (signals, name) = (self.signals.clone(), name.to_owned());
            tokio::spawn(async move {
                let sink = |resolution| {
                    let _ = signals.send((name.clone(), id, Signal::Resolved(resolution)));
                };
                gateway::run(&hosts, RESOLVE_EVERY, sink, stop).await;
            });
        }
        let latency_ms = state
            .facts
            .gateway
            .as_ref()
            .and_then(|facts| facts.latency_ms);
        let remembered = state.link.status.as_ref().and_then(|s| s.gateway.as_ref());
        state.facts.gateway = Some(GatewayFacts {
            state: entry.gateway.clone(),
            latency_ms: latency_ms.or(remembered.and_then(|gateway| gateway.latency_ms)),
            unprobed: wanted.probe.as_ref().err().cloned(),
            unresolved: None,
        });
        self.metrics
            .gateway_enabled(&target.cluster, matches!(wanted.probe, Ok(Some(_))));
        if let Ok(Some(settings)) = wanted.probe.clone() {
            let service = format!(
                "{}.{}.svc:{}",
                probe_name(name),
                self.settings.config.namespace,
                settings.port
            );
            let address = self.settings.probe_address.clone().unwrap_or(service);
            let to = probe::ProbeTarget {
                address,
                path: settings.path.clone(),
            };
            let (signals, name, stop) = (self.signals.clone(), name.to_owned(), stop.clone());
            let (metrics, cluster) = (self.metrics.clone(), target.cluster.clone());
            tokio::spawn(async move {
                let sink = |report| {
                    let _ = signals.send((name.clone(), id, Signal::Probed(report)));
                };
                probe::run(&cluster, &to, &settings, &metrics, sink, stop).await;
            });
        } else {
            entry.gateway.liveness = Liveness::Unknown;
        }
        state.watched = Some(GatewayWatch {
            id,
            gateway: wanted.clone(),
            stop,
        });
    }

    /// Takes in what a gateway's tasks report.
    pub(super) fn signal(&mut self, name: &str, id: u64, signal: Signal) {
        let entry = self
            .world
            .links
            .as_mut()
            .and_then(|links| links.get_mut(name));
        let (Some(state), Some(entry)) = (self.links.get_mut(name), entry) else {
            return;
        };
        if state
            .watched
            .as_ref()
            .is_none_or(|watched| watched.id != id)
        {
            return;
        }
        let Some(facts) = &mut state.facts.gateway else {
            return;
        };
        let before = entry.gateway.clone();
        match signal {
            Signal::Resolved(gateway::Resolution::Addresses(addresses)) => {
                facts.unresolved = None;
                entry.gateway.addresses = Some(addresses);
            }
            Signal::Resolved(gateway::Resolution::Unresolved(reason)) => {
                facts.unresolved = Some(reason);
                state.status.touch();
            }
            Signal::Probed(probe::ProbeReport::Transition(liveness)) => {
                entry.gateway.liveness = liveness;
            }
            Signal::Probed(probe::ProbeReport::Latency(latency)) => {
                let millis = i64::try_from(latency.as_millis()).unwrap_or(i64::MAX);
                state.status.latency(&mut facts.latency_ms, millis);
            }
        }
        if *entry.gateway == before {
            return;
        }
        facts.state = entry.gateway.clone();
        state.status.touch();
        let cluster = state.link.spec.target_cluster_name.clone();
        self.metrics.endpoint_repair(&cluster);
        let mut keys = self.world.keys_of_cluster(&cluster);
        keys.push(Key::probe(name));
        self.mark_all(keys);
    }
}

impl LinkState {
    /// Takes down what is known of the credentials.
    pub(super) fn set_credentials(&mut self, now: Option<Result<(), (&'static str, String)>>) {
        if self.facts.credentials != now {
            self.facts.credentials = now;
            self.status.touch();
        }
    }

    /// Takes down what one source met, and with it whether the cluster is connected. Returns whether it is
    /// again, after it was not.
    pub(super) fn set_contact(&mut self, source: usize, contact: Contact) -> bool {
        match contact {
            Contact::Alive => self.troubles.remove(&source),
            Contact::Lost(message) => self.troubles.insert(source, message),
        };
        let now = match self.troubles.values().next() {
            None => Ok(()),
            Some(message) => Err(message.clone()),
        };
        let again = now.is_ok() && matches!(self.facts.connected, Some(Err(_)));
        if self.facts.connected.as_ref() != Some(&now) {
            match &now {
                Ok(()) => tracing::info!(link = self.link.name_any(), "connected"),
                Err(why) => tracing::warn!(link = self.link.name_any(), "not connected: {why}"),
            }
            self.facts.connected = Some(now);
            self.status.touch();
        }
        again
    }
}

/// The remote view that a complete session gives.
pub(super) fn complete(pending: &mut Pending) -> Option<Remote> {
    let complete =
        pending.services.iter().all(Option::is_some) && pending.slices.iter().all(Option::is_some);
    complete.then(|| Remote {
        services: pending
            .services
            .iter_mut()
            .filter_map(Option::take)
            .collect(),
        slices: pending.slices.iter_mut().filter_map(Option::take).collect(),
        over_limit: pending.over_limit,
    })
}
