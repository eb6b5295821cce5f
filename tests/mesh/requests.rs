//! Requests of a client in the mesh, and plain ones from outside of the mesh.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdin, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::oneshot};

use crate::{
    helper::{self, Answer, Ask},
    rig::pod::Pod,
};

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// Sends requests from a Pod, through its proxy.
#[derive(Clone)]
pub(crate) struct Client {
    input: Arc<Mutex<ChildStdin>>,
    waiting: Waiting,
    next: Arc<AtomicU64>,
    _process: Arc<Mutex<Child>>,
}

impl Client {
    /// Starts the client of a Pod.
    pub(crate) fn start(pod: &Pod) -> anyhow::Result<Self> {
        let log = pod.proxy.log().with_extension("requests.log");
        let mut process = pod
            .program(helper::NAME, &[helper::NAME, "client"], log.clone())
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log)?)
            .spawn()
            .context("failed to start the client")?;
        let input = process.stdin.take().context("the client has no input")?;
        let output = process.stdout.take().context("the client has no output")?;
        let waiting = Waiting::default();
        let answered = waiting.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str::<Answer>(&line) else {
                    break;
                };
                let asked = lock(&answered).remove(&answer.id);
                // The caller may have stopped waiting.
                let _ = asked.map(|asked| asked.send(answer));
            }
            // Closing the channel ends the wait of all callers.
            lock(&answered).clear();
        });
        Ok(Self {
            input: Arc::new(Mutex::new(input)),
            waiting,
            next: Arc::default(),
            _process: Arc::new(Mutex::new(process)),
        })
    }

    /// Sends a request on its own connection.
    pub(crate) async fn get(&self, address: SocketAddr, host: &str) -> anyhow::Result<Answer> {
        self.get_after(address, host, Duration::ZERO).await
    }

    /// Like [`Self::get`]. The application responds after this delay.
    pub(crate) async fn get_after(
        &self,
        address: SocketAddr,
        host: &str,
        delay: Duration,
    ) -> anyhow::Result<Answer> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let ask = Ask {
            id,
            address,
            host: host.to_owned(),
            delay,
        };
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        writeln!(lock(&self.input), "{}", serde_json::to_string(&ask)?)
            .context("the client has ended")?;
        answer.await.context("the client has ended")
    }
}

/// Status and text of the answer to a request that is sent without a proxy.
pub(crate) async fn get(address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(path)
        .header(hyper::header::HOST, address)
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Status of the answer to a request that is sent without a proxy.
pub(crate) async fn status(address: &str, path: &str) -> anyhow::Result<u16> {
    get(address, path).await.map(|(status, _)| status)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
