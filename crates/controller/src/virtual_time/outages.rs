//! Target clusters that are away for hours: their mirrors stay, and only what changed is written when they are back.

use mirror_core::api::labels as l;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    refusal::Refusal,
    server::{ApiServer, Verdict},
    world::{NS, World, hours, seconds, within},
};

/// A cluster with mirrors in all modes, and a local member of its federated Service.
async fn linked() -> (World, ApiServer) {
    let mut world = World::new();
    let east = world.target("east");
    for name in ["same", "changed", "withdrawn", "deleted"] {
        east.export(name);
    }
    east.export_as("direct", (l::EXPORTED, "remote-discovery"));
    for server in [&east, &world.source] {
        server.export_as("member", (l::FEDERATED, "member"));
    }
    world.start();
    let mirrors = [
        "same-east",
        "withdrawn-east",
        "direct-east",
        "member-federated",
    ];
    world.in_sync(&["east"], &mirrors).await;
    sleep(seconds(60)).await;
    (world, east)
}

/// Name and spec of each Service in the source cluster.
fn specs(world: &World) -> Vec<(String, Value)> {
    let names = world.source.names("services", NS).into_iter();
    let spec = |name: String| {
        let service = world.source.get("services", NS, &name).expect("a Service");
        (name, service["spec"].clone())
    };
    names.map(spec).collect()
}

/// What changes in the cluster while it is away.
fn change(east: &ApiServer) {
    east.set_port("changed", 81);
    let withdrawn = json!({ "metadata": { "labels": { l::EXPORTED: null } } });
    east.edit("withdrawn", &withdrawn);
    east.delete("services", NS, "deleted");
    east.export("new");
}

/// What these changes need.
const NEEDED: [&str; 7] = [
    "create endpointslices new-east-ipv4",
    "create services new-east",
    "delete endpointslices deleted-east-ipv4",
    "delete endpointslices withdrawn-east-ipv4",
    "delete services deleted-east",
    "delete services withdrawn-east",
    "patch services changed-east",
];

/// The cluster is there again: what changed is written soon, and nothing else.
async fn comes_back(world: &World, east: &ApiServer) {
    let mark = world.source.mark();
    let done = || {
        let mut written = world.source.writes(mark);
        written.retain(|write| !write.contains("links/status"));
        written.sort();
        written
    };
    east.forward();
    east.cut();
    within(seconds(10), "what changed", || done() == NEEDED).await;
    within(seconds(10), "the status", || {
        world.is("east", "Ready", "True")
    })
    .await;
    sleep(hours(1)).await;
    assert_eq!(done(), NEEDED);
}

#[tokio::test(start_paused = true)]
#[ignore = "long: just test-all"]
async fn target_that_is_away_for_a_day_keeps_its_mirrors_and_then_only_changes_are_written() {
    let (mut world, east) = linked().await;
    let (before, mark) = (specs(&world), world.source.mark());
    // First nothing listens, then a proxy answers for it, then nothing answers.
    let verdicts: [(u64, fn() -> Verdict); 3] = [
        (1, || Verdict::Unreachable),
        (17, || Verdict::Refuse(Refusal::of(503).retry_after(60))),
        (6, || Verdict::Hold),
    ];
    for (lasts, verdict) in verdicts {
        east.judge(move |_| verdict());
        east.cut();
        sleep(hours(lasts)).await;
    }
    change(&east);
    assert!(world.is("east", "Connected", "False"));
    assert_eq!(specs(&world), before);
    let written = world.status_writes(mark, "east");
    assert!(written <= 6, "{written}");
    comes_back(&world, &east).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controller_that_starts_in_an_outage_changes_nothing_until_the_target_is_back() {
    let (mut world, east) = linked().await;
    let before = specs(&world);
    east.judge(|_| Verdict::Hold);
    east.cut();
    world.stop().await;
    let mark = world.source.mark();
    world.start();
    sleep(hours(2)).await;
    assert_eq!(specs(&world), before);
    let written = world.status_writes(mark, "east");
    assert!(written <= 3, "{written}");
    // The status still has the Services that it had.
    assert_eq!(world.status("east").mirrored, Some(5));
    change(&east);
    comes_back(&world, &east).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removal_that_a_target_does_not_confirm_waits_for_hours_and_delays_nothing_else() {
    let (mut world, east) = linked().await;
    let north = world.target("north");
    north.export("web");
    world.in_sync(&["east", "north"], &["web-north"]).await;
    // Only requests for single Services get no answer.
    east.judge(|asked| {
        if asked.is("get", "services") {
            Verdict::Hold
        } else {
            Verdict::Forward
        }
    });
    let mark = east.mark();
    east.delete("services", NS, "deleted");
    north.delete("services", NS, "web");
    within(seconds(1), "the other removal", || !world.has("web-north")).await;
    sleep(hours(2)).await;
    assert!(world.has("deleted-east"));
    let asked = east.asked(mark, |asked| asked.is("get", "services")).len();
    assert!((70..=170).contains(&asked), "asked {asked} times");
    east.set_port("changed", 81);
    let port = || {
        world
            .source
            .get("services", NS, "changed-east")
            .map(|s| s["spec"]["ports"][0]["port"].clone())
    };
    within(seconds(1), "the port", || port() == Some(json!(81))).await;
    east.forward();
    within(seconds(75), "the removal", || !world.has("deleted-east")).await;
    world.stop().await;
}
