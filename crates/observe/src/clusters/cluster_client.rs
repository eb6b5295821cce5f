//! A cluster that commands send requests to: the user's name for it, its identity, and its client.

use std::time::Duration;

use client::{Access, IdentifiedCluster, Identity};
use futures::{StreamExt as _, stream};
use hints::suggest::ClusterFlags;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _};

use super::snapshot::Known;

/// How long the API server keeps a watch open. A dead connection is detected after this time.
pub const WATCH: Duration = Duration::from_secs(60);

/// A context of the kubeconfig, with the client of its cluster, or the reason why there is none.
pub struct KubeContext {
    /// Its name in the kubeconfig.
    pub name: String,
    /// The client, or why there is none.
    pub client: Known<ClusterClient>,
    /// Flags with which other commands use the same cluster.
    pub flags: ClusterFlags,
}

/// A cluster that commands send requests to.
#[derive(Clone)]
pub struct ClusterClient {
    /// What the user calls the cluster.
    pub name: String,
    /// Where its API server is.
    pub identity: Identity,
    /// Its client, for one-shot requests.
    pub client: Client,
    /// Flags with which other commands use the same cluster.
    pub flags: ClusterFlags,
    /// Timeout of a request, and of all requests to one target cluster together.
    pub deadline: Duration,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
}

impl ClusterClient {
    /// Creates the client of a cluster. Sends no request.
    pub async fn new(name: &str, access: &Access, deadline: Duration) -> anyhow::Result<Self> {
        let config = access.config()?;
        let identity = Identity::of(&config);
        Ok(Self {
            name: name.to_owned(),
            identity,
            client: Box::pin(access.client_of(config, deadline)).await?,
            flags: access.flags(),
            deadline,
            linkerd_namespace: access.linkerd_namespace.clone(),
        })
    }

    /// Asks which cluster it is.
    pub async fn identify(&self) -> IdentifiedCluster {
        IdentifiedCluster {
            identity: self.identity.clone(),
            uid: kube_system_uid(&self.client).await.ok().flatten(),
        }
    }
}

/// How many clusters are asked side by side.
const SIDE_BY_SIDE: usize = 16;

/// Asks clusters side by side, not too many at the same time. The answers are in the order of the questions.
pub async fn side_by_side<F: Future>(questions: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    stream::iter(questions)
        .buffered(SIDE_BY_SIDE)
        .collect()
        .await
}

/// The UID of the Namespace kube-system, which no other cluster has; `None` if there is none.
pub async fn kube_system_uid(client: &Client) -> kube::Result<Option<String>> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get_metadata_opt("kube-system").await?;
    Ok(found.and_then(|namespace| namespace.uid()))
}
