//! Writes that fail for hours are retried with growing pauses, at least once a minute, and never given up.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use super::{
    refusal::Refusal,
    server::{Asked, Verdict},
    world::{NS, World, hours, pauses, seconds, within},
};

/// Maximum time between two tries of a write: `LONGEST` of `queue.rs`. The pauses are compared with 60 s below, too.
const LONGEST: Duration = seconds(60);
/// From when something becomes due until the server gets the request.
const SENT: Duration = seconds(1);

/// A cluster with one mirror, whose API server refuses from now on what `is_refused` selects.
async fn refusing(
    refusal: Refusal,
    is_refused: impl Fn(&Asked) -> bool + Send + 'static,
) -> (World, super::server::ApiServer) {
    let (world, east) = World::mirroring().await;
    world.source.judge(move |asked| {
        if is_refused(asked) {
            Verdict::Refuse(refusal.clone())
        } else {
            Verdict::Forward
        }
    });
    (world, east)
}

fn writes_mirrors(asked: &Asked) -> bool {
    asked.writes() && asked.namespace == NS
}

#[tokio::test(start_paused = true)]
async fn refused_write_is_retried_for_hours_at_least_once_a_minute() {
    let (mut world, east) = refusing(Refusal::of(500), writes_mirrors).await;
    let mark = world.source.mark();
    east.export("late");
    sleep(hours(6)).await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    let pauses = pauses(&tries);
    let mut expected = 0.1_f64;
    for pause in &pauses {
        let range = 0.75 * expected..=f64::min(1.25 * expected, 60.0) + 0.01;
        assert!(range.contains(pause), "{pause} s in place of {expected} s");
        expected = f64::min(2.0 * expected, 60.0);
    }
    assert!((350..=490).contains(&pauses.len()), "{} tries", tries.len());
    assert_eq!(world.counted("create", "Service", "error"), tries.len());
    // They are spread, so that many keys that failed together do not come together again.
    let late = &pauses[pauses.len() - 100..];
    let shortest = late.iter().copied().fold(f64::MAX, f64::min);
    let longest = late.iter().copied().fold(0.0, f64::max);
    assert!(
        shortest < 50.0 && longest > 59.0,
        "{shortest} to {longest} s"
    );

    // Only the status says so, and an Event.
    assert_eq!(world.source.writes(mark).len(), 2);
    let status = world.status("east");
    assert_eq!((status.mirrored, status.unhealthy), (Some(1), Some(1)));
    let failed = &status.mirror_services[0];
    assert!(
        failed.conditions[0].message.contains("made up"),
        "{failed:?}"
    );

    world.source.forward();
    within(LONGEST + SENT, "the mirror", || world.has("late-east")).await;
    within(seconds(5), "the status", || {
        world.status("east").unhealthy == Some(0)
    })
    .await;
    // The probe Service has no failures.
    assert_eq!(world.counted("create", "Service", "ok"), 3);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn write_that_a_webhook_changes_back_is_reported_and_repeated_seldom() {
    let mut world = World::new();
    let east = world.target("east");
    east.export("web");
    east.export("other");
    world.start();
    world.in_sync(&["east"], &["web-east", "other-east"]).await;
    let set_webhook = |webhook| {
        world.source.change(|objects| {
            objects.webhook = webhook;
            Ok(())
        });
    };
    set_webhook(|_, object| {
        if object["metadata"]["name"] == "web-east" {
            object["spec"]["ports"][0]["port"] = json!(80);
        }
    });
    let mark = world.source.mark();
    let patched = |name: &'static str| {
        let is_it = move |asked: &Asked| asked.is("patch", "services") && asked.name == name;
        world.source.asked(mark, is_it)
    };
    east.set_port("web", 81);
    sleep(hours(1)).await;
    let tries = patched("web-east").len();
    assert!((60..=75).contains(&tries), "{tries} tries");
    let status = world.status("east");
    assert_eq!((status.mirrored, status.unhealthy), (Some(1), Some(1)));
    let failed = status
        .mirror_services
        .iter()
        .find(|it| it.remote_ref.name == "web");
    let condition = &failed.unwrap().conditions[0];
    assert_eq!(condition.reason, "Error");
    assert!(
        condition
            .message
            .contains("Service ns/web-east is changed back"),
        "{condition:?}"
    );
    // The status and an Event say so, once.
    let mut written = world.source.writes(mark);
    written.retain(|write| write != "patch services web-east");
    assert_eq!(written, ["create events ", "patch links/status east"]);

    // A change that the webhook does not undo is written at once, and so are other Services.
    east.set_port("other", 82);
    within(seconds(1), "the other port", || {
        patched("other-east").len() == 1
    })
    .await;
    set_webhook(|_, _| ());
    within(LONGEST + SENT, "the port", || {
        let web = world.source.get("services", NS, "web-east");
        web.is_some_and(|web| web["spec"]["ports"][0]["port"] == 81)
    })
    .await;
    within(seconds(5), "the status", || {
        world.status("east").unhealthy == Some(0)
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn conflicting_write_is_retried_for_hours_and_overwrites_nothing() {
    let (mut world, east) = refusing(Refusal::conflict("web-east"), |asked| {
        asked.is("patch", "services") && asked.namespace == NS
    })
    .await;
    let mark = world.source.mark();
    east.set_port("web", 81);
    sleep(hours(1)).await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("patch", "services"));
    assert!((55..=110).contains(&tries.len()), "{} tries", tries.len());
    assert_eq!(world.counted("patch", "Service", "conflict"), tries.len());
    // Somebody else changes the mirror at the same time.
    world.source.edit(
        "web-east",
        &json!({ "metadata": { "labels": { "theirs": "kept" } } }),
    );
    world.source.forward();
    let port = || {
        world
            .source
            .get("services", NS, "web-east")
            .map(|web| web["spec"]["ports"][0]["port"].clone())
    };
    within(LONGEST + SENT, "the port", || port() == Some(json!(81))).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_is_being_deleted_for_hours_is_filled_when_it_is_there_again() {
    let terminating = Refusal::terminating(NS);
    let (mut world, east) = refusing(terminating, |asked| {
        asked.verb == "create" && asked.namespace == NS
    })
    .await;
    let mark = world.source.mark();
    east.export("late");
    sleep(hours(1)).await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    assert!((55..=110).contains(&tries.len()), "{} tries", tries.len());
    let status = world.status("east");
    assert_eq!(
        status.mirror_services[0].conditions[0].reason,
        "MissingNamespace"
    );
    world.source.forward();
    within(LONGEST + SENT, "the mirror", || world.has("late-east")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writes_wait_as_long_as_the_server_asks_and_others_for_at_most_a_minute() {
    let asks = Refusal::of(429).retry_after(600);
    let (mut world, east) = refusing(asks, |asked| {
        asked.is("create", "services") && asked.name == "late-east"
    })
    .await;
    let mark = world.source.mark();
    east.export("late");
    sleep(seconds(1)).await;
    east.export("other");
    let took = within(seconds(60), "the other mirror", || world.has("other-east")).await;
    assert!(took >= seconds(58), "{took:?}");
    sleep(hours(1)).await;
    let tries = world.source.asked(mark, |asked| asked.name == "late-east");
    let pauses = pauses(&tries);
    assert!(
        pauses.iter().all(|pause| (600.0..602.0).contains(pause)),
        "{pauses:?}"
    );
    assert_eq!(pauses.len(), 6);
    world.source.forward();
    within(seconds(600), "the mirror", || world.has("late-east")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refused_status_is_retried_for_hours_and_written_within_a_minute() {
    let refused = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "no");
    let (mut world, east) = refusing(refused, |asked| asked.resource == "links/status").await;
    let mark = world.source.mark();
    east.export("late");
    sleep(hours(3)).await;
    assert!(world.has("late-east"));
    let tries = world
        .source
        .asked(mark, |asked| asked.resource == "links/status");
    let pauses = pauses(&tries);
    let expected = [4.0, 8.0, 16.0, 32.0]
        .into_iter()
        .chain(std::iter::repeat(60.0));
    for (pause, expected) in pauses.iter().zip(expected) {
        assert!(
            (pause - expected).abs() < 0.2,
            "{pause} s in place of {expected} s"
        );
    }
    assert!((175..=190).contains(&pauses.len()), "{}", pauses.len());
    assert_eq!(world.status("east").mirrored, Some(1));
    world.source.forward();
    within(LONGEST + SENT, "the status", || {
        world.status("east").mirrored == Some(2)
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_never_answered_end_and_are_retried() {
    let mut world = World::new();
    let (east, north) = (world.target("east"), world.target("north"));
    world.start();
    world.in_sync(&["east", "north"], &[]).await;
    world.source.judge(|asked| {
        if writes_mirrors(asked) {
            Verdict::Hold
        } else {
            Verdict::Forward
        }
    });
    let mark = world.source.mark();
    for number in 0..40 {
        east.export(&format!("web-{number}"));
    }
    north.export("web");
    sleep(hours(1)).await;
    let tries = world
        .source
        .asked(mark, |asked| asked.is("create", "services"));
    // Each takes a slot for 30 s, and of the two slots that a cluster has after its first list, one is for new Services.
    // No key waits for ever, and none for another cluster's.
    assert!((200..=300).contains(&tries.len()), "{} tries", tries.len());
    let of = |mirror: &str| tries.iter().filter(|asked| asked.name == mirror).count();
    assert!((0..40).all(|number| of(&format!("web-{number}-east")) > 1));
    assert!(of("web-north") > 35);
    assert!(world.is("east", "Connected", "True"));
    world.source.forward();
    within(LONGEST + seconds(30), "all mirrors", || {
        world.source.names("services", NS).len() == 41
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_due_wait_while_all_slots_are_taken() {
    let mut world = World::new();
    world.slots = 2;
    let (east, north) = (world.target("east"), world.target("north"));
    world.start();
    world.in_sync(&["east", "north"], &[]).await;
    // Most writes fail at first, so their keys become due while others have all slots. A loop that did not sleep
    // then would stop the time.
    let failures = AtomicUsize::new(6);
    world.source.judge(move |asked| {
        if !writes_mirrors(asked) {
            return Verdict::Forward;
        }
        let left = |left: usize| left.checked_sub(1);
        match failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left) {
            Ok(_) => Verdict::Refuse(Refusal::of(500)),
            Err(_) => Verdict::Hold,
        }
    });
    let mark = world.source.mark();
    for number in 0..4 {
        east.export(&format!("web-{number}"));
        north.export(&format!("web-{number}"));
    }
    sleep(hours(1)).await;
    let tries = world.source.asked(mark, writes_mirrors).len();
    // One slot is for new Services, for 30 s each.
    assert!((110..=6 + 121).contains(&tries), "{tries} tries");
    world.source.forward();
    within(LONGEST + seconds(30), "all mirrors", || {
        world.source.names("services", NS).len() == 8
    })
    .await;
    world.stop().await;
}
