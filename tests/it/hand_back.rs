//! `hand-back` replaces our slices with v1 Endpoints. `tests/mesh` shows that no request fails meanwhile.

use control_plane::ControlPlane;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Endpoints, Service},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use linkerd_mc::{
    api::{
        labels as l,
        link::{Link, LinkStatus},
    },
    timing,
};
use serde_json::{Value, json};

use crate::support::{
    objects::{addresses, namespace, patch, services, slices, slices_of},
    planes::hub,
    program::{Outcome, run},
};

/// Name of the namespace, of the Link and of its target cluster. The installation of this namespace is not the one that
/// other tests use on this cluster.
const HANDED: &str = "handed";
/// The manager of slices that Kubernetes creates from Endpoints.
const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

fn hand_back(plane: &ControlPlane, more: &[&str]) -> Outcome {
    let own = ["hand-back", "--namespace", HANDED, "--yes"];
    run(plane.kubeconfig(), &[&own, more].concat())
}

/// The Services that would be handed back.
fn dry_run(plane: &ControlPlane) -> String {
    let shown = hand_back(plane, &["--dry-run"]);
    assert!(
        shown.stderr.starts_with("would hand back "),
        "{}",
        shown.stderr
    );
    shown.stdout
}

/// Annotations that our controller writes on Services.
fn signature() -> Value {
    json!({ l::MANAGED_BY: l::MANAGER, l::INSTALLATION: HANDED, l::DESIRED_STATE: "1" })
}

/// Creates a mirror with a slice, as our controller does.
async fn mirror(plane: &ControlPlane, name: &str, endpoints: Value) {
    let mirror: Service = serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": signature(), "labels": { l::CLUSTER_NAME: HANDED, l::MIRRORED_SERVICE: "true" } },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    }))
    .unwrap();
    let parameters = PostParams::default();
    let created = services(plane, HANDED).create(&parameters, &mirror).await;
    created.unwrap();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{name}-ipv4"),
            "labels": {
                l::SLICE_SERVICE: name,
                l::SLICE_MANAGED_BY: l::MANAGER,
                l::CLUSTER_NAME: HANDED,
                l::MIRRORED_SERVICE: "true",
            },
            "annotations": { l::INSTALLATION: HANDED, l::REMOTE_GATEWAY_IDENTITY: "gateway" },
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 4143, "protocol": "TCP" }],
    }))
    .unwrap();
    let created = slices(plane, HANDED).create(&parameters, &slice).await;
    created.unwrap();
}

/// The manager of each slice of a Service, and whether `hand-back` wrote the slice once more, for Linkerd.
async fn managers(plane: &ControlPlane, name: &str) -> Vec<(String, bool)> {
    let all = slices_of(plane, HANDED, name).await.unwrap();
    all.iter()
        .map(|slice| {
            let manager = slice.labels().get(l::SLICE_MANAGED_BY);
            let again = slice
                .annotations()
                .keys()
                .any(|key| key.ends_with("/written-again"));
            (manager.cloned().unwrap_or_default(), again)
        })
        .collect()
}

/// The Links of the installation, and v1 Endpoints in its namespace.
fn links(plane: &ControlPlane) -> Api<Link> {
    Api::namespaced(plane.client(), HANDED)
}
fn endpoints(plane: &ControlPlane) -> Api<Endpoints> {
    Api::namespaced(plane.client(), HANDED)
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_back_replaces_our_slices_with_endpoints() {
    let west = &hub().await.west;
    namespace(HANDED, &[west]).await;
    mirror(
        west,
        "web-handed",
        json!([{ "addresses": ["192.0.2.10"], "conditions": { "ready": true } }]),
    )
    .await;
    mirror(
        west,
        "dead-handed",
        json!([{ "addresses": ["192.0.2.11"], "conditions": { "ready": false } }]),
    )
    .await;
    mirror(west, "empty-handed", json!([])).await;
    // This federated Service consisted of slices earlier. Discovery streams of Linkerd that began then still use them.
    mirror(
        west,
        "web-federated",
        json!([{ "addresses": ["192.0.2.12"], "conditions": { "ready": true } }]),
    )
    .await;
    let members = json!({ "metadata": { "annotations": { l::REMOTE_DISCOVERY: "web@handed" } } });
    patch(west, HANDED, "web-federated", members).await;
    link_with_a_status(west).await;
    endpoints_that_kubernetes_left(west).await;

    let shown = dry_run(west);
    assert_eq!(
        shown,
        "handed/dead-handed\nhanded/empty-handed\nhanded/web-federated\nhanded/web-handed\n"
    );
    it_is_refused_while_a_controller_leads(west).await;
    mirrors_are_handed_back(west).await;
    hand_back_continues_after_an_interruption(west).await;
}

async fn link_with_a_status(west: &ControlPlane) {
    let link: Link = serde_json::from_value(json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": HANDED },
        "spec": { "targetClusterName": HANDED },
    }))
    .unwrap();
    let links = links(west);
    links.create(&PostParams::default(), &link).await.unwrap();
    let status = Patch::Merge(json!({ "status": { "mirrored": 3, "observedGeneration": 1 } }));
    let parameters = PatchParams::default();
    let patched = links.patch_status(HANDED, &parameters, &status).await;
    assert!(patched.unwrap().status.is_some());
}

/// Kubernetes leaves such Endpoints behind if a mirror had a selector for a while.
async fn endpoints_that_kubernetes_left(west: &ControlPlane) {
    let left: Endpoints = serde_json::from_value(json!({
        "metadata": { "name": "web-handed", "labels": { "endpoints.kubernetes.io/managed-by": "endpoint-controller" } },
    }))
    .unwrap();
    let created = endpoints(west).create(&PostParams::default(), &left).await;
    created.unwrap();
}

