//! Watches that are refused, broken or outdated for hours.

use serde_json::json;
use tokio::time::sleep;

use super::{
    refusal::Refusal,
    server::{ApiServer, Asked, Verdict},
    world::{NS, World, hours, seconds, within},
};

/// A cluster with one mirror.
async fn linked() -> (World, ApiServer) {
    let (world, east) = World::mirroring().await;
    (world, east)
}

/// Refuses requests that a filter selects, and breaks all watches.
fn refuse(server: &ApiServer, code: u16, is_refused: fn(&Asked) -> bool) {
    server.judge(move |asked| {
        if is_refused(asked) {
            Verdict::Refuse(Refusal::of(code))
        } else {
            Verdict::Forward
        }
    });
    server.cut();
}

fn watches(asked: &Asked) -> bool {
    asked.verb == "watch"
}

/// When the condition `Connected` last changed.
fn connected_since(world: &World) -> String {
    let mut conditions = world.status("east").conditions.into_iter();
    let connected = conditions.find(|condition| condition.type_ == "Connected");
    connected
        .expect("a condition")
        .last_transition_time
        .0
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn refused_watches_of_a_target_are_replaced_by_lists_for_hours() {
    for (code, lasts) in [(403, 2), (429, 1), (500, 1), (503, 1)] {
        let (mut world, east) = linked().await;
        let all = east.asked(0, watches).len();
        refuse(&east, code, watches);
        sleep(seconds(10)).await;
        let (_, _, why) = world.condition("east", "Connected").expect("a condition");
        assert!(
            why.contains("failed to watch") && why.contains("made up"),
            "{why}"
        );
        let (since, mark, written) = (connected_since(&world), east.mark(), world.source.mark());
        sleep(hours(lasts)).await;
        // The pause between two lists is 30 s to 60 s.
        let lists = east.asked(mark, |asked| asked.verb == "list").len();
        let hourly = all * usize::try_from(lasts).expect("a few hours");
        assert!(
            (hourly * 58..=hourly * 125).contains(&lists),
            "{lists} lists of {all} watches"
        );
        assert_eq!(world.source.writes(written), [""; 0], "{code}");
        assert_eq!(connected_since(&world), since);

        // Each list has all changes.
        east.export("late");
        within(seconds(61), "a list", || world.has("late-east")).await;
        east.forward();
        within(seconds(63), "the watches", || {
            world.is("east", "Connected", "True")
        })
        .await;
        east.export("later");
        within(seconds(1), "a watch", || world.has("later-east")).await;
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn target_that_refused_everything_for_hours_is_followed_as_soon_as_it_recovers() {
    let (mut world, east) = linked().await;
    refuse(&east, 503, |_| true);
    sleep(hours(2)).await;
    assert!(world.is("east", "Connected", "False"));
    east.export("late");
    east.forward();
    // The heartbeat notices, and ends the pauses of watches.
    within(seconds(10), "the mirror", || world.has("late-east")).await;
    within(seconds(5), "the status", || {
        world.is("east", "Connected", "True")
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refused_watches_of_the_source_are_replaced_by_lists_for_hours() {
    let (mut world, _) = linked().await;
    let all = world.source.asked(0, watches).len();
    refuse(&world.source, 403, watches);
    let mark = world.source.mark();
    sleep(hours(2)).await;
    let lists = world.source.asked(mark, |asked| asked.verb == "list").len();
    assert!(
        lists <= all * 245 + 2 * 120,
        "{lists} lists of {all} watches"
    );
    assert_eq!(world.source.writes(mark), [""; 0]);
    world.edit_mirror();
    within(seconds(61), "a list", || world.is_repaired()).await;
    world.source.forward();
    sleep(seconds(61)).await;
    world.edit_mirror();
    within(seconds(1), "a watch", || world.is_repaired()).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn source_that_refused_everything_for_hours_is_followed_as_soon_as_it_recovers() {
    for code in [403, 503] {
        let (mut world, east) = linked().await;
        refuse(&world.source, code, |_| true);
        let mark = world.source.mark();
        for name in ["late", "later"] {
            east.export(name);
        }
        sleep(hours(1)).await;
        assert_eq!(world.source.writes(mark), [""; 0]);
        world.edit_mirror();
        world.source.forward();
        // Neither watches nor writes wait until their pauses are over.
        let took = within(seconds(6), "the repair and the mirrors", || {
            world.is_repaired() && world.has("late-east") && world.has("later-east")
        })
        .await;
        assert!(took > seconds(0));
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn outdated_watches_are_listed_again_without_a_report() {
    let (mut world, east) = linked().await;
    let (mark, since) = (world.source.mark(), connected_since(&world));
    for round in 0..3 {
        // Changes that the watches do not get: the history is gone when they come back.
        for server in [&east, &world.source] {
            server.change(|objects| {
                objects.compact();
                Ok(())
            });
            server.cut();
        }
        east.set_port("web", 81 + round);
        sleep(hours(1)).await;
        let mirror = world
            .source
            .get("services", NS, "web-east")
            .expect("a mirror");
        assert_eq!(mirror["spec"]["ports"][0]["port"], json!(81 + round));
    }
    assert_eq!(connected_since(&world), since);
    let written = world.source.writes(mark);
    assert!(
        written
            .iter()
            .all(|write| write == "patch services web-east"),
        "{written:?}"
    );
    assert_eq!(written.len(), 3, "{written:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_list_its_cluster_for_hours_writes_nothing() {
    let mut world = World::new();
    let east = world.target("east");
    east.export("web");
    refuse(&world.source, 403, |asked| asked.is("list", "namespaces"));
    world.start();
    sleep(hours(2)).await;
    assert_eq!(world.source.writes(0), [""; 0]);
    // The target cluster is listed meanwhile, once.
    let lists = east.asked(0, |asked| asked.verb == "list");
    let watched = east.asked(0, watches);
    assert!(!lists.is_empty() && watched.len() > 24 * lists.len());
    let tries = world
        .source
        .asked(0, |asked| asked.is("list", "namespaces"))
        .len();
    assert!((117..=245).contains(&tries), "{tries} tries");
    world.source.forward();
    within(seconds(62), "the mirror", || world.has("web-east")).await;
    world.stop().await;
}
