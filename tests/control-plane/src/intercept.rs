//! A proxy to the API server that ends TLS, shows each request to the test, and does what the test decides. It makes
//! faults that only a server can have, and crashes at a chosen write.
//!
//! It has a thread of its own, and ends when it is dropped.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use crate::certificates::Identity;
use crate::events::{Events, Look, Passing};
use crate::pieces::Pieces;
use crate::plane::ControlPlane;
use crate::servers::free_listener;

/// A request that is about to be forwarded.
#[derive(Clone, Debug)]
pub struct Asked {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
}

impl Asked {
    /// Whether it would change an object: not a read, not a review, not a lease, not an Event.
    pub fn is_write(&self) -> bool {
        let path = self.uri.path();
        self.method != Method::GET
            && !path.contains("/authorization.k8s.io/")
            && !path.contains("/authentication.k8s.io/")
            && !path.contains("/leases")
            && !path.contains("/events")
    }

    /// Whether it is a watch.
    pub fn watches(&self) -> bool {
        self.query().contains("watch=")
    }

    /// Whether it is a watch of this resource, by its plural name.
    pub fn is_watch(&self, resource: &str) -> bool {
        self.is_of(resource) && self.watches()
    }

    /// Whether it lists this resource, by its plural name.
    pub fn is_list(&self, resource: &str) -> bool {
        self.method == Method::GET && self.is_of(resource) && !self.watches()
    }

    /// The path and the selectors. A list and the watch that continues from it have the same.
    pub fn collection(&self) -> String {
        let parts = self.query().split('&');
        let mut selectors: Vec<&str> = parts.filter(|part| part.contains("Selector=")).collect();
        selectors.sort_unstable();
        format!("{}?{}", self.uri.path(), selectors.join("&"))
    }

    fn is_of(&self, resource: &str) -> bool {
        self.uri.path().rsplit('/').next() == Some(resource)
    }

    fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is forwarded.
    Forward,
    /// It is answered in the API server's place: status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// It is answered as an admission webhook does that refuses the object: code and message of the refusal.
    Refuse(u16, &'static str),
    /// It is answered as an admission webhook does that allows the object.
    Allow,
    /// It is neither forwarded nor answered.
    Hold,
    /// It is forwarded when this is notified.
    ForwardAfter(Arc<Notify>),
    /// It is forwarded, and executed; then this is notified, and the answer never comes.
    LoseAnswer(Arc<Notify>),
    /// It is forwarded, and this changes the answer, if that is JSON.
    Rewrite(fn(&mut Value)),
    /// It is answered with a body that goes on for ever.
    Endless,
    /// It is answered with 200, and a body that the test makes up piece by piece.
    Pieces(Pieces),
}

type Judge = Arc<dyn Fn(&Asked) -> Verdict + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;
type Upstream = Client<HttpsConnector<HttpConnector>, Incoming>;

/// A proxy between a program and an API server that sees each request. Closed when dropped.
pub struct Interceptor {
    address: SocketAddr,
    judge: Arc<Mutex<Judge>>,
    look: Arc<Mutex<Look>>,
    /// How often all connections were closed. The proxy ends when this is dropped.
    cuts: watch::Sender<u64>,
}

impl fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interceptor").field(&self.address).finish()
    }
}

impl Interceptor {
    /// Where it listens, as the address of an API server.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on this decides what happens to each request. It is called in the proxy's async runtime, so tasks that it
    /// starts end with the proxy.
    pub fn judge(&self, judge: impl Fn(&Asked) -> Verdict + Send + Sync + 'static) {
        *self.judge.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(judge);
    }

    /// From now on this decides what happens to each event of a watch, also of those that are open now.
    pub fn look(&self, look: impl Fn(&Asked, &str) -> Passing + Send + Sync + 'static) {
        *self.look.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(look);
    }

    /// Closes all connections that are open now, and with them what was held.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// From now on all requests are forwarded, and all events go on.
    pub fn forward(&self) {
        self.judge(|_| Verdict::Forward);
        self.look(|_, _| Passing::On);
    }
}

impl ControlPlane {
    /// Starts a proxy to the API server that sees each request. Its certificate is from the API server's authority.
    ///
    /// With `user` and groups, the API server takes each client for that user. Without, tokens pass through; client
    /// certificates cannot.
    pub fn intercept(&self, user: Option<(&str, &[&str])>) -> anyhow::Result<Interceptor> {
        self.intercept_with(user, &[b"h2", b"http/1.1"])
    }

