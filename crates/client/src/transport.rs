//! The connections to an API server, directly or through a proxy: one way for commands and the controller.
//!
//! With HTTP/2, all requests share one connection. A watch may be silent for hours, so a read timeout cannot distinguish
//! it from a dead peer. HTTP/2 pings can: a connection whose peer does not answer a ping is closed, and all its requests
//! fail immediately. With HTTP/1.1, watches are short instead ([`bounds`](super::bounds)), and TCP keepalives check the peer.
//!
//! kube's own client is not used: it has no HTTP/2, sends no password to SOCKS proxies, and refuses client certificates of
//! X.509 version 1, as `MicroK8s` makes them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::fail;
use http::{HeaderValue, Request, Response, Uri, header::UPGRADE};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client as HyperClient,
        connect::{
            Connect, Connection, HttpConnector,
            proxy::{SocksV5, Tunnel},
        },
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt as _},
    config::AuthInfo,
};
use rustls::{
    ClientConfig,
    crypto::CryptoProvider,
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio::sync::Mutex;
use tower::{BoxError, Service, util::BoxCloneSyncService};

use super::{
    config::secret_text,
    kubeconfig::{CHECK_USER, no_client},
    proxy::{ProxyKind, ProxyServer},
};

/// Interval of pings. With [`PING_TIMEOUT`], a dead peer is detected within 30 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Timeout of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of TCP keepalive probes after the first one, which is sent after [`PING_EVERY`].
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(5);
/// Unanswered TCP keepalive probes after which a connection is closed, as soon as with pings.
const KEEPALIVE_TRIES: u32 = 3;

/// Sends requests over the connections of one client.
pub type ApiTransport = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// The transport to a configuration's API server. `connect`: the timeout for opening a connection.
pub fn transport(config: &Config, connect: Duration) -> anyhow::Result<ApiTransport> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(PING_EVERY));
    http.set_keepalive_interval(Some(KEEPALIVE_AGAIN));
    http.set_keepalive_retries(Some(KEEPALIVE_TRIES));
    let tls = tls(config)?;
    let Some(url) = &config.proxy_url else {
        return over(config, &tls, connect, http);
    };
    let Some(proxy) = ProxyServer::of_url(url) else {
        return Err(fail(
            "proxy-url: not a proxy",
            "use a URL with http://, https:// or socks5://",
        ));
    };
    let (address, user) = (proxy.address, proxy.user);
    match proxy.kind {
        ProxyKind::Socks => {
            let socks = SocksV5::new(address, http);
            let socks = match user {
                Some((name, password)) => socks.with_auth(name, password),
                None => socks,
            };
            over(config, &tls, connect, socks)
        }
        ProxyKind::Http if address.scheme_str() == Some("https") => {
            let to_proxy = https(config, &tls)?.enable_http1().wrap_connector(http);
            over(config, &tls, connect, tunnel(address, user, to_proxy))
        }
        ProxyKind::Http => over(config, &tls, connect, tunnel(address, user, http)),
    }
}

/// A tunnel through a proxy, which learns who asks.
fn tunnel<C>(proxy: Uri, user: Option<(String, String)>, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy, connector);
    let Some((name, password)) = user else {
        return tunnel;
    };
    let pair = BASE64_STANDARD.encode(format!("{name}:{password}"));
    // Base64 is always a valid header.
    match HeaderValue::try_from(format!("Basic {pair}")) {
        Ok(mut header) => {
            header.set_sensitive(true);
            tunnel.with_auth(header)
        }
        Err(_) => tunnel,
    }
}

/// A builder of connectors with TLS, for a configuration's name in the certificate.
fn https(
    config: &Config,
    tls: &ClientConfig,
) -> anyhow::Result<HttpsConnectorBuilder<hyper_rustls::builderstates::WantsProtocols1>> {
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls.clone())
        .https_or_http();
    let Some(name) = &config.tls_server_name else {
        return Ok(builder);
    };
    let name = ServerName::try_from(name.clone()).map_err(|_| {
        fail(
            "tls-server-name: not a name",
            "check tls-server-name of the cluster in the kubeconfig",
        )
    })?;
    Ok(builder.with_server_name_resolver(FixedServerNameResolver::new(name)))
}

