//! Runs commands that send requests to clusters.

use anyhow::Context as _;
pub use client::Cluster;
use client::ReadErrorKind;
use hints::hint::{caused, fail};
use mirror_core::api::{labels::LINKERD_CONFIG, link::LinkerdConfig};
use observe::clusters::target::linkerd_config as read_config;

/// Runs a command that sends requests. Other commands start no runtime.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let result = runtime.block_on(command);
    // A name lookup that nobody waits for any more must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Linkerd's configuration in a cluster. Fails when Linkerd is not installed.
pub async fn linkerd_config(cluster: &Cluster, namespace: &str) -> anyhow::Result<LinkerdConfig> {
    let read = read_config(&cluster.client, namespace).await;
    read.map_err(|why| match why.kind {
        ReadErrorKind::NotFound => fail(
            format!("ConfigMap {LINKERD_CONFIG} not found in namespace {namespace:?}"),
            "install Linkerd first, or pass its namespace with --linkerd-namespace",
        ),
        ReadErrorKind::Other => {
            let upgrade = cluster.flags.linkerd("upgrade", &[]);
            let upgrade = upgrade.piped(&cluster.flags.kubectl("apply -f -", &[]));
            let check = cluster.flags.linkerd("check", &[]);
            caused(
                "cannot use Linkerd's configuration",
                format!("run {check}, and repair it with {upgrade}"),
                why,
            )
        }
        _ => cluster.failed("read Linkerd's configuration", why),
    })
}
