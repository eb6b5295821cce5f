//! The application of a Pod: a server that answers with the name of the Pod and the identity of the client. Its process
//! also keeps the Pod's namespaces open.
//!
//! For `verify` it answers as agnhost's `netexec` does: `/header` with the headers of the request, `/hostname` with the
//! name of the Pod, and `/dial` with the answer to a request that it sends itself.

use std::{convert::Infallible, net::Ipv4Addr, process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1 as client,
    header::HOST,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::client::DELAY;

/// The port on which it listens.
pub(crate) const PORT: u16 = 8080;

/// How long agnhost waits for an answer.
const DIAL: Duration = Duration::from_secs(5);

/// Serves as `pod`. Names are resolved with the file `resolver`.
pub(super) async fn run(pod: &str, resolver: &str) -> anyhow::Result<()> {
    let mounted = Command::new("mount")
        .args(["--bind", resolver, "/etc/resolv.conf"])
        .status()
        .context("failed to start mount")?;
    ensure!(mounted.success(), "failed to mount {resolver}");
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    // The rig waits for this line.
    println!("ready");
    loop {
        let (stream, _) = listener.accept().await?;
        let pod = pod.to_owned();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let (pod, delay) = (pod.clone(), delay(&request));
                async move {
                    let answer = answer(&pod, &request).await;
                    sleep(delay).await;
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(answer)))
                }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            // A client may close the connection early.
            let _ = connection.await;
        });
    }
}

/// How long the client wants to wait.
fn delay(request: &Request<Incoming>) -> Duration {
    let delay = request.headers().get(DELAY);
    let delay = delay.and_then(|delay| delay.to_str().ok()?.parse().ok());
    Duration::from_millis(delay.unwrap_or_default())
}

async fn answer(pod: &str, request: &Request<Incoming>) -> String {
    match request.uri().path() {
        "/header" => headers(request).to_string(),
        "/hostname" => pod.to_owned(),
        "/dial" => {
            let dialed = timeout(DIAL, dial(request.uri().query().unwrap_or_default())).await;
            match dialed {
                Ok(Ok(body)) if body.is_empty() => json!({}).to_string(),
                Ok(Ok(body)) => json!({ "responses": [body] }).to_string(),
                Ok(Err(error)) => json!({ "errors": [format!("{error:#}")] }).to_string(),
                Err(_) => json!({ "errors": ["timed out"] }).to_string(),
            }
        }
        _ => {
            let client = request.headers().get("l5d-client-id");
            let client = client.and_then(|id| id.to_str().ok());
            json!({ "pod": pod, "client": client }).to_string()
        }
    }
}

/// The headers of a request, as Go names them.
fn headers(request: &Request<Incoming>) -> Value {
    let mut all = Map::new();
    for (name, value) in request.headers() {
        let words = name.as_str().split('-').map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        });
        let name: Vec<String> = words.collect();
        all.insert(
            name.join("-"),
            json!([String::from_utf8_lossy(value.as_bytes())]),
        );
    }
    Value::Object(all)
}

/// Sends the request that a query describes, and returns the body of the answer, whatever its status is.
async fn dial(query: &str) -> anyhow::Result<String> {
    let value = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut found = pairs.filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| value).unwrap_or_default()
    };
    let address = format!("{}:{}", value("host"), value("port"));
    let stream = TcpStream::connect(&address).await?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("/{}", value("request")))
        .header(HOST, address)
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok(String::from_utf8_lossy(&body).into_owned())
}
