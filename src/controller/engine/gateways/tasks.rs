//! The tasks that look after one gateway, and what they report.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    controller::{gateway, probe},
    mirror::Gateway,
};

/// Something that a gateway's tasks report.
#[derive(Clone, Debug)]
pub(in crate::controller::engine) enum GatewayEvent {
    /// Addresses were resolved, or not.
    Resolved(gateway::Resolution),
    /// A probe has news.
    Probed(probe::ProbeReport),
    /// The probes of this cluster's gateway have ended: nobody sets its metrics any more.
    Ended(String),
}

/// The tasks that resolve and probe one gateway. They end when this is dropped.
pub(in crate::controller::engine) struct GatewayWatch {
    pub(super) id: u64,
    pub(super) gateway: Gateway,
    /// Where probes go now, `host:port`; `None` while the probe Service has no ClusterIP.
    pub(super) address: watch::Sender<Option<String>>,
    pub(super) stop: CancellationToken,
}

impl Drop for GatewayWatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
