//! The controller repairs its own objects, adopts those of Linkerd's service mirror, and does not change those of
//! others.

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, requests},
    installation::NAMESPACE,
    links::{condition_is, in_step, member_is, mirror_is, objects, own_link, unlink},
    objects::{
        addresses, annotation, apply, cluster_ip, create, delete, export, gone, join, label,
        linkerds_mirror, linkerds_mirror_at, namespace, patch, ports, service, services, slices,
        slices_of, slices_that, web,
    },
    planes::hub,
};

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_of_linkerds_service_mirror_are_adopted() {
    let (east, west) = hub().await.pair();
    namespace("adopted", &[east, west]).await;
    let before = linkerds_mirror(west, "adopted", "web", "adopt").await;
    linkerds_mirror(west, "adopted", "stale", "adopt").await;
    linkerds_mirror(west, "adopted", "web", "somebody").await;
    export(east, "adopted", &web("web", "adopt")).await;
    own_link(west, east, "adopt", &[]).await;

    let endpoints = Api::<Endpoints>::namespaced(west.client(), "adopted");
    slices_that(west, "adopted", "web-adopt", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    assert!(endpoints.get_opt("web-adopt").await.unwrap().is_none());
    let managed = |s: &Service| annotation(s, l::MANAGED_BY) == Some(l::MANAGER);
    let after = service(west, "adopted", "web-adopt", managed).await;
    assert_eq!(
        (after.uid(), cluster_ip(&after)),
        (before.uid(), cluster_ip(&before))
    );
    assert_eq!(ports(&after).len(), 3);
    // The Service of the other mirror of this cluster is not exported, so the controller deletes the mirror with its
    // Endpoints. The mirror of a cluster without a Link stays.
    gone(west, "adopted", "stale-adopt").await;
    assert!(endpoints.get_opt("stale-adopt").await.unwrap().is_none());
    in_step(west, "adopt", &[]).await;
    unlink(west, "adopt").await;
    gone(west, "adopted", "web-adopt").await;
    service(west, "adopted", "web-somebody", |_| true).await;
    assert!(endpoints.get_opt("web-somebody").await.unwrap().is_some());
}

/// When Kubernetes deletes its own slice of the Endpoints, Linkerd drops the address, although our slice has it too.
/// Linkerd adds the address again when our slice changes.
#[tokio::test(flavor = "multi_thread")]
async fn slice_of_an_adopted_mirror_is_written_after_the_slice_of_its_endpoints_is_gone() {
    let (east, west) = hub().await.pair();
    let since = mark(west);
    namespace("handed-over", &[east, west]).await;
    linkerds_mirror_at(west, "handed-over", "web", "hand-over", "192.0.2.10").await;
    export(east, "handed-over", &web("web", "hand-over")).await;
    own_link(west, east, "hand-over", &[]).await;
    in_step(west, "hand-over", &[]).await;
    let one = |found: &[EndpointSlice]| found.len() == 1 && addresses(found) == ["192.0.2.10"];
    let ours = slices_that(west, "handed-over", "web-hand-over", one).await;
    in_step(west, "hand-over", &[]).await;

    let events = requests(west, since);
    let writes: Vec<_> = events
        .iter()
        .filter(|event| event.is_write() && event.namespace == "handed-over")
        .filter(|event| event.resource == "endpointslices")
        .collect();
    let gone = writes.iter().find(|event| event.verb == "delete").unwrap();
    let last = writes
        .iter()
        .rev()
        .find(|event| event.name == ours[0].name_any());
    assert!(last.unwrap().received > gone.noted, "{writes:#?}");
    unlink(west, "hand-over").await;
}

/// As the test above, for the probe Service. Linkerd's own service mirror labels the Endpoints of probe Services only
/// with the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn slice_of_an_adopted_probe_service_is_written_after_the_slice_of_its_endpoints_is_gone() {
    let (east, west) = hub().await.pair();
    let since = mark(west);
    let probe = json!({
        "metadata": {
            "name": "probe-probed",
            "labels": { l::MIRRORED_GATEWAY: "true", l::CLUSTER_NAME: "probed" },
        },
        "spec": { "ports": [{ "name": "mc-probe", "port": 4191 }] },
    });
    let parameters = PostParams::default();
    let probe = serde_json::from_value(probe).unwrap();
    let created = services(west, NAMESPACE).create(&parameters, &probe).await;
    created.unwrap();
    let endpoints = json!({
        "metadata": { "name": "probe-probed", "labels": { l::CLUSTER_NAME: "probed" } },
        "subsets": [{
            "addresses": [{ "ip": "192.0.2.10" }],
            "ports": [{ "name": "mc-probe", "port": 4191 }],
        }],
    });
    let endpoints = serde_json::from_value(endpoints).unwrap();
    let api = Api::<Endpoints>::namespaced(west.client(), NAMESPACE);
    api.create(&parameters, &endpoints).await.unwrap();
    let one = |found: &[EndpointSlice]| found.len() == 1 && addresses(found) == ["192.0.2.10"];
    let theirs = slices_that(west, NAMESPACE, "probe-probed", one).await;

    own_link(west, east, "probed", &[]).await;
    in_step(west, "probed", &[]).await;
    let ours = |found: &[EndpointSlice]| one(found) && found[0].uid() != theirs[0].uid();
    let ours = slices_that(west, NAMESPACE, "probe-probed", ours).await;
    in_step(west, "probed", &[]).await;
    let events = requests(west, since);
    let mut writes = events
        .iter()
        .filter(|event| event.is_write() && event.resource == "endpointslices");
    let is = |name: &str, verb: &str| {
        let name = name.to_owned();
        let verb = verb.to_owned();
        move |event: &&control_plane::AuditEvent| {
            event.name == name && (verb.is_empty() || event.verb == verb)
        }
    };
    let gone = writes.clone().find(is(&theirs[0].name_any(), "delete"));
    let last = writes.rfind(is(&ours[0].name_any(), ""));
    assert!(last.unwrap().received > gone.unwrap().noted);
    unlink(west, "probed").await;
}