/// A transport whose connections `connector` opens.
fn over<C>(
    config: &Config,
    tls: &ClientConfig,
    connect: Duration,
    connector: C,
) -> anyhow::Result<ApiTransport>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
    HttpsConnector<C>: Connect,
{
    let timed = |connector| {
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(Some(connect)); // includes the TLS handshake
        connector
    };
    let both = https(config, tls)?.enable_http1().enable_http2();
    let both = timed(both.wrap_connector(connector.clone()));
    // A port-forward takes over its connection, which HTTP/2 does not allow.
    let first = https(config, tls)?.enable_http1();
    let first = timed(first.wrap_connector(connector));
    let gate = Arc::new(Gate::default());
    let (both, first) = (pinging(both), pinging(first));
    Ok(BoxCloneSyncService::new(tower::service_fn(
        move |request: Request<Body>| {
            let (both, first, gate) = (both.clone(), first.clone(), gate.clone());
            async move {
                let answer = if request.headers().contains_key(UPGRADE) {
                    first.request(request).await
                } else {
                    gate.pass(both.request(request)).await
                };
                answer.map_err(BoxError::from)
            }
        },
    )))
}

/// Lets the first request of a client go alone. It shows whether the server has HTTP/2, and the others use its connection.
/// Otherwise each would open one of its own.
#[derive(Debug, Default)]
struct Gate {
    is_open: AtomicBool,
    first: Mutex<()>,
}

impl Gate {
    async fn pass<T>(&self, request: impl Future<Output = T>) -> T {
        if !self.is_open.load(Ordering::Acquire) {
            let first = self.first.lock().await;
            if !self.is_open.load(Ordering::Acquire) {
                let answer = request.await;
                self.is_open.store(true, Ordering::Release);
                return answer;
            }
            drop(first);
        }
        request.await
    }
}

/// A client that notices when its peer no longer answers pings.
pub fn pinging<C>(connector: C) -> HyperClient<C, Body>
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

/// The settings of TLS: what kube makes of the cluster, and the certificate of the user.
fn tls(config: &Config) -> anyhow::Result<ClientConfig> {
    let mut of_cluster = config.clone();
    of_cluster.auth_info = AuthInfo::default();
    let mut tls = of_cluster
        .rustls_client_config()
        .map_err(|error| no_client(&error))?;
    if let Some(key) = client_certificate(&config.auth_info, tls.crypto_provider())? {
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(key));
    }
    Ok(tls)
}

/// The client certificate of a user, and its key.
fn client_certificate(
    user: &AuthInfo,
    provider: &CryptoProvider,
) -> anyhow::Result<Option<CertifiedKey>> {
    let Some(certificate) = &user.client_certificate_data else {
        return Ok(None);
    };
    let refused = |why: &'static str| fail(why, CHECK_USER);
    let decoded = |data: &str| BASE64_STANDARD.decode(data).unwrap_or_default();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&decoded(certificate))
        .filter_map(Result::ok)
        .collect();
    if chain.is_empty() {
        return Err(refused(
            "client-certificate: not PEM, or without a certificate",
        ));
    }
    let key = decoded(&secret_text(user, "client-key-data").unwrap_or_default());
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| refused("client-key: not PEM, or without a private key"))?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| {
        refused(
            "client-key: neither RSA from 2048 bits, nor ECDSA with P-256 or P-384, nor Ed25519",
        )
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(refused("client-key: not that of the client-certificate"))
        }
        // rustls reads only version 3, and API servers decide about others.
        _ => Ok(Some(certified)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn first_request_goes_alone_and_the_others_together() {
        let (gate, began) = (Gate::default(), tokio::time::Instant::now());
        let request = || gate.pass(async { tokio::time::sleep(Duration::from_secs(1)).await });
        futures::future::join_all((0..9).map(|_| request())).await;
        assert_eq!(began.elapsed().as_secs(), 2);
        request().await;
        assert_eq!(began.elapsed().as_secs(), 3);
    }
}
