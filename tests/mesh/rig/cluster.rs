//! One cluster: a control plane, Linkerd, our installation, and a network for its Pods.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
    sync::Arc,
};

use anyhow::Context as _;
use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::{
    identity::{Root, Trust, name_in},
    linkerd::Linkerd,
    network::Network,
    pod::{Pod, PodTemplate},
    process::pipe,
    wait::SOON,
};
use crate::{helper::forward::forward, isolation::Place};

/// The namespace of our installation.
pub(crate) const EXTENSION: &str = "linkerd-multicluster";
/// The only node of each cluster.
pub(crate) const NODE: &str = "node";
/// The values of the installation. API servers are near, and cases link often: a new cluster joins after a shorter time.
const VALUES: &str = "federation.routes=true,federation.joinDelay=5s";
/// The Deployment of the gateway.
pub(crate) const GATEWAY: &str = "linkerd-gateway";
/// The Deployment of the gateway that leads to the API server.
pub(crate) const API_GATEWAY: &str = "linkerd-api-gateway";

/// A cluster with Linkerd and our installation.
pub(crate) struct Cluster {
    pub(crate) place: Arc<Place>,
    // Linkerd before the control plane: fields are dropped in this order.
    pub(crate) linkerd: Linkerd,
    pub(crate) plane: ControlPlane,
    pub(crate) network: Network,
    /// The trust domain of its workloads that start from now on.
    trust_domain: String,
    /// Ports on loopback that Pods can reach: those of API servers.
    pub(super) ways: Vec<u16>,
    /// What forwards connections to these ports.
    forwards: JoinSet<anyhow::Result<()>>,
    /// Number of the next Pod of a controller. Names are never used twice.
    replicas: u8,
    /// The values of its installation.
    values: String,
}