/// Waits until a mirror and its slice are restored.
async fn repaired(plane: &ControlPlane, namespace: &str, before: &Service) {
    let what = format!("{namespace}/{} to be repaired", before.name_any());
    eventually(&what, SOON, async || {
        let Some(now) = services(plane, namespace)
            .get_opt(&before.name_any())
            .await?
        else {
            return Ok(None);
        };
        let same = now.metadata.labels == before.metadata.labels
            && now.metadata.annotations == before.metadata.annotations
            && ports(&now) == ports(before)
            && now
                .spec
                .as_ref()
                .and_then(|s| s.selector.as_ref())
                .is_none();
        let slices = slices_of(plane, namespace, &before.name_any()).await?;
        Ok((same && addresses(&slices) == ["192.0.2.10"]).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_that_people_changed_are_repaired() {
    let (east, west) = hub().await.pair();
    namespace("repairs", &[east, west]).await;
    own_link(west, east, "repair", &[]).await;
    export(east, "repairs", &web("web", "repair")).await;
    let mirror = service(west, "repairs", "web-repair", |_| true).await;
    slices_that(west, "repairs", "web-repair", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    let changes = [
        json!({ "metadata": { "labels": { "app": "other" } } }),
        json!({ "metadata": { "labels": { l::CLUSTER_NAME: "other" } } }),
        json!({ "metadata": { "labels": { l::MIRRORED_SERVICE: null } } }),
        json!({ "metadata": { "annotations": { "team": null, l::REMOTE_FQ_NAME: "x" } } }),
        json!({ "spec": { "ports": [{ "name": "x", "port": 1 }] } }),
        json!({ "spec": { "selector": { "app": "evil" } } }),
    ];
    for change in changes {
        patch(west, "repairs", "web-repair", change).await;
        repaired(west, "repairs", &mirror).await;
    }
    delete(west, "repairs", "web-repair").await;
    let again = service(west, "repairs", "web-repair", |s| s.uid() != mirror.uid()).await;
    repaired(west, "repairs", &again).await;

    // Somebody changes the endpoints, ports, labels and annotations of the slice, and then deletes it.
    let name = slices_of(west, "repairs", "web-repair").await.unwrap()[0].name_any();
    let slice_changes = [
        json!({ "endpoints": [{ "addresses": ["192.0.2.66"], "conditions": { "ready": true } }] }),
        json!({ "ports": [{ "name": "http", "port": 1, "protocol": "TCP" }] }),
        json!({ "metadata": { "labels": { l::MIRRORED_SERVICE: null } } }),
        json!({ "metadata": { "labels": { l::SLICE_SERVICE: "other" } } }),
        json!({ "metadata": { "labels": { l::SLICE_SERVICE: null } } }),
        json!({ "metadata": { "annotations": { l::REMOTE_GATEWAY_IDENTITY: "evil" } } }),
    ];
    let before = slices(west, "repairs").get(&name).await.unwrap();
    for change in slice_changes {
        slices(west, "repairs")
            .patch(&name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
        slice_is(west, &before).await;
    }
    slices(west, "repairs")
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    slice_is(west, &before).await;

    // Labels and annotations that people add stay, and cause no write.
    let added =
        json!({ "metadata": { "labels": { "theirs": "x" }, "annotations": { "theirs": "x" } } });
    patch(west, "repairs", "web-repair", added).await;
    patch(
        east,
        "repairs",
        "web",
        json!({ "metadata": { "annotations": { "mirror.linkerd.io/no-news": "x" } } }),
    )
    .await;
    let fenced = service(west, "repairs", "web-repair", |s| {
        label(s, "theirs") == Some("x")
    })
    .await;
    export(east, "repairs", &web("later", "repair")).await;
    service(west, "repairs", "later-repair", |_| true).await;
    let now = services(west, "repairs").get("web-repair").await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        fenced.metadata.resource_version
    );
    // They also stay when the controller writes the mirror. Labels and annotations that the controller copied are
    // removed when the target cluster's Service loses them.
    let change = json!({ "metadata": {
        "labels": { "app": null }, "annotations": { "team": null, "new": "x" },
    } });
    patch(east, "repairs", "web", change).await;
    let now = service(west, "repairs", "web-repair", |s| {
        annotation(s, "new") == Some("x")
    })
    .await;
    assert_eq!((label(&now, "app"), annotation(&now, "team")), (None, None));
    assert_eq!(label(&now, "theirs"), Some("x"));
    assert_eq!(annotation(&now, "theirs"), Some("x"));
    in_step(west, "repair", &[]).await;
    unlink(west, "repair").await;
    gone(west, "repairs", "web-repair").await;
}

/// Waits until the slice has its former content again.
async fn slice_is(plane: &ControlPlane, before: &EndpointSlice) {
    let (namespace, name) = (before.namespace().unwrap(), before.name_any());
    eventually(
        &format!("slice {namespace}/{name} to be repaired"),
        SOON,
        async || {
            let now = slices(plane, &namespace).get_opt(&name).await?;
            let same = |now: &EndpointSlice| {
                now.endpoints == before.endpoints
                    && now.ports == before.ports
                    && now.metadata.labels == before.metadata.labels
                    && now.metadata.annotations == before.metadata.annotations
            };
            Ok(now.filter(same).map(|_| ()))
        },
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_federated_service_is_repaired_and_a_users_service_is_left_alone() {
    let (east, west) = hub().await.pair();
    namespace("users-federated", &[east, west]).await;
    own_link(west, east, "users", &[]).await;
    let mut users = web("taken-federated", "no");
    users.metadata.labels = None;
    let users = create(west, "users-federated", &users).await;
    for name in ["taken", "free"] {
        join(east, "users-federated", name, "users", "no").await;
    }
    member_is(west, "users", "users-federated", "taken", "NameConflict").await;
    let ours = service(west, "users-federated", "free-federated", |_| true).await;
    assert_eq!(annotation(&ours, l::REMOTE_DISCOVERY), Some("free@users"));
    let changes = [
        json!({ "metadata": { "labels": { "app": "other" } } }),
        json!({ "metadata": { "labels": { l::MIRRORED_SERVICE: null } } }),
        json!({ "metadata": { "annotations": { l::REMOTE_DISCOVERY: "other@users" } } }),
        json!({ "metadata": { "annotations": { l::REMOTE_DISCOVERY: null } } }),
        json!({ "spec": { "ports": [{ "name": "x", "port": 1 }], "selector": { "app": "evil" } } }),
    ];
    for change in changes {
        patch(west, "users-federated", "free-federated", change).await;
        service(west, "users-federated", "free-federated", |now| {
            now.metadata.labels == ours.metadata.labels
                && now.metadata.annotations == ours.metadata.annotations
                && ports(now) == ports(&ours)
                && now
                    .spec
                    .as_ref()
                    .and_then(|s| s.selector.as_ref())
                    .is_none()
        })
        .await;
    }
    in_step(west, "users", &[]).await;
    unlink(west, "users").await;
    gone(west, "users-federated", "free-federated").await;
    let after = services(west, "users-federated")
        .get("taken-federated")
        .await
        .unwrap();
    assert_eq!(
        after.metadata.resource_version,
        users.metadata.resource_version
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_too_long_or_taken_is_reported_and_nothing_is_created() {
    let (east, west) = hub().await.pair();
    namespace("names", &[east, west]).await;
    // `a` of cluster `b-c` and `a-b` of cluster `c` are both `a-b-c`.
    own_link(west, east, "b-c", &[]).await;
    condition_is(west, "b-c", "Ready", "True", "Mirroring").await;
    let mut second = objects(east, "c", &[]);
    second[2]["metadata"]["name"] = json!("later-c");
    apply(west, &second).await;
    condition_is(west, "later-c", "Ready", "True", "Mirroring").await;
    export(east, "names", &web("a", "b-c")).await;
    let first = service(west, "names", "a-b-c", |s| {
        label(s, l::CLUSTER_NAME) == Some("b-c")
    })
    .await;
    export(east, "names", &web("a-b", "c")).await;
    let said = mirror_is(west, "later-c", "names", "a-b", "NameConflict").await;
    assert!(said.message.contains("a-b-c"), "{}", said.message);
    let now = services(west, "names").get("a-b-c").await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        first.metadata.resource_version
    );
    // When the name is free, the controller gives it to the Service that waited for it.
    delete(east, "names", "a").await;
    service(west, "names", "a-b-c", |s| {
        label(s, l::CLUSTER_NAME) == Some("c")
    })
    .await;

    let long = "s".repeat(62);
    export(east, "names", &web(&long, "c")).await;
    let said = mirror_is(west, "later-c", "names", &long, "NameTooLong").await;
    assert!(said.message.contains("64 characters"), "{}", said.message);
    in_step(west, "b-c", &[]).await;
    unlink(west, "b-c").await;
    in_step(west, "later-c", &[]).await;
    unlink(west, "later-c").await;
    gone(west, "names", "a-b-c").await;
}
