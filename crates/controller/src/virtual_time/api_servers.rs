//! API servers that are reached through gateways.

use std::net::SocketAddr;

use mirror_core::api::labels as l;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    network::Gateway,
    refusal::Refusal,
    server::{ApiServer, Verdict},
    world::{LINKS, World, hours, seconds, within},
};

const NAME: &str = "api-east";

fn annotate(world: &World, annotations: &Value) {
    let id = (LINKS.to_owned(), "east".to_owned());
    let patch = json!({ "metadata": { "annotations": annotations } });
    world
        .source
        .change(|objects| objects.patch("links", &id, &patch, false));
}

/// The annotation of a Link that reaches the API server through a gateway.
fn gateway_at(address: &str) -> Value {
    let settings = json!({
        "addresses": [address], "port": 4143, "identity": "api.identity", "service": "mc/kubernetes-api",
    });
    json!({ l::API_GATEWAY: settings.to_string() })
}

/// A world whose Link reaches the API server through a gateway.
fn through_gateway() -> (World, ApiServer) {
    let world = World::new();
    let east = world.target("east");
    east.export("web");
    annotate(&world, &gateway_at("192.0.2.7"));
    (world, east)
}

/// The address of the Service for the API server.
fn address(world: &World) -> Option<SocketAddr> {
    let service = world.source.get("services", LINKS, NAME)?;
    let ip = service["spec"]["clusterIP"].as_str()?;
    Some(SocketAddr::new(ip.parse().ok()?, 8443))
}

#[tokio::test(start_paused = true)]
async fn controller_connects_to_the_service_that_it_has_created_and_follows_it() {
    let (mut world, _) = through_gateway();
    world.start();
    world.in_sync(&["east"], &["web-east"]).await;
    let first = address(&world);
    assert!(first.is_some());
    assert_eq!(world.network.connected_at(), first);
    // Somebody deletes it: it comes back with another address.
    world.source.delete("services", LINKS, NAME);
    within(seconds(30), "the new address", || {
        let now = address(&world);
        now.is_some() && now != first && world.network.connected_at() == now
    })
    .await;
    world.in_sync(&["east"], &["web-east"]).await;
    world.stop().await;
}

/// The direct connection goes on, but it is not what the Link says.
#[tokio::test(start_paused = true)]
async fn way_through_the_gateway_that_cannot_begin_is_reported() {
    let (mut world, _) = World::mirroring().await;
    let theirs = json!({
        "metadata": { "name": NAME, "namespace": LINKS }, "spec": { "ports": [{ "port": 80 }] },
    });
    world
        .source
        .change(|objects| objects.create("services", theirs));
    annotate(&world, &gateway_at("192.0.2.7"));
    within(seconds(5), "a report", || {
        let ready = world.condition("east", "Ready");
        ready.is_some_and(|(status, reason, message)| {
            (&*status, &*reason) == ("False", "ChangeNotInEffect") && message.contains("taken by")
        })
    })
    .await;
    world.source.delete("services", LINKS, NAME);
    within(seconds(130), "the way through the gateway", || {
        world.is("east", "Ready", "True") && address(&world) == world.network.connected_at()
    })
    .await;
    world.stop().await;
}

/// The addresses to which the Service for the API server leads.
fn leads_to(world: &World) -> Vec<Value> {
    let slice = world.source.get("endpointslices", LINKS, "api-east-ipv4");
    let endpoints = slice.and_then(|slice| slice["endpoints"].as_array().cloned());
    let addresses = endpoints.into_iter().flatten();
    let addresses = addresses.map(|endpoint| endpoint["addresses"][0].clone());
    addresses.collect()
}

/// The gateway moves to another address, and the connection through it is lost. The address has to be found soon.
async fn move_to(world: &World, east: &ApiServer, address: &str) {
    world.network.resolve("gateway.test", &[address]);
    east.judge(|_| Verdict::Unreachable);
    east.cut();
    within(seconds(3), "the new address", || {
        leads_to(world).contains(&json!(address))
    })
    .await;
    east.forward();
    within(seconds(10), "the connection", || {
        world.is("east", "Connected", "True")
    })
    .await;
}

