//! Starts the parts of the controller, and stops them in the right order.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, bail};
use kube::Client;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    admin,
    apply::Writer,
    engine::{self, Health, Settings},
    gateway_exports::{self, ExportGateway},
    lease::{self, Fence, LeaseSettings},
    local,
    metrics::Metrics,
    networks,
    route_versions::RouteVersions,
};

/// The options of `run-controller`.
pub struct Options {
    /// The settings of the engine.
    pub settings: Settings,
    /// Address that serves `/metrics`, `/ready`, `/live` and `/ping`.
    pub admin: SocketAddr,
    /// The IP address of the API server, if the client uses one.
    pub server: Option<IpAddr>,
    /// The gateway of this cluster, if it forwards only what is exported.
    pub export_gateway: Option<ExportGateway>,
    /// The lease that has to be held for writes; `None` if this is the only replica.
    pub lease: Option<LeaseSettings>,
    /// The commit that the program was built from; empty if that is not known.
    pub commit: &'static str,
}

/// Runs the controller until `stop`. Fails if the lease is lost, or if a part ends that must not end. Then the process
/// has to be restarted.
///
/// On `stop`, current writes are cancelled, the lease is released, and everything ends within seconds.
pub async fn run(client: Client, options: Options, stop: CancellationToken) -> anyhow::Result<()> {
    let Options {
        settings,
        admin,
        server,
        export_gateway,
        lease,
        commit,
    } = options;
    let metrics = Metrics::new(commit);
    let health = Health::default();
    let admin = admin::bind(admin).await?;
    tracing::info!(address = %admin.local_addr(), "started the admin server");
    let closing = CancellationToken::new();
    let served = tokio::spawn(admin.serve(
        health.ready.clone(),
        health.alive.clone(),
        metrics.clone(),
        closing.clone(),
    ));
    let (outbox, inbox) = engine::local_channel();
    let routes = RouteVersions::default();
    let mut watches = local::watch_local(
        &client,
        &settings.config,
        &metrics,
        &outbox,
        inbox.needed.subscribe(),
        &routes,
    );
    watches.spawn(networks::run(client.clone(), server, outbox));
    let (elect, elected) = oneshot::channel();
    let (elect_too, elected_too) = oneshot::channel();
    if let Some(gateway) = export_gateway {
        watches.spawn(gateway_exports::run(client.clone(), gateway, elected_too));
    }
    let elect = |fence: Fence| {
        // Without such a gateway, nobody listens.
        let _ = elect_too.send(fence.clone());
        let _ = elect.send(fence);
    };
    let writer = Writer {
        client: client.clone(),
        routes,
        fence: Fence::closed(),
        metrics: metrics.clone(),
    };
    let engine = engine::run(settings, writer, inbox, elected, &health, &stop);
    // Only as long as the engine runs: watches end with it, and that must not interrupt the release of the lease.
    let watched = Box::pin(async {
        tokio::select! {
            ended = engine => ended,
            _ = watches.join_next() => bail!("a watch of the local cluster has ended"),
        }
    });
    // The engine, and with it all writes, ends before the lease is released.
    let ended = lead(client, lease, elect, watched, &metrics, &stop).await;
    watches.shutdown().await;
    closing.cancel();
    served.await.context("the admin server failed")?;
    ended
}

/// Runs the engine, and concurrently the election that permits it to write.
async fn lead(
    client: Client,
    lease: Option<LeaseSettings>,
    elect: impl FnOnce(Fence),
    engine: impl Future<Output = anyhow::Result<()>>,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(settings) = lease else {
        metrics.leader(true);
        elect(Fence::always());
        return engine.await;
    };
    metrics.leader(false);
    tokio::pin!(engine);
    let acquired = tokio::select! {
        acquired = lease::acquire(client, settings, stop.clone()) => acquired?,
        ended = &mut engine => return ended,
    };
    let Some(mut leadership) = acquired else {
        return engine.await;
    };
    metrics.leader(true);
    elect(leadership.fence());
    let ended = tokio::select! {
        ended = &mut engine => ended,
        why = leadership.lost() => bail!("lost the lease: {why:#}"),
    };
    metrics.leader(false);
    leadership.release().await;
    ended
}
