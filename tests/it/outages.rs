//! Target clusters that are unavailable, restored from a backup, or rebuilt. Existing mirrors stay until the cluster
//! answers. Then the controller writes only what has changed.

use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Fault, FaultProxy};
use k8s_openapi::api::core::v1::Service;
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    audit::{mark, requests, said_in, writes_in},
    faults::through,
    installation::install,
    links::{condition, connected, in_step, is_lost, is_well, own_link, status_that, unlink},
    objects::{
        addresses, annotation, cluster_ips, delete, export, gone, label, member, members_are,
        namespace, patch, ports, regroup, relabel, service, slices_that, web,
    },
    planes::{Hub, hub},
};

/// How long the cluster is unavailable. `controller::virtual_time` tests outages of a day.
const AWAY: Duration = Duration::from_secs(10);
/// How soon after the end of an outage all mirrors have to be correct.
const HEALED: Duration = Duration::from_secs(10);

/// A merge patch that sets the port of a Service.
fn port(number: u16) -> Value {
    json!({ "spec": { "ports": [{ "name": "http", "port": number }] } })
}

/// Name of the target cluster that is unavailable, and of the namespace of its Services.
const LOST: &str = "away";
/// The remote members of the federated Service.
const BOTH: [&str; 2] = ["member@away", "member@stays"];

