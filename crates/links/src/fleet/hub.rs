//! Reads the ClusterProfiles of a hub.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use client::{Access, Cluster, requests::is_served};
use hints::hint::fail;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    config::Kubeconfig,
};
use manifests::link::ClusterName;

use crate::{
    fleet::profiles::{CredentialPlugin, ProfiledCluster, profiled},
    fleet_file::ProfileQuery,
};

/// A cluster of a hub: its profile, and a kubeconfig for it, or why there is none.
pub struct HubCluster {
    /// Namespace and name of the profile.
    profile: String,
    /// Its context in the kubeconfig.
    pub context: String,
    pub kubeconfig: Arc<Result<Kubeconfig, String>>,
}

/// The clusters whose profiles a query names, by name. One that is not healthy is said, and used all the same.
pub async fn hub_clusters(
    all: &Access,
    folder: &Path,
    query: &ProfileQuery,
    plugins: &[CredentialPlugin],
) -> anyhow::Result<BTreeMap<ClusterName, HubCluster>> {
    let own = query.kubeconfig.as_ref().map(|path| folder.join(path));
    let access = all.with_context(&query.context);
    let access = access.with_kubeconfig_of_fleet(own);
    let cluster = Cluster::connect(&access).await?;
    let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile");
    let kind = ApiResource::from_gvk_with_plural(&kind, "clusterprofiles");
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), &query.namespace, &kind);
    let selector = query.selector.as_deref().unwrap_or_default();
    let params = ListParams::default().labels(selector);
    let served = is_served(&cluster.client, &kind.api_version, &kind.kind);
    if !cluster.request("list the API resources", served).await? {
        return Err(fail(
            format!(
                "the hub {} has no ClusterProfiles: there is no CRD of them",
                cluster.name
            ),
            format!(
                "install that of the cluster inventory API ({}), or correct the hub",
                kind.api_version
            ),
        ));
    }
    let list = cluster.request("list the ClusterProfiles", api.list(&params));
    let found = list.await?.items;
    let found = found.iter().map(|object| profiled(object, plugins));
    by_name(&cluster, found.collect(), query)
}

fn by_name(
    hub: &Cluster,
    found: Vec<ProfiledCluster>,
    query: &ProfileQuery,
) -> anyhow::Result<BTreeMap<ClusterName, HubCluster>> {
    let mut clusters: BTreeMap<ClusterName, HubCluster> = BTreeMap::new();
    for cluster in found {
        let profile = &cluster.profile;
        let name = cluster.name.ok_or_else(|| {
            fail(
                format!("no name of a cluster can be made of the ClusterProfile {profile}"),
                "leave it out with selector, and give this cluster an entry with name and context",
            )
        })?;
        if let Some(why) = &cluster.unhealthy {
            hub.console.warning(&format!(
                "{name}: the control plane is not healthy, says the ClusterProfile {profile}: {why}"
            ));
        }
        let own = HubCluster {
            profile: profile.clone(),
            context: cluster.context,
            kubeconfig: Arc::new(cluster.kubeconfig),
        };
        if let Some(other) = clusters.insert(name.clone(), own) {
            return Err(fail(
                format!(
                    "the clusters of the ClusterProfiles {} and {profile} are both called {name}",
                    other.profile
                ),
                "leave one of them out with selector, and give its cluster an entry with name and context",
            ));
        }
    }
    if clusters.is_empty() {
        return Err(fail(
            format!(
                "no ClusterProfile is selected in the namespace {}",
                query.namespace
            ),
            format!(
                "{} lists all",
                hub.flags.kubectl(
                    "get clusterprofiles.multicluster.x-k8s.io -n {}",
                    &[&query.namespace]
                )
            ),
        ));
    }
    Ok(clusters)
}
