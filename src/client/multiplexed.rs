//! The client of the controller: all watches and writes of one cluster over one HTTP/2 connection.
//!
//! A watch may be silent for hours and a peer may vanish without a word, so no read deadline can tell the
//! two apart. HTTP/2 pings can: a connection whose peer does not answer one is closed, and all that waited
//! on it fails at once. Requests that should end have deadlines of their own.

use std::time::Duration;

use anyhow::Context as _;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
};
use rustls_pki_types::ServerName;
use tower::ServiceBuilder;

use super::{CONNECT, bounds, build, check, introduce};

/// Time between pings. With [`PING_TIMEOUT`] it bounds how long a dead peer goes unnoticed: 30 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Time that a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// With a proxy in between, where HTTP/1.1 is used and there are no pings, a watch that is silent for longer is
/// opened again. API servers send a bookmark about once a minute.
const SILENCE: Duration = Duration::from_secs(90);

/// A client for watches that never end and many requests at once.
pub fn multiplexed(mut config: Config) -> anyhow::Result<Client> {
    if config.proxy_url.is_some() {
        return build(config, SILENCE);
    }
    check(&config)?;
    introduce(&mut config);
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(PING_EVERY));
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(
            config
                .rustls_client_config()
                .context("failed to set up TLS")?,
        )
        .https_or_http();
    let tls = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).context("tls-server-name is no name")?;
            tls.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
        }
        None => tls,
    };
    let mut connector =
        TimeoutConnector::new(tls.enable_http1().enable_http2().wrap_connector(http));
    connector.set_connect_timeout(Some(CONNECT)); // includes the TLS handshake
    let client: HyperClient<_, Body> = HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let namespace = config.default_namespace.clone();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(
            config
                .auth_layer()
                .context("failed to set up authentication")?,
        )
        .layer(
            config
                .extra_headers_layer()
                .context("failed to set up headers")?,
        )
        .service(tower::service_fn(move |request| {
            bounds::ask(client.clone(), request)
        }));
    Ok(Client::new(service, namespace))
}
