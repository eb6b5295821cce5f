//! Linkerd's control plane in a cluster: the objects of `linkerd install`, and its controllers as processes. Nothing
//! runs its Deployments.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
};

use anyhow::Context as _;
use control_plane::{ControlPlane, eventually};
use k8s_openapi::{
    api::core::v1::Pod,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    cluster::Cluster,
    destination::{Destination, DestinationProgram},
    identity::{Issuer, Root, Trust},
    policy,
    process::{Process, Program, pipe},
    wait,
};
use crate::isolation::Place;

/// Ports of the controllers, on the bridge of their cluster and on loopback in each Pod.
pub(crate) const DESTINATION: u16 = 8086;
pub(crate) const IDENTITY: u16 = 8089;
pub(crate) const POLICY: u16 = 8090;
/// The Pod in place of the destination controller.
const DESTINATION_POD: &str = "linkerd-destination-0-0";
/// Where identity controllers read the root certificate.
pub(super) const TRUST_ROOTS: &str = "/var/run/linkerd/identity/trust-roots";

/// Linkerd's controllers in one cluster.
pub(crate) struct Linkerd {
    identity: Process,
    destination: Destination,
    policy: Process,
    /// The identity controller while it has another root.
    other_identity: Option<Process>,
    trust_domain: String,
    at: Ipv4Addr,
}

impl Linkerd {
    /// Replaces the destination controller, so that it loses its state, including the credentials of clusters.
    pub(crate) async fn restart_destination(&mut self) -> anyhow::Result<()> {
        self.destination.replace().await
    }

    /// Kills the destination controller, as if its Deployment was scaled to nothing.
    pub(crate) fn stop_destination(&mut self) {
        self.destination.stop();
    }

    /// Like [`Self::restart_destination`], while target clusters cannot be reached.
    pub(crate) async fn restart_destination_alone(&mut self) -> anyhow::Result<()> {
        self.destination.replace_alone().await
    }

    /// Whether the destination controller has listed the Pods of a target cluster.
    pub(crate) async fn knows(&self, cluster: &str) -> anyhow::Result<bool> {
        self.destination.knows(cluster).await
    }

    /// From now on, the identity controller signs with an issuer under another root, and knows that root alone. Proxies
    /// that run keep their certificates.
    pub(crate) async fn trust(&mut self, folder: &Path, root: &Root) -> anyhow::Result<()> {
        let Issuer { certificate, key } = root.issuer(Trust::Common, &self.trust_domain)?;
        fs::create_dir_all(folder)?;
        for (file, text) in [
            ("ca-bundle.crt", root.certificate()),
            ("crt.pem", certificate),
            ("key.pem", key),
        ] {
            fs::write(folder.join(file), text)?;
        }
        let mut other = self.identity.program();
        for argument in &mut other.arguments {
            if argument.starts_with("-issuer=") {
                *argument = format!("-issuer={}", folder.display());
            }
        }
        // It reads its roots from a fixed folder.
        let other = other.with_folder(folder, TRUST_ROOTS);
        self.identity.kill();
        self.other_identity = Some(other.start()?);
        self.identity_listens().await
    }

    /// Restores the first identity controller, with the root of all clusters.
    pub(crate) async fn trust_again(&mut self) -> anyhow::Result<()> {
        self.other_identity = None;
        self.identity.restart()?;
        self.identity_listens().await
    }

    async fn identity_listens(&mut self) -> anyhow::Result<()> {
        let process = self.other_identity.as_mut().unwrap_or(&mut self.identity);
        wait::listens((self.at, IDENTITY).into(), process).await
    }

