//! Gateways that are dead for hours, and then alive.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    network::Gateway,
    server::ApiServer,
    world::{LINKS, NS, World, hours, seconds, within},
};

/// Time between two probes, jitter included.
const PERIOD: Duration = Duration::from_millis(3_300);

/// A cluster with mirrors, whose gateway is probed every 3 s.
async fn probed() -> (World, ApiServer) {
    let mut world = World::new();
    let east = world.target("east");
    edit(&world, &json!({ "probeSpec": { "period": "3s" } }));
    for name in ["web", "api"] {
        east.export(name);
    }
    world.start();
    world.in_sync(&["east"], &["web-east", "api-east"]).await;
    within(seconds(5), "the first probe", || {
        ready(&world, "web-east") == Some(true) && world.is("east", "GatewayAlive", "True")
    })
    .await;
    (world, east)
}

fn edit(world: &World, spec: &Value) {
    let id = (LINKS.to_owned(), "east".to_owned());
    let patch = json!({ "spec": spec });
    world
        .source
        .change(|objects| objects.patch("links", &id, &patch, false));
}

/// Whether the endpoints of a mirror are ready.
fn ready(world: &World, mirror: &str) -> Option<bool> {
    let slice = world
        .source
        .get("endpointslices", NS, &format!("{mirror}-ipv4"))?;
    slice["endpoints"][0]["conditions"]["ready"].as_bool()
}

