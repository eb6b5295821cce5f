//! A leader whose lease ends, while it has work and while it has none.

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    server::{Asked, Verdict},
    world::{LINKS, World, seconds, within},
};
use crate::lease::Fence;

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_has_ended_writes_nothing_more_and_ends() {
    let mut world = World::new();
    let now = Instant::now();
    world.fence = Fence::until(now, now + seconds(60));
    let east = world.target("east");
    east.export("web");
    world.start();
    world.in_sync(&["east"], &["web-east"]).await;
    sleep(seconds(60)).await;
    let mark = world.source.mark();
    east.export("late");
    assert_eq!(world.ended().await, "the lease was lost");
    assert_eq!(world.source.asked(mark, Asked::writes).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn statuses_are_not_written_after_the_end_of_the_lease() {
    let mut world = World::new();
    let now = Instant::now();
    world.fence = Fence::until(now, now + seconds(60));
    let east = world.target("east");
    world.start();
    world.in_sync(&["east"], &[]).await;
    sleep(seconds(60)).await;
    let mark = world.source.mark();
    // Only the status would change.
    east.judge(|_| Verdict::Unreachable);
    east.cut();
    sleep(seconds(600)).await;
    assert_eq!(world.source.asked(mark, Asked::writes).len(), 0);
    assert!(world.is("east", "Connected", "True"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replica_that_takes_over_carries_the_status_of_a_link_that_has_changed_its_cluster() {
    let mut world = World::new();
    let east = world.target("east");
    east.judge(|_| Verdict::Unreachable);
    let elect = world.stand_by();
    sleep(seconds(5)).await;
    // Another replica leads, and has followed the change before the cluster was lost.
    let id = (LINKS.to_owned(), "east".to_owned());
    let change = |patch: serde_json::Value, status: bool| {
        world
            .source
            .change(|objects| objects.patch("links", &id, &patch, status));
    };
    change(json!({ "spec": { "targetClusterName": "north" } }), false);
    sleep(seconds(5)).await;
    let service = json!({
        "controllerName": "linkerd.io/service-mirror", "remoteRef": { "name": "web", "namespace": "shop" },
        "conditions": [],
    });
    let status = json!({
        "targetClusterName": "north", "mirrored": 1, "federated": 0, "unhealthy": 0, "mirrorServices": [service],
    });
    change(json!({ "status": status }), true);
    sleep(seconds(5)).await;
    let _ = elect.send(Fence::always());
    within(seconds(60), "the report", || {
        world.is("east", "Connected", "False")
    })
    .await;
    let status = world.status("east");
    assert_eq!(
        (status.mirrored, status.mirror_services.len()),
        (Some(1), 1)
    );
    world.stop().await;
}
