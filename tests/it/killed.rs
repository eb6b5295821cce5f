//! Kills commands that change links at each of their writes: before the API server gets the write, or after it, so that
//! the answer is lost. Whenever that happens, all credentials in use are valid, and mirrors that stay are untouched. The
//! next run of the command has the same end as one that was never killed, and the one after it writes nothing. Two runs at
//! once are no different.
//!
//! By default, the test chooses a kill of each kind for each case at random, and prints the seed, which
//! `LINKERD_MC_SWEEP_SEED` repeats. With `LINKERD_MC_SWEEP=all`, it tries all.

mod cases;
mod state;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use control_plane::{ControlPlane, Interceptor, Verdict, eventually};
use kube::config::Kubeconfig;
use tokio::{sync::Notify, time::timeout};

use self::{
    cases::{CASES, Case},
    state::{clear, mirrors, state, unusable},
};
use crate::support::{
    SOON,
    controller::Controller,
    credentials::destination,
    objects::{export, join, namespace, web},
    planes::{Alone, killed},
    program::{Outcome, run},
};

/// The namespace of the mirrors.
const NS: &str = "killed";
/// After this time without the expected write, the run counts as one that has ended before it.
const COMES: Duration = Duration::from_secs(20);

/// When a command is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    /// Before the API server gets the write.
    Before,
    /// After the API server executed the write, and before the command gets the answer.
    After,
}

/// Two linked clusters, seen through proxies that can hold a write.
struct Stage {
    planes: Alone,
    proxies: [Interceptor; 2],
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    _controllers: [Controller; 2],
}

impl Stage {
    async fn new() -> Self {
        let planes = killed().await;
        let both: [&ControlPlane; 2] = [&planes.source, &planes.far];
        namespace(NS, &both).await;
        for plane in both {
            export(plane, NS, &web("web", "true")).await;
            join(plane, NS, "all", "member", "no").await;
            destination(plane).await;
        }
        let controllers = both.map(|plane| Controller::start(plane, &[]));
        let proxies = both.map(|plane| plane.intercept(Some(("admin", &["system:masters"]))));
        let proxies = proxies.map(Result::unwrap);
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        ControlPlane::merged_kubeconfig(&both, &kubeconfig).unwrap();
        let text = std::fs::read_to_string(&kubeconfig).unwrap();
        let mut through = Kubeconfig::from_yaml(&text).unwrap();
        for entry in &mut through.clusters {
            let at = both.iter().position(|plane| plane.name() == entry.name);
            let cluster = entry.cluster.get_or_insert_default();
            cluster.server = Some(proxies[at.unwrap()].url());
        }
        let through = serde_json::to_string(&through).unwrap();
        std::fs::write(&kubeconfig, through).unwrap();
        Self {
            planes,
            proxies,
            folder,
            kubeconfig,
            _controllers: controllers,
        }
    }

    /// The clusters: that with the Link, and its target.
    fn both(&self) -> [&ControlPlane; 2] {
        [&self.planes.source, &self.planes.far]
    }

    /// Lets this decide about writes, which are counted from 1.
    fn judge(&self, judge: impl Fn(usize) -> Verdict + Clone + Send + Sync + 'static) {
        let written = Arc::new(AtomicUsize::new(0));
        for proxy in &self.proxies {
            let (written, judge) = (written.clone(), judge.clone());
            proxy.judge(move |asked| {
                if asked.is_write() {
                    judge(written.fetch_add(1, Ordering::SeqCst) + 1)
                } else {
                    Verdict::Forward
                }
            });
        }
    }

    /// Runs a command without a fault, and counts its writes.
    fn counted(&self, args: &[String]) -> (Outcome, usize) {
        let writes = Arc::new(AtomicUsize::new(0));
        let count = writes.clone();
        self.judge(move |written| {
            count.store(written, Ordering::SeqCst);
            Verdict::Forward
        });
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let outcome = run(&self.kubeconfig, &args);
        (outcome, writes.load(Ordering::SeqCst))
    }

    /// Runs a command that must succeed.
    fn done(&self, args: &[String]) -> usize {
        let (outcome, writes) = self.counted(args);
        assert_eq!(
            outcome.code, 0,
            "{args:?}\n{}{}",
            outcome.stdout, outcome.stderr
        );
        writes
    }

    /// Makes the clusters as the case expects them. Returns the mirrors that are there, with their UIDs.
    async fn prepare(&self, case: &Case) -> BTreeSet<String> {
        clear(self).await;
        for args in (case.before)(self) {
            self.done(&args);
        }
        self.mirrors(case, case.mirrors.before).await
    }

    /// Waits until there are so many mirrors. Returns them, with their UIDs.
    async fn mirrors(&self, case: &Case, count: usize) -> BTreeSet<String> {
        let found = eventually("the mirrors", SOON, async || {
            let found = mirrors(self).await?;
            Ok((found.len() == count).then_some(found))
        });
        found
            .await
            .unwrap_or_else(|error| panic!("{}: {error:#}", case.name))
    }

