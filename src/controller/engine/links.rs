//! Changes of Links: starts, replaces and ends their sessions and probes, and updates the state.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt as _;

use super::{
    link_state::{LinkState, Pending, record},
    state::Engine,
};
use crate::{
    api::{conditions::ready::INVALID_LINK, link::LinkObject, text::in_brief},
    controller::{
        events::{EventKind, EventRequest},
        queue,
        session::{Session, Spec},
        watch::Event,
    },
    mirror::{GatewayState, Key, LinkEntry, Queries},
};

impl Engine {
    /// Handles a change of Links. A Link that changed only in status or metadata restarts nothing.
    pub(super) fn on_links_event(&mut self, change: Event<LinkObject>) {
        // The change may affect which Links are duplicates: those of the clusters that it names.
        let concerned = match change {
            Event::List { objects, .. } => {
                let listed: BTreeSet<String> = objects.iter().map(|o| o.name_any()).collect();
                let gone: Vec<_> = self
                    .links
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                for name in &gone {
                    self.on_link_deleted(name);
                }
                for object in &objects {
                    self.on_link(object);
                    if let Some(state) = self.links.get_mut(&object.name_any()) {
                        state.status.listed(&state.link);
                    }
                }
                self.links.keys().cloned().collect()
            }
            Event::Apply(object) => {
                let name = object.name_any();
                let before = self.rivals(&name);
                self.on_link(&object);
                [vec![name.clone()], before, self.rivals(&name)].concat()
            }
            Event::Delete(object) => {
                let name = object.name_any();
                let before = self.rivals(&name);
                self.on_link_deleted(&name);
                before
            }
        };
        self.check_links(&concerned);
        self.check_form();
    }

    /// Updates the watches if federated Services now have slices, or have none any more. A single Link can change that.
    fn check_form(&mut self) {
        let now = self.state.by_slices();
        if std::mem::replace(&mut self.by_slices, now) != now {
            self.needed.send_if_modified(|needed| {
                let news = now && !needed.members;
                needed.members |= now;
                news
            });
            let all: Vec<String> = self.links.keys().cloned().collect();
            self.check_sessions(&all);
        }
    }

    /// Names of the Links with the same target cluster as this one, including itself. An invalid Link may still be in
    /// charge of the cluster that was listed last.
    fn rivals(&self, link: &str) -> Vec<String> {
        let links = &self.state.links;
        let clusters = links.get(link).into_iter();
        let clusters = clusters.flat_map(|entry| entry.cluster.iter().chain(&entry.listed));
        let naming = clusters.flat_map(|named| links.naming(named));
        naming.map(str::to_owned).collect()
    }

    /// Makes sure that of several Links with one target cluster, only the active one has a session.
    pub(super) fn check_links(&mut self, links: &[String]) {
        self.check_duplicates(links);
        self.check_sessions(links);
    }

    fn on_link(&mut self, object: &LinkObject) {
        let link = Arc::new(object.link.clone());
        let name = link.name_any();
        if self
            .links
            .get(&name)
            .is_some_and(|known| known.link.uid() != link.uid())
        {
            self.on_link_deleted(&name); // deleted and created again between two events
        }
        let mut entry = LinkEntry::new(object, self.settings.headless);
        let before = self.state.links.get(&name);
        let state = self
            .links
            .entry(name.clone())
            .or_insert_with(|| LinkState::new(link.clone()));
        state.status.seen(&link);
        if state.link.metadata.generation != link.metadata.generation {
            state.status.touch();
        }
        state.link = link;
        let same = |before: &LinkEntry| {
            (&before.cluster, &before.target) == (&entry.cluster, &entry.target)
        };
        if before.is_some_and(same) {
            return;
        }
        state.facts.invalid = entry.target.as_ref().err().map(ToString::to_string);
        state.status.touch();
        let left = before.and_then(|before| before.left_for(&entry));
        if left.is_some() {
            state.leave_cluster();
        }
        if before.is_none() {
            entry.gateway = self.remembered(&name);
        }
        let cluster = entry.known_cluster().unwrap_or(queue::LOCAL).to_owned();
        let keys = self.state.change_link(&name, |links| {
            if let Some(before) = links.remove(&name) {
                entry.listed = before.listed;
                if left.is_none() {
                    (entry.remote, entry.gateway) = (before.remote, before.gateway);
                }
            }
            links.insert(name.clone(), entry);
        });
        if left.is_some() {
            self.metrics.remove_link(&name);
        }
        self.note_cluster(&name);
        self.tell_invalid(&name);
        self.watch_gateway(&name);
        self.enqueue_gradually(&cluster, keys);
    }

