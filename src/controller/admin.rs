//! The admin port: metrics, readiness, liveness. Plain HTTP, read-only, without own state.
//!
//! The port is open to the cluster, so the resources that a peer can use are limited: the number of connections, the
//! time to send the head of a request, and the duration of a connection. The port must not depend on the API server or
//! on leadership.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::hint::HintExt as _;

/// Maximum number of concurrent connections; more wait in the listen queue.
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
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Sets the answer of `/ready`.
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// The answer of `/ready`.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time of the main loop's last pass, for `/live`.
#[derive(Clone, Debug)]
pub(crate) struct Liveliness(Arc<Mutex<Instant>>);

impl Default for Liveliness {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Liveliness {
    /// Records a pass of the main loop. Has to be called much more often than once in 60 s.
    pub(crate) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Time since the last beat.
    pub(crate) fn age(&self) -> Duration {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }
}

/// The admin port, bound but not served yet.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

/// The data that the routes respond with.
#[derive(Clone)]
struct Served {
    readiness: Readiness,
    liveliness: Liveliness,
    metrics: Metrics,
}

/// Binds the admin port, so that a port in use is an error at the start.
pub(crate) async fn bind(addr: SocketAddr) -> anyhow::Result<Admin> {
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
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then for at most one more second, to finish current requests.
    pub(crate) async fn serve(
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
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        // A JoinSet, so that the connections end if this future is dropped.
        let mut connections = JoinSet::new();
        let accept = async {
            loop {
                let Ok(place) = places.clone().acquire_owned().await else {
                    return; // never: the semaphore is not closed
                };
                while connections.try_join_next().is_some() {}
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let connection = connection(stream, state.clone(), stop.clone());
                        connections.spawn(async move {
                            connection.await;
                            drop(place);
                        });
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

async fn connection(stream: TcpStream, state: Served, stop: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
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
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::hint::hint_of;

    const DEADLINE: Duration = Duration::from_secs(10);

    struct Running {
        address: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    async fn start() -> Running {
        let admin = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (address, readiness) = (admin.local_addr(), Readiness::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(admin.serve(
            readiness.clone(),
            Liveliness::default(),
            super::super::metrics::tests::filled(),
            stop.clone(),
        ));
        Running {
            address,
            readiness,
            stop,
            task,
        }
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        timeout(DEADLINE, exchange).await.unwrap()
    }

    #[tokio::test]
    async fn routes_answer_as_documented() {
        let running = start().await;
        for (request, status, body) in [
            ("GET /ping", "200 OK", "pong\n"),
            ("GET /ready", "500 Internal Server Error", "not ready\n"),
            ("GET /live", "200 OK", "ok\n"),
            ("HEAD /ping", "200 OK", ""),
            ("GET /", "404 Not Found", "not found\n"),
            ("POST /", "404 Not Found", "not found\n"),
            (
                "POST /metrics",
                "405 Method Not Allowed",
                "only GET and HEAD\n",
            ),
        ] {
            let answer = ask(running.address, request).await;
            let (head, got) = answer.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{request}: {head}"
            );
            assert_eq!(got, body, "{request}");
        }
        running.readiness.set(true);
        let answer = ask(running.address, "GET /ready").await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"),
            "{answer}"
        );
        let answer = ask(running.address, "GET /metrics").await;
        assert!(answer.contains("content-type: text/plain; version=0.0.4"));
        assert!(answer.contains("\nlinkerd_mc_leader 1\n"));
    }

    #[test]
    fn a_main_loop_that_hangs_for_a_minute_is_not_live() {
        assert_eq!(live(Duration::from_millis(59_999)).0, StatusCode::OK);
        let (status, body) = live(Duration::from_secs(61));
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body, "the main loop has not ticked for 61 seconds\n");
    }

    #[tokio::test(start_paused = true)]
    async fn beat_resets_the_age_of_the_main_loop() {
        let liveliness = Liveliness::default();
        tokio::time::advance(BEAT).await;
        assert_eq!(liveliness.age(), BEAT);
        liveliness.beat();
        assert_eq!(liveliness.age(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_port_in_use_is_one_error_that_names_the_flag() {
        let first = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let error = bind(first.local_addr()).await.unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(&first.local_addr().to_string()), "{text}");
        assert!(text.contains("in use"), "{text}");
        assert!(hint_of(&error).unwrap().contains("--admin-addr"));
    }

    #[tokio::test]
    async fn shutdown_takes_at_most_a_second_even_with_slow_peers() {
        let running = start().await;
        let mut silent = TcpStream::connect(running.address).await.unwrap();
        let mut halfway = TcpStream::connect(running.address).await.unwrap();
        halfway.write_all(b"GET /ping HTTP/1.1\r\n").await.unwrap();
        let mut idle = TcpStream::connect(running.address).await.unwrap();
        idle.write_all(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        // A response shows that earlier connections in the queue have been accepted too.
        let mut start_of_answer = [0; 12];
        timeout(DEADLINE, idle.read_exact(&mut start_of_answer))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(&start_of_answer, b"HTTP/1.1 200");
        running.stop.cancel();
        // One second, and one more for a machine that is busy with other tests.
        timeout(Duration::from_secs(2), running.task)
            .await
            .unwrap()
            .unwrap();
        let mut rest = Vec::new();
        for stream in [&mut silent, &mut halfway, &mut idle] {
            // Closed or reset, but not left open.
            let _ = timeout(DEADLINE, stream.read_to_end(&mut rest))
                .await
                .unwrap();
        }
        assert!(TcpStream::connect(running.address).await.is_err());
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_until_another_ends() {
        let running = start().await;
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(TcpStream::connect(running.address).await.unwrap());
        }
        let waiting = ask(running.address, "GET /ping");
        let mut waiting = pin!(waiting);
        let early = timeout(Duration::from_millis(200), waiting.as_mut()).await;
        assert!(early.is_err(), "served beyond the limit");
        held.pop();
        assert!(waiting.await.ends_with("pong\n"));
    }
}
