//! Probes one gateway, and reports whether it is alive and its latency.
//!
//! Deliberate differences from Linkerd's service mirror:
//! - The first probe is sent immediately, not after a period. Linkerd's service mirror assumes that an unprobed gateway
//!   is alive. Here its state is unknown and does not change the readiness of endpoints, so the first result is needed
//!   soon.
//! - A gateway that is dead from the start is detected as dead. Linkerd's service mirror does not detect it.
//! - Probes connect to the probe Service's ClusterIP. Only the header `Host` has the name of the Service, so a failure
//!   of DNS does not make gateways dead.
//! - Failures below the threshold are counted too.
//! - A stop cancels the current probe.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use client::timing::jitter;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use mirror_core::mirror::{Liveness, Probe};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    transport::{ProbeBody, Transport},
    trouble::Trouble,
};

/// Maximum number of bytes that are read of a response body. Bodies of Linkerd's gateways have a few.
const BODY: usize = 16 * 1024;
/// Timeout for the body of a response. Only the status, which comes before, determines the result.
const BODY_TIME: Duration = Duration::from_millis(100);

/// Time between two probes of a gateway that is not alive, if Linkerd's proxy returned the error. The proxy connects to
/// an endpoint with a backoff of up to a minute. It forgets this backoff, with the whole Service, after 5 s without
/// requests (`proxy.outboundDiscoveryCacheUnusedTimeout` of Linkerd's chart), and then connects at the next request.
const FORGOTTEN: Duration = Duration::from_millis(5_500);
/// A header of the proxy's own error responses (linkerd2-proxy, `linkerd/app/core/src/errors/respond.rs`).
const PROXY_ERROR: &str = "l5d-proxy-error";

/// The destination of probes.
#[derive(Clone)]
pub struct ProbeTarget {
    /// Sends them.
    pub transport: Arc<dyn Transport>,
    /// `host:port` to connect to: in a cluster, the ClusterIP of the probe Service, which leads to the gateway through
    /// the mesh. While it is `None`, there are no probes, and the state of the gateway stays. When it changes, failures
    /// at the old address do not count any more.
    pub address: watch::Receiver<Option<String>>,
    /// The value of the header `Host`, if it is not the address.
    pub host: Option<String>,
    /// Path, with its leading slash.
    pub path: String,
}

/// A report of a probe worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeReport {
    /// The gateway is now [`Liveness::Alive`] or [`Liveness::Dead`], and was not before.
    Transition(Liveness),
    /// Time from the start of a successful probe to the status of the response. Sent after every success, after the
    /// transition if there is one.
    Latency(Duration),
    /// A probe failed; why. Sent after every failure, before the transition if there is one.
    Failed(String),
}

/// Computes a gateway's liveness from the results of probes. Pure.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    liveness: Liveness,
    failures: u32,
}

impl Tracker {
    /// Records the result of a probe. Returns the liveness if it has changed.
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

    /// Whether to wait until the proxy has forgotten the gateway: while the gateway is dead, and once at the start,
    /// because the proxy's backoff may be from before the gateway existed.
    fn is_proxy_to_forget(&self) -> bool {
        match self.liveness {
            Liveness::Alive => false,
            Liveness::Dead => true,
            Liveness::Unknown => self.failures == 1,
        }
    }

    /// Forgets failures below the threshold, because they happened at another address.
    pub fn on_new_address(&mut self) {
        self.failures = 0;
    }
}

/// Probes a gateway until `stop`, which also cancels the current probe.
///
/// `cluster` is the name of the target cluster, for logs. Probes never overlap: if one takes longer than
/// the period, the next follows immediately. `Target` limits the timeout to the period, so a gateway that does not
/// respond is dead after about `threshold × period`.
pub async fn run(
    cluster: &str,
    target: ProbeTarget,
    settings: &Probe,
    sink: impl Fn(ProbeReport),
    stop: CancellationToken,
) {
    let work = work(cluster, target, settings, sink);
    stop.run_until_cancelled(work).await;
}

async fn work(cluster: &str, target: ProbeTarget, settings: &Probe, sink: impl Fn(ProbeReport)) {
    let mut changes = target.address.clone();
    let mut tracker = Tracker::default();
    let mut trouble = Trouble::new(format!("probe the gateway of {cluster}"));
    let mut next = Instant::now();
    let mut former = None;
    loop {
        sleep_until(next).await;
        let known = changes.wait_for(Option::is_some).await;
        let Some(address) = known.ok().and_then(|known| known.clone()) else {
            return; // the sender was dropped: no address will come
        };
        if former.as_ref() != Some(&address) {
            tracker.on_new_address();
            former = Some(address.clone());
        }
        let start = Instant::now();
        next = start + settings.period + jitter(settings.period / 10);
        let probed = probe(&target, &address, settings.timeout);
        let result = tokio::select! {
            result = timeout(settings.timeout, probed) => result,
            Ok(()) = changes.changed() => {
                next = start; // the result for the old address does not matter
                continue;
            }
        };
        let latency = start.elapsed();
        let result = result.unwrap_or_else(|_| {
            let limit = settings.timeout;
            Err(anyhow::anyhow!("timed out after {limit:?}"))
        });
        if let Err(error) = &result {
            sink(ProbeReport::Failed(format!("{error:#}")));
        }
        let transition = tracker.on_result(result.is_ok(), settings.threshold);
        if let Some(liveness) = transition {
            tracing::info!(cluster, ?liveness, "gateway state changed");
            sink(ProbeReport::Transition(liveness));
        }
        match result {
            Ok(body) => {
                trouble.clear();
                sink(ProbeReport::Latency(latency));
                let _ = timeout(BODY_TIME, Limited::new(body, BODY).collect()).await;
            }
            Err(error) => {
                trouble.set(&format!("{error:#}"));
                if error.is::<ByProxy>() && tracker.is_proxy_to_forget() {
                    next = next.max(Instant::now() + FORGOTTEN);
                }
            }
        }
    }
}

/// A failure that Linkerd's proxy in this cluster reports.
#[derive(Debug, thiserror::Error)]
#[error("the proxy returned status {0}")]
struct ByProxy(u16);

/// Sends one probe. Only status 200 is a success. Returns the body, which is not read yet.
async fn probe(
    target: &ProbeTarget,
    address: &str,
    connect: Duration,
) -> anyhow::Result<ProbeBody> {
    let uri = Uri::builder()
        .scheme("http")
        .authority(address)
        .path_and_query(&*target.path)
        .build()
        .context("invalid address or path")?;
    let request = Request::get(uri)
        .header(
            http::header::HOST,
            target.host.as_deref().unwrap_or(address),
        )
        .header(http::header::CONNECTION, "close")
        .header(http::header::USER_AGENT, "linkerd-mc")
        .body(Empty::new())
        .context("invalid address or path")?;
    let response = target.transport.probe(request, connect).await?;
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
