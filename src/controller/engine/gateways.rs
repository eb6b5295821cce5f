//! Gateways of Links: where they are, whether they live. Their tasks report, the engine decides.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Engine, status::StatusState};
use crate::{
    controller::{gateway, probe},
    mirror::{Gateway, GatewayState, Key, Liveness, probe_name, status::GatewayFacts},
};

/// Something that a gateway's tasks report.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// Addresses were resolved, or not.
    Resolved(gateway::Resolution),
    /// A probe has news.
    Probed(probe::ProbeReport),
    /// The probes of this cluster's gateway have ended: nobody sets its metrics any more.
    Ended(String),
}

/// The tasks that resolve and probe one gateway. They end when this is dropped.
pub(super) struct GatewayWatch {
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

impl Engine {
    /// What was said of a Link while another replica led is what is known of it.
    pub(super) fn take_over(&mut self, name: &str) {
        let gateway = self.remembered(name);
        let links = self.world.links.as_mut();
        if let Some(entry) = links.and_then(|links| links.get_mut(name)) {
            *entry.gateway = gateway;
        }
        if let Some(state) = self.links.get_mut(name) {
            state.status = StatusState::seeded(&state.link);
            state.status.touch();
        }
    }

    /// What the Link's status says of the gateway: after a restart that is what is known, until it is probed.
    pub(super) fn remembered(&self, name: &str) -> GatewayState {
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
        if !matches!(wanted.probe, Ok(Some(_))) {
            entry.gateway.liveness = Liveness::Unknown; // nobody looks any more
        }
        let latency_ms = state
            .facts
            .gateway
            .as_ref()
            .and_then(|facts| facts.latency_ms);
        let remembered = state.link.status.as_ref().and_then(|s| s.gateway.as_ref());
        state.facts.gateway = Some(GatewayFacts {
            state: entry.gateway.clone(),
            latency_ms: latency_ms.or_else(|| remembered.and_then(|gateway| gateway.latency_ms)),
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
                let _ = signals.send((name, id, Signal::Ended(cluster)));
            });
        }
        state.watched = Some(GatewayWatch {
            id,
            gateway: wanted.clone(),
            stop,
        });
    }

    /// Takes in what a gateway's tasks report.
    pub(super) fn signal(&mut self, name: &str, id: u64, signal: Signal) {
        if let Signal::Ended(cluster) = &signal {
            self.forget_cluster(cluster);
            return;
        }
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
            Signal::Ended(_) => {}
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
