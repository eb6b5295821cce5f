//! The client of the controller: all watches and writes of one cluster over one HTTP/2 connection.
//!
//! A watch may be silent for hours, so a read timeout cannot distinguish it from a dead peer. HTTP/2 pings can: a
//! connection whose peer does not answer a ping is closed, and all its requests fail immediately. Other requests have
//! their own timeouts. With HTTP/1.1, watches are short instead ([`bounds`](super::bounds)), and TCP keepalives check the
//! peer.

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
use tower::{BoxError, ServiceBuilder, util::BoxCloneSyncService};

use super::{
    bounds::{Connections, ResponseLimits, SHORT_IDLE_TIMEOUT},
    config::{CONNECT, LATER, check, set_user_agent, unbounded, without_credentials_in_clear},
    exec::Plugin,
    kubeconfig::no_client,
    requests::DEADLINE,
    retry::Patience,
};

/// Interval of pings. With [`PING_TIMEOUT`], a dead peer is detected within 30 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Timeout of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of TCP keepalive probes after the first one, which is sent after [`PING_EVERY`].
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(5);
/// Unanswered TCP keepalive probes after which a connection is closed, as soon as with pings.
const KEEPALIVE_TRIES: u32 = 3;

/// A client for long-running watches and many concurrent requests, with these limits of responses.
pub async fn multiplexed(config: Config, limits: ResponseLimits) -> anyhow::Result<Client> {
    let connections = Connections::new(limits);
    let authenticated = Authenticated::new(config, DEADLINE).await?;
    if authenticated.config.proxy_url.is_some() {
        let idle_timeout = SHORT_IDLE_TIMEOUT + LATER;
        return authenticated.through(idle_timeout, connections.without_pings(), Patience::none());
    }
    let Authenticated { mut config, plugin } = authenticated;
    set_user_agent(&mut config);
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
                .map_err(|error| no_client(&error))?,
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
    let service = limited(connections, move |request| {
        let (client, plugin) = (client.clone(), plugin.clone());
        send(plugin, request, move |request| client.request(request))
    });
    identified(&config, service)
}

/// Sends a request with the token of a plugin, if there is one.
async fn send<B, E, F>(
    plugin: Option<Arc<Plugin>>,
    mut request: Request<Body>,
    send: impl FnOnce(Request<Body>) -> F,
) -> Result<Response<B>, BoxError>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
{
    if let Some(plugin) = plugin {
        plugin.authorize(&mut request).await?;
    }
    send(request).await.map_err(Into::into)
}

/// A client that notices when its peer no longer answers pings.
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

/// A client that sends the credentials of a configuration.
pub(super) fn identified(config: &Config, service: LimitedService) -> anyhow::Result<Client> {
    let namespace = config.default_namespace.clone();
    let auth = config.auth_layer().map_err(|error| no_client(&error))?;
    let headers = config.extra_headers_layer();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(headers.map_err(|error| no_client(&error))?)
        .service(service);
    Ok(Client::new(service, namespace))
}

/// A client for one-shot requests. Each ends within `deadline`, and so does the plugin of the kubeconfig before them.
pub(crate) async fn build(config: Config, deadline: Duration) -> anyhow::Result<Client> {
    let authenticated = Authenticated::new(config, deadline).await?;
    authenticated.client(deadline)
}

/// A configuration with the credentials from its exec plugin, if it has one.
#[derive(Clone)]
pub(crate) struct Authenticated {
    config: Config,
    plugin: Option<Arc<Plugin>>,
}

impl Authenticated {
    /// Runs the plugin of a configuration, if it has one, and if requests are encrypted. Sends no request.
    pub(crate) async fn new(mut config: Config, deadline: Duration) -> anyhow::Result<Self> {
        without_credentials_in_clear(&mut config);
        check(&config)?;
        let plugin = Plugin::of(&mut config, deadline).await?;
        Ok(Self { config, plugin })
    }

    /// A client for one-shot requests, each of which ends within `deadline`.
    pub(crate) fn client(&self, deadline: Duration) -> anyhow::Result<Client> {
        self.watch_client(Duration::ZERO, deadline)
    }

    /// The same for watches too, which may be without events for as long as `watch`.
    pub(crate) fn watch_client(
        &self,
        watch: Duration,
        deadline: Duration,
    ) -> anyhow::Result<Client> {
        let connections = Connections::new(ResponseLimits::of_lists(deadline));
        let patience = Patience::of_commands(deadline);
        self.clone()
            .through(watch + deadline + LATER, connections, patience)
    }

    /// kube's client, with limits of responses. Its connections may be without data for `idle_timeout`.
    fn through(
        self,
        idle_timeout: Duration,
        connections: Connections,
        patience: Patience,
    ) -> anyhow::Result<Client> {
        let namespace = self.config.default_namespace.clone();
        let client = unbounded(self.config, idle_timeout)?;
        let service = limited(connections, move |request| {
            let (client, plugin) = (client.clone(), self.plugin.clone());
            let patience = patience.clone();
            async move {
                let once = |request| {
                    let client = client.clone();
                    send(plugin.clone(), request, async move |request| {
                        client.send(request).await
                    })
                };
                patience.send(request, once).await
            }
        });
        Ok(Client::new(service, namespace))
    }
}

/// Sends requests, and applies limits to their responses.
pub(super) type LimitedService =
    BoxCloneSyncService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// Applies limits to the responses of any transport.
pub(super) fn limited<B, E, F>(
    connections: Connections,
    send: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> LimitedService
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    E: Into<BoxError> + Send,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let connections = Arc::new(connections);
    BoxCloneSyncService::new(tower::service_fn(move |request| {
        let (connections, send) = (connections.clone(), send.clone());
        async move { connections.send(request, send).await }
    }))
}
