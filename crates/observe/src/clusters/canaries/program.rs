//! What runs in the Pods of canaries: this program again, as `linkerd-mc canary`. It has no token, and needs no API server.
//!
//! The server answers one request, with the identity that its proxy has verified. The client sends this request, and no
//! other, when it is asked with the key of the run. The digest of the key is in the Pod, so whoever reads the Pod cannot
//! ask. The client passes on only what a canary of its run has answered, so it leads nobody anywhere.

use std::{
    convert::Infallible,
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::future::join;
use http::{Request, Response, StatusCode, header::HOST};
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1 as client,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::{
    digest::{SHA256, digest},
    rand::{SystemRandom, generate},
};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::clusters::snapshot::Known;

/// The port of all Services.
pub const SERVICE_PORT: u16 = 80;
/// The path that the kubelet asks for. Linkerd lets everyone ask for paths of probes, so it is no other's.
pub(super) const READY: &str = "/ready";
/// The header that Linkerd's inbound proxy sets: the identity of the client, which mutual TLS has proven.
const CLIENT_ID: &str = "l5d-client-id";
/// Maximum number of concurrent connections.
const CONNECTIONS: usize = 16;
/// How long a connection may last.
const CONNECTION: Duration = Duration::from_secs(10);
/// How long the client waits for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 4 << 10;

/// The key of a run. It is no `Debug`, so that nothing prints it.
#[derive(Clone)]
pub struct CanaryKey(String);

impl CanaryKey {
    /// A key that nobody can guess.
    pub fn random() -> Known<Self> {
        let random = generate::<[u8; 16]>(&SystemRandom::new());
        let random = random.map_err(|_| "the system has no random numbers")?;
        Ok(Self(hex(&random.expose())))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// What the client knows of the key.
    pub(super) fn digest(&self) -> String {
        digest_of(&self.0)
    }
}

/// The SHA-256 of a key.
fn digest_of(key: &str) -> String {
    hex(digest(&SHA256, key.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // a String takes it always
    }
    text
}

/// What a server answers.
#[derive(Debug, Deserialize, Serialize)]
struct CanaryAnswer {
    /// Its run.
    run: String,
    /// The identity of the client, if its proxy has verified one.
    client: Option<String>,
}

/// What a client says about its request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Said {
    /// A server has answered. The identity that it has seen, if any.
    Seen(Option<String>),
    /// No server has answered, and why.
    Failed(String),
}

/// A canary.
#[derive(Clone, Debug)]
pub struct Canary {
    /// The run that it belongs to.
    pub run: String,
    /// The SHA-256 of the key with which a client is asked; a server has none.
    pub key_digest: Option<String>,
}

impl Canary {
    /// Answers requests, and never returns.
    pub async fn serve(self, listener: TcpListener) {
        let canary = Arc::new(self);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        // Nobody closes the semaphore.
        while let Ok(place) = places.clone().acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            let canary = canary.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let canary = canary.clone();
                    async move { Ok::<_, Infallible>(canary.answer(&request).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), answer);
                // Whoever has asked may be gone.
                let _ = timeout(CONNECTION, connection).await;
                drop(place);
            });
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let said = match (request.uri().path(), &self.key_digest) {
            (READY, _) => Some(String::new()),
            ("/", None) => {
                let client = request.headers().get(CLIENT_ID);
                let client = client.and_then(|id| id.to_str().ok().map(str::to_owned));
                let run = self.run.clone();
                serde_json::to_string(&CanaryAnswer { run, client }).ok()
            }
            (path, Some(digest)) => match asked(path, digest) {
                Some(address) => serde_json::to_string(&self.ask(address).await).ok(),
                None => None,
            },
            _ => None,
        };
        let status = match said {
            Some(_) => StatusCode::OK,
            None => StatusCode::NOT_FOUND,
        };
        let mut response = Response::new(Full::from(said.unwrap_or_default()));
        *response.status_mut() = status;
        response
    }

    /// Sends the request to a Service.
    async fn ask(&self, address: IpAddr) -> Said {
        let place = SocketAddr::new(address, SERVICE_PORT);
        match timeout(ANSWER, self.request(place)).await {
            Ok(Ok(seen)) => Said::Seen(seen),
            Ok(Err(why)) => Said::Failed(why),
            Err(_) => Said::Failed(format!("no answer within {} s", ANSWER.as_secs())),
        }
    }

    /// Sends the request, and returns the identity that a server of this run has seen.
    async fn request(&self, place: SocketAddr) -> Result<Option<String>, String> {
        let stream = TcpStream::connect(place).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let opened = client::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = opened.map_err(|error| error.to_string())?;
        let request = Request::get("/").header(HOST, place.to_string());
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| error.to_string())?;
        let exchange = async move {
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| error.to_string())?;
            Ok::<_, String>((status, body.to_bytes()))
        };
        // The connection ends with the exchange; why it ends earlier, the exchange says.
        let (status, body) = join(exchange, connection).await.0?;
        match serde_json::from_slice::<CanaryAnswer>(&body) {
            Ok(answer) if answer.run == self.run => Ok(answer.client),
            _ => Err(format!(
                "a proxy answered in the place of the canary, with HTTP status {}",
                status.as_u16()
            )),
        }
    }
}

