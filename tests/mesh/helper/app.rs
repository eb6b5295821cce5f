//! The application of a Pod: a server that answers with the name of the Pod and the identity of the client. Its process
//! also keeps the Pod's namespaces open.

use std::{convert::Infallible, net::Ipv4Addr, process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{net::TcpListener, time::sleep};

use super::client::DELAY;

/// The port on which it listens.
pub(crate) const PORT: u16 = 8080;

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
                    let answer = answer(&pod, &request);
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

fn answer(pod: &str, request: &Request<Incoming>) -> String {
    let client = request.headers().get("l5d-client-id");
    let client = client.and_then(|id| id.to_str().ok());
    json!({ "pod": pod, "client": client }).to_string()
}