impl Cluster {
    /// Starts Linkerd on a control plane, with a network of this number for its Pods.
    pub(crate) async fn start(
        place: &Arc<Place>,
        plane: ControlPlane,
        number: u8,
        (root, trust): (&Root, Trust),
    ) -> anyhow::Result<Self> {
        let network = Network::create(number)?;
        let linkerd = Linkerd::start(place, &plane, (root, trust), network.gateway()).await?;
        let cluster = Self {
            place: place.clone(),
            linkerd,
            trust_domain: trust.domain(plane.name()),
            plane,
            network,
            ways: Vec::new(),
            forwards: JoinSet::new(),
            replicas: 0,
            values: VALUES.to_owned(),
        };
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": NODE }, "spec": { "podCIDR": cluster.network.prefix(), "podCIDRs": [cluster.network.prefix()] },
        });
        cluster.apply(&node.to_string()).await?;
        Ok(cluster)
    }

    /// Its name, which is that of its context.
    pub(crate) fn name(&self) -> &str {
        self.plane.name()
    }

    /// Installs Linkerd again, with another trust domain, and restarts its controllers. Proxies that run keep their
    /// certificates.
    pub(crate) async fn move_to(&mut self, root: &Root, trust: Trust) -> anyhow::Result<()> {
        let (place, plane) = (&self.place, &self.plane);
        self.linkerd.move_to(place, plane, (root, trust)).await?;
        self.trust_domain = trust.domain(self.plane.name());
        Ok(())
    }

    /// Sets a value of the installation, from the next time on that it is installed.
    pub(crate) fn set(&mut self, value: &str) {
        self.values = format!("{},{value}", self.values);
    }

    /// The identity of a ServiceAccount, of Pods that start from now on.
    pub(crate) fn identity_of(&self, account: &str, namespace: &str) -> String {
        name_in(&self.trust_domain, account, namespace)
    }

    /// `kubectl apply`
    pub(crate) async fn apply(&self, objects: &str) -> anyhow::Result<()> {
        self.plane.apply(objects).await.map(|_| ())
    }

    /// The Services of a namespace.
    pub(crate) fn services(&self, namespace: &str) -> Api<Service> {
        Api::namespaced(self.plane.client(), namespace)
    }

    /// `kubectl get`, as JSON.
    pub(crate) async fn get(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let arguments = [&["get", "-o", "json"], arguments].concat();
        Ok(serde_json::from_str(
            &self.plane.kubectl(&arguments).await?,
        )?)
    }

    /// The output of linkerd-mc for this cluster.
    pub(crate) fn linkerd_mc(&self, arguments: &[&str]) -> anyhow::Result<String> {
        linkerd_mc(self.plane.kubeconfig(), arguments)
    }

    /// Installs the extension, as `linkerd-mc install` prints it.
    pub(crate) async fn install(&self) -> anyhow::Result<()> {
        self.install_as(&self.values).await
    }

    /// The same, with another value.
    pub(crate) async fn install_with(&self, value: &str) -> anyhow::Result<()> {
        self.install_as(&format!("{},{value}", self.values)).await
    }

    async fn install_as(&self, values: &str) -> anyhow::Result<()> {
        let install = ["install", "--set", values];
        self.apply(&self.linkerd_mc(&install)?).await
    }

    /// Starts a Pod of a Deployment: its replica of this number.
    pub(crate) async fn start_pod_of(
        &mut self,
        deployment: &str,
        replica: u8,
        ways: &[u16],
    ) -> anyhow::Result<Pod> {
        let found = self
            .get(&["deployment", deployment, "-n", EXTENSION])
            .await?;
        let template = PodTemplate {
            namespace: EXTENSION.to_owned(),
            name: format!("{deployment}-{replica}"),
            template: found["spec"]["template"].clone(),
            own: &[],
        };
        Pod::start(self, template, ways).await
    }

    /// Starts the gateway, which other clusters find under this name.
    pub(crate) async fn start_gateway(&mut self, name: &str) -> anyhow::Result<Pod> {
        self.name_gateway(GATEWAY, Some(name)).await?;
        self.start_pod_of(GATEWAY, 0, &[]).await
    }

    /// Other clusters find a gateway under this name, or not at all.
    pub(super) async fn name_gateway(
        &self,
        gateway: &str,
        name: Option<&str>,
    ) -> anyhow::Result<()> {
        let ingress = name.map(|name| json!([{ "hostname": name }]));
        let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
        self.services(EXTENSION)
            .patch_status(gateway, &PatchParams::default(), &Patch::Merge(status))
            .await
            .context("failed to write the gateway's address")?;
        Ok(())
    }

    /// The number of another Pod of a controller.
    pub(super) fn next_replica(&mut self) -> u8 {
        self.replicas += 1;
        self.replicas - 1
    }

    /// The Link to a cluster as it is now.
    pub(crate) async fn link_to(&self, target: &str) -> anyhow::Result<Value> {
        let link = ["links.multicluster.linkerd.io", target, "-n", EXTENSION];
        self.get(&link).await
    }

    /// Waits until the Link to a cluster is ready and its gateway alive.
    pub(super) async fn link_is_ready(&self, target: &str) -> anyhow::Result<()> {
        let what = format!("the Link of {} to {target} to be ready", self.name());
        eventually(&what, SOON, async || {
            let link = self.link_to(target).await?;
            let ready = ["Ready", "GatewayAlive"]
                .iter()
                .all(|condition| condition_of(&link, condition) == Some("True"));
            Ok(ready.then_some(()))
        })
        .await
    }

    /// Lets Pods of this cluster reach its API server by the Service `kubernetes`. Its own endpoint would be on loopback.
    pub(crate) async fn serve_api(&mut self) -> anyhow::Result<()> {
        let port = port_of(self.plane.url())?;
        self.open(port).await?;
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": { "kubernetes.io/service-name": "kubernetes" },
            },
            "addressType": "IPv4",
            "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
            "endpoints": [{
                "addresses": [self.network.gateway()],
                "conditions": { "ready": true },
            }],
        });
        self.apply(&slice.to_string()).await
    }

    /// Makes a server on loopback available at the address that this cluster's Pods can reach, on the same port.
    pub(crate) async fn open(&mut self, port: u16) -> anyhow::Result<()> {
        if self.ways.contains(&port) {
            return Ok(());
        }
        self.ways.push(port);
        let listener = TcpListener::bind((self.network.gateway(), port)).await?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let forward = forward(listener, watch::channel(server).1);
        self.forwards.spawn(forward);
        Ok(())
    }
}

/// The port of an address such as `https://127.0.0.1:6443`.
pub(crate) fn port_of(url: &str) -> anyhow::Result<u16> {
    let port = url.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.with_context(|| format!("{url} has no port"))
}

/// Status of a condition of an object.
pub(crate) fn condition_of<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == name)?["status"].as_str()
}

/// The output of linkerd-mc for these arguments.
pub(crate) fn linkerd_mc(kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    pipe(command.args(arguments).env("KUBECONFIG", kubeconfig), "")
}
