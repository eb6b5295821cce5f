//! Tokens that are revoked, replaced or expire while the target cluster cannot be reached.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use client::timing;
use tokio::time::sleep;

use super::{
    server::Verdict,
    world::{LINKS, World, credentials_of, hours, seconds, within},
};

#[tokio::test(start_paused = true)]
async fn revoked_token_is_reported_and_its_successor_used_at_once() {
    let (mut world, east) = World::mirroring().await;
    east.accept_only("second");
    east.cut();
    east.export("late");
    sleep(hours(2)).await;
    assert!(world.has("web-east") && !world.has("late-east"));
    assert!(world.is("east", "Connected", "False"));
    world.credentials("east", "second");
    within(seconds(2), "the mirror", || world.has("late-east")).await;
    within(seconds(5), "the status", || {
        world.is("east", "Ready", "True")
    })
    .await;
    world.stop().await;
}

/// An API server does not close open watches, so changes still arrive through them.
#[tokio::test(start_paused = true)]
async fn revoked_token_is_reported_although_its_watches_go_on() {
    let (mut world, east) = World::mirroring().await;
    east.accept_only("second");
    within(seconds(25), "the report", || {
        world.is("east", "Connected", "False")
    })
    .await;
    let (_, reason, _) = world.condition("east", "Connected").unwrap();
    assert_eq!(reason, "Unauthorized");
    east.export("late");
    within(seconds(1), "the mirror", || world.has("late-east")).await;
    world.credentials("east", "second");
    within(seconds(5), "the status", || {
        world.is("east", "Ready", "True")
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn secret_that_is_replaced_in_an_outage_is_used_when_the_target_is_back() {
    let (mut world, east) = World::mirroring().await;
    east.judge(|_| Verdict::Hold);
    east.silence();
    sleep(hours(1)).await;
    world.credentials("east", "second");
    east.accept_only("second");
    sleep(hours(2)).await;
    assert!(world.has("web-east"));
    east.export("late");
    east.forward();
    east.cut();
    within(seconds(10), "the mirror", || world.has("late-east")).await;
    within(seconds(5), "the status", || {
        world.is("east", "Ready", "True")
    })
    .await;
    // Watches of the old session would be refused.
    sleep(hours(1)).await;
    assert!(world.is("east", "Connected", "True"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn wrong_token_in_a_new_secret_leaves_the_old_session_in_use() {
    let (mut world, east) = World::mirroring().await;
    world.credentials("east", "wrong");
    within(seconds(10), "the report", || {
        world.is("east", "CredentialsValid", "False")
    })
    .await;
    let mark = world.source.mark();
    sleep(hours(2)).await;
    assert_eq!(world.source.writes(mark), [""; 0]);
    assert!(world.is("east", "Connected", "True"));
    east.export("late");
    within(seconds(1), "the mirror", || world.has("late-east")).await;
    world.credentials("east", super::world::TOKEN);
    within(seconds(5), "the report", || {
        world.is("east", "CredentialsValid", "True")
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_secret_is_reported_and_mirrors_follow_until_it_is_there_again() {
    let (mut world, east) = World::mirroring().await;
    world
        .source
        .delete("secrets", LINKS, &credentials_of("east"));
    within(seconds(5), "the report", || {
        world.is("east", "CredentialsValid", "False")
    })
    .await;
    sleep(hours(2)).await;
    // An alert goes by the metric.
    assert!(world.is("east", "Ready", "False") && !world.is_ready_by_metric("east"));
    east.export("late");
    within(seconds(1), "the mirror", || world.has("late-east")).await;
    world.credentials("east", super::world::TOKEN);
    within(seconds(5), "the report", || {
        world.is("east", "Ready", "True") && world.is_ready_by_metric("east")
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn token_is_reported_seven_days_before_it_expires() {
    let expires = timing::now().as_second() + 7 * 24 * 3600 + 2 * 3600;
    let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{expires}}}"#));
    let token = format!("h.{claims}.s");
    let mut world = World::new();
    let east = world.target("east");
    east.accept_only(&token);
    world.credentials("east", &token);
    world.start();
    world.in_sync(&["east"], &[]).await;
    let soon = || world.condition("east", "CredentialsExpiring");
    sleep(seconds(7_000)).await;
    assert_eq!(soon(), None);
    let mark = world.source.mark();
    sleep(seconds(300)).await;
    assert_eq!(soon().expect("a condition").1, "ExpiresSoon");
    assert_eq!(world.source.writes(mark).len(), 1);
    world.stop().await;
}
