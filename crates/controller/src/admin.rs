//! The admin port: metrics, readiness, liveness. Plain HTTP, read-only, without own state.
//!
//! The port is open to the cluster, so the resources that a peer can use are limited: the number of connections, the
//! time to send the head of a request, and the duration of a connection. When all connections are in use, a new one
//! replaces the one that has been idle longest. Otherwise idle connections could keep the kubelet out, which would then
//! restart the Pod. The port must not depend on the API server or on leadership.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use hints::hint::HintExt as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;

/// Maximum number of concurrent connections.
const CONNECTIONS: usize = 64;
/// Timeout for the head of a request, and for an idle connection. As in Linkerd's service mirror.
const HEAD: Duration = Duration::from_secs(15);
/// Maximum age of a connection. Then it is closed after its current request, so that no peer keeps a connection
/// forever.
const LIFETIME: Duration = Duration::from_secs(300);
/// Time for current requests to end at shutdown, and at the end of a connection's lifetime.
const GRACE: Duration = Duration::from_millis(900);
/// Pause after a failed accept, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A main loop that has not ticked for this long counts as hung.
const BEAT: Duration = Duration::from_secs(60);

/// Whether `/ready` succeeds: false until all local stores are synced.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Sets the answer of `/ready`.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// The answer of `/ready`.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time of the main loop's last pass, for `/live`.
#[derive(Clone, Debug)]
pub struct Liveliness(Arc<Mutex<Instant>>);

impl Default for Liveliness {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Liveliness {
    /// Records a pass of the main loop. Has to be called much more often than once in 60 s.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Time since the last beat.
    pub fn age(&self) -> Duration {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }
}

/// The admin port, bound but not served yet.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

/// The open connections.
#[derive(Default)]
struct Open {
    connections: Vec<(LastUse, AbortHandle)>,
    turns: Arc<AtomicU64>,
}

/// When a connection was last used: the number of accepted connections and requests before that.
#[derive(Clone)]
struct LastUse {
    last: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Open {
    /// Closes the connection that has been idle longest, if the maximum number is open.
    fn make_room(&mut self) {
        self.connections.retain(|(_, task)| !task.is_finished());
        let idle = self.connections.iter().enumerate();
        let longest = idle.min_by_key(|(_, (turn, _))| turn.last.load(Ordering::Relaxed));
        if let Some((longest, _)) = longest
            && self.connections.len() >= CONNECTIONS
        {
            self.connections.swap_remove(longest).1.abort();
        }
    }

    fn turn(&self) -> LastUse {
        let turn = LastUse {
            last: Arc::default(),
            all: self.turns.clone(),
        };
        turn.renew();
        turn
    }
}

impl LastUse {
    /// Records that the connection is used now.
    fn renew(&self) {
        let now = self.all.fetch_add(1, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
    }
}

/// The data that the routes respond with.
#[derive(Clone)]
struct Served {
    readiness: Readiness,
    liveliness: Liveliness,
    metrics: Metrics,
}

/// Binds the admin port, so that a port in use is an error at the start.
pub async fn bind(addr: SocketAddr) -> anyhow::Result<Admin> {
    let bound = async {
        let listener = TcpListener::bind(addr).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>(Admin { listener, address })
    };
    bound.await.hint(
        || format!("cannot serve metrics and health on {addr}"),
        || "choose a free address with --admin-addr, such as --admin-addr 127.0.0.1:0".into(),
    )
}

impl Admin {
    /// The bound address. Its port is the actual one, also if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then for at most one more second, to finish current requests.
    pub async fn serve(
        self,
        readiness: Readiness,
        liveliness: Liveliness,
        metrics: Metrics,
        stop: CancellationToken,
    ) {
        let state = Served {
            readiness,
            liveliness,
            metrics,
        };
        let mut open = Open::default();
        // A JoinSet, so that the connections end if this future is dropped.
        let mut connections = JoinSet::new();
        let accept = async {
            loop {
                while connections.try_join_next().is_some() {}
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        open.make_room();
                        let turn = open.turn();
                        let connection =
                            connection(stream, state.clone(), turn.clone(), stop.clone());
                        open.connections.push((turn, connections.spawn(connection)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept a connection on the admin port");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(accept).await;
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

async fn connection(stream: TcpStream, state: Served, turn: LastUse, stop: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        turn.renew();
        let response = respond(request.method(), request.uri().path(), &state);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // Errors here are the peer's fault: half a request, a reset, a timeout.
        _ = served.as_mut() => return,
        () = stop.cancelled() => {}
        () = sleep(LIFETIME) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, served).await;
}

fn respond(method: &Method, path: &str, state: &Served) -> Response<Full<Bytes>> {
    let (status, body) = match path {
        "/metrics" => (StatusCode::OK, state.metrics.render()),
        "/ready" if state.readiness.get() => (StatusCode::OK, "ok\n".to_owned()),
        "/ready" => (StatusCode::INTERNAL_SERVER_ERROR, "not ready\n".to_owned()),
        "/live" => live(state.liveliness.age()),
        "/ping" => (StatusCode::OK, "pong\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    if status != StatusCode::NOT_FOUND && method != Method::GET && method != Method::HEAD {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".into());
        refusal
            .headers_mut()
            .insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    text(status, body)
}

fn live(age: Duration) -> (StatusCode, String) {
    if age < BEAT {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let body = format!(
        "the main loop has not ticked for {} seconds\n",
        age.as_secs()
    );
    (StatusCode::INTERNAL_SERVER_ERROR, body)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    // The version parameter identifies Prometheus' text format; it does no harm in other responses.
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests;