/// Nobody probes this gateway, so only the loss of the connection through it can tell that it has moved.
#[tokio::test(start_paused = true)]
async fn lost_connection_through_a_gateway_looks_up_its_name_at_once_each_time() {
    let (mut world, east) = through_gateway();
    world.network.resolve("gateway.test", &["192.0.2.7"]);
    annotate(&world, &gateway_at("gateway.test"));
    world.start();
    world.in_sync(&["east"], &["web-east"]).await;
    sleep(seconds(40)).await;
    assert_eq!(leads_to(&world), ["192.0.2.7"]);
    // The pauses between lookups are short after a move, and as long as usual after some minutes.
    for (address, pause) in [("192.0.2.8", 300), ("192.0.2.9", 20), ("192.0.2.10", 20)] {
        move_to(&world, &east, address).await;
        sleep(seconds(pause)).await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn service_stays_while_the_gateway_for_traffic_is_dead_and_goes_when_the_link_wants_it_no_more()
 {
    let (mut world, _) = through_gateway();
    world.start();
    world.in_sync(&["east"], &["web-east"]).await;
    let first = address(&world);
    world.network.gateway("east", Gateway::Unreachable);
    sleep(hours(1)).await;
    assert!(world.is("east", "GatewayAlive", "False"));
    assert_eq!(address(&world), first);
    world.network.gateway("east", Gateway::Alive);
    annotate(&world, &json!({ l::API_GATEWAY: null }));
    within(seconds(30), "the old way", || {
        address(&world).is_none() && world.network.connected_at().is_none()
    })
    .await;
    world.in_sync(&["east"], &["web-east"]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn condition_says_that_the_gateway_of_the_api_server_has_no_address() {
    let (mut world, east) = through_gateway();
    annotate(&world, &gateway_at("gateway.test"));
    world.start();
    let is = |world: &World, expected: &str, words: &str| {
        let condition = world.condition("east", "Connected");
        condition.is_some_and(|(status, reason, message)| {
            (&*status, &*reason) == ("False", expected) && message.contains(words)
        })
    };
    east.judge(|_| Verdict::Unreachable);
    within(seconds(120), "the failed lookup", || {
        is(&world, "GatewayUnreachable", "gateway.test")
    })
    .await;
    world.network.resolve("gateway.test", &["192.0.2.7"]);
    within(seconds(120), "the API server", || {
        is(&world, "Unreachable", "nor its gateway answers")
    })
    .await;
    assert_eq!(leads_to(&world), ["192.0.2.7"]);
    east.forward();
    within(seconds(300), "both", || world.is("east", "Ready", "True")).await;
    world.stop().await;
}

/// Whether the Link says that it has no connection because of its Service, and these words.
fn lacks_service(world: &World, words: &str) -> bool {
    let says = |type_: &str| {
        let condition = world.condition("east", type_);
        condition.is_some_and(|(status, _, why)| {
            status == "False" && why.contains(NAME) && why.contains(words)
        })
    };
    says("Ready") && says("Connected")
}

#[tokio::test(start_paused = true)]
async fn link_says_why_the_service_for_its_api_server_does_not_exist() {
    let (mut world, _) = through_gateway();
    let theirs = json!({
        "metadata": { "name": NAME, "namespace": LINKS },
        "spec": { "ports": [{ "name": "https", "port": 8443 }] },
    });
    world
        .source
        .change(|objects| objects.create("services", theirs.clone()));
    world.start();
    let taken = "a Service that is not a mirror";
    within(seconds(10), "the report", || lacks_service(&world, taken)).await;
    assert!(!world.has("web-east"));
    // Names of others are looked up seldom.
    world.source.delete("services", LINKS, NAME);
    within(seconds(601), "the connection", || {
        world.is("east", "Ready", "True")
    })
    .await;
    // It was ready before the restart.
    world.stop().await;
    world.source.delete("services", LINKS, NAME);
    world
        .source
        .change(|objects| objects.create("services", theirs));
    world.start();
    within(seconds(10), "the report", || lacks_service(&world, taken)).await;
    assert!(!world.is_ready_by_metric("east"));
    world.stop().await;
    // Now the API server does not allow the Service.
    world.source.delete("services", LINKS, NAME);
    world.source.judge(|asked| {
        if asked.is("create", "services") && asked.name == NAME {
            Verdict::Refuse(Refusal::of(403))
        } else {
            Verdict::Forward
        }
    });
    world.start();
    within(seconds(10), "the report", || {
        lacks_service(&world, "made up")
    })
    .await;
    world.source.forward();
    within(seconds(61), "the connection", || {
        world.is("east", "Ready", "True")
    })
    .await;
    world.stop().await;
}
