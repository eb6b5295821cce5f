//! Clusters that are drained: they leave federated Services at once, their mirrors stay, and they come back.

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Service;
use linkerd_mc::{
    api::{labels as l, time::rfc3339},
    controller::clock,
};
use serde_json::{Value, json};

use crate::{
    fleet::{Controller, namespace},
    hub::{alone, hub},
    links::{
        condition_is, condition_says, in_step, links, member_is, own_link, status_that, unlink,
    },
    objects::{annotation, cluster_ip, join, patch, service, services},
    program::{Outcome, run},
};

/// Waits until a federated Service has these members, remote and local.
async fn members_are(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    remote: &str,
    local: Option<&str>,
) -> Service {
    service(plane, namespace, name, |now| {
        annotation(now, l::REMOTE_DISCOVERY).unwrap_or_default() == remote
            && annotation(now, l::LOCAL_DISCOVERY) == local
    })
    .await
}

/// Sets the annotation of a Link by hand.
async fn annotate(plane: &ControlPlane, link: &str, until: Value) {
    let change = json!({ "metadata": { "annotations": { l::DRAINED_UNTIL: until } } });
    links(plane)
        .patch(
            link,
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(change),
        )
        .await
        .unwrap();
}

fn done(outcome: Outcome) -> String {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stdout, "");
    outcome.stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_cluster_leaves_all_but_what_nobody_else_carries_and_comes_back() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    let ns = "drained";
    namespace(ns, &[east, north, west]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=drains";
    own_link(west, east, "dr-east", &[selector]).await;
    own_link(west, north, "dr-north", &[selector]).await;
    let cli = |args: &[&str]| run(west.kubeconfig(), args);

    join(east, ns, "web", "drains", "dr-east").await;
    join(north, ns, "web", "drains", "no").await;
    join(east, ns, "near", "drains", "no").await;
    join(west, ns, "near", "member", "no").await;
    let both = members_are(west, ns, "web-federated", "web@dr-east,web@dr-north", None).await;
    members_are(west, ns, "near-federated", "near@dr-east", Some("near")).await;
    let mirror = service(west, ns, "web-dr-east", |_| true).await;
    in_step(west, "dr-east", &[]).await;

    // What it would do, it does not.
    let dry = cli(&["drain", "--cluster-name=dr-east", "--dry-run"]).data();
    assert!(
        dry.starts_with("kubectl -n linkerd-multicluster annotate links.multicluster.linkerd.io dr-east --overwrite multicluster.linkerd.io/drained-until="),
        "{dry}"
    );
    let link = links(west).get("dr-east").await.unwrap();
    let annotations = link.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(l::DRAINED_UNTIL));

    // Once the command has ended, nothing names the cluster any more but its mirrors.
    let said = done(cli(&["drain", "--cluster-name=dr-east", "--for=2h"]));
    assert!(said.contains("dr-east is drained until 2"), "{said}");
    let get = async |name: &str| services(west, ns).get(name).await.unwrap();
    let drained = get("web-federated").await;
    assert_eq!(
        annotation(&drained, l::REMOTE_DISCOVERY),
        Some("web@dr-north")
    );
    assert_eq!(cluster_ip(&drained), cluster_ip(&both));
    let near = get("near-federated").await;
    assert_eq!(annotation(&near, l::REMOTE_DISCOVERY), None);
    assert_eq!(annotation(&near, l::LOCAL_DISCOVERY), Some("near"));
    assert_eq!(get("web-dr-east").await, mirror);
    let told = member_is(west, "dr-east", ns, "web", "Drained").await;
    assert_eq!((told.status.as_str(), told.local_ref), ("False", None));
    let status = status_that(west, "dr-east", |_| true).await;
    assert_eq!((status.federated, status.unhealthy), (Some(0), Some(0)));
    let shown = cli(&["status", "--cluster-name=dr-east"]).data();
    assert!(shown.contains("dr-east: drained until 2"), "{shown}");
    in_step(west, "dr-east", &[]).await;

    // Again, for another time; and what comes meanwhile does not join.
    let first = condition_is(west, "dr-east", "Drained", "True", "Drained").await;
    done(cli(&["drain", "--cluster-name=dr-east", "--for=3h"]));
    let second = condition_is(west, "dr-east", "Drained", "True", "Drained").await;
    assert_ne!(first.message, second.message);
    assert_eq!(first.last_transition_time, second.last_transition_time);

    // The last member stays, and that is told.
    let last = cli(&["drain", "--cluster-name=dr-north"]);
    assert_eq!(last.code, 1, "{}", last.stderr);
    assert_eq!(last.stdout, "drained/web-federated\n");
    assert!(
        last.stderr
            .contains("stays in federated Services without another member: 1"),
        "{}",
        last.stderr
    );
    condition_is(west, "dr-north", "Drained", "True", "LastMember").await;
    let told = member_is(west, "dr-north", ns, "web", "Drained").await;
    assert_eq!(told.status, "True");
    let alone = members_are(west, ns, "web-federated", "web@dr-north", None).await;
    assert_eq!(cluster_ip(&alone), cluster_ip(&both));

    // Who comes back takes over from who is needed no longer.
    done(cli(&["undrain", "--cluster-name=dr-east"]));
    let back = get("web-federated").await;
    assert_eq!(annotation(&back, l::REMOTE_DISCOVERY), Some("web@dr-east"));
    condition_is(west, "dr-north", "Drained", "True", "Drained").await;
    done(cli(&["undrain", "--cluster-name=dr-north"]));
    let all = get("web-federated").await;
    let names = Some("web@dr-east,web@dr-north");
    assert_eq!(annotation(&all, l::REMOTE_DISCOVERY), names);
    assert_eq!(cluster_ip(&all), cluster_ip(&both));
    let said = done(cli(&["undrain", "--cluster-name=dr-north"]));
    assert!(said.contains("dr-north is not drained"), "{said}");
    members_are(west, ns, "near-federated", "near@dr-east", Some("near")).await;

    for link in ["dr-east", "dr-north"] {
        in_step(west, link, &[]).await;
        unlink(west, link).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_by_itself_and_one_that_cannot_be_read_changes_nothing() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    let ns = "drains-end";
    namespace(ns, &[east, north, west]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=ends";
    own_link(west, east, "end-east", &[selector]).await;
    own_link(west, north, "end-north", &[selector]).await;
    join(east, ns, "web", "ends", "no").await;
    join(north, ns, "web", "ends", "no").await;
    let all = "web@end-east,web@end-north";
    members_are(west, ns, "web-federated", all, None).await;

    let soon = clock::now() + std::time::Duration::from_secs(15);
    annotate(west, "end-east", rfc3339(soon).into()).await;
    members_are(west, ns, "web-federated", "web@end-north", None).await;
    members_are(west, ns, "web-federated", all, None).await;
    assert!(
        clock::now() >= soon - std::time::Duration::from_secs(1),
        "back too early"
    );
    member_is(west, "end-east", ns, "web", "Mirrored").await;
    status_that(west, "end-east", |status| {
        status.conditions.iter().all(|c| c.type_ != "Drained")
    })
    .await;

    annotate(west, "end-east", "soon".into()).await;
    condition_says(
        west,
        "end-east",
        "Ready",
        ("False", "InvalidLink"),
        "\"soon\" is no time such as 2026-01-31T12:00:00Z",
    )
    .await;
    members_are(west, ns, "web-federated", all, None).await;
    annotate(west, "end-east", Value::Null).await;
    condition_is(west, "end-east", "Ready", "True", "Mirroring").await;
    members_are(west, ns, "web-federated", all, None).await;

    let refused = run(west.kubeconfig(), &["drain", "--cluster-name=nowhere"]).failure();
    assert!(refused.contains("is to \"nowhere\""), "{refused}");
    assert!(refused.contains("linked clusters: "), "{refused}");
    for link in ["end-east", "end-north"] {
        in_step(west, link, &[]).await;
        unlink(west, link).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_outlasts_the_controller_and_a_cluster_that_is_away() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    let ns = "drains-away";
    namespace(ns, &[source, far]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=away";
    own_link(source, far, "away", &[]).await;
    join(far, ns, "web", "away", "no").await;
    join(source, ns, "web", "away", "no").await;
    let mut controller = Controller::start(source, &[selector]);
    let before = members_are(source, ns, "web-federated", "web@away", Some("web")).await;
    condition_is(source, "away", "Ready", "True", "Mirroring").await;
    controller.kill();

    // Nobody is there to act on it.
    let cli = |args: &[&str]| run(source.kubeconfig(), args);
    let waited = cli(&["drain", "--cluster-name=away", "--wait=1s"]).failure();
    assert!(
        waited.contains("away has not left federated Services after 1s"),
        "{waited}"
    );
    far.pause_api_server().unwrap();

    // A controller that has never seen the cluster takes it out all the same.
    let controller = Controller::start(source, &[selector]);
    let after = members_are(source, ns, "web-federated", "", Some("web")).await;
    assert_eq!(cluster_ip(&after), cluster_ip(&before));
    condition_is(source, "away", "Drained", "True", "Drained").await;
    let metric = r#"linkerd_mc_link_drained{link="away"} 1"#;
    let (_, metrics) = controller.get("/metrics").await.unwrap();
    assert!(metrics.contains(metric), "{metrics}");

    // It comes back when it is seen.
    far.resume_api_server().unwrap();
    condition_is(source, "away", "Ready", "True", "Mirroring").await;
    done(cli(&["undrain", "--cluster-name=away"]));
    members_are(source, ns, "web-federated", "web@away", Some("web")).await;
    patch(
        source,
        ns,
        "web",
        json!({ "metadata": { "labels": { l::FEDERATED: null } } }),
    )
    .await;
    in_step(source, "away", &[selector]).await;
    unlink(source, "away").await;
}
