//! The client of a Pod: reads requests from standard input, one line of JSON each, and prints the answers in the order
//! in which they arrive.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpStream, sync::mpsc, time::timeout};

/// The header of a request with the milliseconds that the application waits with its answer.
pub(super) const DELAY: &str = "mesh-delay-ms";
/// Longer than a proxy waits with a request before it fails.
const LIMIT: Duration = Duration::from_secs(15);

/// A request, which is sent on its own connection.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Ask {
    /// Repeated in the answer.
    pub(crate) id: u64,
    /// Where to connect to.
    pub(crate) address: SocketAddr,
    /// The header `Host`.
    pub(crate) host: String,
    /// How long the application waits with its answer.
    pub(crate) delay: Duration,
}

/// The result of a request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Answer {
    /// ID of the request.
    pub(crate) id: u64,
    /// 0 if there was no answer.
    pub(crate) status: u16,
    /// The Pod that answered.
    pub(crate) pod: Option<String>,
    /// The identity of the client, as verified by that Pod's proxy.
    pub(crate) client: Option<String>,
    /// The header `l5d-proxy-error`, or what went wrong here.
    pub(crate) error: Option<String>,
    /// Time from the request to the end of the answer.
    pub(crate) took: Duration,
}

/// The answer of the application.
#[derive(Deserialize)]
struct App {
    pod: String,
    client: Option<String>,
}

/// Serves until standard input ends.
pub(super) async fn run() -> anyhow::Result<()> {
    let (asks, mut asked) = mpsc::unbounded_channel::<Ask>();
    let (answers, mut answered) = mpsc::unbounded_channel::<Answer>();
    // Standard input and output block, so each has a thread.
    thread::spawn(move || {
        for line in io::stdin().lines() {
            asks.send(serde_json::from_str(&line?)?)?;
        }
        anyhow::Ok(())
    });
    thread::spawn(move || {
        while let Some(answer) = answered.blocking_recv() {
            let mut out = io::stdout().lock();
            serde_json::to_writer(&mut out, &answer)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        anyhow::Ok(())
    });
    while let Some(ask) = asked.recv().await {
        let answers = answers.clone();
        tokio::spawn(async move {
            let id = ask.id;
            let failed = |error: String| Answer {
                error: Some(error),
                ..Answer::default()
            };
            let sent = Instant::now();
            let answer = match timeout(LIMIT, request(ask)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => failed(format!("{error:#}")),
                Err(_) => failed(format!("no answer within {LIMIT:?}")),
            };
            let took = sent.elapsed();
            let _ = answers.send(Answer { id, took, ..answer });
        });
    }
    Ok(())
}

async fn request(ask: Ask) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(ask.address)
        .await
        .context("failed to connect")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/")
        .header(HOST, ask.host)
        .header(DELAY, ask.delay.as_millis().to_string())
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let error = answer.headers().get("l5d-proxy-error").cloned();
    let body = answer.into_body().collect().await?.to_bytes();
    drop(sender);
    connection.abort();
    if status != 200 {
        let error = error.map(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        return Ok(Answer {
            status,
            error,
            ..Answer::default()
        });
    }
    ensure!(!body.is_empty(), "an empty answer");
    let App { pod, client } = serde_json::from_slice(&body).context("a strange answer")?;
    Ok(Answer {
        status,
        pod: Some(pod),
        client,
        ..Answer::default()
    })
}
