//! The target cluster, and a source cluster for each of the two service mirrors.

use std::{process::Command, sync::Arc, time::Duration};

use anyhow::Context as _;
use control_plane::{ControlPlane, LinkerdOptions, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    REST,
    history::{LAST, MARK, Step},
    seen::{Seen, Target},
};
use crate::{
    isolation::Place,
    rig::{
        cluster::EXTENSION,
        process::{Process, Program, pipe},
    },
};

/// The name of the target cluster, and of its Links.
pub(super) const FAR: &str = "far";
/// The node of the Pods, which exists for the controllers of Kubernetes.
const NODE: &str = "node";
/// How long something may take that takes a moment.
const SOON: Duration = Duration::from_secs(30);

/// Three clusters, and the service mirrors of two of them.
pub(super) struct Clusters {
    // Before the control planes: fields are dropped in this order.
    _service_mirrors: Vec<Process>,
    far: ControlPlane,
    ours: ControlPlane,
    theirs: ControlPlane,
}

impl Clusters {
    /// Starts them, links both sources to the target, and starts their service mirrors.
    pub(super) async fn start(place: &Arc<Place>) -> anyhow::Result<Self> {
        let (far, ours, theirs) = tokio::try_join!(
            ControlPlane::start(FAR),
            ControlPlane::start("ours"),
            ControlPlane::start("theirs")
        )?;
        for plane in [&far, &ours, &theirs] {
            plane.linkerd(&LinkerdOptions::default()).await?;
            plane.apply(&mc(plane, &["install"])?).await?;
        }
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
        far.apply(&node.to_string()).await?;
        let address = format!("--api-server-address={}", far.url());
        let link = eventually("the token of the account", SOON, async || {
            let gateway = [
                "--gateway-addresses=192.0.2.1",
                "--enable-headless-services",
            ];
            let own = ["link-gen", "--cluster-name", FAR, &address, "-o=json"];
            mc(&far, &[&own[..], &gateway].concat()).map(Some)
        })
        .await?;
        for source in [&ours, &theirs] {
            for line in link.lines() {
                let object = without_probe(serde_json::from_str(line)?);
                eventually("the Link to be accepted", SOON, async || {
                    source.apply(&object.to_string()).await.map(Some)
                })
                .await?;
            }
        }
        let service_mirrors = start(place, &ours, &theirs)?;
        Ok(Self {
            _service_mirrors: service_mirrors,
            far,
            ours,
            theirs,
        })
    }

    /// What both have in a namespace.
    pub(super) async fn seen(&self, namespace: &str) -> anyhow::Result<[Seen; 2]> {
        let (ours, theirs) = tokio::try_join!(
            Seen::read(&self.ours, namespace),
            Seen::read(&self.theirs, namespace)
        )?;
        Ok([ours, theirs])
    }

    /// What the target cluster has there.
    pub(super) async fn target(&self, namespace: &str) -> anyhow::Result<Target> {
        Target::read(&self.far, namespace).await
    }

    /// Creates a namespace everywhere.
    pub(super) async fn create(&self, namespace: &str) -> anyhow::Result<()> {
        for plane in [&self.far, &self.ours, &self.theirs] {
            plane.kubectl(&["create", "namespace", namespace]).await?;
        }
        Ok(())
    }

    /// Changes the last Service, and waits until both have mirrored the change.
    pub(super) async fn mark(&self, namespace: &str, number: usize) -> anyhow::Result<()> {
        let services = Api::<Service>::namespaced(self.far.client(), namespace);
        // Ours writes changes of labels alone at growing intervals.
        let port = json!({ "name": "http", "port": MARK + number, "targetPort": 8080 });
        let mark = json!({ "spec": { "ports": [port] } });
        let params = PatchParams::default();
        services.patch(LAST, &params, &Patch::Merge(mark)).await?;
        for source in [&self.ours, &self.theirs] {
            let what = format!("the change {number} of the last Service to be mirrored");
            eventually(&what, REST, async || {
                let seen = Seen::read(source, namespace).await?;
                Ok(seen.is_marked(MARK + number).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes what a history has left in the target cluster and in the sources.
    pub(super) async fn delete(&self, namespace: &str) -> anyhow::Result<()> {
        for plane in [&self.far, &self.ours, &self.theirs] {
            let delete = ["delete", "namespace", namespace, "--wait=false"];
            plane.kubectl(&delete).await?;
        }
        Ok(())
    }

    /// Takes a step of a history.
    pub(super) async fn take(&self, namespace: &str, step: &Step) -> anyhow::Result<()> {
        let planes = if step.is_of_sources() {
            vec![&self.ours, &self.theirs]
        } else {
            vec![&self.far]
        };
        for plane in planes {
            for (arguments, object) in step.commands(namespace) {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let input = object.map_or_else(String::new, |object| object.to_string());
                plane
                    .kubectl_stdin(&arguments, &input)
                    .await
                    .with_context(|| format!("{step:?} in {}", plane.name()))?;
            }
        }
        Ok(())
    }
}

/// A Link whose gateway is not probed: nothing answers at its address, and both take an unprobed gateway for alive.
fn without_probe(mut object: Value) -> Value {
    if object["kind"] == "Link" {
        object["spec"]["probeSpec"]["path"] = json!("");
    }
    object
}

fn mc(plane: &ControlPlane, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    let command = command
        .args(arguments)
        .env("KUBECONFIG", plane.kubeconfig());
    pipe(command, "")
}

/// Starts our controller in one cluster, and Linkerd's controllers in the other: that of the Link, and that of local
/// members.
fn start(
    place: &Arc<Place>,
    ours: &ControlPlane,
    theirs: &ControlPlane,
) -> anyhow::Result<Vec<Process>> {
    let log = |name: &str| place.logs.join(format!("second-{name}.log"));
    let own = [
        "run-controller",
        "--leader-elect=false",
        "--admin-addr=127.0.0.1:0",
        "--join-delay=0s",
        "--log-level=debug",
    ];
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    let kubeconfig = ours.kubeconfig().display().to_string();
    let mut started = vec![
        Program::new(program, &own, log("ours"))
            .with("KUBECONFIG", &kubeconfig)
            .start()?,
    ];
    let kubeconfig = format!("-kubeconfig={}", theirs.kubeconfig().display());
    let namespace = format!("-namespace={EXTENSION}");
    let all = [
        "service-mirror",
        &kubeconfig,
        &namespace,
        "-metrics-addr=127.0.0.1:0",
        "-enable-headless-services=true",
        "-log-level=debug",
    ];
    for (name, more) in [("link", FAR), ("local", "-local-mirror=true")] {
        let arguments = [&all[..], &[more]].concat();
        let program = Program::new(&place.programs.join("controller"), &arguments, log(name));
        started.push(program.with("HOSTNAME", name).start()?);
    }
    Ok(started)
}
