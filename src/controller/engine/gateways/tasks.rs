//! The tasks that resolve and probe one gateway, and their events.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    controller::{gateway, probe, transport::Transport},
    mirror::{Gateway, Host, Probe},
};

/// Time between two DNS lookups.
const RESOLVE_EVERY: Duration = gateway::PERIOD;

/// An event from a gateway's tasks.
#[derive(Clone, Debug)]
pub(in crate::controller::engine) enum GatewayEvent {
    /// Addresses were resolved, or the lookup failed.
    Resolved(gateway::Resolution),
    /// The probe worker reported something.
    Probed(probe::ProbeReport),
}

/// The channel for the events of gateways' tasks, with the Link and the id of its [`GatewayWatch`].
pub(in crate::controller::engine) type GatewayOutbox =
    mpsc::UnboundedSender<(String, u64, GatewayEvent)>;

/// Starts the tasks that resolve and probe gateways.
pub(in crate::controller::engine) struct GatewayTasks {
    outbox: GatewayOutbox,
    transport: Arc<dyn Transport>,
    started: u64,
}

/// The tasks that resolve and probe one gateway. They end when this is dropped.
pub(in crate::controller::engine) struct GatewayWatch {
    pub(in crate::controller::engine) id: u64,
    pub(super) gateway: Gateway,
    /// The current address of probes, `host:port`; `None` while the probe Service has no ClusterIP.
    pub(super) address: watch::Sender<Option<String>>,
    pub(super) stop: CancellationToken,
}

impl GatewayTasks {
    pub(in crate::controller::engine) fn new(
        outbox: GatewayOutbox,
        transport: Arc<dyn Transport>,
    ) -> Self {
        Self {
            outbox,
            transport,
            started: 0,
        }
    }

    /// Starts to resolve a gateway, if DNS has its addresses, and to probe it, if its Link says how. `host` returns the
    /// host that requests name, if it is not the address that they are sent to.
    pub(super) fn start(
        &mut self,
        link: &str,
        cluster: &str,
        gateway: &Gateway,
        host: impl FnOnce(&Probe) -> Option<String>,
    ) -> GatewayWatch {
        self.started += 1;
        let (address, where_to) = watch::channel(None);
        let watch = GatewayWatch {
            id: self.started,
            gateway: gateway.clone(),
            address,
            stop: CancellationToken::new(),
        };
        if gateway::fixed(&gateway.hosts).is_none() {
            self.resolve(link, &watch, gateway.hosts.clone());
        }
        if let Ok(Some(settings)) = &gateway.probe {
            let target = probe::ProbeTarget {
                transport: self.transport.clone(),
                address: where_to,
                host: host(settings),
                path: settings.path.clone(),
            };
            self.probe(link, cluster, &watch, target, settings.clone());
        }
        watch
    }

    fn resolve(&self, link: &str, watch: &GatewayWatch, hosts: Vec<Host>) {
        let (outbox, link) = (self.outbox.clone(), link.to_owned());
        let (id, stop) = (watch.id, watch.stop.clone());
        let transport = self.transport.clone();
        tokio::spawn(async move {
            let lookup = |name| transport.lookup(name);
            let sink = |resolution| {
                let _ = outbox.send((link.clone(), id, GatewayEvent::Resolved(resolution)));
            };
            gateway::run(&hosts, RESOLVE_EVERY, lookup, sink, stop).await;
        });
    }

    fn probe(
        &self,
        link: &str,
        cluster: &str,
        watch: &GatewayWatch,
        target: probe::ProbeTarget,
        settings: Probe,
    ) {
        let (outbox, link) = (self.outbox.clone(), link.to_owned());
        let cluster = cluster.to_owned();
        let (id, stop) = (watch.id, watch.stop.clone());
        tokio::spawn(async move {
            let sink = |report| {
                let _ = outbox.send((link.clone(), id, GatewayEvent::Probed(report)));
            };
            probe::run(&cluster, target, &settings, sink, stop).await;
        });
    }
}

impl Drop for GatewayWatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