/// A running controller would create again what `hand-back` deletes.
async fn it_is_refused_while_a_controller_leads(west: &ControlPlane) {
    let leases = Api::<Lease>::namespaced(west.client(), HANDED);
    let mut lease: Lease = serde_json::from_value(json!({
        "metadata": { "name": "service-mirror-write" },
        "spec": { "holderIdentity": "controller", "leaseDurationSeconds": 3600 },
    }))
    .unwrap();
    lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(timing::now()));
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let refused = hand_back(west, &[]).failure();
    let running = "the controller is running in namespace \"handed\"";
    assert!(refused.contains(running), "{refused}");
    assert!(refused.contains("until its lease has expired"), "{refused}");
    let held_by = async |holder: Option<&str>| {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": i32::MAX });
        let patch = Patch::Merge(json!({ "spec": spec }));
        let params = PatchParams::default();
        let patched = leases.patch(l::LEASE_NAME, &params, &patch);
        patched.await.unwrap();
    };
    // Nobody could wait until this one expires.
    held_by(Some(l::TAKE_OVER_HOLDER)).await;
    let refused = hand_back(west, &[]).failure();
    let delete = "`kubectl --context west -n handed delete lease service-mirror-write`";
    assert!(refused.contains("an interrupted take-over"), "{refused}");
    assert!(refused.contains(delete), "{refused}");
    held_by(None).await;
    // A Deployment would start a controller, even if none runs now.
    let name = "linkerd-multicluster-controller";
    let create = ["-n", HANDED, "create", "deployment", name, "--image=none"];
    west.kubectl(&create).await.unwrap();
    let refused = hand_back(west, &[]).failure();
    assert!(refused.contains(running), "{refused}");
    let stop = format!("`kubectl --context west -n {HANDED} scale deployment {name} --replicas=0`");
    assert!(refused.contains(&stop), "{refused}");
    let scale = ["-n", HANDED, "scale", "deployment", name, "--replicas=0"];
    west.kubectl(&scale).await.unwrap();
    // Without a terminal, nobody can confirm.
    let asked = run(west.kubeconfig(), &["hand-back", "--namespace", HANDED]).failure();
    assert!(asked.contains("hint: pass --yes"), "{asked}");
}

async fn mirrors_are_handed_back(west: &ControlPlane) {
    let done = hand_back(west, &[]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, ""),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("handed back 4 Services"),
        "{}",
        done.stderr
    );
    // The status of a Link that no controller has seen: the default of the CRD.
    let unseen = LinkStatus {
        observed_generation: Some(-1),
        ..LinkStatus::default()
    };
    let status = links(west).get(HANDED).await.unwrap().status;
    assert_eq!(status, Some(unseen));
    for (name, wanted) in [("web-handed", "192.0.2.10"), ("dead-handed", "192.0.2.11")] {
        let theirs = [(MIRRORING.to_owned(), true)];
        assert_eq!(managers(west, name).await, theirs, "{name}");
        assert_eq!(
            addresses(&slices_of(west, HANDED, name).await.unwrap()),
            [wanted],
            "{name}"
        );
    }
    assert_eq!(managers(west, "empty-handed").await, []);
    let endpoints = endpoints(west);
    let web = endpoints.get("web-handed").await.unwrap();
    assert_eq!(web.labels()[l::CLUSTER_NAME], HANDED);
    assert_eq!(web.annotations()[l::REMOTE_GATEWAY_IDENTITY], "gateway");
    assert!(!web.annotations().contains_key(l::INSTALLATION));
    let dead = endpoints.get("dead-handed").await.unwrap().subsets.unwrap();
    assert!(dead[0].addresses.is_none(), "{dead:?}");

    // Nobody would ever remove Endpoints of a federated Service.
    assert!(endpoints.get_opt("web-federated").await.unwrap().is_none());
    let ours = [(l::MANAGER.to_owned(), false)];
    assert_eq!(managers(west, "web-federated").await, ours);
    let federated = services(west, HANDED).get("web-federated").await.unwrap();
    let keys: Vec<&String> = federated.annotations().keys().collect();
    assert_eq!(keys, [l::REMOTE_DISCOVERY]);

    // Linkerd's service mirror must not assume that the mirror is up to date.
    let mirror = services(west, HANDED).get("web-handed").await.unwrap();
    assert_eq!(mirror.annotations().len(), 0, "{mirror:?}");
}

/// Creates the state of an interruption after the deletion of our slices, and runs `hand-back` again.
async fn hand_back_continues_after_an_interruption(west: &ControlPlane) {
    let signed = json!({ "metadata": { "annotations": signature() } });
    patch(west, HANDED, "web-handed", signed).await;
    let forgotten =
        json!({ "metadata": { "annotations": { "mirror.linkerd.io/written-again": null } } });
    let theirs = slices_of(west, HANDED, "web-handed").await.unwrap();
    slices(west, HANDED)
        .patch(
            &theirs[0].name_any(),
            &PatchParams::default(),
            &Patch::Merge(forgotten),
        )
        .await
        .unwrap();
    let shown = dry_run(west);
    assert_eq!(shown, "handed/web-handed\n");
    assert_eq!(hand_back(west, &[]).code, 0);
    assert_eq!(dry_run(west), "");
    let theirs = [(MIRRORING.to_owned(), true)];
    assert_eq!(managers(west, "web-handed").await, theirs);
}