    /// Logs an invalid Link, and creates an Event unless the Link's status reports the problem already.
    pub(super) fn tell_invalid(&mut self, name: &str) {
        let Some(state) = self.links.get(name).filter(|_| self.leading) else {
            return;
        };
        let Some(message) = &state.facts.invalid else {
            return;
        };
        tracing::warn!(link = name, "invalid Link: {message}");
        let mut known = state.link.status.iter().flat_map(|s| &s.conditions);
        // Shortened as in the status.
        let brief = in_brief(message);
        let told = known.any(|known| known.reason == INVALID_LINK && known.message == brief);
        if !told {
            // Events are rate-limited. If the channel is full, this one is dropped; the status still reports the
            // problem.
            let _ = self.event_requests.try_send(EventRequest {
                link: (self.state.config.namespace.clone(), name.to_owned()),
                link_uid: state.link.uid(),
                kind: EventKind::InvalidLink(message.clone()),
            });
        }
    }

    /// Records which cluster a Link names, if it names one, and removes the metrics of the one that it named before.
    fn note_cluster(&mut self, link: &str) {
        let entry = self.state.links.get(link);
        let now = entry.and_then(LinkEntry::known_cluster);
        let (Some(now), Some(state)) = (now, self.links.get_mut(link)) else {
            return;
        };
        if state.named.as_deref() != Some(now)
            && let Some(before) = state.named.replace(now.to_owned())
        {
            self.forget_cluster(&before);
        }
    }

    fn on_link_deleted(&mut self, name: &str) {
        let cluster = self.cluster(name);
        if self.links.remove(name).is_none() {
            return;
        }
        let keys = self
            .state
            .change_link(name, |links| drop(links.remove(name)));
        self.enqueue_gradually(&cluster, keys);
        self.metrics.remove_link(name);
        self.forget_cluster(&cluster);
    }

    /// If several Links name one cluster, the oldest is active. The others report this in their status and do nothing.
    fn check_duplicates(&mut self, links: &[String]) {
        for name in links {
            let Some(state) = self.links.get(name) else {
                continue;
            };
            let cluster = state.link.spec.target_cluster_name.clone();
            let owner = self.state.links.holder(&cluster).map(str::to_owned);
            let Some((state, entry)) = record(&mut self.links, &mut self.state, name) else {
                continue;
            };
            let duplicate = owner.filter(|owner| owner != name && state.facts.invalid.is_none());
            if state.facts.duplicate_of == duplicate {
                continue;
            }
            let idle = duplicate.is_some();
            state.facts.duplicate_of = duplicate;
            state.status.touch();
            if idle {
                state.leave_cluster();
                self.metrics.credentials_expire(name, None);
                (*entry.remote, *entry.gateway) = (None, GatewayState::default());
            } else {
                self.take_gateway(name);
            }
            let mut keys = self.state.keys_of_cluster(&cluster);
            keys.push(Key::gateway(name));
            self.enqueue_gradually(&cluster, keys);
        }
    }

    /// Makes sure that each active Link of these has a session with its current spec and credentials.
    pub(super) fn check_sessions(&mut self, links: &[String]) {
        if !self.leading {
            return;
        }
        let by_slices = self.state.by_slices();
        for name in links {
            let Some(state) = self.links.get_mut(name) else {
                continue;
            };
            let target = self.state.links.get(name).map(|entry| &entry.target);
            let Some(Ok(target)) = target else { continue };
            if state.facts.duplicate_of.is_some() {
                continue;
            }
            let secret = &state.link.spec.cluster_credentials_secret;
            let kubeconfig = match self.sessions.kubeconfig(secret) {
                None => continue,
                Some(Ok(kubeconfig)) => kubeconfig,
                Some(Err(missing)) => {
                    state.withdraw(&self.metrics);
                    state.set_credentials(Some(Err(missing)));
                    continue;
                }
            };
            let Queries { services, slices } = target.queries(by_slices);
            let spec = Spec {
                kubeconfig,
                services,
                slices,
                limits: self.settings.limits.of(target),
            };
            let is = |session: &Session| session.spec == spec;
            let tried = state.pending.as_ref().map(|pending| &pending.session);
            if tried.is_some_and(is) {
                self.complete_pending(name); // it may have listed everything while the Link was invalid
                continue;
            }
            if state.rejected.as_ref() == Some(&spec) {
                continue;
            }
            if state.current.as_ref().is_some_and(is) {
                // The current session matches the spec, perhaps because a change was reverted.
                state.pending = None;
                state.rejected = None;
                state.set_credentials(Some(Ok(())));
                state.set_held_up(None);
                continue;
            }
            // If there are more Services than the limit, those that have mirrors have priority.
            let local = self.state.local.as_ref();
            let Some(local) = local.or_else(|| self.first_lists.with_mirrors()) else {
                continue;
            };
            let first = local.services_with_objects(&target.cluster);
            let session = self.sessions.start(name, spec, first);
            state.rejected = None;
            state.pending = Some(Pending::new(session));
        }
    }
}
