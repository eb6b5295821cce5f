//! What a cluster needs to use Services of others: a name server, our controller, and a client.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::{
    NAMESPACE,
    cluster::Cluster,
    controller::{Controller, OURS},
    dns::Dns,
    pod::{Pod, PodTemplate},
};
use crate::{oracle::Oracle, requests::Client};

/// The parts of a source cluster.
pub(crate) struct SourceParts {
    /// Sends requests from [`Self::client_pod`].
    pub(crate) client: Client,
    /// The endpoints that the client's proxy has for a Service.
    pub(crate) oracle: Oracle,
    pub(crate) client_pod: Pod,
    pub(crate) controller: Controller,
    pub(crate) dns: Dns,
}

impl SourceParts {
    /// Starts them. The name server knows these names, of gateways.
    pub(super) async fn start(
        cluster: &mut Cluster,
        names: BTreeMap<String, Ipv4Addr>,
    ) -> anyhow::Result<Self> {
        let dns = Dns::start(cluster.network.gateway(), names).await?;
        let template = PodTemplate::app(NAMESPACE, "client", "client");
        let client_pod = Pod::start(cluster, template, &[]).await?;
        Ok(Self {
            client: Client::start(&client_pod)?,
            oracle: Oracle::new(client_pod.proxy.log()),
            client_pod,
            controller: Controller::start(cluster, OURS).await?,
            dns,
        })
    }

    /// The end of the controller's log, for an error.
    pub(super) fn last_words(&self) -> String {
        format!(
            "the controller's log ends with:\n{}",
            self.controller.last_words()
        )
    }
}
