//! Linkerd's destination controller. It is replaced as its Deployment does it: a new one starts, proxies connect to it
//! when it is ready, and then the old one ends.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::ensure;
use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::{
    linkerd::DESTINATION,
    process::{Process, Program},
    wait::SOON,
};
use crate::{helper::forward::forward, requests};

/// Label of credentials in Linkerd's namespace.
const CREDENTIALS: &str = "multicluster.linkerd.io/cluster-name";
/// Its ports, of which the replicas use one after the other, and the distance to those for metrics.
const PORTS: [u16; 2] = [DESTINATION + 100, DESTINATION + 200];
const METRICS: u16 = 1000;

/// Makes the program that listens at an address, with another address for metrics.
pub(super) type DestinationProgram = Box<dyn Fn(SocketAddr, SocketAddr) -> Program + Send + Sync>;

pub(crate) struct Destination {
    program: DestinationProgram,
    process: Process,
    at: Ipv4Addr,
    /// Where new connections of proxies lead.
    current: watch::Sender<SocketAddr>,
    _forward: JoinSet<anyhow::Result<()>>,
    secrets: Api<PartialObjectMeta<Secret>>,
}

impl Destination {
    /// Starts the first one. Proxies reach it at [`DESTINATION`].
    pub(super) async fn start(
        plane: &ControlPlane,
        at: Ipv4Addr,
        program: DestinationProgram,
    ) -> anyhow::Result<Self> {
        let first = SocketAddr::from((at, PORTS[0]));
        let (current, leads_to) = watch::channel(first);
        let listener = TcpListener::bind((at, DESTINATION)).await?;
        let mut forwards = JoinSet::new();
        forwards.spawn(forward(listener, leads_to));
        let process = program(first, (at, PORTS[0] + METRICS).into()).start()?;
        let mut destination = Self {
            program,
            process,
            at,
            current,
            _forward: forwards,
            secrets: Api::namespaced(plane.client(), "linkerd"),
        };
        destination.is_ready(PORTS[0]).await?;
        Ok(destination)
    }

    /// Replaces it, so that it loses its state, including the credentials of clusters.
    pub(super) async fn replace(&mut self) -> anyhow::Result<()> {
        let (old, port) = self.start_next()?;
        self.is_ready(port).await?;
        self.follow(old, port);
        Ok(())
    }

    /// Replaces it by another program.
    pub(super) async fn replace_by(&mut self, program: DestinationProgram) -> anyhow::Result<()> {
        self.program = program;
        self.replace().await
    }

    /// Kills it.
    pub(super) fn stop(&mut self) {
        self.process.kill();
    }

    /// Like [`Self::replace`], but waits only until it is ready, because target clusters cannot be reached.
    pub(super) async fn replace_alone(&mut self) -> anyhow::Result<()> {
        let (old, port) = self.start_next()?;
        let metrics = format!("{}:{}", self.at, port + METRICS);
        eventually("Linkerd's destination controller", SOON, async || {
            let status = requests::status(&metrics, "/ready").await?;
            Ok((status == 200).then_some(()))
        })
        .await?;
        self.follow(old, port);
        Ok(())
    }

    /// Whether it has listed the Pods of a target cluster.
    pub(super) async fn knows(&self, cluster: &str) -> anyhow::Result<bool> {
        let metrics = format!("{}:{}", self.at, self.current.borrow().port() + METRICS);
        let (_, known) = requests::get(&metrics, "/metrics").await?;
        Ok(has_listed(&known, cluster))
    }

    /// Starts another one. Returns the old one, and the port of the new one.
    fn start_next(&mut self) -> anyhow::Result<(Process, u16)> {
        let [one, other] = PORTS;
        let port = if self.current.borrow().port() == one {
            other
        } else {
            one
        };
        let address = SocketAddr::from((self.at, port));
        let next = (self.program)(address, (self.at, port + METRICS).into()).start()?;
        Ok((std::mem::replace(&mut self.process, next), port))
    }

    /// Makes proxies connect to the new one, and ends the old one.
    fn follow(&self, mut old: Process, port: u16) {
        self.current.send_replace((self.at, port).into());
        old.kill();
    }

    /// Waits until it is ready, and has listed all target clusters. Kubernetes takes longer to tell proxies of a new
    /// Pod than Linkerd to list a cluster of this size. Earlier streams would lack the endpoints of the others.
    async fn is_ready(&mut self, port: u16) -> anyhow::Result<()> {
        let metrics = format!("{}:{}", self.at, port + METRICS);
        let waited = eventually("Linkerd's destination controller", SOON, async || {
            ensure!(
                requests::status(&metrics, "/ready").await? == 200,
                "unready"
            );
            let of_clusters = ListParams::default().labels(CREDENTIALS);
            let secrets = self.secrets.list_metadata(&of_clusters).await?;
            let (_, known) = requests::get(&metrics, "/metrics").await?;
            for secret in &secrets {
                let cluster = &secret.labels()[CREDENTIALS];
                ensure!(has_listed(&known, cluster), "{cluster} is not listed");
            }
            Ok(Some(()))
        });
        let outcome = waited.await;
        self.process.require_running()?;
        outcome
    }
}

/// Whether the metrics count Pods of this cluster.
pub(crate) fn has_listed(metrics: &str, cluster: &str) -> bool {
    let label = format!("cluster=\"{cluster}\"");
    metrics
        .lines()
        .filter(|line| line.starts_with("pod_cache_size{") && line.contains(&label))
        .any(|line| !line.ends_with(" 0"))
}