/// The remote members of a federated Service, in order.
fn remote_members(federated: &Service) -> Vec<&str> {
    let list = annotation(federated, l::REMOTE_DISCOVERY).unwrap_or_default();
    let mut list: Vec<&str> = list.split(',').collect();
    list.sort_unstable();
    list
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn outage_removes_nothing_and_only_changes_are_written_after_it() {
    let hub = hub().await;
    let (east, west) = hub.pair();
    namespace(LOST, &[east, &hub.north, west]).await;
    let line = east.fault_proxy().unwrap();
    mirror_both_clusters(hub, &line).await;
    let before = cluster_ips(west, LOST).await;

    let (began, since) = (Instant::now(), mark(west));
    line.set(Fault::Refuse);
    is_lost(west, LOST).await;
    let lost = connected(west, LOST).await;
    patch(east, LOST, "changed", port(8081)).await;
    relabel(east, LOST, "withdrawn", None).await;
    delete(east, LOST, "deleted").await;
    export(east, LOST, &web("new", LOST)).await;
    available_cluster_is_still_mirrored(hub).await;
    // Waits, because the absence of writes takes time to observe.
    tokio::time::sleep(AWAY.saturating_sub(began.elapsed())).await;
    nothing_is_written_for_the_lost_cluster(west, since);
    assert_eq!(connected(west, LOST).await, lost, "since when it is away");
    assert_eq!(lost.0, "False");

    let since = mark(west);
    let healed = Instant::now();
    line.set(Fault::None);
    all_changes_have_come(west, healed).await;
    let now = connected(west, LOST).await;
    assert!(now.0 == "True" && now.1 > lost.1, "{now:?}");
    only_changes_were_written(west, since);
    let after = cluster_ips(west, LOST).await;
    for name in ["same-away", "changed-away", "member-federated"] {
        assert_eq!(after.get(name), before.get(name), "{name}");
    }
    for link in [LOST, "stays"] {
        in_step(west, link, &[]).await;
        unlink(west, link).await;
    }
    gone(west, LOST, "same-away").await;
}

/// Links the cluster that will be unavailable, and one that stays available.
async fn mirror_both_clusters(hub: &Hub, line: &FaultProxy) {
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    let federated = "--federated-service-selector=mirror.linkerd.io/federated=away";
    own_link(west, east, LOST, &[&through(&line.url()), federated]).await;
    own_link(west, north, "stays", &[federated]).await;
    let names = ["same", "changed", "withdrawn", "deleted"];
    for name in names {
        export(east, LOST, &web(name, LOST)).await;
    }
    // The controller of `west` has the default selector for local members.
    for (plane, group) in [(east, LOST), (north, LOST), (west, "member")] {
        export(plane, LOST, &member("member", group, "no")).await;
    }
    is_well(west, LOST).await;
    is_well(west, "stays").await;
    for name in names {
        let name = format!("{name}-away");
        slices_that(west, LOST, &name, |s| addresses(s) == ["192.0.2.10"]).await;
    }
    let complete = |s: &Service| remote_members(s) == BOTH;
    service(west, LOST, "member-federated", complete).await;
}

/// Asserts that a federated Service follows the available clusters, and keeps the member of the unavailable one.
async fn available_cluster_is_still_mirrored(hub: &Hub) {
    let (north, west) = (&hub.north, &hub.west);
    patch(west, LOST, "member", port(8081)).await;
    let changed = service(west, LOST, "member-federated", |s| {
        ports(s) == [("http", 8081)]
    });
    assert_eq!(remote_members(&changed.await), BOTH);
    regroup(north, LOST, "member", Some("no")).await;
    let (remote, local) = (Some("member@away"), Some("member"));
    members_are(west, LOST, "member-federated", remote, local).await;
    regroup(north, LOST, "member", Some(LOST)).await;
    let complete = |s: &Service| remote_members(s) == BOTH;
    service(west, LOST, "member-federated", complete).await;
    export(north, LOST, &web("meanwhile", "stays")).await;
    service(west, LOST, "meanwhile-stays", |_| true).await;
}

/// Asserts that the controller wrote nothing for the unavailable cluster, except for the Link's status, a few times.
fn nothing_is_written_for_the_lost_cluster(west: &ControlPlane, since: u64) {
    let mut touched = said_in(west, LOST, since);
    touched.retain(|write| write.contains("-away"));
    assert_eq!(touched, [""; 0]);
    let audit = requests(west, since);
    let told = audit
        .iter()
        .filter(|event| event.is_write() && event.resource == "links" && event.name == LOST);
    let told = told.count();
    assert!(told <= 4, "its status was written {told} times");
}

async fn all_changes_have_come(west: &ControlPlane, healed: Instant) {
    slices_that(west, LOST, "new-away", |s| addresses(s) == ["192.0.2.10"]).await;
    service(west, LOST, "changed-away", |s| ports(s) == [("http", 8081)]).await;
    for name in ["withdrawn-away", "deleted-away"] {
        gone(west, LOST, name).await;
    }
    let took = healed.elapsed();
    eprintln!("all right {took:?} after the end of an outage of {AWAY:?}");
    assert!(took < HEALED, "{took:?}");
    is_well(west, LOST).await;
}

fn only_changes_were_written(west: &ControlPlane, since: u64) {
    let mut done = said_in(west, LOST, since);
    done.retain(|write| !write.contains("new-away"));
    // A slice has the ports of its Service. A slice that belongs to a deleted Service is deleted too.
    let needed = |write: &String| {
        let (verb, name) = write.split_once(' ').unwrap();
        match verb {
            "delete" => name.starts_with("withdrawn-away") || name.starts_with("deleted-away"),
            "patch" => name.starts_with("changed-away"),
            _ => false,
        }
    };
    assert!(done.iter().all(needed), "{done:?}");
}

/// Name of a target cluster that is restored and then rebuilt, and of its namespace.
const MORTAL: &str = "mortal";

/// Waits until the mirror of `changed` has this port.
async fn has_port(west: &ControlPlane, number: i32) -> Service {
    service(west, MORTAL, "changed-mortal", |s| {
        ports(s) == [("http", number)]
    })
    .await
}

/// Waits until the endpoints of a mirror are the address of this gateway.
async fn leads_to(west: &ControlPlane, mirror: &str, gateway: &str) {
    slices_that(west, MORTAL, mirror, |s| addresses(s) == [gateway]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn mirrors_follow_a_target_that_was_restored_and_then_rebuilt() {
    let west = &hub().await.west;
    let first = ControlPlane::start(MORTAL).await.unwrap();
    install(&first, "192.0.2.70").await;
    namespace(MORTAL, &[&first, west]).await;
    let line = first.fault_proxy().unwrap();
    own_link(west, &first, MORTAL, &[&through(&line.url())]).await;
    for name in ["same", "changed", "deleted"] {
        export(&first, MORTAL, &web(name, MORTAL)).await;
        leads_to(west, &format!("{name}-mortal"), "192.0.2.70").await;
    }
    patch(&first, MORTAL, "changed", port(8081)).await;
    let changed = has_port(west, 8081).await;
    let same = service(west, MORTAL, "same-mortal", |_| true).await;

    mirrors_follow_the_backup(west, &first).await;
    let now = has_port(west, 8081).await;
    assert_eq!(now.metadata.uid, changed.metadata.uid);
    // The controller watches the restored cluster, and sees this change.
    export(&first, MORTAL, &web("then", MORTAL)).await;
    leads_to(west, "then-mortal", "192.0.2.70").await;

    let second = rebuilt().await;
    let since = mark(west);
    another_authority_is_not_trusted(west, first, &second, &line).await;
    assert_eq!(writes_in(west, MORTAL, since), []);
    // With new credentials, the Link connects to the rebuilt cluster.
    own_link(west, &second, MORTAL, &[&through(&line.url())]).await;
    for name in ["same-mortal", "fresh-mortal"] {
        leads_to(west, name, "192.0.2.71").await;
    }
    for name in ["deleted-mortal", "then-mortal"] {
        gone(west, MORTAL, name).await;
    }
    let now = has_port(west, 8083).await;
    assert_eq!(now.metadata.uid, changed.metadata.uid);
    let now = service(west, MORTAL, "same-mortal", |_| true).await;
    assert_eq!(now.metadata.uid, same.metadata.uid);
    assert_eq!(label(&now, l::CLUSTER_NAME), Some(MORTAL));
    is_well(west, MORTAL).await;
    let done = said_in(west, MORTAL, since);
    let lost =
        |write: &String| write.starts_with("delete same") || write.starts_with("delete changed");
    assert!(!done.iter().any(lost), "{done:?}");
    in_step(west, MORTAL, &[]).await;
    unlink(west, MORTAL).await;
    gone(west, MORTAL, "same-mortal").await;
}

/// Restores a backup. The API server then loses later changes, and uses the same resource versions again for other
/// objects.
async fn mirrors_follow_the_backup(west: &ControlPlane, first: &ControlPlane) {
    let backup = first.back_up().await.unwrap();
    patch(first, MORTAL, "changed", port(8082)).await;
    delete(first, MORTAL, "deleted").await;
    export(first, MORTAL, &web("later", MORTAL)).await;
    leads_to(west, "later-mortal", "192.0.2.70").await;
    gone(west, MORTAL, "deleted-mortal").await;
    has_port(west, 8082).await;
    let since = mark(west);
    first.restore(&backup).await.unwrap();
    let restored = Instant::now();
    leads_to(west, "deleted-mortal", "192.0.2.70").await;
    gone(west, MORTAL, "later-mortal").await;
    has_port(west, 8081).await;
    let took = restored.elapsed();
    eprintln!("a target restored from a backup: right after {took:?}");
    assert!(took < HEALED, "{took:?}");
    is_well(west, MORTAL).await;
    let done = said_in(west, MORTAL, since);
    assert!(!done.iter().any(|write| write.contains("same")), "{done:?}");
}

/// A new cluster that replaces the target, with an unchanged Service, a changed one and a new one.
async fn rebuilt() -> ControlPlane {
    let second = ControlPlane::start("mortal-again").await.unwrap();
    install(&second, "192.0.2.71").await;
    namespace(MORTAL, &[&second]).await;
    for (name, number) in [("same", 80), ("changed", 8083), ("fresh", 80)] {
        let mut exported = web(name, MORTAL);
        if name == "changed" {
            let ports = exported
                .spec
                .as_mut()
                .unwrap()
                .ports
                .get_or_insert_default();
            ports.truncate(1);
            ports[0].port = number;
        }
        export(&second, MORTAL, &exported).await;
    }
    second
}

/// The address stays the same, but another authority has signed the new server's certificate.
async fn another_authority_is_not_trusted(
    west: &ControlPlane,
    first: ControlPlane,
    second: &ControlPlane,
    line: &FaultProxy,
) {
    line.lead_to(second).unwrap();
    first.stop();
    let status = status_that(west, MORTAL, |status| {
        condition(status, "Connected").is_some_and(|c| c.status == "False")
    });
    let status = status.await;
    let why = &condition(&status, "Connected").unwrap().message;
    eprintln!("a target with another authority: {why}");
    assert!(why.contains("certificate"), "{why}");
}
