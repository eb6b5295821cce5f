//! Waiting for what takes a moment.

use std::{net::SocketAddr, time::Duration};

use control_plane::eventually;
use tokio::net::TcpStream;

use super::process::Process;

/// How long anything may take that takes a moment.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Until somebody listens, or the process that should has ended.
pub(crate) async fn listens(address: SocketAddr, process: &mut Process) -> anyhow::Result<()> {
    let what = format!("{} at {address}", process.log().display());
    let waited = eventually(&what, SOON, async || {
        TcpStream::connect(address).await?;
        Ok(Some(()))
    });
    let outcome = waited.await;
    process.require_running()?;
    outcome
}