    /// Kills all controllers at once, and starts them again.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.identity.restart()?;
        self.policy.restart()?;
        self.destination.replace().await
    }

    /// Waits until the policy controller follows the API server.
    pub(crate) async fn policy_follows(&self, plane: &ControlPlane) -> anyhow::Result<()> {
        policy::follows(plane, self.at).await
    }

    /// Installs Linkerd on a control plane and starts its controllers at this address.
    pub(crate) async fn start(
        place: &Place,
        plane: &ControlPlane,
        (root, trust): (&Root, Trust),
        at: Ipv4Addr,
    ) -> anyhow::Result<Self> {
        let trust_domain = trust.domain(plane.name());
        let issuer = write_credentials(plane.folder(), (root, trust), &trust_domain)?;
        install(place, plane, &issuer, &trust_domain).await?;
        let programs = Programs::new(place, plane, (&issuer, &trust_domain), at);
        let mut linkerd = Self {
            identity: programs.identity.start()?,
            policy: programs.policy.start()?,
            destination: Destination::start(plane, at, programs.destination).await?,
            other_identity: None,
            trust_domain,
            at,
        };
        linkerd.listens().await?;
        stand_in(plane).await?;
        Ok(linkerd)
    }

    /// Installs it again with another trust domain, and restarts all controllers.
    pub(super) async fn move_to(
        &mut self,
        place: &Place,
        plane: &ControlPlane,
        (root, trust): (&Root, Trust),
    ) -> anyhow::Result<()> {
        let trust_domain = trust.domain(plane.name());
        let issuer = write_credentials(plane.folder(), (root, trust), &trust_domain)?;
        install(place, plane, &issuer, &trust_domain).await?;
        let programs = Programs::new(place, plane, (&issuer, &trust_domain), self.at);
        self.trust_domain = trust_domain;
        self.identity.kill();
        self.policy.kill();
        self.identity = programs.identity.start()?;
        self.policy = programs.policy.start()?;
        self.listens().await?;
        self.destination.replace_by(programs.destination).await
    }

    async fn listens(&mut self) -> anyhow::Result<()> {
        for (port, process) in [(IDENTITY, &mut self.identity), (POLICY, &mut self.policy)] {
            wait::listens((self.at, port).into(), process).await?;
        }
        Ok(())
    }
}

/// The controllers of a cluster.
struct Programs {
    identity: Program,
    policy: Program,
    destination: DestinationProgram,
}

impl Programs {
    fn new(
        place: &Place,
        plane: &ControlPlane,
        (issuer, trust_domain): (&Path, &str),
        at: Ipv4Addr,
    ) -> Self {
        let kubeconfig = plane.kubeconfig().display().to_string();
        let (logs, cluster) = (place.logs.clone(), plane.name().to_owned());
        let log = move |name: &str| logs.join(format!("{cluster}-{name}.log"));
        let log_of_policy = log("policy");
        let (controller, policy) = (
            place.programs.join("controller"),
            place.programs.join("linkerd-policy-controller"),
        );
        let of_cluster = format!("-kubeconfig={kubeconfig}");
        let domain = format!("-identity-trust-domain={trust_domain}");
        let go = move |name: &str, own: &[&str]| {
            let common = [name, &of_cluster, "-controller-namespace=linkerd", &domain];
            Program::new(&controller, &[&common, own].concat(), log(name))
                .with("HOSTNAME", &format!("linkerd-{name}"))
        };
        let issuer = format!("-issuer={}", issuer.display());
        let address = format!("-addr={at}:{IDENTITY}");
        let admin = format!("-admin-addr={at}:{}", IDENTITY + 1000);
        let scheme = "-identity-scheme=linkerd.io/tls";
        let identity = go("identity", &[&address, &admin, scheme, &issuer]);
        let arguments = [
            &format!("--grpc-addr={at}:{POLICY}"),
            &format!("--admin-addr={at}:{}", POLICY + 1000),
            &format!("--identity-domain={trust_domain}"),
            "--admission-controller-disabled",
            "--default-policy=all-unauthenticated",
            "--default-opaque-ports=25,587",
            "--cluster-networks=10.0.0.0/8",
            // The probes of the gateway come from other networks.
            "--probe-networks=0.0.0.0/0",
        ];
        let policy = Program::new(&policy, &arguments, log_of_policy)
            .with("KUBECONFIG", &kubeconfig)
            .with("HOSTNAME", "linkerd-policy");
        let destination = move |address: SocketAddr, metrics: SocketAddr| {
            let (address, metrics) = (
                format!("-addr={address}"),
                format!("-metrics-addr={metrics}"),
            );
            go(
                "destination",
                &[&address, &metrics, "-cluster-domain=cluster.local"],
            )
        };
        Self {
            identity,
            policy,
            destination: Box::new(destination),
        }
    }
}

