//! A cluster that can be asked: what the user calls it, where it is, and its client.

use std::time::Duration;

use kube::{Client, Config};

use super::snapshot::Known;
use crate::client::{Access, Identity, build};

/// How long the API server keeps a watch open, and thus how long a dead one is taken for a silent one.
pub const WATCH: Duration = Duration::from_secs(60);

/// A context of the kubeconfig, and the client of its cluster or why there is none.
pub struct KubeContext {
    /// Its name.
    pub name: String,
    /// The client.
    pub client: Known<ClusterClient>,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct ClusterClient {
    /// What the user calls the cluster.
    pub name: String,
    /// Where its API server is.
    pub identity: Identity,
    /// Its client, for one-shot requests.
    pub client: Client,
    config: Config,
    /// Time limit of a request, and of all requests to one target cluster together.
    pub deadline: Duration,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
}

impl ClusterClient {
    /// Prepares to ask a cluster. Sends nothing yet.
    pub async fn new(
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

    /// A client whose requests may be silent for as long as a watch may.
    pub fn watch_client(&self) -> anyhow::Result<Client> {
        build(self.config.clone(), WATCH + self.deadline)
    }
}