/// The address in a path with the key that has this digest.
fn asked(path: &str, digest: &str) -> Option<IpAddr> {
    let (key, address) = path.strip_prefix('/')?.split_once('/')?;
    (digest_of(key) == digest)
        .then(|| address.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn canary(key: Option<&CanaryKey>) -> Canary {
        Canary {
            run: "0123abcd".to_owned(),
            key_digest: key.map(CanaryKey::digest),
        }
    }

    async fn start(canary: Canary) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        tokio::spawn(canary.serve(listener));
        place
    }

    /// Status and body of an answer to a request with these headers.
    async fn get(place: SocketAddr, path: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(place).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    #[tokio::test]
    async fn server_answers_one_path_with_the_identity_that_it_saw() {
        let place = start(canary(None)).await;
        let seen = get(place, "/", "l5d-client-id: a.b.c\r\n").await;
        let expected = r#"{"run":"0123abcd","client":"a.b.c"}"#;
        assert_eq!(seen, (200, expected.to_owned()));
        let expected = r#"{"run":"0123abcd","client":null}"#;
        assert_eq!(get(place, "/", "").await, (200, expected.to_owned()));
        assert_eq!(get(place, READY, "").await, (200, String::new()));
        for path in [
            "/dial?host=127.0.0.1&port=1",
            "/x/127.0.0.1",
            "/shell",
            "//",
        ] {
            assert_eq!(get(place, path, "").await.0, 404, "{path}");
        }
    }

    #[tokio::test]
    async fn client_asks_for_nobody_without_the_key() {
        let key = CanaryKey::random().unwrap();
        let place = start(canary(Some(&key))).await;
        assert_eq!(get(place, READY, "").await, (200, String::new()));
        let (key, digest) = (key.text(), key.digest());
        for path in [
            "/".to_owned(),
            "/x/127.0.0.1".to_owned(),
            // What the Pod shows is not the key.
            format!("/{digest}/127.0.0.1"),
            // Neither names nor ports.
            format!("/{key}/localhost"),
            format!("/{key}/127.0.0.1:6443"),
            format!("/{key}/127.0.0.1/metrics"),
            format!("/{key}"),
        ] {
            assert_eq!(get(place, &path, "").await.0, 404, "{path}");
        }
        assert_ne!(CanaryKey::random().unwrap().text(), key);
        assert_eq!(
            asked(&format!("/{key}/fd00::7"), &digest)
                .unwrap()
                .to_string(),
            "fd00::7"
        );
    }

    #[tokio::test]
    async fn client_passes_on_only_what_a_canary_of_its_run_says() {
        let own = canary(Some(&CanaryKey::random().unwrap()));
        let server = start(canary(None)).await;
        assert_eq!(own.request(server).await, Ok(None));
        let other = Canary {
            run: "another".to_owned(),
            key_digest: None,
        };
        let refused = "a proxy answered in the place of the canary, with HTTP status 200";
        assert_eq!(
            own.request(start(other).await).await,
            Err(refused.to_owned())
        );
        // An answer without end is not read to its end.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endless = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
            stream.write_all(head).await.unwrap();
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        });
        let refused = "length limit exceeded";
        assert_eq!(own.request(endless).await, Err(refused.to_owned()));
    }
}
