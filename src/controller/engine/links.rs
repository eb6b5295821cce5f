//! Links come, change and go; so do their sessions, their probes and all that is known through them.

use std::{collections::BTreeSet, sync::Arc};

use kube::{ResourceExt as _, core::DeserializeGuard};

use super::{
    Engine,
    link_state::{LinkState, Pending},
};
use crate::{
    api::link::Link,
    controller::{
        session::{Session, Spec},
        watch::Change,
    },
    mirror::{GatewayState, Key, LinkEntry, Selector, Target, status::Ledger},
};

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
