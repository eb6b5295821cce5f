//! The events whose walks through the code [docs/architecture.md](../../../docs/architecture.md) counts. `tests/walk` runs
//! each test a second time without its event, and compares what was executed.

use tokio::time::sleep;

use super::{
    network::Gateway,
    world::{World, seconds},
};

/// Set for the run without the event.
const REST: &str = "LINKERD_MC_WALK_REST";

fn with_event() -> bool {
    std::env::var_os(REST).is_none()
}

/// A Service is exported, and its mirror and the status of its Link are written.
#[tokio::test(start_paused = true)]
async fn exported_service_has_a_mirror_and_is_counted_in_the_status() {
    let mut world = World::new();
    let east = world.target("east");
    world.start();
    world.in_sync(&["east"], &[]).await;
    sleep(seconds(30)).await;
    if with_event() {
        east.export("web");
    }
    sleep(seconds(20)).await;
    assert_eq!(world.has("web-east"), with_event());
    assert_eq!(world.status("east").mirrored, Some(with_event().into()));
    world.stop().await;
}

/// A gateway dies, and the endpoints of its mirrors and the status of its Link are written.
#[tokio::test(start_paused = true)]
async fn gateway_that_dies_is_reported_in_the_status() {
    let (mut world, _) = World::mirroring().await;
    sleep(seconds(90)).await;
    assert!(world.is("east", "GatewayAlive", "True"));
    if with_event() {
        world.network.gateway("east", Gateway::Refusing);
    }
    sleep(seconds(300)).await;
    assert_eq!(world.is("east", "GatewayAlive", "False"), with_event());
    world.stop().await;
}
