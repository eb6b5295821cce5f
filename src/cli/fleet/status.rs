//! `fleet status`: reads how the links of a fleet are doing.

use std::time::Duration;

use super::{
    loaded::{LoadedFleet, named},
    states::{ClusterStates, FleetReport},
};
use crate::{
    cli::{common::args::Global, version::all_controllers},
    client::Access,
    clusters::{
        cluster_client::{ClusterClient, KubeContext, side_by_side},
        collect::{Depth, snapshots_of},
    },
    manifests::link::ClusterName,
};

/// Reads all clusters of the file side by side.
pub(super) async fn report(
    global: &Global,
    loaded: &LoadedFleet,
    timeout: Duration,
) -> FleetReport {
    let all = global.access();
    let clusters = &loaded.fleet.clusters;
    let contexts = clusters.iter().map(async |cluster| {
        let access = loaded.access(&all, cluster);
        let client = client(&access, &cluster.name, timeout, &loaded.linkerd).await;
        KubeContext {
            name: cluster.name.to_string(),
            client: client.map_err(|error| format!("{error:#}")),
            flags: access.flags(),
        }
    });
    let contexts = side_by_side(contexts).await;
    let (snapshots, controllers) = futures::join!(
        snapshots_of(&contexts, Depth::Links),
        all_controllers(&contexts)
    );
    let names = clusters.iter().map(|cluster| cluster.name.clone());
    let versions = controllers.into_iter().filter_map(|row| {
        let is_own = row.namespace.as_deref() == Some(&loaded.namespace);
        Some((
            row.context.parse::<ClusterName>().ok()?,
            row.version.filter(|_| is_own)?,
        ))
    });
    let known = ClusterStates {
        snapshots: names.zip(snapshots).collect(),
        versions: versions.collect(),
    };
    FleetReport::of(loaded, &known)
}

async fn client(
    access: &Access,
    name: &ClusterName,
    timeout: Duration,
    linkerd: &str,
) -> anyhow::Result<ClusterClient> {
    let access = named(access, name)?;
    ClusterClient::new(&name.to_string(), &access, timeout, linkerd).await
}
