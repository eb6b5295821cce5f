//! The three clusters: starts them, prepares them like clusters with Linkerd, and links them.

use std::time::Duration;

use anyhow::Context as _;
use control_plane::{Assets, ControlPlane, LinkerdOptions, eventually};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use linkerd_mc::api::{labels, link::Link};
use serde_json::json;
use tokio::{task::spawn_blocking, try_join};

use crate::{progress::Progress, tools::Tools};

/// Namespace of the sample application.
pub(crate) const SHOP: &str = "shop";
const SAMPLES: &str = include_str!("shop.yaml");
/// Timeout for anything that the clusters do by themselves.
const SOON: Duration = Duration::from_secs(60);

/// The running clusters. They end when this process ends, even if it is killed.
pub(crate) struct Clusters {
    east: ControlPlane,
    north: ControlPlane,
    west: ControlPlane,
}

impl Clusters {
    /// Starts the clusters at the same time.
    pub(crate) async fn start(progress: &Progress) -> anyhow::Result<Self> {
        // `cargo run --example playground` has already built Kubernetes. `cargo run --example clusters` builds it here.
        // The build prints its own progress.
        spawn_blocking(Assets::locate).await??;
        let start = async {
            let (east, north, west) = try_join!(
                ControlPlane::start("east"),
                ControlPlane::start("north"),
                ControlPlane::start("west"),
            )?;
            Ok(Self { east, north, west })
        };
        progress
            .step(
                "etcd, kube-apiserver, controller-manager: east, north, west",
                start,
            )
            .await
    }

    /// The cluster that gets the mirrors.
    pub(crate) fn west(&self) -> &ControlPlane {
        &self.west
    }

    /// All clusters, `west` first.
    pub(crate) fn all(&self) -> [&ControlPlane; 3] {
        [&self.west, &self.east, &self.north]
    }

    pub(crate) fn named(&self, name: &str) -> anyhow::Result<&ControlPlane> {
        let found = self.all().into_iter().find(|plane| plane.name() == name);
        found.with_context(|| format!("there is no cluster {name}"))
    }

    /// Adds to each cluster the objects of Linkerd, of linkerd-mc and of the sample application.
    pub(crate) async fn prepare(&self, progress: &Progress, tools: &Tools) -> anyhow::Result<()> {
        let install = async |number, plane: &ControlPlane| {
            plane.linkerd(&LinkerdOptions::default()).await?;
            plane.install_gateway_api().await?;
            let routes = ["install", "--set=federation.routes=true"];
            tools.apply(plane.name(), &routes, plane.name()).await?;
            give_gateway_address(plane, number).await?;
            run_deployments(plane).await
        };
        let [west, east, north] = self.all();
        let installed = async { try_join!(install(1, west), install(2, east), install(3, north)) };
        progress
            .step(
                "linkerd-mc install | kubectl apply -f -, in each of them",
                installed,
            )
            .await?;

        let fill = async |number, plane: &ControlPlane| {
            tools
                .apply_text(plane.name(), &format!("{}.yaml", plane.name()), SAMPLES)
                .await?;
            run_pods(plane, number).await?;
            await_endpoints(plane).await
        };
        let filled = async { try_join!(fill(1, west), fill(2, east), fill(3, north)) };
        progress
            .step("kubectl apply -f shop.yaml, in each of them", filled)
            .await?;
        Ok(())
    }

    /// Links `west` to `east` and `north`.
    pub(crate) async fn link(&self, progress: &Progress, tools: &Tools) -> anyhow::Result<()> {
        let link = async |cluster: &str, flag: &[&str]| {
            let arguments = [&["link-gen", "--cluster-name", cluster], flag].concat();
            tools.apply(cluster, &arguments, "west").await
        };
        let linked = async {
            try_join!(
                link("east", &["--enable-headless-services"]),
                link("north", &[])
            )
        };
        progress
            .step(
                "linkerd-mc link-gen | kubectl apply -f -, of east and north in west",
                linked,
            )
            .await?;
        Ok(())
    }

    /// Waits until the Links of `west` are ready and their gateways are alive.
    pub(crate) async fn linked(&self) -> anyhow::Result<()> {
        let links = Api::<Link>::namespaced(self.west.client(), labels::MULTICLUSTER_NAMESPACE);
        eventually(
            "both Links to be Ready with a gateway that is alive",
            SOON,
            async || {
                let links = links.list(&ListParams::default()).await?;
                let good = |link: &&Link| {
                    ["Ready", "GatewayAlive"].iter().all(|type_| {
                        let conditions = link.status.iter().flat_map(|status| &status.conditions);
                        conditions
                            .filter(|c| c.type_ == *type_)
                            .any(|c| c.status == "True")
                    })
                };
                Ok((links.iter().filter(good).count() == 2).then_some(()))
            },
        )
        .await
    }
}

/// Sets the gateway's address, as the load balancer of a cloud does.
async fn give_gateway_address(plane: &ControlPlane, number: u8) -> anyhow::Result<()> {
    let address = format!("192.0.2.{number}");
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } });
    Api::<Service>::namespaced(plane.client(), labels::MULTICLUSTER_NAMESPACE)
        .patch_status(
            labels::GATEWAY_NAME,
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await
        .context("failed to give the gateway an address")?;
    Ok(())
}

/// Writes the status of the extension's Deployments, as if their Pods ran: the controller runs as a process of its own.
async fn run_deployments(plane: &ControlPlane) -> anyhow::Result<()> {
    let deployments = Api::<Deployment>::namespaced(plane.client(), labels::MULTICLUSTER_NAMESPACE);
    for deployment in deployments.list(&ListParams::default()).await? {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let replicas = replicas.unwrap_or(1);
        let status = json!({ "status": {
            "observedGeneration": deployment.metadata.generation,
            "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
        } });
        deployments
            .patch_status(
                &deployment.name_any(),
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .context("failed to make the Deployments available")?;
    }
    Ok(())
}

/// Writes the status of Pods, as the kubelet does: they run, and have addresses.
async fn run_pods(plane: &ControlPlane, number: u8) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(plane.client(), SHOP);
    for (index, pod) in pods.list(&ListParams::default()).await?.iter().enumerate() {
        let address = format!("10.42.{number}.{}", index + 1);
        let status = json!({ "status": {
            "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        pods.patch_status(
            &pod.name_any(),
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await
        .context("failed to make the Pods run")?;
    }
    Ok(())
}

/// Waits until each Pod is an endpoint, so that times measured later include only the mirroring.
async fn await_endpoints(plane: &ControlPlane) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(plane.client(), SHOP);
    let slices = Api::<EndpointSlice>::namespaced(plane.client(), SHOP);
    eventually(
        "the endpoints of the sample application",
        SOON,
        async || {
            let pods = pods.list(&ListParams::default()).await?.items.len();
            let slices = slices.list(&ListParams::default()).await?;
            let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
            let ready =
                endpoints.filter(|e| e.conditions.as_ref().and_then(|c| c.ready) == Some(true));
            Ok((ready.count() == pods).then_some(()))
        },
    )
    .await
}
