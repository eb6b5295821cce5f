//! Drained clusters: they leave federated Services at once, their mirrors stay, and they rejoin.

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Service;
use linkerd_mc::{
    api::{duration::rfc3339, labels as l},
    timing,
};
use serde_json::{Value, json};

use crate::support::{
    controller::Controller,
    links::{
        annotate, condition_is, condition_says, in_step, links, member_is, own_link, status_that,
        unlink,
    },
    objects::{
        annotation, cluster_ip, endpoints, has_members, join, members_are, namespace, regroup,
        service, services,
    },
    planes::{alone, hub},
    program::{Outcome, run},
};

fn done(outcome: Outcome) -> String {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stdout, "");
    outcome.stderr
}

/// Runs the program on a cluster.
fn cli(plane: &ControlPlane, args: &[&str]) -> Outcome {
    run(plane.kubeconfig(), args)
}

/// Namespace of the members. The test drains first the cluster `dr-east`, and then `dr-north`.
const DRAINED: &str = "drained";
/// The remote members of `web-federated` while no cluster is drained.
const BOTH: Option<&str> = Some("web@dr-east,web@dr-north");

#[tokio::test(flavor = "multi_thread")]
async fn drained_cluster_leaves_federated_services_that_have_other_members_and_rejoins() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace(DRAINED, &[east, north, west]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=drains";
    own_link(west, east, "dr-east", &[selector]).await;
    own_link(west, north, "dr-north", &[selector]).await;
    join(east, DRAINED, "web", "drains", "dr-east").await;
    join(north, DRAINED, "web", "drains", "no").await;
    join(east, DRAINED, "near", "drains", "no").await;
    join(west, DRAINED, "near", "member", "no").await;
    let both = members_are(west, DRAINED, "web-federated", BOTH, None).await;
    let ip = cluster_ip(&both);
    let (remote, local) = (Some("near@dr-east"), Some("near"));
    members_are(west, DRAINED, "near-federated", remote, local).await;
    let mirror = service(west, DRAINED, "web-dr-east", |_| true).await;
    in_step(west, "dr-east", &[]).await;

    a_dry_run_drains_nothing(west).await;
    nothing_is_drained_that_is_ready_alone(east, west).await;
    a_dry_run_tells_what_would_move(north, west).await;
    only_mirrors_name_a_drained_cluster(west, &mirror, ip).await;
    a_drain_can_be_prolonged(west).await;
    the_last_member_stays(west, ip).await;
    the_first_to_come_back_takes_over(west, ip).await;
    members_are(west, DRAINED, "near-federated", remote, local).await;

    for link in ["dr-east", "dr-north"] {
        in_step(west, link, &[]).await;
        unlink(west, link).await;
    }
}

/// What a dry run of the drain of this cluster says, and its exit code.
fn dry_run(west: &ControlPlane, cluster: &str) -> (Value, i32) {
    let dry = cli(west, &["drain", cluster, "--dry-run", "-o=json"]);
    let report: Value = serde_json::from_str(&dry.stdout).unwrap();
    (report["sources"][0].clone(), dry.code)
}

/// A Service, what becomes of it, and the ready endpoints of its other members.
fn outcomes(report: &Value) -> Vec<String> {
    let federated = report["forecast"]["federated"].as_array().unwrap().iter();
    let outcomes = federated.map(|of| {
        let others = of["others"].as_array().unwrap().iter();
        let others =
            others.map(|other| format!("{} {}", other["cluster"], other["readyEndpoints"]));
        let others = others.collect::<Vec<_>>().join(", ");
        format!("{}: {} {others}", of["service"], of["outcome"]).replace('"', "")
    });
    outcomes.collect()
}

