//! Gateways of Links: their addresses, and whether they are alive. Tasks find out both: `gateway.rs` resolves the
//! addresses, and `probe.rs` decides after how many failed probes a gateway is dead. The engine records what they
//! report, and enqueues the keys of the cluster.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use mirror_core::{
    api::{conditions, link::Link},
    mirror::{Gateway, GatewayService, GatewayState, Key, Liveness, Probe, State},
};
use tokio::time::Instant;

use super::{
    link_state::{LinkState, record},
    state::Engine,
    status::StatusState,
};
use crate::{
    gateway,
    gateway_tasks::{GatewayEvent, GatewayWatch},
    probe,
};

impl Engine {
    /// Initializes the state of a Link from its status, which the last leader wrote.
    pub fn take_over(&mut self, name: &str) {
        let gateway = self.remembered(name);
        let listed = self.links.get(name).and_then(|state| {
            let status = state.link.status.as_ref()?;
            status.target_cluster_name.clone()
        });
        let entry = self.state.links.get(name);
        let named = entry.and_then(|entry| entry.cluster.as_ref());
        // The last leader may have followed the Link to another cluster while this replica stood by.
        let is_of_cluster = listed.is_none() || named.is_none() || listed.as_ref() == named;
        self.state.links.take_over(name, listed, gateway);
        if let Some(state) = self.links.get_mut(name) {
            state.keeps_reports = is_of_cluster;
            state.status = StatusState::seeded(&state.link);
            state.status.mark_dirty();
        }
    }

    /// The state of the gateway in the Link's status. After a restart, this state holds until the gateway is probed.
    pub fn remembered(&self, name: &str) -> GatewayState {
        let state = self.links.get(name);
        let status = state.and_then(|state| state.link.status.as_ref());
        GatewayState {
            addresses: None,
            liveness: Liveness::recorded(status),
        }
    }

    /// Called when a Link becomes the active one for its target cluster: it owns the metrics of the gateway from now
    /// on.
    pub fn take_gateway(&mut self, name: &str) {
        let Some((target, _)) = self.state.active_link(name) else {
            return;
        };
        for (other, state) in &mut self.links {
            if other != name && state.named.as_ref() == Some(&target.cluster) {
                state.gateway = None;
            }
        }
        if (self.links.get(name)).is_some_and(|state| state.gateway.is_none()) {
            self.metrics.gateway_enabled(&target.cluster, false);
        }
        self.watch_gateway(name);
        self.watch_api_gateway(name);
    }

    /// Starts, restarts or ends the tasks that resolve and probe a Link's gateway. A Link that is not the active one
    /// for its target cluster has no such tasks, and does not change the metrics of the gateway.
    pub fn watch_gateway(&mut self, name: &str) {
        if !self.leading {
            return;
        }
        let in_charge = self.state.active_link(name).is_some();
        let Some((state, entry)) = record(&mut self.links, &mut self.state, name) else {
            return;
        };
        let Ok(target) = entry.target else { return };
        let wanted = target.gateway.as_ref().filter(|_| in_charge);
        let is_watched = match (&state.gateway, wanted) {
            (None, None) => true,
            (Some(now), Some(wanted)) => now.gateway == *wanted && now.cluster == target.cluster,
            _ => false,
        };
        if is_watched {
            return;
        }
        let before = state.gateway.take();
        let Some(wanted) = wanted else {
            *entry.gateway = GatewayState::default();
            if in_charge {
                self.metrics.gateway_enabled(&target.cluster, false);
            }
            return;
        };
        let known = known_addresses(before.as_ref(), wanted, entry.gateway, state);
        if (before.as_ref()).is_some_and(|before| before.gateway.hosts != wanted.hosts) {
            entry.gateway.addresses = None;
        }
        if let Some(addresses) = gateway::fixed(&wanted.hosts) {
            entry.gateway.addresses = Some(addresses); // nothing to wait for
        }
        if !matches!(wanted.probe, Ok(Some(_))) {
            entry.gateway.liveness = Liveness::Unknown; // not probed any more
        }
        // Unless the Link has changed its cluster, its status is about this gateway.
        let remembered = state.link.status.as_ref().filter(|_| state.keeps_reports);
        let remembered = remembered.and_then(|status| status.gateway.as_ref()?.latency_ms);
        self.metrics
            .gateway_enabled(&target.cluster, matches!(wanted.probe, Ok(Some(_))));
        // Requests name the probe Service as their host, unless the settings give another address.
        let namespace = &self.settings.config.namespace;
        let is_elsewhere = self.settings.probe_address.is_some();
        let host = |probe: &Probe| {
            let service = GatewayService::Probe.name(name);
            (!is_elsewhere).then(|| format!("{service}.{namespace}.svc:{}", probe.port))
        };
        let mut watch = self
            .gateways
            .start(name, &target.cluster, wanted, known, host);
        let remembered = remembered.map(|latency| (latency, Instant::now()));
        watch.latency = before.and_then(|before| before.latency).or(remembered);
        watch.failure = recorded_failure(&state.link).filter(|_| state.keeps_reports);
        state.gateway = Some(watch);
        state.status.mark_dirty();
        self.follow_probe(name);
    }

