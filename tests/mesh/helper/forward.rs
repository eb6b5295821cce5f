//! Forwards connections: from loopback in a Pod to the bridge of its cluster, and from there to loopback outside.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Forwards each `FROM=TO`.
pub(super) async fn run(ways: &[String]) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for way in ways {
        let (from, to) = way.split_once('=').context("a way is FROM=TO")?;
        let (listener, to) = (TcpListener::bind(from).await?, to.parse()?);
        tasks.spawn(forward(listener, watch::channel(to).1));
    }
    match tasks.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

/// Forwards what this listener accepts. A change of the address is for new connections.
pub(crate) async fn forward(
    listener: TcpListener,
    to: watch::Receiver<SocketAddr>,
) -> anyhow::Result<()> {
    loop {
        let (mut near, _) = listener.accept().await?;
        let to = *to.borrow();
        tokio::spawn(async move {
            // If the server cannot be reached, the connection is closed.
            let mut far = TcpStream::connect(to).await?;
            copy_bidirectional(&mut near, &mut far).await
        });
    }
}
