//! Target clusters that are away for long, that know less than they did when they are back, or that are others by then:
//! what is known of them stays until they say otherwise, and no more is written than what they say.

use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Fault};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::{
    faults::{ips, is_lost, is_well, said, through},
    fleet::{install, namespace},
    hub::hub,
    links::{condition, in_step, own_link, status_that, unlink},
    objects::{
        addresses, annotation, delete, export, gone, label, patch, ports, relabel, service,
        slices_that, web,
    },
};

/// An outage that outlasts every timer of the controller, the longest of which take 60 s: after it nothing comes that
/// would not come after half an hour.
const AWAY: Duration = Duration::from_secs(70);
/// How soon after the end of an outage all has to be right.
const HEALED: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_long_outage_takes_nothing_away_and_no_more_is_written_after_it_than_what_changed() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace("away", &[east, north, west]).await;
    let line = east.fault_proxy().unwrap();
    let federated = "--federated-service-selector=mirror.linkerd.io/federated=away";
    own_link(west, east, "away", &[&through(&line.url()), federated]).await;
    own_link(west, north, "stays", &[federated]).await;
    for name in ["same", "changed", "withdrawn", "deleted"] {
        export(east, "away", &web(name, "away")).await;
    }
    for plane in [east, north, west] {
        let mut member = web("member", "no");
        let labels = member.metadata.labels.get_or_insert_default();
        // The controller of `west` has the default selector for members of its own cluster.
        let value = if plane.name() == west.name() {
            "member"
        } else {
            "away"
        };
        labels.insert(l::FEDERATED.into(), value.into());
        export(plane, "away", &member).await;
    }
    is_well(west, "away").await;
    is_well(west, "stays").await;
    for name in ["same", "changed", "withdrawn", "deleted"] {
        let name = format!("{name}-away");
        slices_that(west, "away", &name, |s| addresses(s) == ["192.0.2.10"]).await;
    }
    let remote = |s: &k8s_openapi::api::core::v1::Service| {
        let list = annotation(s, l::REMOTE_DISCOVERY).unwrap_or_default();
        let mut list: Vec<String> = list.split(',').map(str::to_owned).collect();
        list.sort();
        list
    };
    let both = ["member@away", "member@stays"];
    service(west, "away", "member-federated", |s| remote(s) == both).await;
    let before = ips(west, "away").await;

    let began = Instant::now();
    let since = west.audit().unwrap().len();
    // First silence, then nobody there: one outage.
    line.set(Fault::Stall);
    is_lost(west, "away").await;
    let connected = |status: &linkerd_mc::api::link::LinkStatus| {
        let connected = condition(status, "Connected").unwrap();
        (connected.status.clone(), connected.last_transition_time.0)
    };
    let lost = connected(&status_that(west, "away", |_| true).await);
    line.set(Fault::Refuse);
    let ports_now = json!({ "spec": { "ports": [{ "name": "http", "port": 8081 }] } });
    patch(east, "away", "changed", ports_now.clone()).await;
    relabel(east, "away", "withdrawn", None).await;
    delete(east, "away", "deleted").await;
    export(east, "away", &web("new", "away")).await;

    // Meanwhile federated Services live on with the clusters that are there, and keep the place of the one that is not.
    let labels = |value: &str| json!({ "metadata": { "labels": { l::FEDERATED: value } } });
    patch(west, "away", "member", ports_now).await;
    let changed = service(west, "away", "member-federated", |s| {
        ports(s) == [("http", 8081)]
    });
    assert_eq!(remote(&changed.await), both);
    patch(north, "away", "member", labels("no")).await;
    service(west, "away", "member-federated", |s| {
        remote(s) == ["member@away"] && annotation(s, l::LOCAL_DISCOVERY) == Some("member")
    })
    .await;
    patch(north, "away", "member", labels("away")).await;
    service(west, "away", "member-federated", |s| remote(s) == both).await;
    export(north, "away", &web("meanwhile", "stays")).await;
    service(west, "away", "meanwhile-stays", |_| true).await;
    // Silence has to be listened to.
    tokio::time::sleep(AWAY.saturating_sub(began.elapsed())).await;
    let touched = |writes: Vec<String>| -> Vec<String> {
        let of_it = writes.into_iter().filter(|write| write.contains("-away"));
        of_it.collect()
    };
    assert_eq!(touched(said(west, "away", since)), [""; 0]);
    let audit = west.audit().unwrap().split_off(since);
    let told = audit
        .iter()
        .filter(|event| event.is_write() && event.resource == "links" && event.name == "away");
    let told = told.count();
    assert!(told <= 4, "its status was written {told} times");
    assert_eq!(
        connected(&status_that(west, "away", |_| true).await),
        lost,
        "since when it is away"
    );
    assert_eq!(lost.0, "False");

    let since = west.audit().unwrap().len();
    let healed = Instant::now();
    line.set(Fault::None);
    slices_that(west, "away", "new-away", |s| addresses(s) == ["192.0.2.10"]).await;
    service(west, "away", "changed-away", |s| {
        ports(s) == [("http", 8081)]
    })
    .await;
    for name in ["withdrawn-away", "deleted-away"] {
        gone(west, "away", name).await;
    }
    let took = healed.elapsed();
    eprintln!("all right {took:?} after the end of an outage of {AWAY:?}");
    assert!(took < HEALED, "{took:?}");
    is_well(west, "away").await;
    let now = connected(&status_that(west, "away", |_| true).await);
    assert!(now.0 == "True" && now.1 > lost.1, "{now:?}");
    let mut done = said(west, "away", since);
    done.retain(|write| !write.contains("new-away"));
    // A slice has the ports of its Service; those of what goes, go with it.
    let needed = |write: &String| {
        let (verb, name) = write.split_once(' ').unwrap();
        match verb {
            "delete" => name.starts_with("withdrawn-away") || name.starts_with("deleted-away"),
            "patch" => name.starts_with("changed-away"),
            _ => false,
        }
    };
    assert!(done.iter().all(needed), "{done:?}");
    let after = ips(west, "away").await;
    for name in ["same-away", "changed-away", "member-federated"] {
        assert_eq!(after.get(name), before.get(name), "{name}");
    }
    for link in ["away", "stays"] {
        in_step(west, link, &[]).await;
        unlink(west, link).await;
    }
    gone(west, "away", "same-away").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_was_restored_or_rebuilt_under_its_name_is_followed_without_loss() {
    let west = &hub().await.west;
    let first = ControlPlane::start("mortal").await.unwrap();
    install(&first, "192.0.2.70").await;
    namespace("mortal", &[&first, west]).await;
    let line = first.fault_proxy().unwrap();
    let address = through(&line.url());
    own_link(west, &first, "mortal", &[&address]).await;
    for name in ["same", "changed", "deleted"] {
        export(&first, "mortal", &web(name, "mortal")).await;
    }
    let is_there = async |name: &str| {
        slices_that(west, "mortal", name, |s| addresses(s) == ["192.0.2.70"]).await;
    };
    for name in ["same-mortal", "changed-mortal", "deleted-mortal"] {
        is_there(name).await;
    }
    let port = |number: u16| json!({ "spec": { "ports": [{ "name": "http", "port": number }] } });
    let has_port = async |number: i32| {
        service(west, "mortal", "changed-mortal", |s| {
            ports(s) == [("http", number)]
        })
        .await
    };
    patch(&first, "mortal", "changed", port(8081)).await;
    let before = has_port(8081).await;
    let same = service(west, "mortal", "same-mortal", |_| true).await;

    // What came after the backup is undone; versions of objects are given out a second time.
    let backup = first.back_up().await.unwrap();
    patch(&first, "mortal", "changed", port(8082)).await;
    delete(&first, "mortal", "deleted").await;
    export(&first, "mortal", &web("later", "mortal")).await;
    is_there("later-mortal").await;
    gone(west, "mortal", "deleted-mortal").await;
    has_port(8082).await;
    let since = west.audit().unwrap().len();
    first.restore(&backup).await.unwrap();
    let restored = Instant::now();
    is_there("deleted-mortal").await;
    gone(west, "mortal", "later-mortal").await;
    let now = has_port(8081).await;
    let took = restored.elapsed();
    eprintln!("a target restored from a backup: right after {took:?}");
    assert!(took < HEALED, "{took:?}");
    is_well(west, "mortal").await;
    assert_eq!(now.metadata.uid, before.metadata.uid);
    let done = said(west, "mortal", since);
    assert!(!done.iter().any(|write| write.contains("same")), "{done:?}");
    // A watch is under way that sees what comes now.
    export(&first, "mortal", &web("then", "mortal")).await;
    is_there("then-mortal").await;

    let second = ControlPlane::start("mortal-again").await.unwrap();
    install(&second, "192.0.2.71").await;
    namespace("mortal", &[&second]).await;
    for (name, number) in [("same", 80), ("changed", 8083), ("fresh", 80)] {
        let mut exported = web(name, "mortal");
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
        export(&second, "mortal", &exported).await;
    }
    // The address is the same, and who answers there proves to be somebody else.
    let since = west.audit().unwrap().len();
    line.lead_to(&second).unwrap();
    first.stop();
    let status = status_that(west, "mortal", |status| {
        condition(status, "Connected").is_some_and(|c| c.status == "False")
    });
    let why = &condition(&status.await, "Connected")
        .unwrap()
        .message
        .clone();
    eprintln!("a target with another authority: {why}");
    assert!(why.contains("certificate"), "{why}");
    assert_eq!(said(west, "mortal", since), [""; 0]);
    // With its new credentials it is the cluster of that name again.
    own_link(west, &second, "mortal", &[&address]).await;
    for name in ["same-mortal", "fresh-mortal"] {
        slices_that(west, "mortal", name, |s| addresses(s) == ["192.0.2.71"]).await;
    }
    for name in ["deleted-mortal", "then-mortal"] {
        gone(west, "mortal", name).await;
    }
    let now = has_port(8083).await;
    assert_eq!(now.metadata.uid, before.metadata.uid);
    let now = service(west, "mortal", "same-mortal", |_| true).await;
    assert_eq!(now.metadata.uid, same.metadata.uid);
    assert_eq!(label(&now, l::CLUSTER_NAME), Some("mortal"));
    is_well(west, "mortal").await;
    let done = said(west, "mortal", since);
    let lost =
        |write: &String| write.starts_with("delete same") || write.starts_with("delete changed");
    assert!(!done.iter().any(lost), "{done:?}");
    in_step(west, "mortal", &[]).await;
    unlink(west, "mortal").await;
    gone(west, "mortal", "same-mortal").await;
}
