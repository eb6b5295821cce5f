//! The configuration of Linkerd, with what to do if it cannot be read.

use client::{Cluster, ReadErrorKind};
use hints::hint::{caused, fail};
use mirror_core::api::{labels::LINKERD_CONFIG, link::LinkerdConfig};
use observe::clusters::target::linkerd_config as read_config;

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
