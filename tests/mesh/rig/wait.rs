//! Functions that wait.

use std::{net::SocketAddr, time::Duration};

use control_plane::eventually;
use tokio::net::TcpStream;

use super::process::Process;

/// Timeout for anything that should take only a moment.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Waits until a server listens at the address. Fails if its process has ended.
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
