//! Links come, change and go; so do their sessions, their probes and all that is known through them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Client, ResourceExt as _, core::DeserializeGuard};

use super::{Engine, gateways::GatewayWatch, status::StatusState};
use crate::{
    api::link::Link,
    controller::{
        session::{Session, Spec},
        watch::{Change, Contact},
    },
    mirror::{
        GatewayState, Key, LinkEntry, Objects, Remote, Selector, Target,
        status::{Facts, Ledger},
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
    /// Until its first sync is worked off: what the status said of Services before this process stands.
    pub(super) carried: bool,
    /// A spec that proved useless; not tried again as it is.
    pub(super) rejected: Option<Spec>,
    /// Resolves and probes the gateway.
    pub(super) watched: Option<GatewayWatch>,
}

/// A session whose lists are not complete.
pub(super) struct Pending {
    pub(super) session: Session,
    pub(super) services: Vec<Option<Objects<crate::api::k8s::Service>>>,
    pub(super) slices: Vec<Option<Objects<crate::api::k8s::EndpointSlice>>>,
    pub(super) over_limit: bool,
}

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
            carried: true,
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
                for name in &gone {
                    self.link_gone(name);
                }
                for object in &objects {
                    self.link_seen(object);
                }
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
        state.status.seen(&link);
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
        let left = before.clone().filter(|before| *before != cluster);
        let moved = left.is_some();
        let mut keys = before
            .map(|before| self.world.keys_of_cluster(&before))
            .unwrap_or_default();
        if moved {
            // Another cluster: nothing that is known of the old one is true of it.
            if let Some(state) = self.links.get_mut(&name) {
                state.end_sessions();
                state.watched = None;
                state.ledger = Ledger::default();
                state.carried = false;
            }
        }
        let old = self.world.links.get_or_insert_default().remove(&name);
        let (remote, gateway) = old
            .filter(|_| !moved)
            .map_or((None, None), |old| (old.remote, Some(old.gateway)));
        let gateway = match gateway {
            Some(gateway) => gateway,
            None if moved => GatewayState::default(),
            None => self.remembered(&name),
        };
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
        if let Some(left) = left {
            self.forget_metrics(&name, &left);
        }
        self.watch_gateway(&name);
        keys.extend(self.world.keys_of_cluster(&cluster));
        keys.push(Key::probe(&name));
        self.mark_all(keys);
    }

    /// Drops the series of a Link, and those of a cluster that no Link names any more.
    fn forget_metrics(&self, link: &str, cluster: &str) {
        self.metrics.remove_link(link);
        self.forget_cluster(cluster);
    }

    /// Drops the series of a cluster that no Link names any more.
    pub(super) fn forget_cluster(&self, cluster: &str) {
        if self.world.link(cluster).is_none() {
            self.metrics.remove_cluster(cluster);
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
        self.forget_metrics(name, &cluster);
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
                self.metrics.credentials_expire(&name, None);
                state.watched = None;
                state.ledger = Ledger::default();
                state.carried = false;
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
                    state.withdraw();
                    state.set_credentials(missing("SecretMalformed", what));
                    continue;
                }
                None => {
                    let what = format!(
                        "there is no Secret {secret} of type mirror.linkerd.io/remote-kubeconfig"
                    );
                    state.withdraw();
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
            let is = |session: &Session| session.spec == spec;
            let tried = state.pending.as_ref().map(|pending| &pending.session);
            if tried.is_some_and(is) || state.rejected.as_ref() == Some(&spec) {
                continue;
            }
            if state.current.as_ref().is_some_and(is) {
                // As it was, or so again: a change was taken back.
                state.pending = None;
                state.rejected = None;
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
}

impl LinkState {
    /// The credentials that were tried are no longer those of the Link. What is connected stays connected.
    fn withdraw(&mut self) {
        self.pending = None;
        self.rejected = None;
    }

    /// A new session meets trouble. If it has other credentials than the present one, these may be the cause.
    pub(super) fn not_taken(&mut self, message: &str) {
        let kubeconfig = |session: &Session| session.spec.kubeconfig.clone();
        let new = self.pending.as_ref().map(|p| kubeconfig(&p.session));
        if new != self.current.as_ref().map(kubeconfig) {
            let what =
                format!("the new credentials do not work, the old ones stay in use: {message}");
            self.set_credentials(Some(Err(("CredentialsFail", what))));
        }
    }

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