async fn a_dry_run_drains_nothing(west: &ControlPlane) {
    let dry = cli(west, &["drain", "dr-east", "--dry-run"]);
    let said = dry.stderr.as_str();
    assert!(said.starts_with("would drain dr-east until 2"), "{said}");
    assert_eq!(dry.code, 0, "{said}");
    let dry = dry.stdout;
    let answer = "west cannot lose dr-east: 2 federated Services would have no ready endpoint\n";
    assert!(dry.starts_with(answer), "{dry}");
    assert!(
        dry.contains("\nkubectl --context west -n linkerd-multicluster annotate links.multicluster.linkerd.io dr-east --overwrite multicluster.linkerd.io/drained-until="),
        "{dry}"
    );
    let link = links(west).get("dr-east").await.unwrap();
    let annotations = link.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(l::DRAINED_UNTIL));
}

/// Nobody can be asked here, so the command fails before it writes.
async fn nothing_is_drained_that_is_ready_alone(east: &ControlPlane, west: &ControlPlane) {
    endpoints(east, DRAINED, "near", 1).await;
    let refused = cli(west, &["drain", "dr-east"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let said = "no other member has a ready endpoint: drained/near-federated in west\n";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert!(refused.stderr.contains("pass --yes"), "{}", refused.stderr);
    let link = links(west).get("dr-east").await.unwrap();
    let annotations = link.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(l::DRAINED_UNTIL));
}

/// Whether a cluster can be lost depends on the ready endpoints of other members, and on who calls its mirrors. The Pod in
/// the mesh has no address, so nobody can say what it calls.
async fn a_dry_run_tells_what_would_move(north: &ControlPlane, west: &ControlPlane) {
    endpoints(north, DRAINED, "web", 2).await;
    let (report, code) = dry_run(west, "dr-east");
    let expected = [
        "near-federated: losesEndpoints local 0",
        "web-federated: moves dr-north 2",
    ];
    assert_eq!(
        (outcomes(&report), code),
        (expected.map(str::to_owned).into(), 0),
        "{report}"
    );
    endpoints(west, DRAINED, "near", 1).await;
    let (report, _) = dry_run(west, "dr-east");
    assert_eq!(outcomes(&report)[0], "near-federated: moves local 1");
    let mirrors = report["forecast"]["mirrors"].as_array().unwrap();
    assert_eq!(mirrors.len(), 1, "{report}");
    assert_eq!(
        (&mirrors[0]["service"], &mirrors[0]["mode"]),
        (&json!("web-dr-east"), &json!("gateway"))
    );

    west.apply(&silent_client().to_string()).await.unwrap();
    let running = r#"{"status":{"phase":"Running"}}"#;
    let patch = [
        "patch",
        "pod",
        "client",
        "-n",
        DRAINED,
        "--subresource=status",
        "--type=merge",
        "-p",
        running,
    ];
    west.kubectl(&patch).await.unwrap();
    let (report, code) = dry_run(west, "dr-east");
    assert_eq!(
        (&report["forecast"]["canLose"], code),
        (&Value::Null, 0),
        "{report}"
    );
    let unseen = report["forecast"]["unseen"][0].as_str().unwrap();
    assert!(unseen.starts_with("what Pods call: 0 of "), "{unseen}");
    west.kubectl(&["delete", "pod", "client", "-n", DRAINED, "--now"])
        .await
        .unwrap();
}

/// A Pod in the mesh that runs nowhere.
fn silent_client() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "client", "namespace": DRAINED, "labels": { "linkerd.io/control-plane-ns": "linkerd" },
        },
        "spec": { "containers": [{ "name": "linkerd-proxy", "image": "none" }] },
    })
}

