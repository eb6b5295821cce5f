//! How target clusters, their gateways and DNS are reached: through sockets, except in tests.
//!
//! Sockets do not follow tokio's paused time. Tests that let hours pass replace this, and everything above stays as it
//! is.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, combinators::UnsyncBoxBody};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::Client;

use client::{CredentialsError, ResponseLimits, watcher_from_credentials};

/// The body of a gateway's response to a probe.
pub type ProbeBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Reaches target clusters, their gateways and DNS.
pub trait Transport: Send + Sync {
    /// A client of the API server of a credentials Secret. `at`: the address to connect to instead of the one in the
    /// kubeconfig. `size` limits the responses.
    fn client<'a>(
        &'a self,
        kubeconfig: &'a [u8],
        at: Option<SocketAddr>,
        size: ResponseLimits,
    ) -> BoxFuture<'a, Result<Client, CredentialsError>>;

    /// Sends the request of a probe. `connect` is the timeout for opening the connection.
    fn probe(
        &self,
        request: Request<Empty<Bytes>>,
        connect: Duration,
    ) -> BoxFuture<'static, anyhow::Result<Response<ProbeBody>>>;

    /// Looks up the addresses of a host name.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<BTreeSet<IpAddr>>>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Sockets;

impl Transport for Sockets {
    fn client<'a>(
        &'a self,
        kubeconfig: &'a [u8],
        at: Option<SocketAddr>,
        size: ResponseLimits,
    ) -> BoxFuture<'a, Result<Client, CredentialsError>> {
        Box::pin(watcher_from_credentials(kubeconfig, at, size))
    }

    /// Opens a new connection for each probe, because an old connection may work when new ones fail. Uses no HTTP proxy
    /// and follows no redirects: hyper supports neither.
    fn probe(
        &self,
        request: Request<Empty<Bytes>>,
        connect: Duration,
    ) -> BoxFuture<'static, anyhow::Result<Response<ProbeBody>>> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(connect));
        connector.set_nodelay(true);
        let client = HttpClient::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Box::pin(async move {
            let response = client.request(request).await?;
            Ok(response.map(BodyExt::boxed_unsync))
        })
    }

    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<BTreeSet<IpAddr>>> {
        Box::pin(lookup(name))
    }
}

/// Asks the system's resolver, for both address families.
pub async fn lookup(name: String) -> io::Result<BTreeSet<IpAddr>> {
    let addresses = tokio::net::lookup_host((name, 0)).await?;
    Ok(addresses.map(|a| a.ip().to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_resolver_knows_localhost() {
        let loopback = lookup("localhost".into()).await.unwrap();
        assert!(loopback.iter().all(IpAddr::is_loopback), "{loopback:?}");
        assert!(!loopback.is_empty());
    }
}
