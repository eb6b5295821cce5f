//! A way to a server that can be disturbed: a TCP proxy on loopback. It knows nothing of what goes through it.
//!
//! It has a thread of its own, so that it goes on whatever the test does, and ends when it is dropped.

use std::net::{SocketAddr, TcpListener as TcpListenerOfStd};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::plane::ControlPlane;
use crate::servers::free_listener;

/// What a [`FaultProxy`] does to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Nobody listens, and open connections are closed.
    Refuse,
    /// Connections stay open and new ones are taken, and no byte goes either way: a peer that vanished without a
    /// word. What was held back goes on its way when this ends.
    Stall,
    /// Each read is held back for so long before it goes on.
    Delay(Duration),
    /// So many bytes a second, on each connection and in each direction.
    Throttle(u32),
    /// Every connection is reset once so many bytes have come back on it.
    ResetAfter(usize),
}

#[derive(Clone, Copy, Debug)]
struct State {
    target: SocketAddr,
    fault: Fault,
    /// Connections of an earlier generation are closed.
    generation: u64,
}

/// A TCP proxy to one server. Closed when dropped, with all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    state: watch::Sender<State>,
}

const CHUNK: usize = 16 * 1024;

impl FaultProxy {
    /// Starts a proxy to `target` that does nothing yet.
    pub fn start(target: SocketAddr) -> anyhow::Result<Self> {
        Self::listen(free_listener()?, target)
    }

    fn listen(listener: TcpListenerOfStd, target: SocketAddr) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(State {
            target,
            fault: Fault::None,
            generation: 0,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start a runtime for a proxy")?;
        std::thread::spawn(move || {
            runtime.block_on(serve(listener, seen));
            runtime.shutdown_background();
        });
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as the address of an API server.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on this happens to all connections. [`Fault::None`] heals.
    pub fn set(&self, fault: Fault) {
        self.state.send_modify(|state| {
            state.fault = fault;
            if fault == Fault::Refuse {
                state.generation += 1;
            }
        });
    }

    /// From now on connections lead to the API server of this control plane. Those that are open now are closed.
    pub fn lead_to(&self, plane: &ControlPlane) -> anyhow::Result<()> {
        let target = plane.address()?;
        self.state.send_modify(|state| {
            state.target = target;
            state.generation += 1;
        });
        Ok(())
    }

    /// Closes all connections that are open now.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }
}

impl ControlPlane {
    /// Starts a proxy to the API server, whose certificate is valid for the proxy too.
    pub fn fault_proxy(&self) -> anyhow::Result<FaultProxy> {
        FaultProxy::start(self.address()?)
    }

    /// Like [`Self::fault_proxy`], at this address, which must be free.
    pub fn fault_proxy_at(&self, address: SocketAddr) -> anyhow::Result<FaultProxy> {
        let listener = TcpListenerOfStd::bind(address)?;
        listener.set_nonblocking(true)?;
        FaultProxy::listen(listener, self.address()?)
    }
}

async fn serve(listener: TcpListenerOfStd, mut state: watch::Receiver<State>) {
    let Ok(address) = listener.local_addr() else {
        return;
    };
    let mut listener = TcpListener::from_std(listener).ok();
    loop {
        let now = *state.borrow_and_update();
        if now.fault == Fault::Refuse {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(address).await.ok();
        }
        let Some(open) = &listener else {
            // `Refuse` closed the listener, or its port cannot be bound again yet.
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = sleep(Duration::from_millis(50)) => {}
            }
            continue;
        };
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            accepted = open.accept() => {
                // The state as it is now: a cut before the connection was accepted does not close it.
                let now = *state.borrow();
                if let Ok((client, _)) = accepted && now.fault != Fault::Refuse {
                    tokio::spawn(connection(client, state.clone(), now));
                }
            }
        }
    }
}

async fn connection(mut client: TcpStream, mut state: watch::Receiver<State>, began: State) {
    let Ok(mut server) = TcpStream::connect(began.target).await else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let forth = pump(from_client, to_server, state.clone(), false);
        let back = pump(from_server, to_client, state.clone(), true);
        tokio::select! {
            // Cut, or the proxy is gone.
            _ = state.wait_for(|now| now.generation != began.generation) => false,
            ended = async { tokio::try_join!(forth, back) } => matches!(ended, Err(End::Reset)),
        }
    };
    if reset {
        let _ = client.set_zero_linger();
    }
}

/// Why one direction ended, other than by the end of its stream.
enum End {
    Reset,
    Broken,
}

