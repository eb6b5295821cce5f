//! The mirrors in the source cluster, and the endpoints that proxies should have for them.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::Context as _;
use control_plane::eventually;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Api, api::ListParams};

use super::{NAMESPACE, Rig, cluster::Cluster, pod::Pod, wait::SOON, workloads::PORT};
use crate::{
    helper::APP_PORT,
    load::{Load, Target},
};

/// Mirrors of the Services of `east`: through the gateway, by remote discovery, and as a member.
pub(crate) const GATED: &str = "gated-east";
pub(crate) const FLAT: &str = "flat-east";
pub(crate) const FEDERATED: &str = "web-federated";
pub(crate) const MODES: [&str; 3] = [GATED, FLAT, FEDERATED];
/// The port on which the proxy of a gateway accepts requests of other clusters.
pub(crate) const GATEWAY_PORT: u16 = 4143;
/// How long a proxy may take to get a change.
pub(crate) const FOLLOWS: Duration = Duration::from_secs(45);

impl Cluster {
    /// The address of a mirror, once it exists.
    pub(crate) async fn target(&self, mirror: &str) -> anyhow::Result<Target> {
        let services = self.services(NAMESPACE);
        let what = format!("mirror {mirror} in {}", self.name());
        let address = eventually(&what, SOON, async || {
            Ok(address_of(&services.get(mirror).await?))
        })
        .await?;
        Ok(target(mirror, address))
    }
}

impl Rig {
    /// The address of a mirror in `west`, once it exists.
    pub(crate) async fn target(&self, mirror: &str) -> anyhow::Result<Target> {
        self.west.target(mirror).await
    }

    /// The mirror of the host of the newest Pod of `east`. Clients connect to the Pod's own port.
    pub(crate) async fn host(&self) -> anyhow::Result<Target> {
        let pod = self.east_pods.last().context("no Pods")?;
        let mut target = self.target(&format!("{}-east", pod.name)).await?;
        target.address.set_port(APP_PORT);
        Ok(target)
    }

    /// Starts a load on the mirrors of all modes, and counts requests from the time when all mirrors work.
    pub(crate) async fn load(&self) -> anyhow::Result<Load> {
        self.load_with(Vec::new()).await
    }

    /// Like [`Self::load`], also on these targets.
    pub(crate) async fn load_with(&self, mut targets: Vec<Target>) -> anyhow::Result<Load> {
        for mirror in MODES {
            targets.push(self.target(mirror).await?);
        }
        let right = self.proxy_is_right(FOLLOWS);
        Load::settled(&self.source.client, &targets, right).await
    }

    /// The endpoints that a proxy should have for a mirror.
    pub(crate) fn expected(&self, mirror: &str) -> BTreeSet<SocketAddr> {
        match mirror {
            GATED => gate(&self.gateway),
            FLAT => endpoints(&self.east_pods),
            _ => &endpoints(&self.east_pods) | &endpoints(&self.west_pods),
        }
    }

    /// The endpoints that a proxy should have for the federated Service while the clusters are not linked.
    pub(crate) fn expected_unlinked(&self) -> BTreeSet<SocketAddr> {
        endpoints(&self.west_pods)
    }

    /// Waits until the client's proxy has the right endpoints for the mirrors of all modes. They need a load.
    pub(crate) async fn proxy_is_right(&self, limit: Duration) -> anyhow::Result<()> {
        for mirror in MODES {
            let service = format!("{NAMESPACE}/{mirror}");
            let expected = self.expected(mirror);
            self.source
                .oracle
                .agrees(&service, &expected, limit)
                .await?;
        }
        Ok(())
    }

    /// The slices in the namespace of the mirrors.
    pub(crate) fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.west.plane.client(), NAMESPACE)
    }

    /// The ready addresses of a mirror's slices.
    pub(crate) async fn slice_addresses(&self, mirror: &str) -> anyhow::Result<Vec<String>> {
        let slices = self.slices();
        let of_it = format!("kubernetes.io/service-name={mirror}");
        let found = slices.list(&ListParams::default().labels(&of_it)).await?;
        Ok(found
            .into_iter()
            .flat_map(|slice| slice.endpoints)
            .filter(|endpoint| {
                let conditions = endpoint.conditions.as_ref();
                conditions.is_none_or(|conditions| conditions.ready != Some(false))
            })
            .flat_map(|endpoint| endpoint.addresses)
            .collect())
    }
}

/// The address of a gateway, for Pods of other clusters.
pub(super) fn gate(gateway: &Pod) -> BTreeSet<SocketAddr> {
    [(gateway.address, GATEWAY_PORT).into()].into()
}

/// The addresses on which Pods of the application accept requests.
pub(super) fn endpoints(pods: &[Pod]) -> BTreeSet<SocketAddr> {
    pods.iter()
        .map(|pod| (pod.address, APP_PORT).into())
        .collect()
}

/// A target by its mirror's name and ClusterIP.
pub(crate) fn target(mirror: &str, address: Ipv4Addr) -> Target {
    Target {
        name: mirror.to_owned(),
        address: (address, PORT).into(),
        host: format!("{mirror}.{NAMESPACE}.svc.cluster.local"),
    }
}

/// The ClusterIP of a Service, if it has one.
pub(crate) fn address_of(service: &Service) -> Option<Ipv4Addr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}
