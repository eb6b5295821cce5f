//! Does for Deployments of a source cluster what Kubernetes' controllers and kubelets do: runs as many of their
//! programs as they specify, and writes their status. Cases that scale, install or restart Deployments need it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    Rig,
    cluster::{Cluster, EXTENSION},
    controller::{Controller, OURS},
    linkerd::report_again,
    script::Script,
};

/// Poll interval for the Deployments.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// Linkerd's own controllers: that of the link to `east`, by the value `controllers` and by `linkerd multicluster link`,
/// and that of the source's own members of federated Services.
const SERVICE_MIRRORS: [&str; 3] = [
    "controller-east",
    "linkerd-service-mirror-east",
    "linkerd-local-service-mirror",
];
/// The namespace of Linkerd's control plane.
pub(crate) const LINKERD: &str = "linkerd";
const DESTINATION: &str = "linkerd-destination";

/// The running programs of the Deployments of one cluster.
pub(crate) struct Deployments {
    /// The template of each running Deployment, by name.
    running: BTreeMap<String, Value>,
    /// Linkerd's own controllers that are running.
    service_mirrors: BTreeMap<&'static str, Controller>,
}

impl Deployments {
    /// Takes over the programs that run: our controller, and Linkerd's destination controller.
    pub(crate) async fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let mut running = BTreeMap::new();
        for (namespace, name) in [(EXTENSION, OURS), (LINKERD, DESTINATION)] {
            let found = api(cluster, namespace).get(name).await?;
            running.insert(name.to_owned(), template(&found)?);
        }
        Ok(Self {
            running,
            service_mirrors: BTreeMap::new(),
        })
    }

    /// Runs a shell script, with the contexts `west` and `east`. Meanwhile the Deployments of `west` are followed.
    pub(crate) async fn shell(&mut self, rig: &mut Rig, script: &str) -> anyhow::Result<String> {
        let script = Script::new(rig, script)?;
        let mut follow = async || self.follow(&mut rig.west, &mut rig.source.controller).await;
        // What changed since the last script must not start a program after this one has scaled it down.
        follow().await?;
        script.run_while(LOOK, follow).await
    }

    /// Starts and stops programs as the Deployments specify. `ours` is our controller.
    pub(super) async fn follow(
        &mut self,
        cluster: &mut Cluster,
        ours: &mut Controller,
    ) -> anyhow::Result<()> {
        let extension = [OURS].into_iter().chain(SERVICE_MIRRORS);
        let all = extension.map(|name| (EXTENSION, name));
        for (namespace, name) in all.chain([(LINKERD, DESTINATION)]) {
            let found = api(cluster, namespace).get_opt(name).await?;
            let wanted = found.as_ref().filter(|found| replicas(found) > 0);
            let wanted = wanted.map(template).transpose()?;
            if wanted.as_ref() != self.running.get(name) {
                self.stop(name, ours).await?;
                if let Some(template) = wanted {
                    self.start(cluster, name, ours).await?;
                    self.running.insert(name.to_owned(), template);
                }
            }
            if let Some(found) = found {
                tell(cluster, namespace, name, &found).await?;
            }
        }
        Ok(())
    }

    async fn stop(&mut self, name: &str, ours: &mut Controller) -> anyhow::Result<()> {
        if self.running.remove(name).is_none() || name == DESTINATION {
            return Ok(());
        }
        if let Some(mut controller) = self.service_mirrors.remove(name) {
            controller.terminate()?;
            return controller.delete().await;
        }
        ours.terminate()?;
        ours.delete().await
    }

    async fn start(
        &mut self,
        cluster: &mut Cluster,
        name: &str,
        ours: &mut Controller,
    ) -> anyhow::Result<()> {
        let service_mirror = SERVICE_MIRRORS
            .into_iter()
            .find(|service_mirror| *service_mirror == name);
        if name == DESTINATION {
            cluster.linkerd.restart_destination().await?;
            report_again(cluster).await?;
        } else if let Some(name) = service_mirror {
            let controller = Controller::start(cluster, name).await?;
            self.service_mirrors.insert(name, controller);
        } else {
            *ours = Controller::start(cluster, OURS).await?;
        }
        Ok(())
    }
}

fn api(cluster: &Cluster, namespace: &str) -> Api<Deployment> {
    Api::namespaced(cluster.plane.client(), namespace)
}

fn replicas(deployment: &Deployment) -> i32 {
    let spec = deployment.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

fn template(deployment: &Deployment) -> anyhow::Result<Value> {
    let spec = deployment.spec.as_ref().context("no spec")?;
    Ok(serde_json::to_value(&spec.template)?)
}

/// Writes into a Deployment's status that all its replicas are available, unless it says so already.
async fn tell(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    deployment: &Deployment,
) -> anyhow::Result<()> {
    let generation = deployment.metadata.generation;
    let status = deployment.status.as_ref();
    let count = replicas(deployment);
    let told = status.is_some_and(|status| {
        status.observed_generation == generation && status.replicas.unwrap_or(0) == count
    });
    if told {
        return Ok(());
    }
    let status = json!({ "status": {
        "observedGeneration": generation,
        "replicas": count,
        "updatedReplicas": count,
        "readyReplicas": count,
        "availableReplicas": count,
    } });
    api(cluster, namespace)
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}
