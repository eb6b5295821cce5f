//! A leader whose lease ends, while it has nothing to do and while it has.

use tokio::time::{Instant, sleep};

use super::{
    server::{Asked, Verdict},
    world::{World, seconds},
};
use crate::controller::lease::Fence;

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
