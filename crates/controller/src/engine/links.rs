//! Changes of Links: starts, replaces and ends their sessions and probes, and updates the state.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt as _;
use mirror_core::{
    api::{conditions::ready::INVALID_LINK, link::LinkObject, text::in_brief},
    mirror::{
        GatewayService, GatewayState, Key, LinkEntry, Queries,
        link_status::{ConnectionLoss, LossCause},
    },
};

use super::{
    link_state::{LinkState, TargetSession, record},
    state::Engine,
};
use crate::{events::EventKind, local::Needed, queue, session::Spec, watch::Event};

impl Engine {
    /// Handles a change of Links. A change that leaves the parsed Link as it was, such as one of its status, restarts
    /// nothing.
    pub fn on_links_event(&mut self, change: Event<LinkObject>) {
        match change {
            Event::List { objects, .. } => {
                let listed: BTreeSet<String> = objects.iter().map(|o| o.name_any()).collect();
                for name in self.names() {
                    if !listed.contains(&name) {
                        self.on_link_deleted(&name);
                    }
                }
                for object in &objects {
                    self.on_link(object);
                    if let Some(state) = self.links.get_mut(&object.name_any()) {
                        state.status.listed();
                    }
                }
            }
            Event::Apply(object) => {
                if !self.on_link(&object) {
                    self.check_sessions(&[object.name_any()]);
                    return;
                }
            }
            Event::Delete(object) => self.on_link_deleted(&object.name_any()),
        }
        if self.state.by_slices() {
            let is_new = |needed: &mut Needed| !std::mem::replace(&mut needed.members, true);
            self.needed.send_if_modified(is_new);
        }
        // A single Link may decide which others are duplicates, and whether federated Services have slices.
        self.check_links(&self.names());
    }

    /// The names of all Links.
    pub fn names(&self) -> Vec<String> {
        self.links.keys().cloned().collect()
    }

    /// Makes sure that each Link has a session, but of several Links with one target cluster only the active one.
    pub fn check_links(&mut self, links: &[String]) {
        self.check_duplicates(links);
        self.check_sessions(links);
    }

