//! Probing of one gateway: is it alive, how fast does it answer. It reports, and decides nothing else.
//!
//! Differences from Linkerd's service mirror, on purpose:
//! - The first probe is sent at once, not after a period. Linkerd's takes an unprobed gateway for alive;
//!   here it is unknown, and an unknown gateway cannot change readiness, so knowing early matters.
//! - A gateway that is dead from the start becomes dead; in Linkerd's service mirror it never does.
//! - It connects to the probe Service's ClusterIP, and names the Service in the header `Host` only: where DNS fails,
//!   gateways live on.
//! - Failures below the threshold are counted too, and a stop ends a probe that is under way.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{clock::jitter, metrics::Metrics, trouble::Trouble};
use crate::mirror::{Liveness, Probe};

/// How much of an answer's body is read, bytes. Linkerd's gateways answer with a few.
const BODY: usize = 16 * 1024;
/// How long the body of an answer is waited for. The status has come by then, and it alone decides.
const BODY_TIME: Duration = Duration::from_millis(100);

/// Time between two probes of a gateway that is not alive and that Linkerd's proxy answers for. The proxy waits ever longer between two
/// tries to connect to an endpoint, up to a minute; it forgets that, with the whole Service, when nobody has asked for it
/// for 5 s (`proxy.outboundDiscoveryCacheUnusedTimeout` of Linkerd's chart), and tries at once when somebody asks again.
const FORGOTTEN: Duration = Duration::from_millis(5_500);
/// A header of answers that are the proxy's own (linkerd2-proxy, `linkerd/app/core/src/errors/respond.rs`).
const PROXY_ERROR: &str = "l5d-proxy-error";

/// Where probes go.
#[derive(Clone, Debug)]
pub struct ProbeTarget {
    /// `host:port` to connect to; in a cluster the ClusterIP of the probe Service, which leads to the gateway through
    /// the mesh. While there is none nothing is probed, and what is known of the gateway stays. Where it changes,
    /// failures at the former address do not count any more.
    pub address: watch::Receiver<Option<String>>,
    /// The header `Host`, if it is not the address.
    pub host: Option<String>,
    /// Path, with its leading slash.
    pub path: String,
}

/// What a probe worker has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeReport {
    /// The gateway is now [`Liveness::Alive`] or [`Liveness::Dead`], and was not before.
    Transition(Liveness),
    /// Time from the start of a successful probe to the answer's status. Comes with every success, after
    /// the transition if there is one.
    Latency(Duration),
}

/// Follows a gateway's liveness. Pure.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    liveness: Liveness,
    failures: u32,
}

