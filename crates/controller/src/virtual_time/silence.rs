//! API servers that accept requests and say nothing, and watches whose connection is half-open.

use std::time::Duration;

use http::Version;
use serde_json::json;
use tokio::time::sleep;

use super::{
    server::{ApiServer, Asked, Verdict},
    world::{NS, World, hours, seconds, within},
};

/// How soon silence has to be noticed.
const NOTICED: Duration = seconds(45);

/// A silent cluster and one that works, each with one mirror.
async fn linked(http: Version) -> (World, ApiServer, ApiServer) {
    let mut world = World::new();
    let (east, north) = (world.target("east"), world.target("north"));
    for server in [&east, &north] {
        server.export("web");
        server.speak(http);
    }
    world.source.speak(http);
    world.start();
    world
        .in_sync(&["east", "north"], &["web-east", "web-north"])
        .await;
    (world, east, north)
}

/// From now on, requests get no answer, and open watches deliver nothing.
fn fall_silent(server: &ApiServer) {
    server.judge(|_| Verdict::Hold);
    server.silence();
}

#[tokio::test(start_paused = true)]
async fn silent_target_is_noticed_and_its_mirrors_stay() {
    let (mut world, east, north) = linked(Version::HTTP_2).await;
    let mark = world.source.mark();
    fall_silent(&east);
    within(NOTICED, "the silence", || {
        world.is("east", "Connected", "False")
    })
    .await;
    east.delete("services", NS, "web");
    // Everything else goes on.
    north.export("late");
    within(seconds(1), "the other cluster", || world.has("late-north")).await;
    sleep(hours(2)).await;
    assert!(world.has("web-east"));
    assert!(world.is("north", "Connected", "True"));
    let written = world.source.writes(mark);
    let own = written
        .iter()
        .filter(|write| write.ends_with("patch links/status east"));
    assert!(own.count() <= 2, "{written:?}");
    assert!(
        !written.iter().any(|write| write.contains("-east")),
        "{written:?}"
    );

    east.forward();
    east.cut();
    east.export("new");
    within(seconds(10), "what changed", || {
        world.has("new-east") && !world.has("web-east")
    })
    .await;
    within(seconds(10), "the status", || {
        world.is("east", "Connected", "True")
    })
    .await;
    world.stop().await;
}

/// Both clusters fall silent three times, and what happens in them meanwhile is noticed in time.
async fn is_noticed_each_time(world: &World, east: &ApiServer, fall_silent: impl Fn()) {
    for round in 0..3 {
        fall_silent();
        let name = format!("late-{round}");
        east.export(&name);
        world.edit_mirror();
        within(NOTICED, "the silence", || {
            world.has(&format!("{name}-east")) && world.is_repaired()
        })
        .await;
        sleep(seconds(60)).await;
    }
    assert!(world.is("east", "Connected", "True"));
}

fn is_list_of_services(asked: &Asked) -> bool {
    asked.is("list", "services")
}

#[tokio::test(start_paused = true)]
async fn half_open_watches_over_http_1_are_replaced_in_time() {
    let (mut world, east, _) = linked(Version::HTTP_11).await;
    let marks = (world.source.mark(), east.mark());
    // Watches over HTTP/1.1 are short. They are resumed, not listed again, and nothing is written.
    sleep(hours(1)).await;
    assert_eq!(east.asked(marks.1, is_list_of_services).len(), 0);
    assert_eq!(world.source.asked(marks.0, is_list_of_services).len(), 0);
    assert_eq!(world.source.writes(marks.0), [""; 0]);
    is_noticed_each_time(&world, &east, || {
        east.silence();
        world.source.silence();
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watch_that_a_proxy_keeps_open_is_replaced_after_its_time() {
    // Pings and requests are answered, so only the missing end of the watch shows it.
    let (mut world, east, _) = linked(Version::HTTP_2).await;
    let mark = east.mark();
    sleep(hours(2)).await;
    assert_eq!(east.asked(mark, is_list_of_services).len(), 0);
    east.silence();
    world.source.silence();
    east.export("late");
    world.edit_mirror();
    within(seconds(300), "the silence", || {
        world.has("late-east") && world.is_repaired()
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn source_that_is_silent_for_hours_is_written_once_it_answers() {
    let (mut world, east, _) = linked(Version::HTTP_2).await;
    let mark = world.source.mark();
    fall_silent(&world.source);
    east.export("late");
    east.set_port("web", 81);
    sleep(hours(2)).await;
    // Each write ends after 30 s, and is tried again.
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"))
        .len();
    assert!((75..=170).contains(&tries), "{tries} tries");
    assert!(!world.has("late-east"));
    world.source.forward();
    within(seconds(91), "the writes", || {
        let changed = world
            .source
            .get("services", NS, "web-east")
            .expect("a mirror");
        world.has("late-east") && changed["spec"]["ports"][0]["port"] == json!(81)
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn half_open_connections_over_http_2_are_replaced_in_time() {
    let mut world = World::new();
    let east = world.target("east");
    east.export("web");
    let [source_wire, east_wire] = world.start_over_http2("east", &east);
    world.in_sync(&["east"], &["web-east"]).await;
    let marks = (world.source.mark(), east.mark());
    sleep(hours(1)).await;
    assert_eq!(east.asked(marks.1, is_list_of_services).len(), 0);
    assert_eq!(world.source.writes(marks.0), [""; 0]);
    // Both ends think that the connections are open. Pings show that they are not.
    is_noticed_each_time(&world, &east, || {
        source_wire.cut();
        east_wire.cut();
    })
    .await;
    world.stop().await;
}
