//! A controller of the extension, ours or Linkerd's own, as a process in the mesh: it probes gateways through its proxy.

use anyhow::{Context as _, bail};
use control_plane::eventually;

use super::{
    cluster::{Cluster, EXTENSION},
    pod::Pod,
    process::{Process, tail},
    wait::SOON,
};

/// The Deployment of our controller.
pub(crate) const OURS: &str = "linkerd-multicluster-controller";
/// The program that the images of Linkerd's own controllers start, in the folder of programs.
const SERVICE_MIRROR: &str = "controller";
const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:authenticated"];
/// The port for /ready in its Deployment.
const ADMIN: u16 = 9999;

/// The Pod of a controller, and the process in it.
pub(crate) struct Controller {
    process: Process,
    pod: Pod,
}

impl Controller {
    /// Starts another replica of a Deployment, which reaches the API servers that [`Cluster::open`] was called for.
    pub(crate) async fn start(cluster: &mut Cluster, deployment: &str) -> anyhow::Result<Self> {
        let found = cluster
            .get(&["deployment", deployment, "-n", EXTENSION])
            .await?;
        let template = &found["spec"]["template"]["spec"];
        let arguments: Vec<&str> = template["containers"][0]["args"]
            .as_array()
            .context("the controller has no arguments")?
            .iter()
            .filter_map(|argument| argument.as_str())
            .collect();
        let account = template["serviceAccountName"].as_str();
        let account = account.context("the controller has no ServiceAccount")?;
        let user = format!("system:serviceaccount:{EXTENSION}:{account}");
        let kubeconfig = cluster
            .plane
            .kubeconfig_through(cluster.plane.url(), &user, &GROUPS)?;
        let kubeconfig = kubeconfig.display().to_string();
        let (replica, ways) = (cluster.next_replica(), cluster.ways.clone());
        let pod = cluster.start_pod_of(deployment, replica, &ways).await?;
        let log = format!("{}-{}.log", cluster.name(), pod.name);
        let log = cluster.place.logs.join(log);
        let program = if deployment == OURS {
            pod.program(env!("CARGO_BIN_EXE_linkerd-mc"), &arguments, log)
                .with("KUBECONFIG", &kubeconfig)
        } else {
            let own = format!("-kubeconfig={kubeconfig}");
            let [command, rest @ ..] = arguments.as_slice() else {
                bail!("the controller has no arguments");
            };
            let arguments = [&[*command, &own], rest].concat();
            pod.program(SERVICE_MIRROR, &arguments, log)
        };
        let process = program.with("HOSTNAME", &pod.name).start()?;
        let mut controller = Self { process, pod };
        controller.ready().await?;
        Ok(controller)
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM, as Kubernetes does, and returns when it has ended.
    pub(crate) fn terminate(&mut self) -> anyhow::Result<()> {
        self.process.terminate()
    }

    /// Deletes its Pod; the process ends when this is dropped.
    pub(crate) async fn delete(&self) -> anyhow::Result<()> {
        self.pod.delete().await
    }

    /// Its name in the lease.
    pub(crate) fn name(&self) -> &str {
        &self.pod.name
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        tail(self.process.log())
    }

    /// Kills it if it runs, starts it again, and waits until it is ready.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.process.restart()?;
        self.ready().await
    }

    /// Starts it again if it has ended, as its Deployment does: it ends when it loses its lease.
    pub(crate) async fn revive(&mut self) -> anyhow::Result<()> {
        if self.process.runs()? {
            return Ok(());
        }
        self.restart().await
    }

    /// Waits until it has listed its cluster.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let address = format!("{}:{ADMIN}", self.pod.address);
        let waited = eventually("the controller to be ready", SOON, async || {
            Ok((crate::requests::status(&address, "/ready").await? == 200).then_some(()))
        });
        let outcome = waited.await;
        self.process.require_running()?;
        outcome
    }
}