    /// Updates a Link. Returns whether the parsed Link has changed. Its status and the name of its credentials Secret
    /// are not part of that; annotations that are settings are.
    fn on_link(&mut self, object: &LinkObject) -> bool {
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
        state.link = link;
        state.status.mark_dirty();
        let same = |before: &LinkEntry| {
            (&before.cluster, &before.target) == (&entry.cluster, &entry.target)
        };
        if before.is_some_and(same) {
            return false;
        }
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
                    entry.linked = before.linked;
                    (entry.remote, entry.gateway) = (before.remote, before.gateway);
                    entry.api_gateway = before.api_gateway;
                }
            }
            links.insert(name.clone(), entry);
        });
        if left.is_some() {
            self.metrics.remove_link(&name);
        }
        self.note_cluster(&name);
        self.report_invalid(&name);
        self.watch_gateway(&name);
        self.watch_api_gateway(&name);
        if let Some(state) = self.links.get_mut(&name).filter(|state| state.is_synced()) {
            state.changes(&keys, &cluster);
        }
        self.enqueue_gradually(&cluster, keys);
        true
    }

    /// Logs an invalid Link, and creates an Event unless the Link's status reports the problem already.
    pub fn report_invalid(&mut self, name: &str) {
        let (state, entry) = (self.links.get(name), self.state.links.get(name));
        let Some((state, entry)) = state.zip(entry).filter(|_| self.leading) else {
            return;
        };
        let Err(invalid) = &entry.target else { return };
        let message = &invalid.to_string();
        tracing::warn!(link = name, "invalid Link: {message}");
        let mut known = state.link.status.iter().flat_map(|s| &s.conditions);
        // Shortened as in the status.
        let brief = in_brief(message);
        let is_reported = known.any(|known| known.reason == INVALID_LINK && known.message == brief);
        if !is_reported {
            self.request_event(name, EventKind::InvalidLink(message.clone()));
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

    /// The older Link with the same target cluster, if there is one.
    fn older(&self, link: &str) -> Option<String> {
        let target = self.state.links.get(link)?.target.as_ref().ok()?;
        let holder = self.state.links.holder(&target.cluster);
        holder.filter(|holder| *holder != link).map(str::to_owned)
    }

    /// If several Links name one cluster, the oldest is active. The others report this in their status and do nothing.
    fn check_duplicates(&mut self, links: &[String]) {
        for name in links {
            let older = self.older(name);
            let Some((state, entry)) = record(&mut self.links, &mut self.state, name) else {
                continue;
            };
            if state.duplicate_of == older {
                continue;
            }
            let is_duplicate = older.is_some();
            state.duplicate_of = older;
            state.status.mark_dirty();
            let cluster = state.link.spec.target_cluster_name.clone();
            if is_duplicate {
                state.leave_cluster();
                state.measure_credentials(&self.metrics);
                (*entry.remote, *entry.gateway) = (None, GatewayState::default());
                *entry.api_gateway = GatewayState::default();
            } else {
                self.take_gateway(name);
            }
            let mut keys = self.state.keys_of_cluster(&cluster);
            keys.push(Key::gateway(name));
            self.enqueue_gradually(&cluster, keys);
        }
    }

    /// Follows the gateway Services of Links after they were created, changed or deleted: probes and sessions connect to
    /// them.
    pub fn follow_gateway_services(&mut self, keys: &[Key]) {
        let links = keys.iter().filter_map(|key| match key {
            Key::Gateway { link } => Some(link.clone()),
            Key::Mirror { .. } | Key::Federated { .. } => None,
        });
        let links: Vec<String> = links.collect();
        for link in &links {
            self.follow_probe(link);
        }
        self.check_sessions(&links);
    }

    /// Records why the Service that leads to the API server of a Link could not be created, if the Link needs one and has
    /// none. Then it has no session that could report a problem.
    pub fn note_api_server(&mut self, name: &str, problem: Option<&str>) {
        let link = self.state.active_link(name);
        let is_needed = link.is_some_and(|(target, _)| target.api_gateway.is_some());
        let is_missing = is_needed && self.state.api_server_address(name).is_none();
        let Some(state) = self.links.get_mut(name) else {
            return;
        };
        let problem = problem.filter(|_| is_missing);
        let no_service = problem.map(|problem| ConnectionLoss {
            why: format!(
                "Service {} has no ClusterIP yet: {problem}",
                GatewayService::ApiServer.name(name)
            ),
            cause: LossCause::NoService,
        });
        if state.no_service != no_service {
            state.change_sessions(|state| state.no_service = no_service);
        }
    }

    /// Makes sure that each active Link of these has a session with its current spec and credentials.
    pub fn check_sessions(&mut self, links: &[String]) {
        if !self.leading {
            return;
        }
        let by_slices = self.needed.borrow().members;
        for name in links {
            let Some(state) = self.links.get_mut(name) else {
                continue;
            };
            let target = self.state.links.get(name).map(|entry| &entry.target);
            let Some(Ok(target)) = target else { continue };
            if state.duplicate_of.is_some() {
                continue;
            }
            let secret = &state.link.spec.cluster_credentials_secret;
            let kubeconfig = match self.sessions.kubeconfig(secret) {
                None => continue,
                Some(Ok(kubeconfig)) => kubeconfig,
                // The current session goes on with the credentials that it has.
                Some(Err(_)) => {
                    state.withdraw(&self.metrics);
                    continue;
                }
            };
            let address = match target.api_gateway {
                None => None,
                // Its Service does not exist yet. When it is created, `follow_gateway_services` calls this again. If it
                // cannot be created, `note_api_server` says so.
                Some(_) => match self.state.api_server_address(name) {
                    None => continue,
                    Some(address) => Some(address.into()),
                },
            };
            let Queries { services, slices } = target.queries(by_slices);
            let spec = Spec {
                kubeconfig,
                address,
                services,
                slices,
                limits: self.settings.limits.of(target),
            };
            let is = |known: &TargetSession| known.session.spec == spec;
            if state.next.as_ref().is_some_and(is) {
                self.promote(name); // it may have listed everything while the Link was invalid
                continue;
            }
            if (state.rejected.as_ref()).is_some_and(|(rejected, _)| *rejected == spec) {
                continue;
            }
            if state.current.as_ref().is_some_and(is) {
                state.withdraw(&self.metrics); // perhaps a change was reverted
                continue;
            }
            // If there are more Services than the limit, those that have mirrors have priority.
            let local = self.state.local.as_ref();
            let Some(local) = local.or_else(|| self.first_lists.with_mirrors()) else {
                continue;
            };
            let first = local.services_with_objects(&target.cluster);
            let created = state.link.creation_timestamp().map(|time| time.0);
            let linked = created.max(self.sessions.created(secret));
            self.state.links.linked(name, linked);
            let session = self.sessions.start(name, spec, first);
            state.rejected = None;
            state.next = Some(TargetSession::new(session));
            state.status.mark_dirty();
        }
    }
}
