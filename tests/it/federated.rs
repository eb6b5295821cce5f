//! Federated Services over three control planes: west itself, east and north.

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::{
    fleet::{Controller, namespace},
    hub::{alone, hub},
    links::{condition_is, edit, in_step, member_is, own_link, said, status_that, unlink},
    objects::{
        annotation, cluster_ip, delete, gone, label, patch, ports, service, services, slices_of,
        web,
    },
};

/// A member of federated Services: of those of the hub's two Links and of west's own cluster, if `group` is `member`.
fn member(name: &str, group: &str, team: &str) -> Service {
    let mut service = web(name, "no");
    let metadata = &mut service.metadata;
    metadata
        .labels
        .get_or_insert_default()
        .insert(l::FEDERATED.into(), group.into());
    metadata
        .annotations
        .get_or_insert_default()
        .insert("team".into(), team.into());
    service
}

async fn join(plane: &ControlPlane, namespace: &str, service: &Service) {
    services(plane, namespace)
        .create(&PostParams::default(), service)
        .await
        .unwrap();
}

async fn leave(plane: &ControlPlane, namespace: &str, service: &str) {
    patch(
        plane,
        namespace,
        service,
        json!({ "metadata": { "labels": { l::FEDERATED: null } } }),
    )
    .await;
}