    /// Starts, restarts or ends the task that resolves the gateway through which the API server of a Link is reached.
    pub fn watch_api_gateway(&mut self, name: &str) {
        if !self.leading {
            return;
        }
        let in_charge = self.state.active_link(name).is_some();
        let Some((state, entry)) = record(&mut self.links, &mut self.state, name) else {
            return;
        };
        let Ok(target) = entry.target else { return };
        let wanted = target.api_gateway.as_ref().filter(|_| in_charge);
        let wanted = wanted.map(|way| &way.gateway);
        let watched = state.api_gateway.as_ref();
        let before = watched.map(|watch| &watch.gateway);
        if before == wanted && watched.is_none_or(|watch| watch.cluster == target.cluster) {
            return;
        }
        let keeps = before.zip(wanted);
        if !keeps.is_some_and(|(before, wanted)| keeps_hosts(before, wanted)) {
            *entry.api_gateway = GatewayState::default();
        }
        state.api_gateway = wanted.map(|wanted| {
            let known = entry.api_gateway.addresses.iter().flatten().copied();
            let known = known.collect();
            if let Some(addresses) = gateway::fixed(&wanted.hosts) {
                entry.api_gateway.addresses = Some(addresses);
            }
            self.gateways
                .start(name, &target.cluster, wanted, known, |_| None)
        });
        state.status.mark_dirty();
    }

    /// Records the addresses of the gateway through which the API server of a Link is reached.
    fn on_api_gateway_resolved(&mut self, name: &str, resolution: gateway::Resolution) {
        let cluster = self.cluster(name);
        let Some((state, entry)) = record(&mut self.links, &mut self.state, name) else {
            return;
        };
        let Some(watched) = &mut state.api_gateway else {
            return;
        };
        state.status.mark_dirty();
        let found = watched.on_resolution(resolution);
        if found.is_some() && found != entry.api_gateway.addresses {
            entry.api_gateway.addresses = found;
            self.enqueue_gradually(&cluster, vec![Key::gateway(name)]);
        }
    }

    /// Tells the probe task the address to call, if it has changed.
    pub fn follow_probe(&mut self, name: &str) {
        let Some(state) = self.links.get_mut(name) else {
            return;
        };
        let Some(watched) = &state.gateway else {
            return;
        };
        let Ok(Some(probe)) = &watched.gateway.probe else {
            return;
        };
        let fixed = self.settings.probe_address.clone();
        let now = fixed.or_else(|| address(&self.state, name, probe));
        let is_new = watched.address.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
        if is_new {
            state.status.mark_dirty();
        }
    }