    /// Starts an admission webhook, and lets the API server ask it before it creates a Service in this namespace that has
    /// the label `refused`. The value of the label is the path of the request. The judge answers with [`Verdict::Refuse`],
    /// [`Verdict::Allow`] or [`Verdict::Hold`]; the API server waits for 10 s.
    pub async fn admission_webhook(
        &self,
        namespace: &str,
        values: &[&str],
    ) -> anyhow::Result<Interceptor> {
        let server = self.intercept(None)?;
        server.judge(|_| Verdict::Allow);
        let authority = STANDARD.encode(self.authority().certificate());
        let webhook = |value: &&str| {
            json!({
                "name": format!("{value}.services.example.com"),
                "clientConfig": { "url": format!("{}/{value}", server.url()), "caBundle": authority },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                "objectSelector": { "matchLabels": { "refused": value } },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"],
                    "operations": ["CREATE"],
                }],
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 10,
            })
        };
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "services" },
            "webhooks": values.iter().map(webhook).collect::<Vec<_>>(),
        });
        self.apply(&configuration.to_string()).await?;
        Ok(server)
    }

    /// Like [`Self::intercept`], with HTTP/1.1 alone.
    pub fn intercept_http1(&self, user: Option<(&str, &[&str])>) -> anyhow::Result<Interceptor> {
        self.intercept_with(user, &[b"http/1.1"])
    }

    fn intercept_with(
        &self,
        user: Option<(&str, &[&str])>,
        protocols: &[&[u8]],
    ) -> anyhow::Result<Interceptor> {
        let authority = self.authority();
        let client = user
            .map(|(user, groups)| authority.client(user, groups))
            .transpose()?;
        let server = server_config(&authority.server()?, protocols)?;
        let upstream = upstream(&authority.certificate(), client.as_ref())?;
        let target = self.address()?;
        let listener = free_listener()?;
        let address = listener.local_addr()?;
        let judge: Arc<Mutex<Judge>> = Arc::new(Mutex::new(Arc::new(|_: &Asked| Verdict::Forward)));
        let look: Arc<Mutex<Look>> =
            Arc::new(Mutex::new(Arc::new(|_: &Asked, _: &str| Passing::On)));
        let (cuts, seen) = watch::channel(0);
        let proxy = Proxy {
            target,
            upstream,
            judge: judge.clone(),
            look: look.clone(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start a runtime for a proxy")?;
        std::thread::spawn(move || {
            runtime.block_on(serve(listener, TlsAcceptor::from(server), proxy, seen));
            runtime.shutdown_background();
        });
        Ok(Interceptor {
            address,
            judge,
            look,
            cuts,
        })
    }
}

fn server_config(identity: &Identity, protocols: &[&[u8]]) -> anyhow::Result<Arc<ServerConfig>> {
    let (chain, key) = parse(identity)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn upstream(authority: &str, identity: Option<&Identity>) -> anyhow::Result<Upstream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match identity.map(parse).transpose()? {
        Some((chain, key)) => config.with_client_auth_cert(chain, key)?,
        None => config.with_no_client_auth(),
    };
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

fn parse(
    identity: &Identity,
) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    Ok((
        chain.collect::<Result<_, _>>()?,
        PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?,
    ))
}

#[derive(Clone)]
struct Proxy {
    target: SocketAddr,
    upstream: Upstream,
    judge: Arc<Mutex<Judge>>,
    look: Arc<Mutex<Look>>,
}

async fn serve(
    listener: std::net::TcpListener,
    tls: TlsAcceptor,
    proxy: Proxy,
    mut cuts: watch::Receiver<u64>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        tokio::select! {
            cut = cuts.changed() => if cut.is_err() { return },
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    let mut cuts = cuts.clone();
                    cuts.mark_unchanged();
                    let connection = connection(client, tls.clone(), proxy.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = cuts.changed() => {}
                            () = connection => {}
                        }
                    });
                }
            }
        }
    }
}

