//! Writes that the API server of the source cluster does not allow, and all others beside them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::StatusCode;
use mirror_core::api::labels as l;
use serde_json::json;
use tokio::time::sleep;

use super::{
    refusal::Refusal,
    server::{ApiServer, Verdict},
    world::{NS, World, seconds, within},
};

/// Exported Services that the source cluster does not allow.
const DENIED: usize = 1_500;

/// Does not allow Services whose names begin so.
pub fn deny(source: &ApiServer, names: &'static str) {
    deny_with(source, names, || Refusal::of(403));
}

/// Does not allow Services whose names begin so, and says so in other words each time.
fn deny_in_other_words(source: &ApiServer, names: &'static str) {
    let requests = AtomicUsize::new(0);
    deny_with(source, names, move || {
        let message = format!("no to request {}", requests.fetch_add(1, Ordering::SeqCst));
        Refusal::new(StatusCode::FORBIDDEN, "Forbidden", &message)
    });
}

fn deny_with(
    source: &ApiServer,
    names: &'static str,
    refusal: impl Fn() -> Refusal + Send + 'static,
) {
    source.judge(move |asked| {
        if asked.is("create", "services") && asked.name.starts_with(names) {
            Verdict::Refuse(refusal())
        } else {
            Verdict::Forward
        }
    });
}

/// The number of requests in the next minute to create Services.
async fn tries_in_a_minute(source: &ApiServer) -> usize {
    let mark = source.mark();
    sleep(seconds(60)).await;
    let tries = source.asked(mark, |asked| asked.is("create", "services"));
    tries.len()
}

/// Ten minutes later, a cluster whose Services `bulk-0`, `bulk-1`, … are denied in other words each time.
async fn denied_in_other_words(number: usize) -> (World, ApiServer) {
    let mut world = World::new();
    let east = world.target("east");
    deny_in_other_words(&world.source, "bulk-");
    for number in 0..number {
        east.export(&format!("bulk-{number}"));
    }
    world.start();
    sleep(seconds(600)).await;
    (world, east)
}

#[tokio::test(start_paused = true)]
async fn services_denied_in_other_words_each_time_are_tried_as_seldom_as_others() {
    for (number, range) in [(1, 1..=2), (100, 40..=100)] {
        let (mut world, _east) = denied_in_other_words(number).await;
        let tries = tries_in_a_minute(&world.source).await;
        assert!(range.contains(&tries), "{number}: {tries} tries");
        world.source.forward();
        within(seconds(120), "all mirrors", || {
            world.source.names("services", NS).len() == number
        })
        .await;
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn further_tries_of_denied_services_count_towards_the_allowance() {
    let (mut world, east) = denied_in_other_words(60).await;
    let change = async {
        for port in 81..111 {
            for number in 0..60 {
                east.set_port(&format!("bulk-{number}"), port);
            }
            sleep(seconds(1)).await;
        }
    };
    let ((), tries) = tokio::join!(change, tries_in_a_minute(&world.source));
    // Of 1,800 changes: a burst of 1,000 writes, and then 50 a second. A new Service with its slice counts as six.
    assert!((350..=600).contains(&tries), "{tries} tries");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
#[ignore = "long: just test-all"]
async fn change_beside_denied_services_is_written_within_a_second() {
    let mut world = World::new();
    let east = world.target("east");
    deny(&world.source, "bulk-");
    east.export("web");
    for number in 0..DENIED {
        east.export(&format!("bulk-{number}"));
    }
    world.start();
    within(seconds(60), "the mirror", || world.has("web-east")).await;
    sleep(Duration::from_secs(600)).await;
    let mark = world.source.mark();
    for port in 81..86 {
        east.set_port("web", port);
        within(seconds(1), "the port", || {
            let mirror = world.source.get("services", NS, "web-east");
            mirror.is_some_and(|mirror| mirror["spec"]["ports"][0]["port"] == json!(port))
        })
        .await;
        sleep(seconds(10)).await;
    }
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    assert!(tries.len() <= 100, "{} tries in a minute", tries.len());
    // They are mirrored soon after they are allowed.
    world.source.forward();
    within(seconds(300), "all mirrors", || {
        world.source.names("services", NS).len() == DENIED + 1
    })
    .await;
    world.stop().await;
}

/// Sets the ready hosts of the headless Service `db`.
pub fn hosts(server: &ApiServer, hosts: &[impl AsRef<str>]) {
    let endpoints = hosts.iter().map(|host| {
        json!({
            "addresses": ["10.1.0.1"], "hostname": host.as_ref(), "conditions": { "ready": true },
        })
    });
    let endpoints: Vec<_> = endpoints.collect();
    let id = (NS.to_owned(), "db-x".to_owned());
    let changed = json!({ "endpoints": endpoints });
    server.change(|objects| objects.patch("endpointslices", &id, &changed, false));
}

#[tokio::test(start_paused = true)]
async fn host_that_is_not_allowed_delays_no_other_host() {
    let mut world = World::new();
    let east = world.target("east");
    east.export_as("db", (l::EXPORTED, "true"));
    east.edit("db", &json!({ "spec": { "clusterIP": "None" } }));
    hosts(&east, &["old-0", "old-1"]);
    world.start();
    let has = |world: &World, names: &[&str]| names.iter().all(|name| world.has(name));
    within(seconds(30), "the first hosts", || {
        has(&world, &["db-east", "old-0-east", "old-1-east"])
    })
    .await;
    deny(&world.source, "a-");
    hosts(&east, &["a-0", "new-1"]);
    within(seconds(5), "the new host", || world.has("new-1-east")).await;
    within(seconds(5), "an end of the old hosts", || {
        !world.has("old-0-east") && !world.has("old-1-east")
    })
    .await;
    within(seconds(5), "its endpoint", || {
        let slice = world.source.get("endpointslices", NS, "db-east-ipv4");
        slice.is_some_and(|slice| slice["endpoints"][0]["hostname"] == "new-1")
    })
    .await;
    within(seconds(15), "a report", || {
        let status = world.status("east");
        status.unhealthy == Some(1)
    })
    .await;
    world.source.forward();
    within(seconds(61), "the other host", || world.has("a-0-east")).await;
    world.stop().await;
}
