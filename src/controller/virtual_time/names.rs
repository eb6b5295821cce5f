//! Names that belong to somebody else for hours, and namespaces that do not exist.

use serde_json::json;
use tokio::time::sleep;

use super::world::{NS, World, exported, hours, seconds, within};
use crate::api::labels as l;

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

#[tokio::test(start_paused = true)]
async fn namespace_that_was_missing_for_hours_is_filled_when_it_appears() {
    let mut world = World::new();
    let east = world.target("east");
    let namespace = || json!({ "metadata": { "name": "later" } });
    east.change(|objects| objects.create("namespaces", namespace()));
    for (resource, mut object) in exported("web", (l::EXPORTED, "true")) {
        object["metadata"]["namespace"] = json!("later");
        east.change(|objects| objects.create(resource, object));
    }
    world.start();
    world.in_sync(&["east"], &[]).await;
    let mark = world.source.mark();
    sleep(hours(2)).await;
    assert_eq!(world.source.writes(mark), [""; 0]);
    world
        .source
        .change(|objects| objects.create("namespaces", namespace()));
    within(seconds(1), "the mirror", || {
        world.source.get("services", "later", "web-east").is_some()
    })
    .await;
    world.stop().await;
}
