//! Nothing is written when nothing changes, however long.

use mirror_core::api::labels as l;
use serde_json::json;
use tokio::time::sleep;

use super::{
    network::Gateway,
    world::{LINKS, NS, World, exported, hours, link, seconds},
};

/// Two clusters with Services in all modes, and with Services that cannot be mirrored.
async fn at_rest() -> World {
    let mut world = World::new();
    let (east, north) = (world.target("east"), world.target("north"));
    for name in ["web", "api"] {
        east.export(name);
    }
    east.export_as("direct", (l::EXPORTED, "remote-discovery"));
    for server in [&east, &north, &world.source] {
        server.export_as("member", (l::FEDERATED, "member"));
    }
    let exported_headless = exported("db", (l::EXPORTED, "true"));
    for (resource, mut object) in exported_headless {
        if resource == "services" {
            object["spec"]["clusterIP"] = json!("None");
        } else {
            object["endpoints"][0]["hostname"] = json!("db-0");
        }
        east.change(|objects| objects.create(resource, object));
    }
    for (resource, mut object) in exported("custom", (l::EXPORTED, "true")) {
        if resource == "services" {
            object["spec"]["selector"] = json!(null);
        } else {
            object["metadata"]["labels"] = json!({ l::SLICE_SERVICE: "custom" });
        }
        east.change(|objects| objects.create(resource, object));
    }
    // A namespace that is not here, a name that is too long, one that is taken, and a Link that is invalid.
    east.change(|objects| {
        objects.create("namespaces", json!({ "metadata": { "name": "missing" } }))
    });
    for (resource, mut object) in exported("web", (l::EXPORTED, "true")) {
        object["metadata"]["namespace"] = json!("missing");
        east.change(|objects| objects.create(resource, object));
    }
    east.export(&"s".repeat(60));
    east.export("taken");
    world.source.export_as("taken-east", ("app", "theirs"));
    let mut invalid = link("invalid");
    invalid["spec"]["gatewayPort"] = json!("none");
    world
        .source
        .change(|objects| objects.create("links", invalid));
    world.start();
    let mirrors = [
        "web-east",
        "api-east",
        "direct-east",
        "db-east",
        "db-0-east",
        "custom-east",
        "member-federated",
    ];
    world.in_sync(&["east", "north"], &mirrors).await;
    sleep(seconds(120)).await;
    world
}

#[tokio::test(start_paused = true)]
#[ignore = "long: just test-all"]
async fn nothing_is_written_for_a_day_nor_after_a_restart() {
    let mut world = at_rest().await;
    let status = world.status("east");
    assert_eq!((status.mirrored, status.unhealthy), (Some(5), Some(3)));
    assert_eq!(status.federated, Some(1));
    assert_eq!(
        world.condition("invalid", "Ready").expect("a condition").1,
        "InvalidLink"
    );
    let mark = world.source.mark();
    sleep(hours(24)).await;
    assert_eq!(world.source.writes(mark), [""; 0], "at rest");
    for round in 0..2 {
        world.stop().await;
        world.start();
        sleep(hours(1)).await;
        assert_eq!(world.source.writes(mark), [""; 0], "restart {round}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_end_again_and_again_cause_no_writes() {
    let mut world = at_rest().await;
    let mark = world.source.mark();
    for _ in 0..60 {
        world.source.cut();
        sleep(seconds(60)).await;
    }
    assert_eq!(world.source.writes(mark), [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn latency_that_changes_is_written_every_ten_minutes_at_most() {
    let mut world = at_rest().await;
    world.network.gateway("east", Gateway::Slow(seconds(2)));
    let mark = world.source.mark();
    for round in 0..120 {
        world.network.gateway(
            "east",
            Gateway::Slow(seconds(if round % 2 == 0 { 2 } else { 9 })),
        );
        sleep(seconds(60)).await;
    }
    let written = world.status_writes(mark, "east");
    assert!((2..=12).contains(&written), "{written} writes in two hours");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn status_that_somebody_else_overwrites_is_restored_once_a_minute() {
    let mut world = at_rest().await;
    let mark = world.source.mark();
    let id = (LINKS.to_owned(), "east".to_owned());
    let other = json!({ "status": { "mirrored": 99 } });
    for _ in 0..1200 {
        world
            .source
            .change(|objects| objects.patch("links", &id, &other, true));
        sleep(seconds(3)).await;
    }
    sleep(seconds(60)).await;
    assert_eq!(world.status("east").mirrored, Some(5));
    let written = world.status_writes(mark, "east");
    assert!((55..=62).contains(&written), "{written} writes in an hour");
    assert!(world.source.get("services", NS, "taken-east").is_some());
    world.stop().await;
}