impl Tracker {
    /// What is known now.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// Takes in the result of a probe. Returns the new liveness if it is another one.
    pub fn on_result(&mut self, ok: bool, threshold: u32) -> Option<Liveness> {
        self.failures = if ok {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let next = match (ok, self.failures >= threshold.max(1)) {
            (true, _) => Liveness::Alive,
            (false, true) => Liveness::Dead,
            (false, false) => self.liveness,
        };
        let changed = next != self.liveness;
        self.liveness = next;
        changed.then_some(next)
    }

    /// Whether to wait until the proxy has forgotten the gateway: while it is dead, and once at the start, when the proxy
    /// may remember a time before the gateway was there.
    fn is_proxy_to_forget(&self) -> bool {
        match self.liveness {
            Liveness::Alive => false,
            Liveness::Dead => true,
            Liveness::Unknown => self.failures == 1,
        }
    }

    /// Forgets failures that were no reason yet to call the gateway dead: they happened at another address.
    pub fn on_new_address(&mut self) {
        self.failures = 0;
    }
}

/// Probes a gateway until `stop`, which also ends a probe that is under way.
///
/// `cluster` is the name of the target cluster, for metrics and logs. Probes never overlap: where one takes
/// longer than the period, the next follows at once, so a silent gateway is dead after
/// `threshold × max(period, timeout)`.
pub async fn run(
    cluster: &str,
    target: ProbeTarget,
    settings: &Probe,
    metrics: &Metrics,
    sink: impl Fn(ProbeReport),
    stop: CancellationToken,
) {
    let work = work(cluster, target, settings, metrics, sink);
    stop.run_until_cancelled(work).await;
}

async fn work(
    cluster: &str,
    mut target: ProbeTarget,
    settings: &Probe,
    metrics: &Metrics,
    sink: impl Fn(ProbeReport),
) {
    let client = client(settings.timeout);
    let mut tracker = Tracker::default();
    let mut trouble = Trouble::new(format!("probe the gateway of {cluster}"));
    let mut next = Instant::now();
    let mut former = None;
    loop {
        sleep_until(next).await;
        let known = target.address.wait_for(Option::is_some).await;
        let Some(address) = known.ok().and_then(|known| known.clone()) else {
            return; // nobody will ever tell
        };
        if former.as_ref() != Some(&address) {
            tracker.on_new_address();
            former = Some(address.clone());
        }
        let start = Instant::now();
        next = start + settings.period + jitter(settings.period / 10);
        let probed = probe(&client, &address, target.host.as_deref(), &target.path);
        let result = tokio::select! {
            result = timeout(settings.timeout, probed) => result,
            Ok(()) = target.address.changed() => {
                next = start; // what the former address answers does not matter any more
                continue;
            }
        };
        let latency = start.elapsed();
        let result = result.unwrap_or_else(|_| {
            let limit = settings.timeout;
            Err(anyhow::anyhow!("timed out after {limit:?}"))
        });
        let transition = tracker.on_result(result.is_ok(), settings.threshold);
        if let Some(liveness) = transition {
            metrics.gateway_alive(cluster, liveness == Liveness::Alive);
            tracing::info!(cluster, ?liveness, "gateway state changed");
            sink(ProbeReport::Transition(liveness));
        }
        match result {
            Ok(body) => {
                metrics.probe_succeeded(cluster, latency);
                trouble.clear();
                sink(ProbeReport::Latency(latency));
                let _ = timeout(BODY_TIME, Limited::new(body, BODY).collect()).await;
            }
            Err(error) => {
                metrics.probe_failed(cluster);
                trouble.set(&format!("{error:#}"));
                if error.is::<ByProxy>() && tracker.is_proxy_to_forget() {
                    next = next.max(Instant::now() + FORGOTTEN);
                }
            }
        }
    }
}

/// A failure that Linkerd's proxy on this side tells of.
#[derive(Debug, thiserror::Error)]
#[error("the proxy returned status {0}")]
struct ByProxy(u16);

/// A client that opens a connection for each probe: a connection kept from better days would say nothing
/// about what new connections meet. No proxy, no redirects: hyper has neither.
fn client(connect: Duration) -> Client<HttpConnector, Empty<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(connect));
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector)
}

/// One probe. Alive is who answers with status 200 exactly; the body is left to be read.
async fn probe(
    client: &Client<HttpConnector, Empty<Bytes>>,
    address: &str,
    host: Option<&str>,
    path: &str,
) -> anyhow::Result<hyper::body::Incoming> {
    let uri = Uri::builder()
        .scheme("http")
        .authority(address)
        .path_and_query(path)
        .build()
        .context("invalid address or path")?;
    let request = Request::get(uri)
        .header(http::header::HOST, host.unwrap_or(address))
        .header(http::header::CONNECTION, "close")
        .header(http::header::USER_AGENT, "linkerd-mc")
        .body(Empty::new())
        .context("invalid address or path")?;
    let response = client.request(request).await?;
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        other if response.headers().contains_key(PROXY_ERROR) => {
            Err(ByProxy(other.as_u16()).into())
        }
        other => bail!("the gateway returned status {}", other.as_u16()),
    }
}

#[cfg(test)]
mod tests;