    fn spawn(&self, args: &[String]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .env("KUBECONFIG", &self.kubeconfig)
            .env_remove("HTTPS_PROXY")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Runs a command, and kills it at this write. Returns whether it came so far.
    async fn killed_at(&self, args: &[String], write: usize, kill: Kill) -> bool {
        let reached = Arc::new(Notify::new());
        let notify = reached.clone();
        self.judge(move |written| match written.cmp(&write) {
            std::cmp::Ordering::Less => Verdict::Forward,
            std::cmp::Ordering::Equal if kill == Kill::After => Verdict::LoseAnswer(notify.clone()),
            std::cmp::Ordering::Equal => {
                notify.notify_one();
                Verdict::Hold
            }
            std::cmp::Ordering::Greater => Verdict::Hold,
        });
        let mut child = self.spawn(args);
        let is_reached = timeout(COMES, reached.notified()).await.is_ok();
        child.kill().unwrap();
        child.wait().unwrap();
        for proxy in &self.proxies {
            // Drops what is held.
            proxy.cut();
            proxy.forward();
        }
        is_reached
    }
}

/// What an undisturbed run does.
struct Calm {
    writes: usize,
    end: String,
}

struct Sweep {
    stage: Stage,
    runs: usize,
    reached: usize,
    violations: Vec<String>,
}

impl Sweep {
    async fn calm(&mut self, case: &Case) -> Calm {
        let before = self.stage.prepare(case).await;
        let writes = self.stage.done(&(case.command)(&self.stage));
        let end = self.end(case, &before).await;
        self.idle(case, case.name).await;
        Calm { writes, end }
    }

    /// The state when the controllers have done what follows.
    async fn end(&mut self, case: &Case, before: &BTreeSet<String>) -> String {
        let found = self.stage.mirrors(case, case.mirrors.after).await;
        let kept = found.intersection(before).count();
        if kept != case.mirrors.kept {
            let (kept, expected) = (kept, case.mirrors.kept);
            self.violations.push(format!(
                "{}: {kept} of {expected} mirrors are kept",
                case.name
            ));
        }
        state(&self.stage).await
    }

    /// Runs the command once more, which has nothing to do.
    async fn idle(&mut self, case: &Case, what: &str) {
        let Some(again) = case.idle(&self.stage) else {
            return;
        };
        let before = state(&self.stage).await;
        let (outcome, writes) = self.stage.counted(&again);
        let after = state(&self.stage).await;
        if outcome.code != 0 || writes > 0 || before != after {
            self.violations.push(format!(
                "{what}: the next run ends with {} and {writes} writes: {}",
                outcome.code, outcome.stderr
            ));
        }
    }

    /// Two runs at once. Each ends, and the next one finds what a single run leaves.
    async fn at_once(&mut self, case: &Case, calm: &Calm) {
        let before = self.stage.prepare(case).await;
        let args = (case.command)(&self.stage);
        let mut both = [self.stage.spawn(&args), self.stage.spawn(&args)];
        let codes = both.each_mut().map(|run| run.wait().unwrap().code());
        self.ends(
            case,
            calm,
            &before,
            &format!("{}, two at once: {codes:?}", case.name),
        )
        .await;
    }

    async fn killed_at(&mut self, case: &Case, calm: &Calm, write: usize, kill: Kill) {
        let what = format!(
            "{}, killed {kill:?} write {write} of {}",
            case.name, calm.writes
        );
        let before = self.stage.prepare(case).await;
        let args = (case.command)(&self.stage);
        self.runs += 1;
        if self.stage.killed_at(&args, write, kill).await {
            self.reached += 1;
        }
        self.ends(case, calm, &before, &what).await;
    }

    /// What a run has left works, the next run ends as an undisturbed one, and the one after it writes nothing.
    async fn ends(&mut self, case: &Case, calm: &Calm, before: &BTreeSet<String>, what: &str) {
        let unusable = unusable(&self.stage).await;
        if !unusable.is_empty() {
            self.violations.push(format!("{what}: {unusable:?}"));
        }
        let (outcome, _) = self.stage.counted(&case.resume(&self.stage));
        let end = self.end(case, before).await;
        // What is gone cannot be deleted again.
        let is_gone = outcome.stderr.contains("is not linked");
        if outcome.code != 0 && !is_gone || end != calm.end {
            self.violations.push(format!(
                "{what}: the second run ends with {}\n{}{}\n{}\ninstead of\n{}",
                outcome.code, outcome.stdout, outcome.stderr, end, calm.end
            ));
        }
        self.idle(case, what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn commands_that_are_killed_at_a_write_lose_nothing_and_end_as_others_do() {
    let wanted = std::env::var("LINKERD_MC_SWEEP").ok();
    let seed = std::env::var("LINKERD_MC_SWEEP_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sweep = Sweep {
        stage: Stage::new().await,
        runs: 0,
        reached: 0,
        violations: Vec::new(),
    };
    let is_wanted = |case: &&Case| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| wanted == "all" || wanted == case.name)
    };
    for case in CASES.iter().filter(is_wanted) {
        let calm = sweep.calm(case).await;
        sweep.at_once(case, &calm).await;
        for kill in [Kill::Before, Kill::After] {
            let all: Vec<usize> = (1..=calm.writes).collect();
            let chosen = match wanted {
                Some(_) => all,
                None => random.choose_multiple(all, 1),
            };
            for write in chosen {
                sweep.killed_at(case, &calm, write, kill).await;
            }
        }
    }
    let Sweep {
        runs,
        reached,
        violations,
        ..
    } = &sweep;
    // Writes to stderr directly, because the test harness captures the output of macros.
    writeln!(
        std::io::stderr(),
        "killed: LINKERD_MC_SWEEP_SEED={seed}: {runs} runs, {reached} killed at their write; {} violations",
        violations.len()
    )
    .unwrap();
    assert!(
        violations.is_empty(),
        "LINKERD_MC_SWEEP_SEED={seed}\n{}",
        violations.join("\n")
    );
    assert!(
        reached * 3 >= runs * 2,
        "too few kills were reached: {reached} of {runs}"
    );
}