async fn pump(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    is_answer: bool,
) -> Result<(), End> {
    let mut buffer = vec![0; CHUNK];
    let mut passed = 0_usize;
    loop {
        let fault = state.borrow().fault;
        let most = match fault {
            Fault::Throttle(rate) => CHUNK.min((rate / 10).max(1) as usize),
            _ => CHUNK,
        };
        let read = tokio::select! {
            read = from.read(&mut buffer[..most]) => read.map_err(|_| End::Broken)?,
            // A connection that is idle when the limit comes has it from now on.
            changed = state.changed() => {
                if changed.is_err() { return Err(End::Broken) }
                passed = 0;
                continue;
            }
        };
        let state = state
            .wait_for(|state| state.fault != Fault::Stall)
            .await
            .map_err(|_| End::Broken)?
            .fault;
        match state {
            Fault::Delay(time) => sleep(time).await,
            Fault::Throttle(rate) => {
                let read = u32::try_from(read).unwrap_or(u32::MAX);
                sleep(Duration::from_secs(1) * read / rate.max(1)).await;
            }
            Fault::ResetAfter(limit) if is_answer && passed + read > limit => {
                let _ = to.write_all(&buffer[..limit.saturating_sub(passed)]).await;
                return Err(End::Reset);
            }
            _ => {}
        }
        if read == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        passed += read;
        to.write_all(&buffer[..read])
            .await
            .map_err(|_| End::Broken)?;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::{Instant, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const MOMENT: Duration = Duration::from_millis(200);

    /// A server that sends back what it gets.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn said(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<()> {
        stream.write_all(text).await?;
        let mut back = vec![0; text.len()];
        timeout(LIMIT, stream.read_exact(&mut back)).await??;
        assert_eq!(back, text);
        Ok(())
    }

    #[tokio::test]
    async fn connections_pass_are_cut_and_refused_and_come_back() {
        let proxy = FaultProxy::start(echo().await).unwrap();
        let connect = || TcpStream::connect(proxy.address());
        let mut open = connect().await.unwrap();
        said(&mut open, b"hello").await.unwrap();
        proxy.cut();
        assert_eq!(open.read(&mut [0; 1]).await.unwrap_or(0), 0);
        let mut open = connect().await.unwrap();
        said(&mut open, b"again").await.unwrap();

        proxy.set(Fault::Refuse);
        assert_eq!(open.read(&mut [0; 1]).await.unwrap_or(0), 0);
        let refused = crate::eventually("a refusal", LIMIT, async || {
            Ok(connect().await.is_err().then_some(()))
        });
        refused.await.unwrap();
        proxy.set(Fault::None);
        let open = crate::eventually("a connection", LIMIT, async || Ok(Some(connect().await?)));
        said(&mut open.await.unwrap(), b"healed").await.unwrap();

        let address = proxy.address();
        drop(proxy);
        let gone = crate::eventually("the proxy to be gone", LIMIT, async || {
            Ok(TcpStream::connect(address).await.is_err().then_some(()))
        });
        gone.await.unwrap();
    }

    #[tokio::test]
    async fn a_stalled_connection_is_silent_and_goes_on_when_it_heals() {
        let proxy = FaultProxy::start(echo().await).unwrap();
        let mut old = TcpStream::connect(proxy.address()).await.unwrap();
        said(&mut old, b"hello").await.unwrap();
        proxy.set(Fault::Stall);
        let mut new = TcpStream::connect(proxy.address()).await.unwrap();
        for stream in [&mut old, &mut new] {
            stream.write_all(b"x").await.unwrap();
            assert!(timeout(MOMENT, stream.read_u8()).await.is_err());
        }
        proxy.set(Fault::None);
        for stream in [&mut old, &mut new] {
            let back = timeout(LIMIT, stream.read_u8()).await.unwrap().unwrap();
            assert_eq!(back, b'x');
        }
    }

    #[tokio::test]
    async fn throttled_connection_is_slow_and_reset_comes_in_the_middle() {
        let proxy = FaultProxy::start(echo().await).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        for (fault, least) in [
            (Fault::Delay(MOMENT), 2 * MOMENT),
            (Fault::Throttle(1000), Duration::from_millis(500)),
        ] {
            proxy.set(fault);
            let started = Instant::now();
            said(&mut stream, &[7; 500]).await.unwrap();
            assert!(started.elapsed() >= least, "{:?}", started.elapsed());
        }
        proxy.set(Fault::ResetAfter(100));
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(&[7; 500]).await.unwrap();
        let mut back = Vec::new();
        let ended = timeout(LIMIT, stream.read_to_end(&mut back)).await.unwrap();
        assert_eq!(
            ended.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionReset
        );
        assert!(back.len() <= 100);
    }
}