    /// Handles an event from a gateway's tasks.
    pub fn on_gateway_event(&mut self, name: &str, id: u64, signal: GatewayEvent) {
        let state = self.links.get(name);
        let way = state.and_then(|state| state.api_gateway.as_ref());
        if way.is_some_and(|way| way.id == id) {
            // It is not probed.
            if let GatewayEvent::Resolved(resolution) = signal {
                self.on_api_gateway_resolved(name, resolution);
            }
            return;
        }
        let cluster = self.cluster(name);
        let Some((state, entry)) = record(&mut self.links, &mut self.state, name) else {
            return;
        };
        let watched = state.gateway.as_mut();
        let Some(watched) = watched.filter(|watched| watched.id == id) else {
            return;
        };
        let before = entry.gateway.clone();
        let is_shown = match signal {
            GatewayEvent::Resolved(found) => {
                if let Some(addresses) = watched.on_resolution(found) {
                    entry.gateway.addresses = Some(addresses);
                }
                true
            }
            GatewayEvent::Probed(probe::ProbeReport::Transition(liveness)) => {
                if liveness == Liveness::Alive {
                    watched.failure = None;
                }
                self.metrics
                    .gateway_alive(&cluster, liveness == Liveness::Alive);
                entry.gateway.liveness = liveness;
                true
            }
            GatewayEvent::Probed(probe::ProbeReport::Failed(why)) => {
                self.metrics.probe_failed(&cluster);
                // While the gateway is dead, the failure that was reported first stays. Otherwise the status would
                // change whenever the message does.
                let is_dead = before.liveness == Liveness::Dead;
                let is_new = watched.failure.is_none() || !is_dead;
                if is_new {
                    watched.failure = Some(why);
                }
                is_new && is_dead
            }
            GatewayEvent::Probed(probe::ProbeReport::Latency(latency)) => {
                self.metrics.probe_succeeded(&cluster, latency);
                watched.on_latency(latency)
            }
        };
        if is_shown {
            state.status.mark_dirty();
        }
        if *entry.gateway == before {
            return;
        }
        self.metrics.endpoint_repair(&cluster);
        let mut keys = self.state.keys_of_cluster(&cluster);
        keys.push(Key::gateway(name));
        self.enqueue_gradually(&cluster, keys);
    }
}

/// The addresses of a gateway that were found before, by its last resolver or by the last leader.
fn known_addresses(
    before: Option<&GatewayWatch>,
    wanted: &Gateway,
    found: &GatewayState,
    link: &LinkState,
) -> BTreeSet<IpAddr> {
    match before {
        Some(before) if keeps_hosts(&before.gateway, wanted) => {
            found.addresses.iter().flatten().copied().collect()
        }
        // Unless the Link has changed its cluster, its status is about this gateway.
        None if link.keeps_reports => recorded_addresses(&link.link),
        Some(_) | None => BTreeSet::new(),
    }
}

/// Whether a gateway still has all its hosts. If one is gone, it is not known which addresses were those of that host.
fn keeps_hosts(before: &Gateway, wanted: &Gateway) -> bool {
    let mut hosts = before.hosts.iter();
    hosts.all(|host| wanted.hosts.contains(host))
}

/// The addresses of the gateway, from the status of a Link that the last leader wrote.
fn recorded_addresses(link: &Link) -> BTreeSet<IpAddr> {
    let status = link.status.as_ref();
    let gateway = status.and_then(|status| status.gateway.as_ref());
    let recorded = gateway.into_iter().flat_map(|gateway| &gateway.addresses);
    recorded
        .filter_map(|address| address.parse().ok())
        .collect()
}

/// Why the gateway is dead, from the status of a Link that the last leader wrote.
fn recorded_failure(link: &Link) -> Option<String> {
    let recorded = link.status.as_ref()?.condition(conditions::GATEWAY_ALIVE)?;
    let is_dead = recorded.reason == conditions::gateway_alive::PROBE_FAILED;
    (is_dead && !recorded.message.is_empty()).then(|| recorded.message.clone())
}

/// The address of the probe Service of a Link: its ClusterIP and port, so that probes do not need DNS.
fn address(state: &State, link: &str, probe: &Probe) -> Option<String> {
    let ip = state.gateway_service_address(link, GatewayService::Probe)?;
    Some(SocketAddr::new(ip, probe.port).to_string())
}
