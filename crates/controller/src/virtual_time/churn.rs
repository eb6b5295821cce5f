//! A target cluster that creates and deletes Services with other names each time, faster than its changes are written.

use std::time::Duration;

use mirror_core::api::labels as l;
use tokio::time::sleep;

use super::world::{NS, World, exported, seconds, within};

/// Exported Services whose ports change again and again.
const STAY: u16 = 100;
/// Services that are created and deleted, each time.
const PASS: usize = 125;
/// Times that all of them change, half a second apart.
const ROUNDS: u16 = 25;

impl World {
    /// The number of keys that wait, by the metric.
    fn queue_depth(&self) -> usize {
        let text = self.metrics.render();
        let mut lines = text.lines();
        let depth = lines.find_map(|line| line.strip_prefix("linkerd_mc_queue_depth "));
        depth.expect("a series").parse().expect("a number")
    }
}

fn name(number: u16) -> String {
    format!("web-{number}")
}

#[tokio::test(start_paused = true)]
async fn keys_of_services_that_come_and_go_do_not_fill_the_queue_and_no_change_is_lost() {
    let mut world = World::new();
    world.services = 200;
    let most = 2 * world.services + 2 * usize::from(STAY);
    let east = world.target("east");
    for number in 0..STAY {
        east.export(&name(number));
    }
    world.start();
    // What the first list added to the allowance expires.
    sleep(seconds(310)).await;
    let mut deepest = 0;
    for round in 0..ROUNDS {
        for number in 0..STAY {
            east.set_port(&name(number), 1_000 + round);
        }
        for number in 0..PASS {
            let name = format!("passing-{round}-{number}");
            let [(resource, service), _] = exported(&name, (l::EXPORTED, "true"));
            east.change(|objects| objects.create(resource, service));
            east.delete(resource, NS, &name);
        }
        sleep(Duration::from_millis(500)).await;
        deepest = deepest.max(world.queue_depth());
    }
    assert!((most / 2..=most).contains(&deepest), "{deepest} keys wait");

    // The flow is full, so these changes are left out at first.
    east.export("late");
    east.delete("services", NS, &name(0));
    within(seconds(120), "all changes", || {
        let ports = (1..STAY).all(|number| {
            let mirror = world
                .source
                .get("services", NS, &format!("{}-east", name(number)));
            mirror.is_some_and(|mirror| mirror["spec"]["ports"][0]["port"] == 999 + ROUNDS)
        });
        ports && world.has("late-east") && !world.has("web-0-east")
    })
    .await;
    within(seconds(15), "the status", || {
        let status = world.status("east");
        (status.mirrored, status.unhealthy) == (Some(STAY.into()), Some(0))
    })
    .await;
    within(seconds(15), "an empty queue", || world.queue_depth() == 0).await;
    world.stop().await;
}
