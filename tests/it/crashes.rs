//! Kills the real controller at a write: before the API server gets the write, or after it, so that the answer is lost.
//! Other runs delay or drop an event of one of its watches. Each run has to end in the state of an undisturbed run, and
//! must not break a rule on the way.
//!
//! A schedule is a scenario with one such disturbance. By default, the test chooses some schedules of each scenario at
//! random, and prints the seed. `LINKERD_MC_SWEEP_SEED` repeats the choice of an earlier run. With
//! `LINKERD_MC_SWEEP=all` in the environment, all schedules run. With the name of a scenario as its value, all
//! schedules of this scenario run, and no others.

mod history;
mod mishaps;
mod scenarios;
mod stage;
mod state;

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use control_plane::{Interceptor, Verdict, eventually};
use tokio::{sync::Notify, time::timeout};

use self::{
    history::{Changes, Point},
    mishaps::{Mishap, Watched},
    scenarios::{SCENARIOS, Scenario},
    stage::Stage,
};
use crate::support::{
    SOON,
    controller::Controller,
    gateway_api,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
    links::all_in_step,
    planes::{Alone, alone},
};

/// After this time without the expected write, the run counts as finished without it.
const COMES: Duration = Duration::from_secs(5);
/// After this time without a write or an event, an undisturbed run is finished. It is longer than the time between two
/// writes of a status.
const CALM: Duration = Duration::from_millis(2500);

/// Number of kills, and of disturbed events, that the test chooses for each scenario.
const DRAWN: (usize, usize) = (1, 1);

/// When the controller is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    /// Before the API server gets the write.
    Before,
    /// After the API server executed the write, and before the controller gets the answer.
    After,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn crashes_and_late_or_lost_events_do_not_change_the_result() {
    let wanted = std::env::var("LINKERD_MC_SWEEP").ok();
    let all = wanted.is_some();
    let seed = std::env::var("LINKERD_MC_SWEEP_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let is_wanted = |scenario: &Scenario| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| wanted == "all" || wanted == scenario.name)
    };
    let started = Instant::now();
    let planes = alone().await;
    planes.source.install_gateway_api().await.unwrap();
    gateway_api::permit(&planes.source, true).await;
    let server = planes
        .source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let far = planes.far.intercept(None).unwrap();
    let mut sweep = Sweep {
        planes: &planes,
        server: &server,
        far: &far,
        stages: 0,
        kills: Schedules::default(),
        mishaps: Schedules::default(),
        violations: Vec::new(),
    };
    for scenario in SCENARIOS.iter().filter(|s| is_wanted(s)) {
        let began = Instant::now();
        let calm = sweep.calm(scenario).await;
        let before = (sweep.kills, sweep.mishaps);
        let mut kills = with_each(calm.writes, [Kill::Before, Kill::After]);
        let mut mishaps = with_each(calm.events, Mishap::ALL);
        if !all {
            kills = random.choose_multiple(kills, DRAWN.0);
            mishaps = random.choose_multiple(mishaps, DRAWN.1);
        }
        for (write, kill) in kills {
            sweep.killed_at(scenario, &calm, write, kill).await;
        }
        let between = Instant::now();
        for (event, mishap) in mishaps {
            sweep.misled_at(scenario, &calm, event, mishap).await;
        }
        eprintln!(
            "{:<16} {:>2} writes, {} kills in {:.0?}; {:>2} events, {} that went wrong in {:.0?}",
            scenario.name,
            calm.writes,
            sweep.kills.since(before.0),
            between - began,
            calm.events,
            sweep.mishaps.since(before.1),
            between.elapsed(),
        );
    }
    let (kills, mishaps) = (sweep.kills, sweep.mishaps);
    // Writes to stderr directly, because the test harness captures the output of macros.
    writeln!(
        std::io::stderr(),
        "crashes: LINKERD_MC_SWEEP_SEED={seed}: {} schedules in {:.0?}: {} killed at a write, {} with an event late or lost, {} ended before theirs; {} violations",
        kills.runs + mishaps.runs,
        started.elapsed(),
        kills.reached,
        mishaps.reached,
        kills.runs + mishaps.runs - kills.reached - mishaps.reached,
        sweep.violations.len()
    )
    .unwrap();
    assert!(
        sweep.violations.is_empty(),
        "LINKERD_MC_SWEEP_SEED={seed}\n{}",
        sweep.violations.join("\n")
    );
    for (reached, what) in [(kills, "kills"), (mishaps, "disturbed events")] {
        assert!(
            reached.is_enough(),
            "LINKERD_MC_SWEEP_SEED={seed}: too few {what} were reached"
        );
    }
}

