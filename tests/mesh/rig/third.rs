//! A third cluster, `north`, which exists only while a case needs it.

use control_plane::{ControlPlane, eventually};

use super::{
    NAMESPACE, Rig, Trust,
    cluster::{Cluster, port_of},
    pod::{Pod, PodTemplate},
    wait::SOON,
    workloads,
};

/// Its name, and that of its Link.
pub(crate) const NORTH: &str = "north";
/// The name of its gateway.
pub(super) const GATEWAY_NAME: &str = "gateway.north.example";

/// A cluster with a gateway and one Pod, the member of the federated Service.
pub(crate) struct Third {
    pub(crate) pods: Vec<Pod>,
    pub(crate) gateway: Pod,
    pub(crate) cluster: Cluster,
    /// Number of the next Pod.
    next_pod: u8,
}

impl Third {
    /// Starts it, and replaces the controller of `west` by one that can reach its API server.
    pub(crate) async fn start(rig: &mut Rig) -> anyhow::Result<Self> {
        let plane = ControlPlane::start(NORTH).await?;
        let mut cluster =
            Cluster::start(&rig.west.place, plane, 3, (&rig.root, Trust::Common)).await?;
        cluster.install().await?;
        // For a moment after the CRD was made, Links cannot be listed.
        let links = ["get", "links.multicluster.linkerd.io", "--all-namespaces"];
        eventually("Links to be served", SOON, async || {
            cluster.plane.kubectl(&links).await.map(Some)
        })
        .await?;
        cluster.apply(&workloads::accounts()).await?;
        cluster.apply(&workloads::member()).await?;
        let gateway = cluster.start_gateway(GATEWAY_NAME).await?;
        rig.source.dns.know(GATEWAY_NAME, gateway.address);
        let template = PodTemplate::app(NAMESPACE, "web-north", "web");
        let pods = vec![Pod::start(&mut cluster, template, &[]).await?];

        let port = port_of(cluster.plane.url())?;
        rig.west.open(port).await?;
        rig.replace_controller().await?;
        Ok(Self {
            pods,
            gateway,
            cluster,
            next_pod: 1,
        })
    }

    /// Starts another Pod, which is not among [`Self::pods`] yet.
    pub(super) async fn start_pod(&mut self) -> anyhow::Result<Pod> {
        let name = format!("web-north-{}", self.next_pod);
        self.next_pod += 1;
        let template = PodTemplate::app(NAMESPACE, &name, "web");
        Pod::start(&mut self.cluster, template, &[]).await
    }

    /// Links `west` to it: it takes part in federated Services through its gateway.
    pub(crate) async fn link(&self, rig: &Rig) -> anyhow::Result<()> {
        let address = format!("--api-server-address={}", self.cluster.plane.url());
        let link = [
            "link-gen",
            "--cluster-name",
            NORTH,
            &address,
            "--federated-through=gateway",
        ];
        rig.west.apply(&self.cluster.linkerd_mc(&link)?).await?;
        rig.is_ready(NORTH).await
    }
}
