//! What `kubectl` shows of Links, and what Linkerd's own tools read from their status.

use control_plane::{AuditEvent, ControlPlane, eventually};
use kube::api::{Patch, PatchParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::{mark, writes},
    controller::Controller,
    gateways::Gateways,
    installation::{NAMESPACE, reinstall},
    links::{
        condition_is, events, in_step, links, mirror_is, objects, own_link, said, shown,
        status_that, unlink,
    },
    objects::{apply, delete, export, gone, member, namespace, relabel, service, web},
    planes::{alone, hub},
};

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_links_and_waits_for_them() {
    let (east, west) = hub().await.pair();
    namespace("shown", &[east, west]).await;
    namespace("shown-not", &[east]).await;
    export(east, "shown", &member("web", "shown", "shown")).await;
    export(east, "shown-not", &web("web", "shown")).await;
    own_link(west, east, "shown", &[]).await;
    let wait = [
        "wait",
        "--namespace",
        NAMESPACE,
        "--for=condition=Ready",
        "link/shown",
        "--timeout=60s",
    ];
    west.kubectl(&wait).await.unwrap();
    condition_is(west, "shown", "GatewayAlive", "True", "ProbeSucceeded").await;
    status_that(west, "shown", |s| {
        s.mirrored == Some(1) && s.federated == Some(1)
    })
    .await;
    assert_eq!(
        shown(west, "shown").await,
        ["shown", "shown", "True", "True", "True", "1", "1", "1"]
    );

    // Linkerd's dashboard and `kubectl describe` find the lists in the same place as with Linkerd's service mirror.
    let text = west
        .kubectl(&[
            "get",
            "link",
            "shown",
            "--namespace",
            NAMESPACE,
            "-o",
            "json",
        ])
        .await
        .unwrap();
    let link: Value = serde_json::from_str(&text).unwrap();
    let status = &link["status"];
    let reference = |namespace: &str, name: &str| json!({ "group": "core", "kind": "Service", "name": name, "namespace": namespace });
    let entry = |namespace: &str, list: &str, index: usize, condition: Value| {
        let mut entry = status[list][index].clone();
        let time = entry["conditions"][0]
            .as_object_mut()
            .unwrap()
            .remove("lastTransitionTime")
            .unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
        let expected = json!({
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": reference(namespace, "web"),
            "conditions": [condition],
        });
        assert_eq!(entry, expected);
    };
    let good = |local: &str| json!({ "type": "Mirrored", "status": "True", "reason": "Mirrored", "message": "", "localRef": reference("shown", local) });
    entry("shown", "mirrorServices", 0, good("web-shown"));
    entry("shown", "federatedServices", 0, good("web-federated"));
    let missing = json!({ "type": "Mirrored", "status": "False", "reason": "MissingNamespace", "message": "Namespace does not exist" });
    entry("shown-not", "mirrorServices", 1, missing);
    assert_eq!(status["mirrorServices"].as_array().unwrap().len(), 2);
    assert_eq!(status["observedGeneration"], link["metadata"]["generation"]);
    assert_eq!(status["gateway"]["addresses"], json!(["192.0.2.10"]));
    let types: Vec<&str> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["type"].as_str())
        .collect();
    assert_eq!(
        types,
        ["Ready", "CredentialsValid", "Connected", "GatewayAlive"]
    );

    // The controller also removes the last entry of a list.
    delete(east, "shown", "web").await;
    delete(east, "shown-not", "web").await;
    status_that(west, "shown", |s| {
        s.mirror_services.is_empty() && s.federated_services.is_empty()
    })
    .await;
    in_step(west, "shown", &[]).await;
    unlink(west, "shown").await;
    gone(west, "shown", "web-shown").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn repeated_problem_has_one_event() {
    let (east, west) = hub().await.pair();
    namespace("told", &[east]).await;
    own_link(west, east, "told", &[]).await;
    export(east, "told", &web("web", "told")).await;
    for _ in 0..2 {
        mirror_is(west, "told", "told", "web", "MissingNamespace").await;
        relabel(east, "told", "web", None).await;
        status_that(west, "told", |s| {
            said(&s.mirror_services, "told", "web").is_none()
        })
        .await;
        relabel(east, "told", "web", Some("told")).await;
    }
    mirror_is(west, "told", "told", "web", "MissingNamespace").await;
    // The controller writes Events in order. When the Event of another Service exists, no earlier Event is pending.
    export(east, "told", &web("fence", "told")).await;
    let fence = async || Ok(events(east, "told", "Service", "fence").await?.pop());
    let message = "Skipped mirroring service: namespace does not exist";
    let told = eventually("an Event", SOON, fence).await.unwrap();
    assert_eq!(told.message.as_deref(), Some(message));
    assert_eq!(told.type_.as_deref(), Some("Normal"));
    let on_service = events(east, "told", "Service", "web").await.unwrap();
    let messages: Vec<_> = on_service.iter().map(|e| e.message.as_deref()).collect();
    assert_eq!(messages, [Some(message)], "{on_service:#?}");
    let on_link = events(west, NAMESPACE, "Link", "told").await.unwrap();
    let about_web = on_link
        .iter()
        .filter(|event| event.message.as_deref() == Some(&format!("told/web: {message}")));
    assert_eq!(about_web.count(), 1);
    in_step(west, "told", &[]).await;
    unlink(west, "told").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_cluster_affects_its_own_link_only() {
    let (east, west) = hub().await.pair();
    namespace("silence", &[east, west]).await;
    let mut printed = objects(east, "silence", &[]);
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                      clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: a, user: {token: t}}]\n";
    printed[0]["data"] = json!({ l::KUBECONFIG_KEY: k8s_openapi::ByteString(kubeconfig.into()) });
    apply(west, &printed).await;
    let lost = condition_is(west, "silence", "Connected", "False", "Unreachable").await;
    assert!(lost.message.contains("refused"), "{}", lost.message);
    condition_is(west, "silence", "Ready", "False", "Disconnected").await;
    export(east, "silence", &web("web", "true")).await;
    service(west, "silence", "web-east", |_| true).await;
    apply(west, &objects(east, "silence", &[])).await;
    condition_is(west, "silence", "Ready", "True", "Mirroring").await;
    in_step(west, "silence", &[]).await;
    unlink(west, "silence").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_that_others_changed_is_restored() {
    let (east, west) = hub().await.pair();
    namespace("defaced", &[east, west]).await;
    own_link(west, east, "defaced", &[]).await;
    export(east, "defaced", &web("web", "defaced")).await;
    condition_is(west, "defaced", "GatewayAlive", "True", "ProbeSucceeded").await;
    status_that(west, "defaced", |s| s.mirrored == Some(1)).await;
    let before = condition_is(west, "defaced", "Ready", "True", "Mirroring").await;
    // `trustRoots` is not a field of ours: linkerd2#15398 adds it.
    let roots = json!({ "local": { "bundle": "PEM" }, "lastSyncedTime": "2026-11-25T00:00:00Z" });
    let other = json!({ "status": {
        "conditions": [], "mirrored": 7, "gateway": null, "trustRoots": roots,
    } });
    links(west)
        .patch_status("defaced", &PatchParams::default(), &Patch::Merge(other))
        .await
        .unwrap();
    let after = condition_is(west, "defaced", "Ready", "True", "Mirroring").await;
    assert_eq!(after, before);
    status_that(west, "defaced", |s| {
        let alive = s.gateway.as_ref().and_then(|gateway| gateway.alive);
        s.mirrored == Some(1) && alive == Some(true)
    })
    .await;
    let kept = west.kubectl(&[
        "get",
        "link",
        "defaced",
        "--namespace=linkerd-multicluster",
        "--output=jsonpath={.status.trustRoots}",
    ]);
    let kept: Value = serde_json::from_str(&kept.await.unwrap()).unwrap();
    assert_eq!(kept, roots);
    in_step(west, "defaced", &[]).await;
    unlink(west, "defaced").await;
}

