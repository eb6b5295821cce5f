//! Federated Services over three control planes: west itself, east and north.

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Service;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    controller::Controller,
    links::{condition_is, edit, in_step, member_is, own_link, said, status_that, unlink},
    objects::{
        annotation, cluster_ip, create, delete, gone, has_members, join, label, member, namespace,
        patch, ports, regroup, service, slices_of,
    },
    planes::{alone, hub},
};

/// A member of federated Services. If `group` is `member`, both Links of the hub and the controller of west select it.
fn of_team(name: &str, group: &str, team: &str) -> Service {
    let mut service = member(name, group, "no");
    let annotations = service.metadata.annotations.get_or_insert_default();
    annotations.insert("team".into(), team.into());
    service
}

/// Waits until a federated Service has these members, remote and local, and the annotation `team` of the member of this
/// team.
async fn members_are(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    remote: Option<&str>,
    local: Option<&str>,
    team: &str,
) -> Service {
    service(plane, namespace, name, |now| {
        has_members(now, remote, local) && annotation(now, "team") == Some(team)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_join_and_leave_and_the_oldest_link_gives_ports_and_metadata() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace("federated", &[east, north, west]).await;
    let is = async |remote: &str, local: Option<&str>, team: &str| {
        members_are(
            west,
            "federated",
            "web-federated",
            Some(remote),
            local,
            team,
        )
        .await
    };
    // First, only the younger Link has a member.
    create(north, "federated", &of_team("web", "member", "north")).await;
    let first = is("web@north", None, "north").await;
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

    // The member of the older Link ranks before that of the younger Link. The local member ranks before both.
    create(east, "federated", &of_team("web", "member", "east")).await;
    is("web@east,web@north", None, "east").await;
    create(west, "federated", &of_team("web", "member", "west")).await;
    is("web@east,web@north", Some("web"), "west").await;
    for link in ["east", "north"] {
        let joined = member_is(west, link, "federated", "web", "Mirrored").await;
        assert_eq!(joined.local_ref.unwrap().name, "web-federated");
    }

    // The controller copies only changes of the first-ranked member. A member with other ports stays, and the Link's
    // status reports the difference.
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

    regroup(west, "federated", "web", None).await;
    is("web@east,web@north", None, "east").await;
    delete(east, "federated", "web").await;
    is("web@north", None, "north").await;
    status_that(west, "east", |status| {
        said(&status.federated_services, "federated", "web").is_none()
    })
    .await;
    regroup(north, "federated", "web", None).await;
    gone(west, "federated", "web-federated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_mirrored_and_federated_at_once() {
    let (east, west) = hub().await.pair();
    namespace("both", &[east, west]).await;
    let mut both = of_team("web", "member", "east");
    both.metadata
        .labels
        .get_or_insert_default()
        .insert(l::EXPORTED.into(), "true".into());
    create(east, "both", &both).await;
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
    regroup(east, "both", "web", None).await;
    gone(west, "both", "web-federated").await;
    service(west, "both", "web-east", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_link_removes_its_members_and_no_others() {
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
    create(east, "leaving", &of_team("web", "leaving", "east")).await;
    create(north, "leaving", &of_team("web", "leaving", "north")).await;
    create(north, "leaving", &of_team("lonely", "leaving", "north")).await;
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
    // If the selector of the Link does not match a member any more, the member leaves, as if it had lost its label.
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
    let mut headless = of_team("db", "member", "east");
    headless.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    create(east, "headless-member", &headless).await;
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
async fn unreachable_cluster_keeps_its_membership() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("unseen", &[source, far]).await;
    own_link(source, far, "unseen", &[]).await;
    create(far, "unseen", &of_team("web", "unseen", "far")).await;
    create(source, "unseen", &of_team("web", "near", "near")).await;
    let flags = [
        "--federated-service-selector=mirror.linkerd.io/federated=near",
        "--excluded-labels=app",
        "--excluded-annotations=team",
    ];
    let mut controller = Controller::start(source, &flags);
    let exclusive =
        |now: &Service| label(now, "app").is_none() && annotation(now, "team").is_none();
    let both = |now: &Service| has_members(now, Some("web@unseen"), Some("web"));
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
    // The controller continues with what it sees: it copies changes of the local member, and keeps the remote member.
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
    regroup(source, "unseen", "web", None).await;
    let kept = |now: &Service| has_members(now, Some("web@unseen"), None);
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

    // With `--no-local-federation`, Services of the local cluster are not members.
    controller.kill();
    regroup(source, "unseen", "web", Some("near")).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn service_whose_last_cluster_is_replaced_keeps_its_cluster_ip() {
    let pair = alone().await;
    let (west, far) = (&pair.source, &pair.far);
    namespace("replaced", &[west, far]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=member";
    own_link(west, far, "old", &[selector]).await;
    join(far, "replaced", "web", "member", "no").await;
    let _controller = Controller::start(west, &["--join-delay=5s"]);
    let named = async |cluster| {
        let member = format!("web@{cluster}");
        service(west, "replaced", "web-federated", |now| {
            has_members(now, Some(&member), None)
        })
        .await
    };
    let first = named("old").await;
    // While Linkerd may not know the new cluster yet, the old one is unlinked.
    own_link(west, far, "new", &[selector]).await;
    condition_is(west, "new", "Ready", "True", "Mirroring").await;
    unlink(west, "old").await;
    let second = named("new").await;
    assert_eq!(second.metadata.uid, first.metadata.uid);
    assert_eq!(cluster_ip(&second), cluster_ip(&first));
}
