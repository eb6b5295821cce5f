//! When the cluster of a new Link joins federated Services.

use std::time::Duration;

use client::timing;
use mirror_core::api::labels as l;
use serde_json::json;
use tokio::time::sleep;

use super::{
    server::ApiServer,
    world::{LINKS, NS, World, credentials_of, seconds, within},
};

/// How long a Link counts as new.
const DELAY: Duration = seconds(20);

impl World {
    /// A target cluster whose credentials were created just now. Its Link is old.
    fn new_target(&self, name: &str) -> ApiServer {
        let target = self.target(name);
        let id = (LINKS.to_owned(), credentials_of(name));
        let created = json!({ "metadata": { "creationTimestamp": timing::now().to_string() } });
        self.source
            .change(|objects| objects.patch("secrets", &id, &created, false));
        target
    }

    /// The clusters that a federated Service names.
    fn named(&self, service: &str) -> String {
        let service = self.source.get("services", NS, service);
        let annotations = service.map(|service| service["metadata"]["annotations"].clone());
        let named = annotations.unwrap_or_default();
        named[l::REMOTE_DISCOVERY]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// Linkerd adds the cluster when its Secret is created, however old the Link is.
#[tokio::test(start_paused = true)]
async fn cluster_joins_when_its_secret_is_old_enough_also_after_a_restart() {
    let mut world = World::new();
    world.config.join_delay = DELAY;
    let member = (l::FEDERATED, "member");
    let old = world.target("old");
    old.export_as("web", member);
    let new = world.new_target("new");
    new.export_as("web", member);
    new.export("flat");
    world.start();
    world.in_sync(&["old", "new"], &["flat-new"]).await;
    within(seconds(2), "the first member", || {
        world.named("web-federated") == "web@old"
    })
    .await;
    world.stop().await;
    world.start();
    sleep(seconds(10)).await;
    assert_eq!(world.named("web-federated"), "web@old");
    let waited = within(DELAY, "the second member", || {
        world.named("web-federated") == "web@new,web@old"
    });
    let waited = waited.await;
    assert!(waited > seconds(3), "{waited:?}");
    // From now on, it joins at once.
    new.export_as("api", member);
    within(seconds(2), "a new Service", || {
        world.named("api-federated") == "api@new"
    })
    .await;
    world.stop().await;
}

/// Streams that began with slices continue to use them, however the members are found now.
#[tokio::test(start_paused = true)]
async fn cluster_that_joins_after_a_change_to_discovery_is_in_slices_that_exist() {
    let mut world = World::new();
    let member = (l::FEDERATED, "member");
    let [east, west] = ["east", "west"].map(|name| world.target(name));
    for name in ["east", "west"] {
        world.federate_through(name, Some("gateway"));
    }
    east.export_as("web", member);
    west.export_as("web", member);
    let slices = |world: &World| world.source.names("endpointslices", NS);
    let both = ["web-federated.east-ipv4", "web-federated.west-ipv4"];
    world.start();
    within(seconds(30), "slices", || slices(&world) == both).await;
    for name in ["east", "west"] {
        world.federate_through(name, None);
    }
    let flat = "web@east,web@west";
    within(seconds(30), "the change", || {
        world.named("web-federated") == flat
    })
    .await;
    for is_new in [false, true] {
        if is_new {
            world.stop().await;
            world.start();
            world.in_sync(&["east", "west"], &[]).await;
        }
        assert_eq!(slices(&world), both);
        west.delete("services", NS, "web");
        west.delete("endpointslices", NS, "web-x");
        within(seconds(30), "the leave", || slices(&world) == both[..1]).await;
        west.export_as("web", member);
        within(seconds(30), "the return", || slices(&world) == both).await;
        assert_eq!(world.named("web-federated"), flat);
    }
    world.stop().await;
}
