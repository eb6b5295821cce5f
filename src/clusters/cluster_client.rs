//! A cluster that commands send requests to: the user's name for it, its identity, and its client.

use std::time::Duration;

use kube::{Client, Config};

use super::snapshot::Known;
use crate::client::{Access, Identity, build};

/// How long the API server keeps a watch open. A dead connection is detected after this time.
pub(crate) const WATCH: Duration = Duration::from_secs(60);

/// A context of the kubeconfig, with the client of its cluster, or the reason why there is none.
pub(crate) struct KubeContext {
    /// Its name.
    pub name: String,
    /// The client.
    pub client: Known<ClusterClient>,
}

/// A cluster that commands send requests to.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    /// What the user calls the cluster.
    pub name: String,
    /// Where its API server is.
    pub identity: Identity,
    /// Its client, for one-shot requests.
    pub client: Client,
    config: Config,
    /// Timeout of a request, and of all requests to one target cluster together.
    pub deadline: Duration,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
}

impl ClusterClient {
    /// Creates the client of a cluster. Sends no request.
    pub(crate) async fn new(
        name: &str,
        access: &Access,
        deadline: Duration,
        linkerd_namespace: &str,
    ) -> anyhow::Result<Self> {
        let config = access.config().await?;
        Ok(Self {
            name: name.to_owned(),
            identity: Identity::of(&config),
            client: build(config.clone(), deadline)?,
            config,
            deadline,
            linkerd_namespace: linkerd_namespace.to_owned(),
        })
    }

    /// A client for watches: its timeouts are long enough for a watch without events.
    pub(crate) fn watch_client(&self) -> anyhow::Result<Client> {
        build(self.config.clone(), WATCH + self.deadline)
    }
}
