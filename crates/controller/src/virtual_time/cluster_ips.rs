//! A Service range without a free `ClusterIP`, for hours.

use mirror_core::api::labels as l;
use serde_json::json;
use tokio::time::sleep;

use super::{
    denied::{deny, hosts},
    server::ApiServer,
    world::{NS, World, hours, pauses, seconds, within},
};

/// Services that are exported, and those of them that get a `ClusterIP`.
const SERVICES: usize = 20;
const ROOM: usize = 8;

fn name(number: usize) -> String {
    format!("web-{number:02}")
}

/// A cluster with more Services than there are `ClusterIP`s in the source cluster.
async fn exhausted() -> (World, ApiServer) {
    let mut world = World::new();
    let east = world.target("east");
    for number in 0..SERVICES {
        east.export(&name(number));
    }
    // The probe Service has one too.
    world.source.limit_cluster_ips(ROOM + 1);
    world.start();
    within(seconds(30), "all to be mirrored or waiting", || {
        mirrors(&world).len() == ROOM && world.is("east", "ClusterIPsExhausted", "True")
    })
    .await;
    sleep(seconds(15)).await;
    (world, east)
}

fn mirrors(world: &World) -> Vec<String> {
    world.source.names("services", NS)
}

#[tokio::test(start_paused = true)]
async fn services_that_wait_for_a_cluster_ip_are_tried_seldom_for_hours() {
    let (mut world, east) = exhausted().await;
    let mark = world.source.mark();
    sleep(hours(6)).await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    let pauses = pauses(&tries);
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    assert!((300.0..301.0).contains(&longest), "{longest} s");
    // The first refusal after a pause stops the others.
    let rounds = pauses.iter().filter(|pause| **pause > 1.0).count();
    assert!((70..=80).contains(&rounds), "{rounds} rounds");
    assert!(tries.len() < 5 * rounds, "{} tries", tries.len());
    assert_eq!(world.source.writes(mark), [""; 0]);
    assert_eq!(world.status("east").unhealthy, Some(12));
    assert!(world.is("east", "Ready", "True"));

    // What needs no ClusterIP goes on.
    let mirror = mirrors(&world).remove(0);
    east.set_port(mirror.trim_end_matches("-east"), 81);
    let port = || {
        world
            .source
            .get("services", NS, &mirror)
            .map(|s| s["spec"]["ports"][0]["port"].clone())
    };
    within(seconds(1), "the port", || port() == Some(json!(81))).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn range_that_is_full_only_for_a_moment_delays_mirrors_by_seconds() {
    let mut world = World::new();
    let east = world.target("east");
    // It is tried again and again, and changes nothing for others.
    deny(&world.source, "denied-");
    east.export("denied-1");
    world.start();
    world.in_sync(&["east"], &[]).await;
    for time in 1..=5 {
        // So says an API server that starts and has not listed its ServiceCIDRs yet.
        world.source.limit_cluster_ips(0);
        let mirrored = mirrors(&world).len();
        for number in 0..SERVICES {
            east.export(&format!("{}-{time}", name(number)));
        }
        sleep(seconds(1)).await;
        assert_eq!(mirrors(&world).len(), mirrored);
        world.source.limit_cluster_ips(usize::MAX);
        within(seconds(4), "all mirrors", || {
            mirrors(&world).len() == mirrored + SERVICES
        })
        .await;
        sleep(seconds(300)).await;
    }
    world.stop().await;
}

/// A source cluster with 254 addresses that does not allow 300 of the Services of `east`.
async fn denied_more_than_there_are_addresses() -> (World, ApiServer) {
    let mut world = World::new();
    world.source.set_service_range("10.96.0.0/24");
    deny(&world.source, "bulk-");
    let east = world.target("east");
    for number in 0..300 {
        east.export(&format!("bulk-{number}"));
    }
    world.start();
    sleep(seconds(60)).await;
    (world, east)
}

#[tokio::test(start_paused = true)]
async fn denied_services_take_no_addresses_from_others() {
    let (mut world, east) = denied_more_than_there_are_addresses().await;
    for minute in 0..10 {
        let name = format!("web-{minute}");
        east.export(&name);
        within(seconds(5), &name, || world.has(&format!("{name}-east"))).await;
        sleep(seconds(60)).await;
        let exhausted = world.condition("east", "ClusterIPsExhausted");
        assert_eq!(exhausted, None, "there are addresses");
    }
    world.source.forward();
    within(seconds(61), "as many as there is room for", || {
        world.is("east", "ClusterIPsExhausted", "True")
    })
    .await;
    // Three quarters of 254 addresses, less that of the probe Service.
    assert_eq!(mirrors(&world).len(), 189);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn service_that_needs_more_addresses_than_there_are_delays_no_other() {
    let mut world = World::new();
    // Ten addresses for mirrors and for the probe Service.
    world.source.set_service_range("10.96.0.0/28");
    let east = world.target("east");
    east.export_as("db", (l::EXPORTED, "true"));
    east.edit("db", &json!({ "spec": { "clusterIP": "None" } }));
    let names: Vec<String> = (0..12).map(|number| format!("db-{number}")).collect();
    hosts(&east, &names);
    world.start();
    within(seconds(30), "a report", || {
        world.is("east", "ClusterIPsExhausted", "True")
    })
    .await;
    for number in 0..3 {
        east.export(&name(number));
        let mirror = format!("{}-east", name(number));
        within(seconds(5), &mirror, || world.has(&mirror)).await;
        sleep(seconds(60)).await;
    }
    hosts(&east, &names[..3]);
    within(seconds(5), "the hosts", || world.has("db-2-east")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_ip_that_a_mirror_gives_back_is_used_at_once() {
    let (mut world, east) = exhausted().await;
    sleep(hours(1)).await;
    for _ in 0..3 {
        let mirror = mirrors(&world).remove(0);
        let withdrawn = json!({ "metadata": { "labels": { l::EXPORTED: null } } });
        east.edit(mirror.trim_end_matches("-east"), &withdrawn);
        within(seconds(1), "the next one", || {
            let now = mirrors(&world);
            now.len() == ROOM && !now.contains(&mirror)
        })
        .await;
        sleep(seconds(60)).await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_ips_that_others_give_back_are_used_within_five_minutes() {
    let (mut world, _) = exhausted().await;
    sleep(hours(1)).await;
    let mark = world.source.mark();
    world.source.limit_cluster_ips(usize::MAX);
    // The first try succeeds, and all others follow.
    within(seconds(301), "all mirrors", || {
        mirrors(&world).len() == SERVICES
    })
    .await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    assert_eq!(tries.len(), SERVICES - ROOM);
    let took = tries[tries.len() - 1].at - tries[0].at;
    assert!(took < seconds(2), "{took:?} after the first one");
    within(seconds(12), "the status", || {
        world.condition("east", "ClusterIPsExhausted").is_none()
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn mirrors_leave_a_quarter_of_the_service_range_free() {
    let mut world = World::new();
    // It has 14 addresses. The probe Service takes one, and mirrors nine more.
    world.source.set_service_range("10.96.0.0/28");
    let east = world.target("east");
    for number in 0..SERVICES {
        east.export(&name(number));
    }
    world.start();
    within(seconds(30), "mirrors and a report", || {
        !mirrors(&world).is_empty() && world.is("east", "ClusterIPsExhausted", "True")
    })
    .await;
    sleep(hours(1)).await;
    let (mark, standing) = (world.source.mark(), mirrors(&world));
    assert_eq!(standing.len(), 9, "{standing:?}");
    sleep(hours(1)).await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    assert_eq!(tries.len(), 0, "nothing is tried");
    assert_eq!(mirrors(&world), standing, "no mirror goes");
    // Another Link gets its probe Service nevertheless, so that its gateway is probed.
    world.target("north");
    within(seconds(5), "the gateway of north", || {
        world.is("north", "GatewayAlive", "True")
    })
    .await;
    assert_eq!(mirrors(&world), standing);
    // What mirrors give back is used at once.
    for mirror in &standing[..4] {
        let withdrawn = json!({ "metadata": { "labels": { l::EXPORTED: null } } });
        east.edit(mirror.trim_end_matches("-east"), &withdrawn);
    }
    within(seconds(2), "others instead", || {
        let now = mirrors(&world);
        now.len() == 8 && !now.contains(&standing[0])
    })
    .await;
    world.stop().await;
}
