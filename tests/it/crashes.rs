//! The real controller, killed at every write: just before it is made, and just after, with the answer lost. Whatever is
//! left when a new one starts, the end has to be that of a calm run, and nothing may happen on the way that must not.
//!
//! `cargo test` takes some writes of each scenario; with `LINKERD_MC_SWEEP=all` in the environment, all.

mod history;
mod scenarios;
mod state;

use std::{
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use control_plane::{Interceptor, Verdict, eventually};
use tokio::{sync::Notify, time::timeout};

use self::{
    history::Changes,
    scenarios::{SCENARIOS, Scenario, Stage},
};
use crate::{
    fleet::{CONTROLLER, CONTROLLER_GROUPS, Controller, SOON},
    hub::{Alone, swept},
};

/// Writes of each scenario at which the controller is killed, unless all are wanted.
const FEW: usize = 3;
/// A write that does not come within this time does not come.
const COMES: Duration = Duration::from_secs(5);
/// So long without a write is the end of a calm run: longer than the time between two writes of a status.
const CALM: Duration = Duration::from_millis(2500);

/// When the controller is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    /// The write has not been made.
    Before,
    /// It has been made, and the controller does not know.
    After,
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_a_controller_leaves_nothing_that_its_successor_does_not_mend() {
    let all = std::env::var("LINKERD_MC_SWEEP").is_ok_and(|value| value == "all");
    let started = Instant::now();
    let planes = swept().await;
    let server = planes
        .source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let mut sweep = Sweep {
        planes: &planes,
        server: &server,
        stages: 0,
        runs: 0,
        killed: 0,
        violations: Vec::new(),
    };
    let mut spared = 0;
    for scenario in SCENARIOS {
        let calm = sweep.calm(scenario).await;
        let writes = if all {
            (1..=calm.writes).collect()
        } else {
            spread(calm.writes, FEW)
        };
        let before = (sweep.runs, sweep.killed);
        for write in writes {
            for kill in [Kill::Before, Kill::After] {
                sweep.killed_at(scenario, &calm, write, kill).await;
            }
        }
        let (runs, killed) = (sweep.runs - before.0, sweep.killed - before.1);
        spared += runs - killed;
        eprintln!(
            "{:<16} {:>2} writes, {killed} kills in {runs} runs",
            scenario.name, calm.writes
        );
    }
    // Past what the test harness keeps from being seen.
    writeln!(
        std::io::stderr(),
        "crashes: {} schedules in {:.0?}, of which {spared} ended before their write; {} violations",
        sweep.runs,
        started.elapsed(),
        sweep.violations.len()
    )
    .unwrap();
    assert!(
        sweep.violations.is_empty(),
        "{}",
        sweep.violations.join("\n")
    );
}

/// `few` numbers of `1..=of`, evenly spread, the first and the last among them.
fn spread(of: usize, few: usize) -> Vec<usize> {
    if of <= few {
        return (1..=of).collect();
    }
    (0..few).map(|n| 1 + n * (of - 1) / (few - 1)).collect()
}

/// What a calm run gave.
struct Calm {
    writes: usize,
    end: String,
    changes: Changes,
}

struct Sweep<'a> {
    planes: &'a Alone,
    server: &'a Interceptor,
    stages: usize,
    runs: usize,
    killed: usize,
    violations: Vec<String>,
}

impl Sweep<'_> {
    /// A place that no run has had.
    async fn stage(&mut self, scenario: &Scenario) -> Stage {
        self.stages += 1;
        Stage::new(self.planes, scenario, self.stages).await
    }

    fn controller(&self) -> Controller {
        let flag = "--federated-service-selector=mirror.linkerd.io/federated=swept";
        Controller::start_through(&self.planes.source, &self.server.url(), &[flag])
    }

    /// Runs a scenario without a fault.
    async fn calm(&mut self, scenario: &Scenario) -> Calm {
        let stage = self.stage(scenario).await;
        let (mut controller, since) = self.before(scenario, &stage).await;
        let last = Arc::new(Mutex::new((0, Instant::now())));
        let seen = last.clone();
        self.server.judge(move |asked| {
            if asked.is_write() {
                let mut last = seen.lock().unwrap();
                *last = (last.0 + 1, Instant::now());
            }
            Verdict::Forward
        });
        scenario.act(&stage).await;
        let controller = controller.get_or_insert_with(|| self.controller());
        let end = eventually(scenario.name, SOON, async || {
            let quiet = last.lock().unwrap().1.elapsed() > CALM;
            let end = state::normal(&stage).await?;
            Ok((quiet && scenario.is_done(&end)).then_some(end))
        });
        let end = end
            .await
            .unwrap_or_else(|error| panic!("{error:#}; the controller says\n{}", controller.log()));
        self.server.forward();
        let writes = last.lock().unwrap().0;
        let changes = history::changes(&stage, &since).await.unwrap();
        let broken = changes.broken(scenario.keeps);
        assert!(broken.is_empty(), "{}: {broken:#?}", scenario.name);
        stage.clear().await;
        Calm {
            writes,
            end,
            changes,
        }
    }

    /// Brings the stage to where the scenario begins. With the controller that did, if it takes one, and the point in
    /// the cluster's history.
    async fn before(&self, scenario: &Scenario, stage: &Stage) -> (Option<Controller>, String) {
        self.server.forward();
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

    /// Runs a scenario in which the controller is killed at its write of this number, counted from 1.
    async fn killed_at(&mut self, scenario: &Scenario, calm: &Calm, write: usize, kill: Kill) {
        self.runs += 1;
        let what = format!("{}, killed {kill:?} write {write}", scenario.name);
        let stage = self.stage(scenario).await;
        let (controller, since) = self.before(scenario, &stage).await;
        let reached = self.trap(write, kill);
        scenario.act(&stage).await;
        let mut controller = controller.unwrap_or_else(|| self.controller());
        if timeout(COMES, reached.notified()).await.is_ok() {
            self.killed += 1;
        }
        controller.kill();
        // What it had sent and not been answered ends with it.
        self.server.cut();
        self.server.forward();
        let controller = self.controller();
        let mut last = String::new();
        let deadline = Instant::now() + SOON;
        while last != calm.end && Instant::now() < deadline {
            last = state::normal(&stage).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if last != calm.end {
            let (calm, log) = (&calm.end, controller.log());
            self.violations.push(format!(
                "{what}: ended as\n{last}\ninstead of\n{calm}\nthe controller says\n{log}"
            ));
        }
        let changes = history::changes(&stage, &since).await.unwrap();
        let mut broken = changes.broken(scenario.keeps);
        broken.extend(changes.beyond(&calm.changes));
        self.violations
            .extend(broken.iter().map(|broken| format!("{what}: {broken}")));
        stage.clear().await;
    }

    /// From the write of this number on nothing comes through. Tells when it has come.
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