async fn connection(client: TcpStream, tls: TlsAcceptor, proxy: Proxy) {
    let _ = client.set_nodelay(true);
    let Ok(stream) = tls.accept(client).await else {
        return;
    };
    let service = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
    });
    // The client and the server see how the connection ends, so an error does not matter here.
    let _ = auto::Builder::new(TokioExecutor::new())
        .http2()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Proxy {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let asked = Asked {
            method: request.method().clone(),
            uri: request.uri().clone(),
        };
        let judge = Arc::clone(&self.judge.lock().unwrap_or_else(PoisonError::into_inner));
        match judge(&asked) {
            Verdict::Forward => self.forward(asked, request).await,
            Verdict::Refuse(code, message) => {
                let status = json!({ "code": code, "message": message });
                review(request, json!({ "allowed": false, "status": status })).await
            }
            Verdict::Allow => review(request, json!({ "allowed": true })).await,
            Verdict::Hold => std::future::pending().await,
            Verdict::ForwardAfter(permitted) => {
                permitted.notified().await;
                self.forward(asked, request).await
            }
            Verdict::LoseAnswer(executed) => {
                let answer = self.forward(asked, request).await;
                let _ = answer.into_body().collect().await;
                executed.notify_one();
                std::future::pending().await
            }
            Verdict::Rewrite(change) => {
                request.headers_mut().remove("accept-encoding");
                rewritten(self.forward(asked, request).await, change).await
            }
            Verdict::Answer(status, headers, text) => {
                let mut answer = Response::new(whole(text));
                *answer.status_mut() =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                for (name, value) in headers {
                    if let Ok(value) = value.parse() {
                        answer.headers_mut().insert(name, value);
                    }
                }
                answer
            }
            Verdict::Endless => Response::new(UnsyncBoxBody::new(Spaces)),
            Verdict::Pieces(pieces) => Response::new(UnsyncBoxBody::new(pieces)),
        }
    }

    async fn forward(&self, asked: Asked, mut request: Request<Incoming>) -> Response<Body> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let uri = format!("https://{}{path}", self.target);
        let uri = uri.parse().unwrap_or_default();
        *request.uri_mut() = uri;
        *request.version_mut() = http::Version::HTTP_11;
        match self.upstream.request(request).await {
            Ok(mut answer) => {
                // These headers are about one connection, and HTTP/2 forbids them.
                for name in ["connection", "keep-alive", "transfer-encoding"] {
                    answer.headers_mut().remove(name);
                }
                *answer.version_mut() = http::Version::default();
                answer.map(|body| {
                    if asked.watches() {
                        UnsyncBoxBody::new(Events::pass(asked, body, self.look.clone()))
                    } else {
                        UnsyncBoxBody::new(body.map_err(Into::into))
                    }
                })
            }
            Err(error) => {
                let mut answer = Response::new(whole(error.to_string()));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
            }
        }
    }
}

/// The answer of an admission webhook to a request for a review.
async fn review(request: Request<Incoming>, mut response: Value) -> Response<Body> {
    let body = request.into_body().collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    response["uid"] = asked["request"]["uid"].clone();
    let (version, kind) = (&asked["apiVersion"], &asked["kind"]);
    let review = json!({ "apiVersion": version, "kind": kind, "response": response });
    Response::new(whole(review.to_string()))
}

async fn rewritten(answer: Response<Body>, change: fn(&mut Value)) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    let body = body.collect().await.map(Collected::to_bytes);
    let text = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    head.headers.remove("content-length");
    let text = match serde_json::from_str(&text) {
        Ok(mut value) => {
            change(&mut value);
            value.to_string()
        }
        Err(_) => text,
    };
    Response::from_parts(head, whole(text))
}

fn whole(text: String) -> Body {
    UnsyncBoxBody::new(Full::new(Bytes::from(text)).map_err(|never| match never {}))
}

/// The beginning of a list, and then space without end.
struct Spaces;

impl hyper::body::Body for Spaces {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        static SPACES: [u8; 64 * 1024] = [b' '; 64 * 1024];
        let frame = hyper::body::Frame::data(Bytes::from_static(&SPACES));
        std::task::Poll::Ready(Some(Ok(frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_watch_of_one_selector_have_the_same_collection() {
        let asked = |uri: &'static str| Asked {
            method: Method::GET,
            uri: Uri::from_static(uri),
        };
        let list = asked("/api/v1/services?&limit=500&labelSelector=a%3Db");
        let watch = asked("/api/v1/services?&watch=true&labelSelector=a%3Db&resourceVersion=7");
        let other = asked("/api/v1/services?&watch=true&labelSelector=a%3Dc&resourceVersion=7");
        assert_eq!(list.collection(), watch.collection());
        assert_ne!(other.collection(), watch.collection());
        assert!(list.is_list("services") && !list.watches());
        assert!(watch.is_watch("services") && !watch.is_list("services"));
    }
}