/// After the command has ended, only mirrors refer to the drained cluster.
async fn only_mirrors_name_a_drained_cluster(west: &ControlPlane, mirror: &Service, ip: &str) {
    let said = done(cli(west, &["drain", "dr-east", "--duration=2h"]));
    let table = west.kubectl(&["-n", l::MULTICLUSTER_NAMESPACE, "get", "link", "dr-east"]);
    let table = table.await.unwrap();
    let columns: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(
        columns[..4],
        ["NAME", "CLUSTER", "READY", "CONNECTED"],
        "{table}"
    );
    let until = columns[columns.len() - 2];
    assert!(until.starts_with("20") && until.ends_with('Z'), "{table}");
    assert!(said.contains("dr-east is drained until 2"), "{said}");
    let services = services(west, DRAINED);
    let drained = services.get("web-federated").await.unwrap();
    assert_eq!(
        annotation(&drained, l::REMOTE_DISCOVERY),
        Some("web@dr-north")
    );
    assert_eq!(cluster_ip(&drained), ip);
    let near = services.get("near-federated").await.unwrap();
    assert!(has_members(&near, None, Some("near")), "{near:?}");
    assert_eq!(services.get("web-dr-east").await.unwrap(), *mirror);
    let told = member_is(west, "dr-east", DRAINED, "web", "Drained").await;
    assert_eq!((told.status.as_str(), told.local_ref), ("False", None));
    let status = status_that(west, "dr-east", |_| true).await;
    assert_eq!((status.federated, status.unhealthy), (Some(0), Some(0)));
    let shown = cli(west, &["status", "--cluster-name=dr-east"]).data();
    assert!(shown.contains("dr-east: drained until 2"), "{shown}");
    in_step(west, "dr-east", &[]).await;
}

async fn a_drain_can_be_prolonged(west: &ControlPlane) {
    let first = condition_is(west, "dr-east", "Drained", "True", "Drained").await;
    done(cli(west, &["drain", "dr-east", "--duration=3h"]));
    let second = condition_is(west, "dr-east", "Drained", "True", "Drained").await;
    assert_ne!(first.message, second.message);
    assert_eq!(first.last_transition_time, second.last_transition_time);
}

/// The last member stays, and `drain` reports it.
async fn the_last_member_stays(west: &ControlPlane, ip: &str) {
    let (report, code) = dry_run(west, "dr-north");
    let expected = vec!["web-federated: stays ".to_owned()];
    assert_eq!((outcomes(&report), code), (expected, 1), "{report}");
    let last = cli(west, &["drain", "dr-north"]);
    assert_eq!(last.code, 1, "{}", last.stderr);
    assert_eq!(last.stdout, "drained/web-federated\n");
    assert!(
        last.stderr
            .contains("stays in federated Services that have no other member: 1"),
        "{}",
        last.stderr
    );
    condition_is(west, "dr-north", "Drained", "True", "LastMember").await;
    let told = member_is(west, "dr-north", DRAINED, "web", "Drained").await;
    assert_eq!(told.status, "True");
    let north = Some("web@dr-north");
    let alone = members_are(west, DRAINED, "web-federated", north, None).await;
    assert_eq!(cluster_ip(&alone), ip);
}

