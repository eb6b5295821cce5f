//! The tasks that resolve and probe one gateway, and their events.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    controller::{gateway, probe},
    mirror::Gateway,
};

/// An event from a gateway's tasks.
#[derive(Clone, Debug)]
pub(in crate::controller::engine) enum GatewayEvent {
    /// Addresses were resolved, or the lookup failed.
    Resolved(gateway::Resolution),
    /// The probe worker reported something.
    Probed(probe::ProbeReport),
    /// The probes of this cluster's gateway have ended: its metrics do not change any more.
    Ended(String),
}

/// The tasks that resolve and probe one gateway. They end when this is dropped.
pub(in crate::controller::engine) struct GatewayWatch {
    pub(super) id: u64,
    pub(super) gateway: Gateway,
    /// The current address of probes, `host:port`; `None` while the probe Service has no ClusterIP.
    pub(super) address: watch::Sender<Option<String>>,
    pub(super) stop: CancellationToken,
}

impl Drop for GatewayWatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
