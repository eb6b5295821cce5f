//! What the engine is told at its start.

use tokio::runtime::Handle;

use crate::{
    client::Size,
    mirror::{Config, Limits},
};

/// What the engine is told at its start.
pub struct Settings {
    /// What the core has to know.
    pub config: Config,
    /// Whether headless Services are mirrored as such where a Link does not say.
    pub headless: bool,
    /// Keys that are worked on at once.
    pub max_in_flight: usize,
    /// What is taken in of each target cluster, at most.
    pub limits: Limits,
    /// Bytes of what is taken in of all target clusters, at most.
    pub bytes: usize,
    /// Writes a second that one target cluster may bring about for long.
    pub writes_each_second: u32,
    /// How large the answers of API servers may be.
    pub pages: Size,
    /// Where gateways are probed instead of at the probe Service, `host:port`.
    pub probe_address: Option<String>,
    /// Where the sessions with target clusters run. A runtime of their own keeps what one of them sends, large answers
    /// above all, from the engine's thread.
    pub sessions: Handle,
}
