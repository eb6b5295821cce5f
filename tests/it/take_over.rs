//! `take-over` starts our controller only when Linkerd's service mirror is gone, whenever it is interrupted. `tests/mesh`
//! shows that no request fails meanwhile.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};

use crate::support::{
    SOON,
    audit::{mark, requests, said, writes},
    controller::Controller,
    installation::{CONTROLLER, CONTROLLER_GROUPS, NAMESPACE, reinstall},
    links::own_link,
    objects::{apply, cluster_ips, join, linkerds_mirror, namespace, service, services},
    planes::alone,
    program::{Outcome, run},
};

const OURS: &str = "linkerd-multicluster-controller";
/// Linkerd's Deployments: one for the Link, and one for local members.
const LINKERDS: [&str; 2] = ["controller-far", "linkerd-local-service-mirror"];
/// Namespace of the mirrors.
const SHOP: &str = "taken-over";

/// Who runs `take-over`, so that the audit log shows its requests.
const MOVER: &str = "mover";

fn as_mover(plane: &ControlPlane) -> PathBuf {
    plane.user_kubeconfig(MOVER, &["system:masters"]).unwrap()
}

/// Runs it beside the [`Kubelet`].
async fn take_over(plane: &ControlPlane, more: &[&str]) -> Outcome {
    let (mover, more) = (as_mover(plane), more.join(" "));
    let work = move || {
        let more = more.split(' ').filter(|word| !word.is_empty());
        let args: Vec<&str> = std::iter::once("take-over").chain(more).collect();
        run(&mover, &args)
    };
    spawn_blocking(work).await.unwrap()
}

/// The messages of a run that must have failed.
async fn failed(plane: &ControlPlane, more: &[&str]) -> String {
    let failed = take_over(plane, more).await;
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    failed.stderr
}

/// A run that goes on beside the test.
fn begin(plane: &ControlPlane) -> Child {
    Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(["take-over", "--yes"])
        .env("KUBECONFIG", as_mover(plane))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What kubelets and Kubernetes' controllers do for the Deployments of a cluster.
#[derive(Default)]
struct Kubelet {
    /// Whether our Pod gets ready.
    starts: AtomicBool,
    /// Whether Linkerd's Pods end when they should.
    ends: AtomicBool,
}

impl Kubelet {
    /// Follows the Deployments for ever.
    async fn follow(&self, plane: &ControlPlane) {
        let deployments = Api::<Deployment>::namespaced(plane.client(), NAMESPACE);
        let pods = Api::<Pod>::namespaced(plane.client(), NAMESPACE);
        let mut ours = None;
        loop {
            for found in deployments.list(&ListParams::default()).await.unwrap() {
                let name = found.name_any();
                let replicas = found.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
                let available = if name == OURS && replicas > 0 {
                    if !self.starts.load(Ordering::Relaxed) {
                        continue;
                    }
                    ours.get_or_insert_with(|| {
                        let config =
                            plane.kubeconfig_through(plane.url(), CONTROLLER, &CONTROLLER_GROUPS);
                        Controller::start_as(&config.unwrap(), &["--identity", "ours"])
                    });
                    replicas
                } else {
                    0
                };
                if LINKERDS.contains(&name.as_str()) && replicas == 0 {
                    if self.ends.load(Ordering::Relaxed) {
                        let _ = pods.delete(&name, &DeleteParams::default()).await;
                    }
                } else if name != OURS {
                    continue;
                }
                let status = json!({ "status": {
                    "observedGeneration": found.metadata.generation, "replicas": replicas,
                    "updatedReplicas": available, "availableReplicas": available,
                    "readyReplicas": available,
                } });
                let (params, status) = (PatchParams::default(), Patch::Merge(status));
                let _ = deployments.patch_status(&name, &params, &status).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A Deployment of Linkerd's service mirror with its Pod.
fn program(name: &str, labels: &Value) -> [Value; 2] {
    let spec = json!({ "containers": [{ "name": "service-mirror", "image": "mirror:2.18.1" }] });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    });
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels },
        "spec": spec,
    });
    pod["spec"]["automountServiceAccountToken"] = false.into();
    [deployment, pod]
}

/// Everything that Linkerd's service mirror leaves in a source cluster, with a mirror whose Service is not exported any
/// more.
async fn linkerds(source: &ControlPlane, far: &ControlPlane) {
    namespace(SHOP, &[source, far]).await;
    join(far, SHOP, "web", "far", "far").await;
    linkerds_mirror(source, SHOP, "web", "far").await;
    linkerds_mirror(source, SHOP, "stale", "far").await;
    let federated = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "web-federated", "namespace": SHOP,
            "labels": { l::MIRRORED_SERVICE: "true" },
            "annotations": { l::REMOTE_DISCOVERY: "web@far" },
        },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    });
    apply(source, &[federated]).await;
    let of_link = json!({ "component": "controller", l::CLUSTER_NAME: "far" });
    apply(source, &program(LINKERDS[0], &of_link)).await;
    let local = json!({ "component": "local-service-mirror" });
    apply(source, &program(LINKERDS[1], &local)).await;
}

async fn replicas(plane: &ControlPlane, name: &str) -> anyhow::Result<i32> {
    let deployments = Api::<Deployment>::namespaced(plane.client(), NAMESPACE);
    let spec = deployments.get(name).await?.spec;
    Ok(spec.and_then(|spec| spec.replicas).unwrap_or(1))
}

async fn scaled(plane: &ControlPlane, name: &str, to: i32) {
    eventually(&format!("{name} to be scaled to {to}"), SOON, async || {
        Ok((replicas(plane, name).await? == to).then_some(()))
    })
    .await
    .unwrap();
}

