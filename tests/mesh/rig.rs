//! The rig: `west`, which mirrors what `east` exports, with real proxies on both sides.

pub(crate) mod balancer;
pub(crate) mod cluster;
pub(crate) mod controller;
pub(crate) mod deployments;
pub(crate) mod destination;
mod dns;
pub(crate) mod exports;
pub(crate) mod federation;
pub(crate) mod full_mesh;
mod identity;
mod injector;
pub(crate) mod kubelet;
pub(crate) mod linkerd;
pub(crate) mod mirrors;
pub(crate) mod network;
pub(crate) mod pod;
mod policy;
pub(crate) mod process;
mod proxy;
mod script;
mod source;
pub(crate) mod third;
pub(crate) mod wait;
pub(crate) mod workloads;

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Context as _;
use control_plane::{ControlPlane, Fault, FaultProxy, eventually};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Service};
use kube::Api;
use serde_json::Value;
use tokio::time::sleep;

use self::{
    cluster::{Cluster, EXTENSION, port_of},
    controller::Controller,
    federation::Form,
    full_mesh::FullMesh,
    pod::{Pod, PodTemplate},
    source::SourceParts,
    wait::SOON,
};
use crate::isolation::Place;

/// Namespace of the applications in both clusters.
pub(crate) const NAMESPACE: &str = "app";
/// The name of the gateway of `east`. A name server resolves it, because load balancers often have no fixed address.
const GATEWAY_NAME: &str = "gateway.east.example";
/// The name of the gateway that leads to its API server.
const API_GATEWAY_NAME: &str = "api.east.example";

/// The cluster that `west` mirrors from, and its Link.
const EAST: &str = "east";
/// The flags of a link with the strict profile. All namespaces of the cases are allowed.
const STRICT: [&str; 3] = [
    "--profile=strict",
    "--allowed-namespaces=kubernetes.io/metadata.name",
    "--gateway-networks=10.0.0.0/8",
];
/// After this time without requests, a proxy drops its state for a Service. The proxy's own limit is 5 s.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(10);
/// The lease of our controllers.
const LEASE: &str = "service-mirror-write";

pub(crate) use cluster::condition_of;
pub(crate) use identity::{Issuer, Root, Trust, name as identity_of, name_in as identity_in};

/// Two linked clusters, and a client.
pub(crate) struct Rig {
    /// What `west` needs to use Services of others.
    pub(crate) source: SourceParts,
    /// Pods of `west`'s own member of the federated Service, and of `east`.
    pub(crate) west_pods: Vec<Pod>,
    pub(crate) east_pods: Vec<Pod>,
    /// Number of the next Pod of `east`. Names are never used twice.
    next_pod: u8,
    pub(crate) gateway: Pod,
    /// The proxy through which `west` reaches the API server of `east`.
    pub(crate) east_api: FaultProxy,
    pub(crate) west: Cluster,
    pub(crate) east: Cluster,
    /// The root certificate that proxies of all clusters trust.
    pub(crate) root: Root,
    posture: Posture,
    /// Keeps the list of what the gateway of `east` forwards to, if that is limited.
    limiter: Option<Controller>,
}

/// How much the clusters permit each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posture {
    /// What `install` and `link-gen` print without flags.
    Open,
    /// A gateway that forwards only what is exported, and a link with the strict profile.
    Strict,
}

impl Rig {
    /// Starts everything, links `west` to `east`, and waits until the Link is ready.
    pub(crate) async fn start(
        place: Arc<Place>,
        trust: Trust,
        posture: Posture,
    ) -> anyhow::Result<Self> {
        let root = Root::new()?;
        let (west, east) =
            tokio::try_join!(ControlPlane::start("west"), ControlPlane::start("east"))?;
        let mut west = Cluster::start(&place, west, 1, (&root, trust)).await?;
        let mut east = Cluster::start(&place, east, 2, (&root, trust)).await?;
        if posture == Posture::Strict {
            east.set("gateway.forward=exported");
        }
        for cluster in [&west, &east] {
            cluster.install().await?;
            cluster.apply(&workloads::accounts()).await?;
        }
        east.apply(&workloads::of_target()).await?;
        west.apply(&workloads::member()).await?;

        east.serve_api().await?;
        let east_port = port_of(east.plane.url())?;
        let limiter = if posture == Posture::Strict {
            east.open(east_port).await?;
            let limiter = Controller::start(&mut east, controller::OURS).await?;
            exports::forwards_to(&east, |to| to == "app.svc.cluster.local.").await?;
            Some(limiter)
        } else {
            None
        };
        let gateway = east.start_gateway(GATEWAY_NAME).await?;
        let mut east_pods = Vec::new();
        for number in 0..2 {
            east_pods.push(start_east_pod(&mut east, number).await?);
        }
        let template = PodTemplate::app(NAMESPACE, "web-west", "web");
        let west_pods = vec![Pod::start(&mut west, template, &[]).await?];

        let east_api = east.plane.fault_proxy()?;
        for port in [port_of(west.plane.url())?, east_api.address().port()] {
            west.open(port).await?;
        }
        let names = BTreeMap::from([(GATEWAY_NAME.to_owned(), gateway.address)]);
        let rig = Self {
            source: SourceParts::start(&mut west, names).await?,
            west_pods,
            next_pod: 2,
            east_pods,
            gateway,
            east_api,
            west,
            east,
            root,
            posture,
            limiter,
        };
        rig.link().await?;
        Ok(rig)
    }

