//! Kills `fleet apply` after a number of writes that a seed chooses, while it links and while it unlinks, and runs it
//! again.

use std::{
    process::Child,
    time::{Duration, Instant},
};

use tokio::time::interval;

use super::{LINKS, MESH, OBJECTS, apply, shapes};
use crate::fleet::many::{Inventory, Planes};

/// With each seed, the test kills `fleet apply` once while it links the clusters, and once while it unlinks them.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;
/// `fleet apply` deletes at least this number of objects for each removed link. It may delete fewer than [`OBJECTS`],
/// because Kubernetes deletes the token Secret of a deleted account.
const DELETED: usize = OBJECTS - 2;
/// How often the test counts the writes.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until the program has made this number of writes, and kills it. Returns the number of its writes.
async fn kill(mut child: Child, planes: &mut Planes, after: usize) -> usize {
    let (mut looks, mut written) = (interval(LOOK), 0);
    while written < after {
        let status = child.try_wait().unwrap();
        assert!(
            status.is_none(),
            "it has ended after {written} writes, not {after}"
        );
        looks.tick().await;
        written += planes.counted();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    written + planes.counted()
}

/// At the end, the clusters have the same objects, whenever `fleet apply` was killed.
pub(super) async fn the_end_is_the_same(
    planes: &mut Planes,
    names: &[String],
    empty: &[Inventory],
    mesh: &[Inventory],
) {
    let started = Instant::now();
    for seed in SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        for (links, expected, objects) in [(MESH, mesh, OBJECTS), ("[]", empty, DELETED)] {
            let after = random.usize(1..LINKS * objects);
            let file = planes.file("fleet.yaml", names, links);
            planes.counted();
            let child = planes.spawn("apply", &file, &["--yes", "--prune=90"]);
            let written = kill(child, planes, after).await;
            let (took, rest) = apply(planes, names, links);
            eprintln!(
                "fleet of ten: seed {seed}, links: {links}: killed after {written} writes, the rest in {:.1} s with {rest}",
                took.as_secs_f64()
            );
            let now = planes.inventories().await;
            assert_eq!(shapes(&now), expected, "seed {seed}, links: {links}");
            let plan = planes.run("plan", &file, &[]);
            assert_eq!(
                (plan.code, plan.stdout.as_str()),
                (0, "Nothing to do.\n"),
                "seed {seed}"
            );
            if links == MESH {
                planes.ready(names).await;
            }
        }
    }
    eprintln!(
        "fleet of ten: killed {} times in {:.0} s",
        2 * SEEDS.count(),
        started.elapsed().as_secs_f64()
    );
}