async fn holder(plane: &ControlPlane) -> Option<String> {
    let leases = Api::<Lease>::namespaced(plane.client(), NAMESPACE);
    let lease = leases.get_opt("service-mirror-write").await.unwrap();
    lease?.spec?.holder_identity
}

/// What `take-over` wrote since a mark, also Leases.
fn written(plane: &ControlPlane, since: u64) -> Vec<String> {
    let mut audit = requests(plane, since);
    audit.retain(|event| event.is_write() && event.user == MOVER);
    said(&audit)
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_are_taken_over_after_interruptions_and_both_never_run_together() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    reinstall(source, &["--set", "controller.replicas=0"]).await;
    linkerds(source, far).await;
    refused_without_writes(source, far).await;
    let before = cluster_ips(source, SHOP).await;

    let since = mark(source);
    let shown = take_over(source, &["--dry-run"]).await.data();
    insta::assert_snapshot!(shown);
    assert_eq!(written(source, since), [""; 0]);

    let kubelet = Kubelet::default();
    let steps = async {
        // Our Pod does not start: nothing of Linkerd's is touched.
        let mut first = begin(source);
        scaled(source, OURS, 1).await;
        first.kill().unwrap();
        first.wait().unwrap();
        let waits = failed(source, &["--yes", "--wait", "1s"]).await;
        let stands = "not ready after 1s; Linkerd's service mirror still runs";
        assert!(waits.contains(stands), "{waits}");
        for name in LINKERDS {
            assert_eq!(replicas(source, name).await.unwrap(), 1, "{name}");
        }

        // Linkerd's Pods do not end: ours does not write.
        kubelet.starts.store(true, Ordering::Relaxed);
        let mut second = begin(source);
        for name in LINKERDS {
            scaled(source, name, 0).await;
        }
        second.kill().unwrap();
        second.wait().unwrap();
        let waits = failed(source, &["--yes", "--wait", "3s"]).await;
        assert!(
            waits.contains("still runs after 3s: controller-far"),
            "{waits}"
        );
        assert_eq!(
            holder(source).await.as_deref(),
            Some("linkerd-mc take-over")
        );
        assert_eq!(said(&writes(source, since)), [""; 0]);

        kubelet.ends.store(true, Ordering::Relaxed);
        let done = take_over(source, &["--yes"]).await;
        assert_eq!(done.code, 0, "{}", done.stderr);
        let adopted = "adopted 2 Services, with their ClusterIPs";
        assert!(done.stderr.contains(adopted), "{}", done.stderr);
        assert_eq!(holder(source).await.as_deref(), Some("ours"));
        let mut after = before.clone();
        after.remove("stale-far");
        assert_eq!(cluster_ips(source, SHOP).await, after);
        service(source, SHOP, "web-far", |mirror| {
            mirror.annotations().contains_key(l::INSTALLATION)
        })
        .await;

        let since = mark(source);
        let again = take_over(source, &["--yes"]).await;
        assert_eq!(again.code, 0, "{}", again.stderr);
        assert!(again.stdout.contains("Nothing to do"), "{}", again.stdout);
        assert_eq!(written(source, since), [""; 0]);
        rest_is_removed(source).await;
    };
    tokio::select! {
        () = kubelet.follow(source) => {}
        () = steps => {}
    }
}

/// Without a Link, and with a controller that would write beside Linkerd's.
async fn refused_without_writes(source: &ControlPlane, far: &ControlPlane) {
    let since = mark(source);
    let none = failed(source, &["--yes"]).await;
    assert!(none.contains("has no Links"), "{none}");
    let other = failed(source, &["--yes", "--namespace", SHOP]).await;
    let install =
        "linkerd-mc --context source install --set controller.replicas=0 --namespace taken-over";
    assert!(other.contains(install), "{other}");
    assert_eq!(written(source, since), [""; 0]);

    own_link(source, far, "far", &[]).await;
    let up = ["-n", NAMESPACE, "scale", "deployment", OURS, "--replicas=1"];
    source.kubectl(&up).await.unwrap();
    let since = mark(source);
    let beside = failed(source, &["--yes"]).await;
    assert!(beside.contains("runs beside Linkerd's"), "{beside}");
    let stop =
        format!("`kubectl --context source -n {NAMESPACE} scale deployment {OURS} --replicas=0`");
    assert!(beside.contains(&stop), "{beside}");
    let remove = failed(source, &["--remove", "--yes"]).await;
    assert!(remove.contains("runs beside Linkerd's"), "{remove}");
    assert_eq!(written(source, since), [""; 0]);
    let down = ["-n", NAMESPACE, "scale", "deployment", OURS, "--replicas=0"];
    source.kubectl(&down).await.unwrap();
    // Without a terminal, nobody can confirm.
    let asked = failed(source, &[]).await;
    assert!(asked.contains("hint: pass --yes"), "{asked}");
    let early = failed(source, &["--remove", "--yes"]).await;
    assert!(early.contains("has not taken over all mirrors"), "{early}");
}

async fn rest_is_removed(source: &ControlPlane) {
    let listed = take_over(source, &["--remove", "--dry-run"]).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let expected: String = LINKERDS
        .map(|name| format!("Deployment {NAMESPACE}/{name}\n"))
        .concat();
    assert_eq!(listed.stdout, expected);
    for name in LINKERDS {
        assert_eq!(replicas(source, name).await.unwrap(), 0, "{name}");
    }
    for count in [2, 0] {
        let done = take_over(source, &["--remove", "--yes"]).await;
        assert_eq!(done.code, 0, "{}", done.stderr);
        let said = format!("deleted {count} objects");
        assert!(done.stderr.contains(&said), "{}", done.stderr);
    }
    assert!(services(source, SHOP).get("web-far").await.is_ok());
}