/// When the first cluster is back, the cluster that had to stay leaves. It rejoins when its own drain ends.
async fn the_first_to_come_back_takes_over(west: &ControlPlane, ip: &str) {
    let services = services(west, DRAINED);
    done(cli(west, &["drain", "dr-east", "--end"]));
    let back = services.get("web-federated").await.unwrap();
    assert_eq!(annotation(&back, l::REMOTE_DISCOVERY), Some("web@dr-east"));
    condition_is(west, "dr-north", "Drained", "True", "Drained").await;
    done(cli(west, &["drain", "dr-north", "--end"]));
    let all = services.get("web-federated").await.unwrap();
    assert_eq!(annotation(&all, l::REMOTE_DISCOVERY), BOTH);
    assert_eq!(cluster_ip(&all), ip);
    let said = done(cli(west, &["drain", "dr-north", "--end"]));
    assert!(said.contains("dr-north is not drained"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn drain_ends_at_its_time_and_an_invalid_one_changes_nothing() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    let ns = "drains-end";
    namespace(ns, &[east, north, west]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=ends";
    own_link(west, east, "end-east", &[selector]).await;
    own_link(west, north, "end-north", &[selector]).await;
    join(east, ns, "web", "ends", "no").await;
    join(north, ns, "web", "ends", "no").await;
    let all = Some("web@end-east,web@end-north");
    members_are(west, ns, "web-federated", all, None).await;

    let soon = timing::now() + std::time::Duration::from_secs(15);
    annotate(west, "end-east", json!({ l::DRAINED_UNTIL: rfc3339(soon) })).await;
    members_are(west, ns, "web-federated", Some("web@end-north"), None).await;
    members_are(west, ns, "web-federated", all, None).await;
    assert!(
        timing::now() >= soon - std::time::Duration::from_secs(1),
        "back too early"
    );
    member_is(west, "end-east", ns, "web", "Mirrored").await;
    status_that(west, "end-east", |status| {
        status.conditions.iter().all(|c| c.type_ != "Drained")
    })
    .await;

    annotate(west, "end-east", json!({ l::DRAINED_UNTIL: "soon" })).await;
    condition_says(
        west,
        "end-east",
        "Ready",
        ("False", "InvalidLink"),
        "invalid time \"soon\" (use RFC 3339, such as 2026-01-31T12:00:00Z)",
    )
    .await;
    members_are(west, ns, "web-federated", all, None).await;
    annotate(west, "end-east", json!({ l::DRAINED_UNTIL: null })).await;
    condition_is(west, "end-east", "Ready", "True", "Mirroring").await;
    members_are(west, ns, "web-federated", all, None).await;

    let refused = run(west.kubeconfig(), &["drain", "nowhere"]).failure();
    assert!(refused.contains("no Link to \"nowhere\""), "{refused}");
    assert!(refused.contains("linked clusters: "), "{refused}");
    for link in ["end-east", "end-north"] {
        in_step(west, link, &[]).await;
        unlink(west, link).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn drain_applies_after_a_restart_and_to_an_unreachable_cluster() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    let ns = "drains-away";
    namespace(ns, &[source, far]).await;
    let selector = "--federated-service-selector=mirror.linkerd.io/federated=away";
    own_link(source, far, "away", &[]).await;
    join(far, ns, "web", "away", "no").await;
    join(source, ns, "web", "away", "no").await;
    let mut controller = Controller::start(source, &[selector]);
    let before = members_are(source, ns, "web-federated", Some("web@away"), Some("web")).await;
    condition_is(source, "away", "Ready", "True", "Mirroring").await;
    controller.kill();

    // No controller runs: the command that does not wait succeeds, and the one that waits times out.
    let left = cli(source, &["drain", "away", "--wait=0s"]);
    assert_eq!(left.code, 0, "{}", left.stderr);
    assert!(
        left.stderr.starts_with("away is drained until "),
        "{}",
        left.stderr
    );
    let waited = cli(source, &["drain", "away", "--wait=1s"]).failure();
    assert!(
        waited.contains("away has not left federated Services after 1s"),
        "{waited}"
    );
    far.pause_api_server().unwrap();

    // The new controller has never connected to the cluster. It removes the drained cluster, too.
    let controller = Controller::start(source, &[selector]);
    let after = members_are(source, ns, "web-federated", None, Some("web")).await;
    assert_eq!(cluster_ip(&after), cluster_ip(&before));
    condition_is(source, "away", "Drained", "True", "Drained").await;
    let metric = r#"linkerd_mc_link_drained{link="away"} 1"#;
    let (_, metrics) = controller.get("/metrics").await.unwrap();
    assert!(metrics.contains(metric), "{metrics}");

    // The cluster rejoins when the controller can connect to it.
    far.resume_api_server().unwrap();
    condition_is(source, "away", "Ready", "True", "Mirroring").await;
    done(cli(source, &["drain", "away", "--end"]));
    members_are(source, ns, "web-federated", Some("web@away"), Some("web")).await;
    regroup(source, ns, "web", None).await;
    in_step(source, "away", &[selector]).await;
    unlink(source, "away").await;
}
