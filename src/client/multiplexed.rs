//! The client of the controller: all watches and writes of one cluster over one HTTP/2 connection.
//!
//! A watch may be silent for hours, so a read timeout cannot distinguish it from a dead peer. HTTP/2 pings can: a
//! connection whose peer does not answer a ping is closed, and all its requests fail immediately. Other requests have
//! their own timeouts. With HTTP/1.1, watches are short instead ([`bounds`]), and TCP keepalives check the peer.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client as HyperClient,
        connect::{Connect, HttpConnector},
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
};
use rustls_pki_types::ServerName;
use tower::{BoxError, Service, ServiceBuilder};

use super::{
    bounds::{self, Size},
    config::{CONNECT, check, introduce, unbounded},
    kubeconfig::no_client,
};

/// Interval of pings. With [`PING_TIMEOUT`], a dead peer is detected within 30 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Timeout of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of TCP keepalive probes after the first one, which is sent after [`PING_EVERY`].
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(5);
/// Unanswered TCP keepalive probes after which a connection is closed, as soon as with pings.
const KEEPALIVE_TRIES: u32 = 3;

/// A client for long-running watches and many concurrent requests, with these size limits.
pub fn multiplexed(mut config: Config, size: Size) -> anyhow::Result<Client> {
    let connections = bounds::Connections::new(size);
    if config.proxy_url.is_some() {
        // The connection times out later than its responses.
        let deadline = bounds::SHORT_SILENCE + KEEPALIVE_AGAIN;
        return through(config, deadline, connections.without_pings());
    }
    check(&config)?;
    introduce(&mut config);
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(PING_EVERY));
    http.set_keepalive_interval(Some(KEEPALIVE_AGAIN));
    http.set_keepalive_retries(Some(KEEPALIVE_TRIES));
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(
            config
                .rustls_client_config()
                .map_err(|error| no_client(&error, &config.auth_info))?,
        )
        .https_or_http();
    let tls = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).context("invalid tls-server-name")?;
            tls.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
        }
        None => tls,
    };
    let mut connector =
        TimeoutConnector::new(tls.enable_http1().enable_http2().wrap_connector(http));
    connector.set_connect_timeout(Some(CONNECT)); // includes the TLS handshake
    let client = pinging(connector);
    identified(&config, connections, move |request| client.request(request))
}

/// A client that notices when its peer does not answer pings any more.
pub(super) fn pinging<C>(connector: C) -> HyperClient<C, Body>
where
    C: Connect + Clone,
{
    HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

/// A client that sends the credentials of a configuration, with limits of responses, for any transport.
pub(super) fn identified<B, E, F>(
    config: &Config,
    connections: bounds::Connections,
    send: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> anyhow::Result<Client>
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    E: Into<BoxError> + Send,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let namespace = config.default_namespace.clone();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(
            config
                .auth_layer()
                .map_err(|error| no_client(&error, &config.auth_info))?,
        )
        .layer(
            config
                .extra_headers_layer()
                .map_err(|error| no_client(&error, &config.auth_info))?,
        )
        .service(hold(connections, send));
    Ok(Client::new(service, namespace))
}

/// A client for one-shot requests, which end within `deadline` if the server stops responding.
pub(crate) fn build(config: Config, deadline: Duration) -> anyhow::Result<Client> {
    let connections = bounds::Connections::new(Size::of_lists());
    through(config, deadline, connections)
}

/// kube's client, with limits of responses.
pub(super) fn through(
    config: Config,
    deadline: Duration,
    connections: bounds::Connections,
) -> anyhow::Result<Client> {
    let namespace = config.default_namespace.clone();
    let client = unbounded(config, deadline)?;
    Ok(bounded(connections, &namespace, move |request| {
        let client = client.clone();
        async move { client.send(request).await }
    }))
}

/// A client with limits of responses, for any transport.
pub(super) fn bounded<B, E, F>(
    connections: bounds::Connections,
    namespace: &str,
    send: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> Client
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    E: Into<BoxError> + Send,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    Client::new(hold(connections, send), namespace)
}

fn hold<B, E, F>(
    connections: bounds::Connections,
    send: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> impl Service<
    Request<Body>,
    Response = Response<UnsyncBoxBody<Bytes, BoxError>>,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ 'static
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    E: Into<BoxError> + Send,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let connections = Arc::new(connections);
    tower::service_fn(move |request| {
        let (connections, send) = (connections.clone(), send.clone());
        async move { connections.ask(request, send).await }
    })
}
