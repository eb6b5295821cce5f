//! The settings of the engine.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::{
    client::Size,
    controller::transport::Transport,
    mirror::{Config, Limits},
};

/// The settings of the engine.
pub(crate) struct Settings {
    /// The settings of the core.
    pub config: Config,
    /// Whether headless Services are mirrored as headless, if a Link does not set this.
    pub headless: bool,
    /// Maximum number of keys that are processed concurrently.
    pub max_in_flight: usize,
    /// Limits on the objects that are kept of each target cluster.
    pub limits: Limits,
    /// Maximum size of the objects that are kept of all target clusters, in bytes.
    pub bytes: usize,
    /// Maximum sustained rate of writes per second for each target cluster.
    pub writes_each_second: u32,
    /// Limits on the size of API servers' responses.
    pub pages: Size,
    /// Address at which gateways are probed instead of the probe Service, `host:port`.
    pub probe_address: Option<String>,
    /// How target clusters, gateways and DNS are reached.
    pub transport: Arc<dyn Transport>,
    /// The runtime of the sessions with target clusters. A separate runtime keeps the work on their responses, above
    /// all on large ones, off the engine's thread.
    pub sessions: Handle,
}