    /// Restores the rig after a case that was interrupted.
    pub(crate) async fn heal(&mut self) -> anyhow::Result<()> {
        self.source.dns.away(false);
        self.name_gateway(self.gateway.address);
        self.east_api.set(Fault::None);
        if !self.gateway.proxy.runs()? {
            self.gateway.proxy.restart()?;
        }
        self.gateway.proxy_ready().await?;
        self.west.install().await?;
        self.east.install().await?;
        self.source.controller.restart().await?;
        // Other replicas have ended with the case, but not their Pods.
        let others = format!("metadata.name!={}", self.source.controller.name());
        let pods = ["pods", "-n", EXTENSION, "-l", "component=controller"];
        let delete = ["delete", "--force", "--field-selector", &others];
        self.west
            .plane
            .kubectl(&[&delete, &pods[..]].concat())
            .await?;
        FullMesh::forget(self).await?;
        self.east.apply(&workloads::plain()).await?;
        self.prefer(None).await?;
        self.link().await?;
        self.federate_through(Form::Discovery).await?;
        sleep(FORGOTTEN).await;
        let end = ["drain", "east", "--end", "--wait=0s"];
        self.west.linkerd_mc(&end).map(|_| ())
    }

    /// Starts another Pod of `east`, which is not among [`Self::east_pods`] yet.
    pub(crate) async fn start_pod(&mut self) -> anyhow::Result<Pod> {
        let number = self.next_pod;
        self.next_pod += 1;
        start_east_pod(&mut self.east, number).await
    }

    /// Starts another Pod of `west`, which is not among [`Self::west_pods`] yet.
    pub(crate) async fn start_west_pod(&mut self) -> anyhow::Result<Pod> {
        let name = format!("web-west-{}", self.next_pod);
        self.next_pod += 1;
        let template = PodTemplate::app(NAMESPACE, &name, "web");
        Pod::start(&mut self.west, template, &[]).await
    }

    /// Starts another Pod of `west`, for a client.
    pub(crate) async fn start_client_pod(&mut self) -> anyhow::Result<Pod> {
        let name = format!("client-{}", self.next_pod);
        self.next_pod += 1;
        let template = PodTemplate::app(NAMESPACE, &name, "client");
        Pod::start(&mut self.west, template, &[]).await
    }

    /// Starts a Pod of `east`, and deletes the oldest one. Returns the deleted Pod, which answers until it is dropped,
    /// like a Pod that terminates.
    pub(crate) async fn replace_pod(&mut self) -> anyhow::Result<Pod> {
        let new = self.start_pod().await?;
        replace_oldest(&mut self.east_pods, new).await
    }

    /// Starts another replica of our controller.
    pub(crate) async fn start_replica(&mut self) -> anyhow::Result<Controller> {
        Controller::start(&mut self.west, controller::OURS).await
    }

    /// Replaces the running controller by another replica.
    pub(crate) async fn replace_controller(&mut self) -> anyhow::Result<()> {
        let next = self.start_replica().await?;
        self.source.controller.terminate()?;
        self.leads(next.name(), SOON).await?;
        self.source.controller.delete().await?;
        self.source.controller = next;
        Ok(())
    }

    /// Waits until this controller holds the lease.
    pub(crate) async fn leads(&self, name: &str, limit: Duration) -> anyhow::Result<()> {
        self.one_leads(&[name], limit).await
    }

