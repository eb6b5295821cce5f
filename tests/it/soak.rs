//! All kinds of changes at once, for minutes: Services, endpoints, hosts, gateways and a Link are created, changed and
//! deleted, people edit mirrors, and networks fail and recover. [`guard`] looks for violations all the time. At the
//! end, all mirrors have to be as `plan` computes them, and the process may not use more memory than after its first
//! minute.
//!
//! `just soak MINUTES` runs this test. `LINKERD_MC_SOAK_SEED` repeats the random choices of an earlier run.

mod guard;
mod scene;
mod vitals;

use std::time::{Duration, Instant};

use control_plane::Fault;
use requirements::missing;
use tokio::time::{MissedTickBehavior, interval};

use self::{
    guard::Guard,
    scene::{FLAPS, LINKS, Scene},
    vitals::{Vitals, table},
};

/// Environment variable: for how many minutes the test runs.
const MINUTES: &str = "LINKERD_MC_SOAK_MINUTES";
/// Time between two operations.
const TICK: Duration = Duration::from_millis(250);
/// The test compares the resource use at the end with that after this time, or after a third of the total time if that
/// is less.
const WARM_UP: Duration = Duration::from_secs(60);

/// Counts of operations and faults.
#[derive(Debug, Default)]
struct Tally {
    operations: usize,
    faults: usize,
}

/// A running test, and until when each disturbance lasts.
struct Soak {
    scene: Scene,
    random: fastrand::Rng,
    tally: Tally,
    /// When the fault of each Link, and that of the local API server, ends.
    heals: [Option<Instant>; LINKS.len() + 1],
    /// When the deleted Link is created again.
    linked_again: Option<Instant>,
    /// When the gateway of each Link recovers.
    revived: [Option<Instant>; LINKS.len()],
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just soak"]
async fn mirrors_are_correct_and_memory_is_bounded_after_minutes_of_changes_and_faults() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let Some(minutes) = number(MINUTES) else {
        return missing(MINUTES, "random changes and faults for minutes");
    };
    let seed = number("LINKERD_MC_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("soak: {minutes} minutes, LINKERD_MC_SOAK_SEED={seed}");
    let time = Duration::from_secs(60 * minutes);
    let mut soak = Soak {
        scene: Scene::set().await,
        random: fastrand::Rng::with_seed(seed),
        tally: Tally::default(),
        heals: [None; LINKS.len() + 1],
        linked_again: None,
        revived: [None; LINKS.len()],
    };
    soak.scene.settle().await;
    let guard = Guard::start(&soak.scene);

    let mut max = Vitals::default();
    let warm_up = WARM_UP.min(time / 3);
    soak.go_on(warm_up, &mut max).await;
    soak.heal().await;
    let first = Vitals::of(&soak.scene.controller).await;
    soak.go_on(time.saturating_sub(warm_up), &mut max).await;
    soak.heal().await;
    let last = Vitals::of(&soak.scene.controller).await;

    let (writes, mut violations) = guard.end(&soak.scene).await;
    violations.extend(last.grown_since(&first));
    eprintln!(
        "operations {:>6}\nfaults     {:>6}\nwrites     {:>6}  {}\n{}\nviolations {:>6}",
        soak.tally.operations,
        soak.tally.faults,
        writes.values().sum::<usize>(),
        writes
            .iter()
            .map(|(verb, count)| format!("{verb} {count}"))
            .collect::<Vec<_>>()
            .join(", "),
        table(&first, &last, &max.most(&last)),
        violations.len()
    );
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

impl Soak {
    /// Runs random operations and faults for this long.
    async fn go_on(&mut self, time: Duration, max: &mut Vitals) {
        let started = Instant::now();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while started.elapsed() < time {
            ticks.tick().await;
            self.mend(Instant::now()).await;
            if self.random.u8(..12) == 0 {
                self.break_something();
            } else {
                self.change_something().await;
            }
            if self.tally.operations.is_multiple_of(8) {
                *max = max.most(&Vitals::of(&self.scene.controller).await);
            }
        }
    }

    /// Ends all disturbances, and waits until all mirrors are correct.
    async fn heal(&mut self) {
        let end_of_time = Instant::now() + Duration::from_secs(3600);
        self.mend(end_of_time).await;
        self.scene.settle().await;
    }

    /// Ends the disturbances that should have ended by now.
    async fn mend(&mut self, now: Instant) {
        let over = |until: &mut Option<Instant>| until.take_if(|until| *until <= now).is_some();
        for (number, until) in self.heals.iter_mut().enumerate() {
            if over(until) {
                self.scene.lines[number].set(Fault::None);
            }
        }
        for (link, until) in self.revived.iter_mut().enumerate() {
            if over(until) {
                self.scene.revive(link);
            }
        }
        if over(&mut self.linked_again) {
            self.scene.link(FLAPS).await;
        }
    }

    fn in_seconds(&mut self, most: u64) -> Instant {
        Instant::now() + Duration::from_millis(self.random.u64(500..most * 1000))
    }

    /// Disturbs one of the connections to API servers, if it works.
    fn break_something(&mut self) {
        let line = self.random.usize(..self.heals.len());
        if self.heals[line].is_some() {
            return;
        }
        self.tally.faults += 1;
        let (fault, seconds) = match self.random.u8(..7) {
            // Some of these stalls are long enough for the controller to notice them.
            0 => (Fault::Stall, 50),
            1 => (Fault::Stall, 8),
            2 => (Fault::Refuse, 15),
            3 => (
                Fault::Delay(Duration::from_millis(self.random.u64(20..400))),
                15,
            ),
            4 => (Fault::Throttle(self.random.u32(5_000..100_000)), 15),
            5 => (Fault::ResetAfter(self.random.usize(500..60_000)), 15),
            _ => return self.scene.lines[line].cut(),
        };
        self.scene.lines[line].set(fault);
        self.heals[line] = Some(self.in_seconds(seconds));
    }

    /// One change, in one of the clusters.
    async fn change_something(&mut self) {
        self.tally.operations += 1;
        let Self { scene, random, .. } = self;
        match random.u8(..100) {
            0..25 => scene.edit(random).await,
            25..42 => scene.move_export(random).await,
            42..54 => scene.delete_or_create(random).await,
            54..69 => scene.change_endpoints(random).await,
            69..79 => scene.scale(random).await,
            79..87 => scene.join_or_leave(random).await,
            87..95 => scene.meddle(random).await,
            95..98 => {
                if self.linked_again.is_none() {
                    scene.unlink(FLAPS).await;
                    self.linked_again = Some(self.in_seconds(12));
                }
            }
            _ => {
                let link = random.usize(..LINKS.len());
                if self.revived[link].is_none() {
                    scene.kill(link);
                    self.revived[link] = Some(self.in_seconds(15));
                }
            }
        }
    }
}