/// The number of runs of one kind, and in how many of them the disturbance happened.
#[derive(Clone, Copy, Default)]
struct Schedules {
    runs: usize,
    reached: usize,
}

impl Schedules {
    fn add(&mut self, reached: bool) {
        self.runs += 1;
        self.reached += usize::from(reached);
    }

    /// Whether the disturbance happened in at least a third of the runs. Usually, it happens in nine of ten. The number
    /// of writes and events varies a little, so a run may end before the write or event that was chosen.
    fn is_enough(self) -> bool {
        self.runs > 0 && 3 * self.reached >= self.runs
    }

    fn since(self, before: Self) -> String {
        let (runs, reached) = (self.runs - before.runs, self.reached - before.reached);
        format!("{reached} of {runs}")
    }
}

/// Combines each number of `1..=of` with each element of `all`.
fn with_each<T: Copy>(of: usize, all: impl IntoIterator<Item = T> + Copy) -> Vec<(usize, T)> {
    (1..=of)
        .flat_map(|number| all.into_iter().map(move |each| (number, each)))
        .collect()
}

/// The result of an undisturbed run.
struct Calm {
    writes: usize,
    events: usize,
    end: String,
    changes: Changes,
}

/// A run in progress, and the controller that has to finish it.
struct Run<'a> {
    what: String,
    scenario: &'a Scenario,
    stage: &'a Stage,
    calm: &'a Calm,
    since: Point,
    controller: Controller,
}

struct Sweep<'a> {
    planes: &'a Alone,
    /// Proxies from the controller to its own API server, and to that of the target cluster.
    server: &'a Interceptor,
    far: &'a Interceptor,
    stages: usize,
    kills: Schedules,
    mishaps: Schedules,
    violations: Vec<String>,
}

/// Flag of the controller that selects local members of federated Services.
const MEMBERS: &str = "--federated-service-selector=mirror.linkerd.io/federated=swept";