/// The addresses in the slice of a mirror.
fn addresses(world: &World) -> Vec<String> {
    let slice = world.source.get("endpointslices", NS, "web-east-ipv4");
    let endpoints = slice
        .iter()
        .filter_map(|slice| slice["endpoints"].as_array());
    let addresses = endpoints
        .flatten()
        .map(|endpoint| &endpoint["addresses"][0]);
    addresses
        .map(|address| address.as_str().expect("a text").to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn gateway_that_is_dead_for_hours_is_noticed_and_used_again_within_a_period() {
    // How it dies, how soon that is noticed, and how soon it is noticed that it is alive again. Linkerd's proxy forgets
    // a dead endpoint only if it is left alone for 5 s.
    let proxy = Duration::from_millis(5_600);
    for (dead, noticed, alive_again) in [
        (Gateway::Refusing, 3 * PERIOD, PERIOD),
        (Gateway::Silent, 4 * PERIOD, 2 * PERIOD),
        (Gateway::Unreachable, 3 * PERIOD, proxy),
    ] {
        let (mut world, _) = probed().await;
        let mark = world.source.mark();
        world.network.gateway("east", dead);
        within(noticed + seconds(1), "the endpoints", || {
            ready(&world, "web-east") == Some(false) && ready(&world, "api-east") == Some(false)
        })
        .await;
        let probes = world.network.probes("east");
        sleep(hours(2)).await;
        assert!(world.is("east", "GatewayAlive", "False"));
        let probes = world.network.probes("east") - probes;
        let expected = if dead == Gateway::Unreachable {
            1300
        } else {
            2250
        };
        assert!(
            (expected - 60..=2400).contains(&probes),
            "{dead:?}: {probes} probes"
        );
        assert!(
            dead != Gateway::Unreachable || probes < 1320,
            "{probes} probes"
        );
        world.network.gateway("east", Gateway::Alive);
        within(alive_again + seconds(1), "the endpoints", || {
            ready(&world, "web-east") == Some(true) && ready(&world, "api-east") == Some(true)
        })
        .await;
        sleep(seconds(60)).await;
        assert!(world.is("east", "GatewayAlive", "True"));
        // Each slice was written once for each change, and the status too.
        let mut written = world.source.writes(mark);
        written.sort();
        let slices = ["api", "web"].map(|name| format!("patch endpointslices {name}-east-ipv4"));
        let (api, web) = (slices[0].as_str(), slices[1].as_str());
        written.retain(|write| write != "patch links/status east");
        assert_eq!(written, [api, api, web, web], "{dead:?}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn host_name_that_does_not_resolve_for_hours_leaves_the_endpoints_as_they_are() {
    let (mut world, _) = probed().await;
    world.network.resolve("gateway.test", &["192.0.2.7"]);
    edit(&world, &json!({ "gatewayAddress": "gateway.test" }));
    within(seconds(5), "the address", || {
        addresses(&world) == ["192.0.2.7"]
    })
    .await;
    sleep(seconds(30)).await;
    let mark = world.source.mark();
    world.network.resolve("gateway.test", &[]);
    sleep(hours(2)).await;
    assert_eq!(addresses(&world), ["192.0.2.7"]);
    assert_eq!(world.source.writes(mark), [""; 0]);
    // A new address is used with the next lookup, and the old one is dropped two lookups later.
    world.network.resolve("gateway.test", &["192.0.2.8"]);
    within(seconds(34), "the new address", || {
        addresses(&world) == ["192.0.2.7", "192.0.2.8"]
    })
    .await;
    within(seconds(68), "the change", || {
        addresses(&world) == ["192.0.2.8"]
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn host_name_that_never_resolved_is_reported_and_looked_up_for_hours() {
    let (mut world, east) = probed().await;
    edit(&world, &json!({ "gatewayAddress": "gateway.test" }));
    sleep(hours(1)).await;
    assert_eq!(addresses(&world), ["192.0.2.1"]);
    east.export("late");
    sleep(hours(1)).await;
    assert!(world.has("late-east"));
    assert!(
        world
            .source
            .get("endpointslices", NS, "late-east-ipv4")
            .is_none()
    );
    world.network.resolve("gateway.test", &["192.0.2.7"]);
    within(seconds(34), "the address", || {
        addresses(&world) == ["192.0.2.7"] && ready(&world, "late-east") == Some(true)
    })
    .await;
    world.stop().await;
}

/// A gateway with two names of which one cannot be looked up any more: a new resolver does not know its address.
#[tokio::test(start_paused = true)]
async fn name_that_fails_keeps_its_address_when_the_link_is_edited_and_after_a_restart() {
    let (mut world, _) = probed().await;
    world.network.resolve("a.test", &["192.0.2.7"]);
    world.network.resolve("b.test", &["192.0.2.8"]);
    edit(&world, &json!({ "gatewayAddress": "a.test,b.test" }));
    let both = ["192.0.2.7", "192.0.2.8"];
    within(seconds(5), "the addresses", || addresses(&world) == both).await;
    sleep(seconds(120)).await;
    world.network.resolve("b.test", &[]);
    edit(&world, &json!({ "probeSpec": { "period": "4s" } }));
    sleep(hours(1)).await;
    assert_eq!(addresses(&world), both, "after an edit");
    edit(
        &world,
        &json!({ "gatewayAddress": "a.test,b.test,192.0.2.9" }),
    );
    let all = ["192.0.2.7", "192.0.2.8", "192.0.2.9"];
    within(seconds(5), "the new address", || addresses(&world) == all).await;
    sleep(seconds(60)).await; // the status is written later
    world.stop().await;
    let mark = world.source.mark();
    world.start();
    sleep(hours(1)).await;
    assert_eq!(addresses(&world), all, "after a restart");
    assert_eq!(world.source.writes(mark), [""; 0]);
    // What the other name answers is used, and what the name itself answers replaces the address that was kept.
    world.network.resolve("a.test", &["192.0.2.5"]);
    let moved = ["192.0.2.5", "192.0.2.8", "192.0.2.9"];
    within(seconds(120), "the change", || addresses(&world) == moved).await;
    world.network.resolve("b.test", &["192.0.2.6"]);
    let known = ["192.0.2.5", "192.0.2.6", "192.0.2.9"];
    within(seconds(120), "the return", || addresses(&world) == known).await;
    world.stop().await;
}
