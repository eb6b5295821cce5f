//! Ten control planes that all link to each other, with 90 links. `just fleet` runs these tests.
//!
//! The first test measures how long `fleet apply` takes and how much it writes. In it, one cluster does not answer, and
//! one leaves the fleet file. The second test kills `fleet apply`. The third makes the same links with the loop of the
//! docs.

mod alone;
mod by_hand;
mod killed;

use std::time::{Duration, Instant};

use super::many::{Inventory, Planes, names, shape};

const COUNT: usize = 10;
/// An account of four objects, two Secrets and a Link.
const OBJECTS: usize = 7;
const LINKS: usize = COUNT * (COUNT - 1);
const MESH: &str = "[{mesh: all}]";

/// Runs `fleet apply`, which has to succeed. Returns how long it took, and the number of its writes.
fn apply(planes: &mut Planes, clusters: &[String], links: &str) -> (Duration, usize) {
    apply_with(planes, clusters, links, &[])
}

/// The same, with these flags.
fn apply_with(
    planes: &mut Planes,
    clusters: &[String],
    links: &str,
    more: &[&str],
) -> (Duration, usize) {
    let file = planes.file("fleet.yaml", clusters, links);
    planes.counted();
    let started = Instant::now();
    let usual = ["--yes", "--prune=90", "--wait=5m"];
    let applied = planes.run("apply", &file, &[&usual, more].concat());
    let took = started.elapsed();
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    (took, planes.counted())
}

/// Checks that another `fleet apply` finds nothing to do, and writes nothing.
fn nothing_is_left(planes: &mut Planes, clusters: &[String], links: &str) {
    let file = planes.file("fleet.yaml", clusters, links);
    planes.counted();
    let started = Instant::now();
    let again = planes.run("apply", &file, &[]);
    let took = started.elapsed();
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "Nothing to do.\n"),
        "{}",
        again.stderr
    );
    assert_eq!(planes.counted(), 0);
    say("again", took, 0);
}

fn say(what: &str, took: Duration, writes: usize) {
    eprintln!(
        "fleet of {COUNT}: {what}: {:.1} s, {writes} writes",
        took.as_secs_f64()
    );
}

fn shapes(inventories: &[Inventory]) -> Vec<Inventory> {
    inventories.iter().map(shape).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just fleet"]
async fn ten_clusters_that_all_link_to_each_other_for_minutes() {
    let names = names("ten", COUNT);
    let started = Instant::now();
    let mut planes = Planes::start(&names).await;
    say("ten control planes with controllers", started.elapsed(), 0);
    let empty = planes.inventories().await;

    let (took, writes) = apply(&mut planes, &names, MESH);
    say("fleet apply, from nothing to 90 ready Links", took, writes);
    planes.ready(&names).await;
    assert_eq!(writes, LINKS * OBJECTS);
    nothing_is_left(&mut planes, &names, MESH);

    alone::others_are_unaffected_by_a_cluster_that_does_not_answer(&planes, &names).await;
    alone::mirrors_are_there(&planes, &names).await;
    let mesh = planes.inventories().await;
    alone::one_leaves(&mut planes, &names, &empty, &mesh).await;

    let (took, removals) = apply(&mut planes, &names, "[]");
    say("fleet apply, 72 links removed", took, removals);
    assert_eq!(shapes(&planes.inventories().await), shapes(&empty));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just fleet"]
async fn apply_that_is_killed_at_any_place_ends_the_same_after_minutes() {
    let names = names("killed", COUNT);
    let mut planes = Planes::start(&names).await;
    let empty = shapes(&planes.inventories().await);
    apply(&mut planes, &names, MESH);
    let mesh = shapes(&planes.inventories().await);
    apply(&mut planes, &names, "[]");
    assert_eq!(shapes(&planes.inventories().await), empty);
    killed::the_end_is_the_same(&mut planes, &names, &empty, &mesh).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just fleet"]
async fn loop_of_the_docs_links_ten_clusters_in_minutes() {
    let names = names("hand", COUNT);
    let mut planes = Planes::start(&names).await;
    by_hand::the_loop_takes(&mut planes, &names).await;
}
