//! Names that belong to somebody else for hours, and namespaces that do not exist.

use mirror_core::api::labels as l;
use serde_json::json;
use tokio::time::sleep;

use super::{
    refusal::Refusal,
    server::{ApiServer, Asked, Verdict},
    world::{NS, World, exported, hours, seconds, within},
};

#[tokio::test(start_paused = true)]
async fn name_of_somebody_else_is_looked_up_seldom_and_used_when_it_is_free() {
    let mut world = World::new();
    let east = world.target("east");
    world.source.export_as("web-east", ("app", "theirs"));
    east.export("web");
    east.export("other");
    world.start();
    world.in_sync(&["east"], &["other-east"]).await;
    let mark = world.source.mark();
    sleep(hours(3)).await;
    let status = world.status("east");
    let mut services = status.mirror_services.iter();
    let web = services
        .find(|service| service.remote_ref.name == "web")
        .expect("a report");
    assert_eq!(web.conditions[0].reason, "NameConflict");
    let looks = world.source.asked(mark, |asked| {
        asked.is("get", "services") && asked.name == "web-east"
    });
    assert!((18..=45).contains(&looks.len()), "{} lookups", looks.len());
    assert_eq!(world.source.writes(mark), [""; 0]);
    // No watch shows that the name is free.
    world.source.delete("services", NS, "web-east");
    within(seconds(601), "the mirror", || world.has("web-east")).await;
    let mirror = world
        .source
        .get("services", NS, "web-east")
        .expect("a mirror");
    assert_eq!(mirror["metadata"]["labels"][l::CLUSTER_NAME], json!("east"));
    world.stop().await;
}

/// Creates the namespace that only the target cluster has at first.
fn create_namespace(server: &ApiServer) {
    let namespace = json!({ "metadata": { "name": "later" } });
    server.change(|objects| objects.create("namespaces", namespace));
}

/// Exports a Service in that namespace.
fn export_later(east: &ApiServer) {
    create_namespace(east);
    for (resource, mut object) in exported("web", (l::EXPORTED, "true")) {
        object["metadata"]["namespace"] = json!("later");
        east.change(|objects| objects.create(resource, object));
    }
}

fn has_later(world: &World) -> bool {
    world.source.get("services", "later", "web-east").is_some()
}

#[tokio::test(start_paused = true)]
async fn namespace_that_was_missing_for_hours_is_filled_when_it_appears() {
    let mut world = World::new();
    let east = world.target("east");
    export_later(&east);
    world.start();
    world.in_sync(&["east"], &[]).await;
    let mark = world.source.mark();
    sleep(hours(2)).await;
    assert_eq!(world.source.writes(mark), [""; 0]);
    create_namespace(&world.source);
    within(seconds(1), "the mirror", || has_later(&world)).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_may_not_be_created_for_hours_is_created_once_it_may() {
    let mut world = World::new();
    world.config.max_namespaces = 1;
    let east = world.target("east");
    world.source.judge(|asked| {
        if asked.is("create", "namespaces") {
            Verdict::Refuse(Refusal::of(403))
        } else {
            Verdict::Forward
        }
    });
    world.start();
    world.in_sync(&["east"], &[]).await;
    let mark = world.source.mark();
    export_later(&east);
    sleep(hours(1)).await;
    let creates = |asked: &Asked| asked.is("create", "namespaces");
    let tries = world.source.asked(mark, creates).len();
    assert!((55..=110).contains(&tries), "{tries} tries");
    assert!(
        world
            .source
            .asked(mark, |asked| asked.is("create", "services"))
            .is_empty()
    );
    let status = world.status("east");
    assert!(
        status.mirror_services[0].conditions[0]
            .message
            .contains("made up")
    );
    world.source.forward();
    within(seconds(61), "the mirror", || has_later(&world)).await;
    let labels = world
        .source
        .get("namespaces", "", "later")
        .expect("a namespace");
    let labels = &labels["metadata"]["labels"];
    assert_eq!(labels[l::MIRRORED_SERVICE], json!("true"));
    assert_eq!(labels[l::CLUSTER_NAME], json!("east"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_somebody_creates_at_the_same_time_is_filled() {
    let mut world = World::new();
    world.config.max_namespaces = 1;
    let east = world.target("east");
    world.start();
    world.in_sync(&["east"], &[]).await;
    // The watch does not show it.
    world.source.silence();
    create_namespace(&world.source);
    export_later(&east);
    within(seconds(1), "the mirror", || has_later(&world)).await;
    let namespace = world
        .source
        .get("namespaces", "", "later")
        .expect("a namespace");
    assert!(namespace["metadata"]["labels"].is_null());
    world.stop().await;
}