/// Writes the root certificate where identity controllers read it, and a new issuer into a folder, which it returns.
fn write_credentials(
    folder: &Path,
    (root, trust): (&Root, Trust),
    trust_domain: &str,
) -> anyhow::Result<std::path::PathBuf> {
    let Issuer { certificate, key } = root.issuer(trust, trust_domain)?;
    let issuer = folder.join("issuer");
    let write = || {
        fs::create_dir_all(TRUST_ROOTS)?;
        fs::create_dir_all(&issuer)?;
        fs::write(
            Path::new(TRUST_ROOTS).join("ca-bundle.crt"),
            root.certificate(),
        )?;
        fs::write(issuer.join("crt.pem"), certificate)?;
        fs::write(issuer.join("key.pem"), key)
    };
    write().context("failed to write the issuer of identities")?;
    Ok(issuer)
}

/// Applies the output of `linkerd install` without the webhooks, because nothing here answers them.
async fn install(
    place: &Place,
    plane: &ControlPlane,
    issuer: &Path,
    trust_domain: &str,
) -> anyhow::Result<()> {
    let path = |file: &str| issuer.join(file).display().to_string();
    let print = |arguments: &[&str]| {
        let mut command = Command::new(place.programs.join("linkerd"));
        command
            .args(["install", "--ignore-cluster"])
            .args(arguments)
            .env("KUBECONFIG", plane.kubeconfig());
        pipe(&mut command, "")
    };
    let definitions = print(&["--crds", "--set", "installGatewayAPI=true"])?;
    let objects = print(&[
        "--identity-trust-anchors-file",
        &format!("{TRUST_ROOTS}/ca-bundle.crt"),
        "--identity-issuer-certificate-file",
        &path("crt.pem"),
        "--identity-issuer-key-file",
        &path("key.pem"),
        "--set",
        &format!("identityTrustDomain={trust_domain}"),
    ])?;
    let objects: Vec<&str> = objects
        .split("\n---")
        .filter(|object| !object.contains("WebhookConfiguration\n"))
        .collect();
    plane.apply(&definitions).await?;
    let known: Api<CustomResourceDefinition> = Api::all(plane.client());
    eventually(
        "the definitions to be established",
        wait::SOON,
        async || {
            let all = known.list(&ListParams::default()).await?;
            Ok(all.into_iter().all(is_established).then_some(()))
        },
    )
    .await?;
    plane.apply(&objects.join("\n---")).await?;
    Ok(())
}

fn is_established(definition: CustomResourceDefinition) -> bool {
    let conditions = definition.status.and_then(|status| status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Creates Pods in place of the controllers, because `linkerd inject` checks that they run.
async fn stand_in(plane: &ControlPlane) -> anyhow::Result<()> {
    for controller in ["destination", "identity", "proxy-injector"] {
        stand_in_for(plane, controller).await?;
    }
    Ok(())
}

/// Creates the Pod that stands in for a controller again. Its status says only that it runs.
pub(crate) async fn stand_in_for(plane: &ControlPlane, controller: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(plane.client(), "linkerd");
    let name = format!("linkerd-{controller}-0-0");
    if pods.get_opt(&name).await?.is_some() {
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&name, &now).await?;
    }
    let pod = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": {
            "linkerd.io/control-plane-component": controller,
            "linkerd.io/control-plane-ns": "linkerd",
        } },
        "spec": { "containers": [{ "name": controller, "image": "controller" }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let running = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    pods.patch_status(&name, &PatchParams::default(), &running)
        .await?;
    Ok(())
}

/// Writes the status of the Pod that stands in for the destination controller, as a kubelet does that has just started it.
pub(crate) async fn report_destination(cluster: &Cluster, ready: bool) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.plane.client(), "linkerd");
    let word = if ready { "True" } else { "False" };
    let address = cluster.network.gateway();
    #[expect(clippy::disallowed_methods, reason = "objects have times")]
    let now = jiff::Timestamp::now();
    let status = json!({ "status": {
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{ "ip": address }],
        "conditions": [{ "type": "Ready", "status": word }],
    } });
    pods.patch_status(
        DESTINATION_POD,
        &PatchParams::default(),
        &Patch::Merge(status),
    )
    .await?;
    Ok(())
}

/// Reports it again after a restart, if it was reported before.
pub(super) async fn report_again(cluster: &Cluster) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.plane.client(), "linkerd");
    let status = pods.get(DESTINATION_POD).await?.status;
    if status.is_some_and(|status| status.start_time.is_some()) {
        report_destination(cluster, true).await?;
    }
    Ok(())
}
