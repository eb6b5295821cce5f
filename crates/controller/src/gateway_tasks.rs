//! The tasks that resolve and probe one gateway, and what they have found.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use mirror_core::mirror::{Gateway, GatewayService, Probe, link_status::GatewayInputs};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{gateway, probe, transport::Transport};

/// Minimum time between two changes of the latency in the status. The latency must also have changed by more than half.
const LATENCY_EVERY: Duration = Duration::from_secs(600);

/// An event from a gateway's tasks.
#[derive(Clone, Debug)]
pub enum GatewayEvent {
    /// Addresses were resolved, or the lookup failed.
    Resolved(gateway::Resolution),
    /// The probe worker reported something.
    Probed(probe::ProbeReport),
}

/// The channel for the events of gateways' tasks, with the Link and the id of its [`GatewayWatch`].
pub type GatewayOutbox = mpsc::UnboundedSender<(String, u64, GatewayEvent)>;

/// Starts the tasks that resolve and probe gateways.
pub struct GatewayTasks {
    pub outbox: GatewayOutbox,
    pub transport: Arc<dyn Transport>,
    pub started: u64,
}

/// A gateway that is resolved and probed. The tasks end when this is dropped.
pub struct GatewayWatch {
    pub id: u64,
    /// The target cluster, which logs and metrics name.
    pub cluster: String,
    pub gateway: Gateway,
    /// The current address of probes, `host:port`; `None` while the probe Service has no ClusterIP.
    pub address: watch::Sender<Option<String>>,
    /// Whether the gateway seems to fail. While it does, its names are looked up at once and more often.
    failing: watch::Sender<bool>,
    /// Why no address is known.
    pub unresolved: Option<String>,
    /// Why its last probe failed. While the gateway is dead: the reason that the status shows.
    pub failure: Option<String>,
    /// The latency in the status, in milliseconds, and since when it is there.
    pub latency: Option<(i64, Instant)>,
    _stop: DropGuard,
}

impl GatewayTasks {
    /// Starts to resolve a gateway, if it has host names, and to probe it, if its Link says how. `known` are its addresses
    /// as far as they were found before. `host` returns the header `Host` of probes; `None` for the address that they are
    /// sent to.
    pub fn start(
        &mut self,
        link: &str,
        cluster: &str,
        gateway: &Gateway,
        known: BTreeSet<IpAddr>,
        host: impl FnOnce(&Probe) -> Option<String>,
    ) -> GatewayWatch {
        self.started += 1;
        let (id, stop) = (self.started, CancellationToken::new());
        let (address, where_to) = watch::channel(None);
        let (outbox, link) = (self.outbox.clone(), link.to_owned());
        let report = move |event| {
            let _ = outbox.send((link.clone(), id, event));
        };
        let (failing, fails) = watch::channel(false);
        if gateway::fixed(&gateway.hosts).is_none() {
            let (hosts, transport) = (gateway.hosts.clone(), self.transport.clone());
            let (report, stop) = (report.clone(), stop.clone());
            tokio::spawn(async move {
                let lookup = |name| transport.lookup(name);
                let sink = |resolution| report(GatewayEvent::Resolved(resolution));
                let period = gateway::PERIOD;
                gateway::run(&hosts, known, period, lookup, sink, fails, stop).await;
            });
        }
        if let Ok(Some(settings)) = &gateway.probe {
            let target = probe::ProbeTarget {
                transport: self.transport.clone(),
                address: where_to,
                host: host(settings),
                path: settings.path.clone(),
            };
            let (cluster, settings, stop) = (cluster.to_owned(), settings.clone(), stop.clone());
            let failing = failing.clone();
            tokio::spawn(async move {
                let sink = |probed| {
                    match &probed {
                        probe::ProbeReport::Failed(_) => drop(failing.send_replace(true)),
                        probe::ProbeReport::Latency(_) => drop(failing.send_replace(false)),
                        probe::ProbeReport::Transition(_) => {}
                    }
                    report(GatewayEvent::Probed(probed));
                };
                probe::run(&cluster, target, &settings, sink, stop).await;
            });
        }
        GatewayWatch {
            id,
            cluster: cluster.to_owned(),
            gateway: gateway.clone(),
            address,
            failing,
            unresolved: None,
            failure: None,
            latency: None,
            _stop: stop.drop_guard(),
        }
    }
}

impl GatewayWatch {
    /// Notes why no address is known. Returns the addresses, if they are.
    pub fn on_resolution(&mut self, found: gateway::Resolution) -> Option<Vec<IpAddr>> {
        match found {
            gateway::Resolution::Addresses(addresses) => {
                self.unresolved = None;
                Some(addresses)
            }
            gateway::Resolution::Unresolved(why) => {
                self.unresolved = Some(why);
                None
            }
        }
    }

    /// Looks the names up soon, because a connection through the gateway was lost: it may have moved. The next connection
    /// ends this.
    pub fn suspect(&self) {
        self.failing.send_replace(true);
    }

    /// Looks the names up as usual again, because a connection through the gateway works.
    pub fn trust(&self) {
        self.failing.send_replace(false);
    }

    /// What the status shows of the gateway, besides what the core knows.
    pub fn inputs(&self, link: &str) -> GatewayInputs {
        let no_address = format!(
            "Service {} has no ClusterIP yet",
            GatewayService::Probe.name(link)
        );
        let has_address = self.address.borrow().is_some();
        GatewayInputs {
            latency_ms: self.latency.map(|(latency, _)| latency),
            unprobed: match &self.gateway.probe {
                Ok(Some(_)) => (!has_address).then_some(no_address),
                Ok(None) => None,
                Err(why) => Some(why.clone()),
            },
            unresolved: self.unresolved.clone(),
            failure: self.failure.clone(),
            ..GatewayInputs::default()
        }
    }

    /// Handles a measured latency. Returns whether the status shows it from now on: if it shows none yet, or if the
    /// latency that it shows differs by more than half and is old enough.
    pub fn on_latency(&mut self, latency: Duration) -> bool {
        let now = i64::try_from(latency.as_millis()).unwrap_or(i64::MAX);
        let is_shown = self.latency.is_none_or(|(shown, since)| {
            (now - shown).abs() * 2 > shown && since.elapsed() >= LATENCY_EVERY
        });
        if is_shown {
            self.latency = Some((now, Instant::now()));
        }
        is_shown
    }
}
