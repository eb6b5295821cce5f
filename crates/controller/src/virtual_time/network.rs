//! The network between the controller and target clusters, in memory: their API servers and their gateways.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use client::{
    CredentialsError, ResponseLimits, config_of_credentials, of_test_connections,
    of_test_credentials,
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, pending, ready},
};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use kube::{Client, client::Body};
use tokio::time::sleep;

use super::{server::ApiServer, wire::Wire};
use crate::transport::{ProbeBody, Transport};

/// How a gateway responds to probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    Alive,
    /// It responds after this time.
    Slow(Duration),
    /// It accepts connections, and never responds.
    Silent,
    /// Nothing listens.
    Refusing,
    /// Linkerd's proxy in the source cluster says that it cannot reach it.
    Unreachable,
}

/// Clusters by the host in the kubeconfig, gateways by Link, and addresses by host name. A clone is the same network.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    servers: BTreeMap<String, ApiServer>,
    /// Servers that are reached over HTTP/2.
    wires: BTreeMap<String, Wire>,
    gateways: BTreeMap<String, Gateway>,
    probes: BTreeMap<String, usize>,
    names: BTreeMap<String, Vec<IpAddr>>,
    connected_at: Option<SocketAddr>,
}

impl Network {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("no panic")
    }

    pub fn connect(&self, host: &str, server: &ApiServer) {
        self.known().servers.insert(host.to_owned(), server.clone());
    }

    /// Reaches a server over these connections from now on.
    pub fn connect_over(&self, host: &str, wire: &Wire) {
        self.known().wires.insert(host.to_owned(), wire.clone());
    }

    pub fn gateway(&self, link: &str, gateway: Gateway) {
        self.known().gateways.insert(link.to_owned(), gateway);
    }

    /// The address at which the last client connects, if that is not the one in the kubeconfig.
    pub fn connected_at(&self) -> Option<SocketAddr> {
        self.known().connected_at
    }

    /// The number of probes of a gateway so far.
    pub fn probes(&self, link: &str) -> usize {
        self.known().probes.get(link).copied().unwrap_or_default()
    }

    /// Sets the addresses of a host name. Without any, lookups fail.
    pub fn resolve(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses
            .iter()
            .map(|text| text.parse().expect("an address"));
        self.known()
            .names
            .insert(name.to_owned(), addresses.collect());
    }
}

impl Network {
    fn client_over_wire(
        &self,
        kubeconfig: &[u8],
        size: ResponseLimits,
    ) -> Result<Client, CredentialsError> {
        let config = config_of_credentials(kubeconfig)?;
        let host = config.cluster_url.host().unwrap_or_default();
        let wire = self.known().wires.get(host).cloned().expect("a wire");
        Ok(of_test_connections(&config, size, wire).expect("a client"))
    }
}

impl Transport for Network {
    fn client<'a>(
        &'a self,
        kubeconfig: &'a [u8],
        at: Option<SocketAddr>,
        size: ResponseLimits,
    ) -> BoxFuture<'a, Result<Client, CredentialsError>> {
        let network = self.clone();
        network.known().connected_at = at;
        if !network.known().wires.is_empty() {
            return ready(network.client_over_wire(kubeconfig, size)).boxed();
        }
        let send = move |request: Request<Body>| {
            let host = request.uri().host().unwrap_or_default();
            let server = network.known().servers.get(host).cloned();
            async move { server.ok_or("no such host")?.answer(request).await }
        };
        let client = of_test_credentials(kubeconfig, size, send);
        std::future::ready(client).boxed()
    }

    fn probe(
        &self,
        request: Request<Empty<Bytes>>,
        _connect: Duration,
    ) -> BoxFuture<'static, anyhow::Result<Response<ProbeBody>>> {
        let host = request.headers()[header::HOST].to_str().expect("a name");
        let service = host.split('.').next().unwrap_or_default();
        let link = service.trim_start_matches("probe-");
        let mut known = self.known();
        *known.probes.entry(link.to_owned()).or_default() += 1;
        let gateway = known.gateways.get(link).copied();
        async move {
            let mut response =
                Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
            match gateway {
                Some(Gateway::Alive) => {}
                Some(Gateway::Slow(after)) => sleep(after).await,
                Some(Gateway::Silent) => return pending().await,
                Some(Gateway::Refusing) | None => anyhow::bail!("connection refused"),
                Some(Gateway::Unreachable) => {
                    *response.status_mut() = http::StatusCode::GATEWAY_TIMEOUT;
                    let why = http::HeaderValue::from_static("unavailable");
                    response.headers_mut().insert("l5d-proxy-error", why);
                }
            }
            Ok(response)
        }
        .boxed()
    }

    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<BTreeSet<IpAddr>>> {
        let found = self.known().names.get(&name).cloned().unwrap_or_default();
        async move {
            if found.is_empty() {
                return Err(io::Error::other("no such name"));
            }
            Ok(found.into_iter().collect())
        }
        .boxed()
    }
}
