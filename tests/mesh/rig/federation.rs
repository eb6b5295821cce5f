//! How the federated Service spans the clusters: the form in which `east` takes part, and which clusters are preferred.

use std::time::Duration;

use control_plane::eventually;
use tokio::time::sleep;

use super::{NAMESPACE, Rig, cluster::EXTENSION, mirrors::FEDERATED};
use crate::{requests::get, rig::mirrors::FOLLOWS};

/// The metric of a proxy that counts its requests by route and backend.
const BY_ROUTE: &str = "outbound_http_route_backend_requests_total{";
/// Time for a few requests of a load.
const GLANCE: Duration = Duration::from_millis(200);

/// How a cluster takes part in federated Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Gateway,
    Discovery,
}

impl Rig {
    /// Sets the form in which `east` takes part in federated Services.
    pub(crate) async fn federate_through(&self, form: Form) -> anyhow::Result<()> {
        let through = match form {
            Form::Gateway => "gateway",
            Form::Discovery => "discovery",
        };
        let annotation = format!("multicluster.linkerd.io/federated-through={through}");
        let link = ["links.multicluster.linkerd.io", "east", "-n", EXTENSION];
        let annotate = [&["annotate", "--overwrite"], &link[..], &[&annotation]].concat();
        self.west.plane.kubectl(&annotate).await.map(|_| ())
    }

    /// Sets or removes the preference of the local member.
    pub(crate) async fn prefer(&self, preference: Option<&str>) -> anyhow::Result<()> {
        let annotation = "multicluster.linkerd.io/prefer";
        let annotation = match preference {
            Some(preference) => format!("{annotation}={preference}"),
            None => format!("{annotation}-"),
        };
        let service = ["service", "web", "-n", NAMESPACE];
        let annotate = [&["annotate", "--overwrite"], &service[..], &[&annotation]].concat();
        self.west.plane.kubectl(&annotate).await.map(|_| ())
    }

    /// Waits until the client's proxy sends requests by the route of the federated Service. Answers do not show it: without
    /// the route, a balancer may also prefer a local Pod for minutes. It needs a load.
    pub(crate) async fn follows_route(&self) -> anyhow::Result<()> {
        eventually("requests to follow the route", FOLLOWS, async || {
            let before = self.requests_by_route().await?;
            sleep(GLANCE).await;
            Ok((self.requests_by_route().await? > before).then_some(()))
        })
        .await
    }

    /// How many requests the client's proxy has sent by the route of the federated Service.
    async fn requests_by_route(&self) -> anyhow::Result<f64> {
        let admin = format!("{}:4191", self.source.client_pod.address);
        let (_, metrics) = get(&admin, "/metrics").await?;
        let route = format!("route_name=\"{FEDERATED}-");
        let counts = metrics
            .lines()
            .filter(|line| line.starts_with(BY_ROUTE) && line.contains(&route))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(counts.sum())
    }
}