    /// Waits until one of these controllers holds the lease.
    pub(crate) async fn one_leads(&self, names: &[&str], limit: Duration) -> anyhow::Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.west.plane.client(), EXTENSION);
        eventually(
            &format!("{} to lead", names.join(" or ")),
            limit,
            async || {
                let spec = leases.get(LEASE).await?.spec;
                let holder = spec.and_then(|spec| spec.holder_identity);
                let holder = holder.unwrap_or_default();
                anyhow::ensure!(names.contains(&holder.as_str()), "{holder:?} leads");
                Ok(Some(()))
            },
        )
        .await
    }

    /// Whether this is [`Posture::Strict`]. Then clusters also join a federated Service only while it has a local member.
    pub(crate) fn is_strict(&self) -> bool {
        self.posture == Posture::Strict
    }

    /// Starts the controller of `east` again that a full mesh has replaced by its own.
    async fn limit_again(&mut self) -> anyhow::Result<()> {
        if self.is_strict() {
            self.limiter = Some(Controller::start(&mut self.east, controller::OURS).await?);
        }
        Ok(())
    }

    /// What `link-gen` prints for `east`.
    pub(crate) fn link_gen(&self) -> anyhow::Result<String> {
        let address = format!("--api-server-address={}", self.east_api.url());
        let own = ["link-gen", "--cluster-name", "east", &address];
        let more: &[&str] = if self.is_strict() { &STRICT } else { &[] };
        self.east
            .linkerd_mc(&[&own[..], &["--enable-headless-services"], more].concat())
    }

    /// The same, so that the controller reaches the API server of `east` through the gateway.
    pub(crate) async fn link_through_gateway(&self) -> anyhow::Result<()> {
        let own = [
            "link-gen",
            "--cluster-name",
            "east",
            "--enable-headless-services",
        ];
        let through = [&own[..], &["--api-server-through-gateway"]].concat();
        self.west.apply(&self.east.linkerd_mc(&through)?).await?;
        self.link_is_ready().await
    }

    /// Starts another Pod that can be the gateway of `east`.
    pub(crate) async fn start_gateway(&mut self) -> anyhow::Result<Pod> {
        let number = self.next_pod;
        self.next_pod += 1;
        self.east.start_pod_of(cluster::GATEWAY, number, &[]).await
    }

    /// Installs the gateway that leads to the API server of `east`, and starts a Pod of it, to which its name leads.
    pub(crate) async fn start_api_gateway(&mut self) -> anyhow::Result<Pod> {
        let kubernetes = self.east.services("default").get("kubernetes").await?;
        let own = cluster_ip(&kubernetes)?;
        let value = format!("apiGateway.apiServerAddress={own}");
        self.east.install_with(&value).await?;
        self.east
            .name_gateway(cluster::API_GATEWAY, Some(API_GATEWAY_NAME))
            .await?;
        let number = self.next_pod;
        self.next_pod += 1;
        let pod = self.east.start_pod_of(cluster::API_GATEWAY, number, &[]);
        let pod = pod.await?;
        // As kube-proxy does on its node.
        let there = (self.east.network.gateway(), port_of(self.east.plane.url())?);
        pod.translate((own, 443).into(), there.into())?;
        self.name_api_gateway(pod.address);
        Ok(pod)
    }

    /// The name of the gateway that leads to the API server leads to this address.
    pub(crate) fn name_api_gateway(&self, address: Ipv4Addr) {
        self.source.dns.know(API_GATEWAY_NAME, address);
    }

    /// The name of another Pod that can be the gateway of `east`.
    pub(crate) fn next_gateway(&mut self) -> String {
        self.next_pod += 1;
        format!("{}-{}", cluster::GATEWAY, self.next_pod - 1)
    }

    /// The name of the gateway leads to this address.
    pub(crate) fn name_gateway(&self, address: Ipv4Addr) {
        self.source.dns.know(GATEWAY_NAME, address);
    }

    /// Links `west` to `east`, and waits until the Link is ready and its gateway alive.
    pub(crate) async fn link(&self) -> anyhow::Result<()> {
        self.west.apply(&self.link_gen()?).await?;
        self.link_is_ready().await
    }

    /// Unlinks `east` from `west`. Returns when its mirrors are gone.
    pub(crate) fn unlink(&self) -> anyhow::Result<()> {
        let unlink = ["unlink", "--cluster-name", EAST, "--apply", "--yes"];
        self.west.linkerd_mc(&unlink).map(|_| ())
    }

    /// Waits until `plan` finds nothing to do.
    pub(crate) async fn has_nothing_to_do(&self, limit: Duration) -> anyhow::Result<()> {
        eventually("plan to find nothing to do", limit, async || {
            self.west.linkerd_mc(&["plan", EAST])?;
            Ok(Some(()))
        })
        .await
    }

    /// Waits until the Link to `east` is ready and its gateway alive.
    pub(crate) async fn link_is_ready(&self) -> anyhow::Result<()> {
        self.is_ready(EAST).await
    }

    /// Waits until the Link to a cluster is ready and its gateway alive.
    pub(crate) async fn is_ready(&self, cluster: &str) -> anyhow::Result<()> {
        let ready = self.west.link_is_ready(cluster).await;
        ready.with_context(|| self.source.last_words())
    }

    /// The Link to `east` as it is now.
    pub(crate) async fn link_object(&self) -> anyhow::Result<Value> {
        self.west.link_to(EAST).await
    }
}

/// The ClusterIP of a Service.
pub(crate) fn cluster_ip(service: &Service) -> anyhow::Result<Ipv4Addr> {
    let ip = service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.clone());
    Ok(ip.context("no ClusterIP")?.parse()?)
}

/// Starts the Pod of `east` with this number. All Services of `east` select it.
async fn start_east_pod(east: &mut Cluster, number: u8) -> anyhow::Result<Pod> {
    let name = format!("web-{number}");
    let template = PodTemplate::app(NAMESPACE, &name, "web").host_of("db");
    Pod::start(east, template, &[]).await
}

/// Deletes the oldest of these Pods, and returns it. This Pod takes its place.
async fn replace_oldest(pods: &mut Vec<Pod>, new: Pod) -> anyhow::Result<Pod> {
    pods.push(new);
    let old = pods.remove(0);
    old.delete().await?;
    Ok(old)
}