/// Waits until a federated Service has these members, remote and local, and its source is of this team.
async fn members_are(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    remote: Option<&str>,
    local: Option<&str>,
    team: &str,
) -> Service {
    service(plane, namespace, name, |now| {
        annotation(now, l::REMOTE_DISCOVERY) == remote
            && annotation(now, l::LOCAL_DISCOVERY) == local
            && annotation(now, "team") == Some(team)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_join_and_leave_and_the_first_in_rank_says_what_it_looks_like() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace("federated", &[east, north, west]).await;
    // The younger Link's member comes first.
    join(north, "federated", &member("web", "member", "north")).await;
    let first = members_are(
        west,
        "federated",
        "web-federated",
        Some("web@north"),
        None,
        "north",
    )
    .await;
    assert_eq!(label(&first, l::MIRRORED_SERVICE), Some("true"));
    assert_eq!(label(&first, l::CLUSTER_NAME), None);
    assert_eq!(label(&first, "app"), Some("web"));
    assert_eq!(ports(&first), [("http", 80), ("admin", 9990), ("dns", 53)]);
    assert_eq!(first.spec.as_ref().unwrap().selector, None);
    assert!(
        slices_of(west, "federated", "web-federated")
            .await
            .unwrap()
            .is_empty()
    );

    // The oldest Link's comes before it, the local one before both.
    join(east, "federated", &member("web", "member", "east")).await;
    members_are(
        west,
        "federated",
        "web-federated",
        Some("web@east,web@north"),
        None,
        "east",
    )
    .await;
    join(west, "federated", &member("web", "member", "west")).await;
    members_are(
        west,
        "federated",
        "web-federated",
        Some("web@east,web@north"),
        Some("web"),
        "west",
    )
    .await;
    for link in ["east", "north"] {
        let joined = member_is(west, link, "federated", "web", "Mirrored").await;
        assert_eq!(joined.local_ref.unwrap().name, "web-federated");
    }

    // The source's changes show, others' do not; one whose ports differ says so, and stays a member.
    let sql = json!({ "spec": { "ports": [{ "name": "sql", "port": 5432 }] } });
    patch(north, "federated", "web", sql.clone()).await;
    let differs = member_is(west, "north", "federated", "web", "PortConflict").await;
    assert_eq!(differs.status, "True");
    assert!(
        differs.message.contains("ports differ"),
        "{}",
        differs.message
    );
    patch(west, "federated", "web", sql).await;
    let changed = service(west, "federated", "web-federated", |s| {
        ports(s) == [("sql", 5432)]
    })
    .await;
    member_is(west, "north", "federated", "web", "Mirrored").await;
    member_is(west, "east", "federated", "web", "PortConflict").await;
    assert_eq!(cluster_ip(&changed), cluster_ip(&first));

    leave(west, "federated", "web").await;
    members_are(
        west,
        "federated",
        "web-federated",
        Some("web@east,web@north"),
        None,
        "east",
    )
    .await;
    delete(east, "federated", "web").await;
    members_are(
        west,
        "federated",
        "web-federated",
        Some("web@north"),
        None,
        "north",
    )
    .await;
    status_that(west, "east", |status| {
        said(&status.federated_services, "federated", "web").is_none()
    })
    .await;
    leave(north, "federated", "web").await;
    gone(west, "federated", "web-federated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_mirrored_and_federated_at_once() {
    let (east, west) = hub().await.pair();
    namespace("both", &[east, west]).await;
    let mut both = member("web", "member", "east");
    both.metadata
        .labels
        .get_or_insert_default()
        .insert(l::EXPORTED.into(), "true".into());
    join(east, "both", &both).await;
    service(west, "both", "web-east", |_| true).await;
    members_are(
        west,
        "both",
        "web-federated",
        Some("web@east"),
        None,
        "east",
    )
    .await;
    leave(east, "both", "web").await;
    gone(west, "both", "web-federated").await;
    service(west, "both", "web-east", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_goes_takes_its_members_along_and_no_others() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace("leaving", &[east, north, west]).await;
    own_link(
        west,
        east,
        "fed-a",
        &["--federated-service-selector=mirror.linkerd.io/federated=leaving"],
    )
    .await;
    own_link(
        west,
        north,
        "fed-b",
        &["--federated-service-selector=mirror.linkerd.io/federated=leaving"],
    )
    .await;
    join(east, "leaving", &member("web", "leaving", "east")).await;
    join(north, "leaving", &member("web", "leaving", "north")).await;
    join(north, "leaving", &member("lonely", "leaving", "north")).await;
    members_are(
        west,
        "leaving",
        "web-federated",
        Some("web@fed-a,web@fed-b"),
        None,
        "east",
    )
    .await;
    service(west, "leaving", "lonely-federated", |_| true).await;
    in_step(west, "fed-b", &[]).await;
    unlink(west, "fed-b").await;
    members_are(
        west,
        "leaving",
        "web-federated",
        Some("web@fed-a"),
        None,
        "east",
    )
    .await;
    gone(west, "leaving", "lonely-federated").await;
    // A selector that no longer takes it is as good as leaving.
    edit(
        west,
        "fed-a",
        json!({ "federatedServiceSelector": { "matchLabels": { l::FEDERATED: "nobody" } } }),
    )
    .await;
    gone(west, "leaving", "web-federated").await;
    in_step(west, "fed-a", &[]).await;
    unlink(west, "fed-a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_headless_service_cannot_join() {
    let (east, west) = hub().await.pair();
    namespace("headless-member", &[east, west]).await;
    let mut headless = member("db", "member", "east");
    headless.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    join(east, "headless-member", &headless).await;
    let refused = member_is(west, "east", "headless-member", "db", "InvalidService").await;
    assert_eq!(
        refused.message,
        "Headless service cannot join federated service"
    );
    assert_eq!(
        (refused.status.as_str(), refused.local_ref),
        ("False", None)
    );
    gone(west, "headless-member", "db-federated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_seen_keeps_its_place() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("unseen", &[source, far]).await;
    own_link(source, far, "unseen", &[]).await;
    join(far, "unseen", &member("web", "unseen", "far")).await;
    join(source, "unseen", &member("web", "near", "near")).await;
    let flags = [
        "--federated-service-selector=mirror.linkerd.io/federated=near",
        "--excluded-labels=app",
        "--excluded-annotations=team",
    ];
    let mut controller = Controller::start(source, &flags);
    let exclusive =
        |now: &Service| label(now, "app").is_none() && annotation(now, "team").is_none();
    let both = |now: &Service| {
        annotation(now, l::REMOTE_DISCOVERY) == Some("web@unseen")
            && annotation(now, l::LOCAL_DISCOVERY) == Some("web")
    };
    service(source, "unseen", "web-federated", |now| {
        both(now) && exclusive(now)
    })
    .await;
    condition_is(source, "unseen", "Ready", "True", "Mirroring").await;
    let before = status_that(source, "unseen", |status| {
        status.federated == Some(1) && !status.federated_services.is_empty()
    })
    .await;
    controller.kill();

    far.pause_api_server().unwrap();
    let mut controller = Controller::start(source, &flags);
    condition_is(source, "unseen", "Connected", "False", "Unreachable").await;
    // It goes on with what it sees: the local member's changes show, and the place of the other is kept.
    patch(
        source,
        "unseen",
        "web",
        json!({ "spec": { "ports": [{ "name": "sql", "port": 5432 }] } }),
    )
    .await;
    service(source, "unseen", "web-federated", |now| {
        both(now) && ports(now) == [("sql", 5432)]
    })
    .await;
    leave(source, "unseen", "web").await;
    let kept = |now: &Service| {
        annotation(now, l::REMOTE_DISCOVERY) == Some("web@unseen")
            && annotation(now, l::LOCAL_DISCOVERY).is_none()
    };
    service(source, "unseen", "web-federated", kept).await;
    let status = status_that(source, "unseen", |_| true).await;
    assert_eq!(status.federated_services, before.federated_services);
    assert_eq!(status.federated, Some(1));
    let (code, _) = controller.get("/ready").await.unwrap();
    assert_eq!(code, 200);

    far.resume_api_server().unwrap();
    condition_is(source, "unseen", "Ready", "True", "Mirroring").await;
    members_are(
        source,
        "unseen",
        "web-federated",
        Some("web@unseen"),
        None,
        "far",
    )
    .await;

    // Without a part in federation the local cluster's own Services are nobody's members.
    controller.kill();
    patch(
        source,
        "unseen",
        "web",
        json!({ "metadata": { "labels": { l::FEDERATED: "near" } } }),
    )
    .await;
    let _controller = Controller::start(source, &[flags[0], "--no-local-federation"]);
    patch(
        far,
        "unseen",
        "web",
        json!({ "metadata": { "annotations": { "team": "farther" } } }),
    )
    .await;
    members_are(
        source,
        "unseen",
        "web-federated",
        Some("web@unseen"),
        None,
        "farther",
    )
    .await;
    in_step(source, "unseen", &[flags[0], "--no-local-federation"]).await;
    unlink(source, "unseen").await;
    gone(source, "unseen", "web-federated").await;
}