impl Sweep<'_> {
    /// Creates a namespace, and chooses a name for the Link, that no other run used. The scenario creates the Link.
    async fn stage(&mut self, scenario: &Scenario) -> Stage {
        self.stages += 1;
        Stage::new(self.planes, self.far.url(), scenario, self.stages).await
    }

    fn controller(&self) -> Controller {
        let flags = [MEMBERS, "--enable-routes"];
        Controller::start_through(&self.planes.source, &self.server.url(), &flags)
    }

    /// Runs a scenario without a fault.
    async fn calm(&mut self, scenario: &Scenario) -> Calm {
        let stage = self.stage(scenario).await;
        let (mut controller, since) = self.before(scenario, &stage).await;
        let watched = Watched::on([self.server, self.far], &stage, None);
        scenario.act(&stage).await;
        let controller = controller.get_or_insert_with(|| self.controller());
        let end = eventually(scenario.name, SOON, async || {
            let end = state::normal(&stage).await?;
            let done = watched.is_calm(CALM) && scenario.is_done(&end);
            Ok(done.then_some(end))
        });
        let end = end
            .await
            .unwrap_or_else(|error| panic!("{error:#}; the controller says\n{}", controller.log()));
        self.forward();
        let (writes, events) = watched.counts();
        let changes = history::changes(&stage, &since).await.unwrap();
        let mut broken = changes.broken(scenario.keeps);
        broken.extend(history::forbidden_requests(&stage, &since).unwrap());
        assert!(broken.is_empty(), "{}: {broken:#?}", scenario.name);
        self.leave(scenario, &stage).await;
        Calm {
            writes,
            events,
            end,
            changes,
        }
    }

    /// Checks that `plan` finds nothing to do, and clears the stage.
    async fn leave(&self, scenario: &Scenario, stage: &Stage) {
        if scenario.has_credentials() {
            all_in_step(&self.planes.source, &[MEMBERS]).await;
        }
        stage.clear().await;
    }

    fn forward(&self) {
        self.server.forward();
        self.far.forward();
    }

    /// Prepares the stage for the scenario. Returns the controller, if the scenario begins with a running one, and the
    /// point in the history at which the action begins.
    async fn before(&self, scenario: &Scenario, stage: &Stage) -> (Option<Controller>, Point) {
        self.forward();
        scenario.prepare(stage).await;
        if !scenario.running {
            return (None, history::now(stage).await.unwrap());
        }
        let controller = self.controller();
        let ready = eventually("the stage", SOON, async || {
            let state = state::normal(stage).await?;
            Ok(scenario.is_prepared(&state).then_some(()))
        });
        ready.await.unwrap();
        (Some(controller), history::now(stage).await.unwrap())
    }

    /// Runs a scenario, and kills the controller at its write with this number, counted from 1.
    async fn killed_at(&mut self, scenario: &Scenario, calm: &Calm, write: usize, kill: Kill) {
        let what = format!("{}, killed {kill:?} write {write}", scenario.name);
        let stage = self.stage(scenario).await;
        let (controller, since) = self.before(scenario, &stage).await;
        let reached = self.trap(write, kill);
        scenario.act(&stage).await;
        let mut controller = controller.unwrap_or_else(|| self.controller());
        self.kills
            .add(timeout(COMES, reached.notified()).await.is_ok());
        controller.kill();
        // Drops requests that the controller sent and the API server did not answer.
        self.server.cut();
        self.forward();
        let controller = self.controller();
        let run = Run {
            what,
            scenario,
            stage: &stage,
            calm,
            since,
            controller,
        };
        self.judge(&run, || true).await;
        self.leave(scenario, &stage).await;
    }

    /// Runs a scenario, and disturbs the event with this number, counted from 1.
    async fn misled_at(&mut self, scenario: &Scenario, calm: &Calm, event: usize, mishap: Mishap) {
        let what = format!("{}, event {event} {mishap:?}", scenario.name);
        let stage = self.stage(scenario).await;
        let (controller, since) = self.before(scenario, &stage).await;
        let watched = Watched::on([self.server, self.far], &stage, Some((event, mishap)));
        scenario.act(&stage).await;
        let controller = controller.unwrap_or_else(|| self.controller());
        let run = Run {
            what,
            scenario,
            stage: &stage,
            calm,
            since,
            controller,
        };
        self.judge(&run, || watched.is_over()).await;
        self.mishaps.add(watched.happened());
        self.forward();
        self.leave(scenario, &stage).await;
    }

    /// Waits for the end of a run, and compares it with the undisturbed run.
    async fn judge(&mut self, run: &Run<'_>, at_the_end: impl Fn() -> bool) {
        let Run {
            what,
            scenario,
            stage,
            calm,
            since,
            controller,
        } = run;
        let ended = eventually(what, SOON, async || {
            let last = state::normal(stage).await?;
            let end = &calm.end;
            ensure!(last == *end, "ended as\n{last}\ninstead of\n{end}");
            ensure!(at_the_end(), "the watch was not taken up again");
            Ok(Some(()))
        });
        if let Err(wrong) = ended.await {
            let log = controller.log();
            self.violations
                .push(format!("{wrong:#}\nthe controller says\n{log}"));
        }
        let changes = history::changes(stage, since).await.unwrap();
        let mut broken = changes.broken(scenario.keeps);
        broken.extend(changes.beyond(&calm.changes));
        broken.extend(history::forbidden_requests(stage, since).unwrap());
        if !broken.is_empty() {
            broken.push(history::account(stage, since).unwrap());
        }
        self.violations
            .extend(broken.iter().map(|broken| format!("{what}: {broken}")));
    }

    /// Holds back all requests from the write with this number on. Notifies when the controller has sent this write.
    /// With [`Kill::After`], notifies when the API server has executed it.
    fn trap(&self, write: usize, kill: Kill) -> Arc<Notify> {
        let reached = Arc::new(Notify::new());
        let (count, tell) = (AtomicUsize::new(0), reached.clone());
        self.server.judge(move |asked| {
            let number = if asked.is_write() {
                count.fetch_add(1, Ordering::SeqCst) + 1
            } else {
                count.load(Ordering::SeqCst)
            };
            match (number.cmp(&write), asked.is_write(), kill) {
                (std::cmp::Ordering::Less, ..) => Verdict::Forward,
                (std::cmp::Ordering::Equal, true, Kill::After) => Verdict::LoseAnswer(tell.clone()),
                (std::cmp::Ordering::Equal, true, Kill::Before) => {
                    tell.notify_one();
                    Verdict::Hold
                }
                _ => Verdict::Hold,
            }
        });
        reached
    }
}
