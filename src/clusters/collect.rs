//! Takes the [`ClusterSnapshot`] of a cluster: its Links, their credentials, and Linkerd's configuration. Reads only.
//!
//! Requests run concurrently, and each ends within the client's deadline. So a cluster that does not respond delays the
//! result by one deadline in all, not by one for each request.

use futures::{StreamExt as _, future::join_all, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    cluster_client::{ClusterClient, KubeContext},
    snapshot::{ClusterSnapshot, Known, LinkCredentials, LinkSnapshot},
    target::{self, linkerd_config},
};
use crate::{
    api::{
        labels,
        link::{Link, LinkObject},
        metadata::ResourceId,
    },
    client::{
        credentials_expiry, credentials_identity, insecure_tls,
        requests::{explain, list_all},
        token_fingerprint,
    },
};

/// Maximum number of Links that are examined concurrently.
const LINKS_AT_ONCE: usize = 32;

/// What to read of each Link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only the Links.
    Links,
    /// Also the credentials Secrets.
    Credentials,
    /// Also the target clusters, with these credentials.
    Targets,
}

/// Takes the snapshots of all clusters concurrently.
pub(crate) async fn snapshots_of(contexts: &[KubeContext], depth: Depth) -> Vec<ClusterSnapshot> {
    join_all(contexts.iter().map(async |context| match &context.client {
        Ok(cluster) => snapshot_of(cluster, depth).await,
        Err(why) => ClusterSnapshot::unreachable(&context.name, why),
    }))
    .await
}

/// Takes the snapshot of one cluster.
pub(crate) async fn snapshot_of(cluster: &ClusterClient, depth: Depth) -> ClusterSnapshot {
    let (links, config) = futures::join!(
        links(cluster, depth),
        linkerd_config(&cluster.client, &cluster.linkerd_namespace)
    );
    ClusterSnapshot {
        name: cluster.name.clone(),
        identity: cluster.identity.clone(),
        links,
        config,
    }
}

async fn links(cluster: &ClusterClient, depth: Depth) -> Known<Vec<LinkSnapshot>> {
    let mut links: Vec<LinkObject> = list_all(&Api::all(cluster.client.clone()), "")
        .await
        .map_err(|error| explain(&error))?;
    links.sort_by_cached_key(|object| ResourceId::of(&object.link));
    // Unordered, so that a target cluster that does not respond does not delay the others.
    let mut snapshots: Vec<_> = stream::iter(links.into_iter().enumerate())
        .map(async |(at, link)| (at, link_snapshot(cluster, depth, link).await))
        .buffer_unordered(LINKS_AT_ONCE)
        .collect()
        .await;
    snapshots.sort_by_key(|(at, _)| *at);
    Ok(snapshots
        .into_iter()
        .map(|(_, snapshot)| snapshot)
        .collect())
}

async fn link_snapshot(cluster: &ClusterClient, depth: Depth, object: LinkObject) -> LinkSnapshot {
    let LinkObject { link, unreadable } = object;
    let mut snapshot = LinkSnapshot {
        link,
        unreadable,
        credentials: None,
        target: None,
    };
    if depth == Depth::Links || snapshot.unreadable.is_some() {
        return snapshot;
    }
    match kubeconfig_of(cluster, &snapshot.link).await {
        Err(why) => snapshot.credentials = Some(Err(why)),
        Ok(kubeconfig) => {
            let identity = credentials_identity(&kubeconfig).await;
            let expiry = credentials_expiry(&kubeconfig);
            let token = token_fingerprint(&kubeconfig);
            let insecure = insecure_tls(&kubeconfig);
            snapshot.credentials = Some(
                identity
                    .map(|identity| LinkCredentials {
                        identity,
                        expiry,
                        token,
                        insecure,
                    })
                    .map_err(|error| error.to_string()),
            );
            if depth == Depth::Targets {
                let namespace = &snapshot.link.spec.target_cluster_linkerd_namespace;
                snapshot.target =
                    Some(target::target_snapshot(&kubeconfig, namespace, cluster.deadline).await);
            }
        }
    }
    snapshot
}

/// The kubeconfig in a Link's credentials Secret. The error contains nothing of it.
async fn kubeconfig_of(cluster: &ClusterClient, link: &Link) -> Known<Vec<u8>> {
    let name = &link.spec.cluster_credentials_secret;
    let namespace = link.metadata.namespace.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err("the Link names no credentials Secret".to_owned());
    }
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
    let secret = api
        .get(name)
        .await
        .map_err(|error| format!("cannot read Secret {namespace}/{name}: {}", explain(&error)))?;
    secret
        .data
        .and_then(|mut data| data.remove(labels::KUBECONFIG_KEY))
        .map(|kubeconfig| kubeconfig.0)
        .ok_or_else(|| {
            format!(
                "Secret {namespace}/{name} has no key {}",
                labels::KUBECONFIG_KEY
            )
        })
}