/// How often the controller wrote a Link's status since a mark of the audit log.
fn status_writes(plane: &ControlPlane, since: u64) -> usize {
    let is_one = |event: &&AuditEvent| event.subresource == "status";
    writes(plane, since).iter().filter(is_one).count()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn status_that_another_crd_dropped_is_written_again_with_our_crd() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("dropped", &[source, far]).await;
    own_link(source, far, "dropped", &[]).await;
    export(far, "dropped", &web("web", "dropped")).await;
    let gateways = Gateways::start();
    let _controller = Controller::start(source, &["--probe-address", &gateways.address()]);
    condition_is(source, "dropped", "GatewayAlive", "True", "ProbeSucceeded").await;
    status_that(source, "dropped", |s| s.mirrored == Some(1)).await;
    let before = condition_is(source, "dropped", "Ready", "True", "Mirroring").await;

    // Linkerd's own CRD has only the two lists.
    let since = mark(source);
    let list = json!({ "type": "array", "items": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } });
    let patch = json!([{
        "op": "replace",
        "path": "/spec/versions/2/schema/openAPIV3Schema/properties/status",
        "value": { "type": "object", "properties": {
            "mirrorServices": list, "federatedServices": list,
        } },
    }]);
    let (crd, patch) = ("links.multicluster.linkerd.io", patch.to_string());
    source
        .kubectl(&["patch", "crd", crd, "--type=json", "-p", &patch])
        .await
        .unwrap();
    status_that(source, "dropped", |s| s.conditions.is_empty()).await;
    // The API server drops our fields from later writes, too.
    eventually("the status to be written", SOON, async || {
        Ok((status_writes(source, since) > 0).then_some(()))
    })
    .await
    .unwrap();

    let since = mark(source);
    reinstall(source, &[]).await;
    let after = condition_is(source, "dropped", "Ready", "True", "Mirroring").await;
    assert_eq!(after, before);
    status_that(source, "dropped", |s| {
        let alive = s.gateway.as_ref().and_then(|gateway| gateway.alive);
        s.mirrored == Some(1) && alive == Some(true)
    })
    .await;
    in_step(source, "dropped", &[]).await;
    assert_eq!(status_writes(source, since), 1);
    unlink(source, "dropped").await;
    gone(source, "dropped", "web-dropped").await;
}
