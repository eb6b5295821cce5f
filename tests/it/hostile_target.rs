//! Hostile API servers of target clusters, next to three target clusters that behave well (the neighbours): their
//! effect on the controller, its cluster and the neighbours.
//!
//! In the brief run, another controller without hostile targets has three neighbours, too. The run compares the
//! neighbours of both controllers at the same time.
//!
//! `just hostile MINUTES` runs three phases: without hostile targets, with hostile targets of another controller, and
//! with hostile targets of the same controller. The second phase shows the load that they cause on the machine and the
//! API server. The difference between the second and the third phase is the effect of sharing a process.
//! `LINKERD_MC_HOSTILE_CONDUCTS` selects some kinds of hostile behaviour, and `LINKERD_MC_HOSTILE_SEED` repeats the
//! random choices of an earlier run.

mod conduct;
mod figures;
mod neighbours;
mod server;

use std::time::Duration;

use anyhow::ensure;
use control_plane::{Lent, eventually};
use requirements::missing;

use self::{
    conduct::Conduct,
    figures::{Bounds, Figures, Mark, table},
    neighbours::{CALM, Latencies, Neighbours, STEADY},
    server::HostileTarget,
};
use crate::support::{
    SOON,
    controller::Controller,
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
    links::{links, objects, own_link},
    objects::{apply, namespace},
    other,
    planes::installed,
};

/// The environment variable with the length of each phase of the long run, in minutes.
const MINUTES: &str = "LINKERD_MC_HOSTILE_MINUTES";
/// Limits of the brief run.
const BRIEF: Bounds = Bounds {
    memory: Some(256),
    // The limit of `--max-writes-per-link`, plus the status.
    writes: Some((1_000.0, 51.0)),
    lines: Some(100),
    latency: None,
    slower: 10.0,
};
/// Limits of the long run.
const LONG: Bounds = Bounds {
    latency: Some(20.0),
    ..BRIEF
};
/// Namespace of the installation with the other controller. In the long run, this controller has the hostile Links and
/// no others. In the brief run, it has neighbours and no hostile Links.
const APART: &str = "hostile-apart";

/// The source cluster with its controllers, the hostile targets, and the cluster to which the Links of neighbours lead.
struct Scene {
    // The clients first, then the servers: fields are dropped in this order.
    controller: Controller,
    /// The controller of the installation in [`APART`].
    apart: Option<Controller>,
    hostile: Vec<HostileTarget>,
    source: Lent,
    far: Lent,
}

impl Scene {
    async fn set() -> Self {
        let (source, far) = tokio::join!(
            installed("hostile-source", "192.0.2.70"),
            installed("hostile-far", "192.0.2.71")
        );
        neighbours::link(&source, &far).await;
        let kubeconfig = source.kubeconfig_through(source.url(), CONTROLLER, &CONTROLLER_GROUPS);
        let gateways = Gateways::start().address();
        let args = [
            "run-controller",
            "--admin-addr=127.0.0.1:0",
            "--leader-elect=false",
            "--join-delay=0s",
            "--probe-address",
            &gateways,
        ];
        let controller = Controller::spawn(&kubeconfig.unwrap(), &args);
        neighbours::are_well(&source).await;
        Self {
            source,
            far,
            controller,
            apart: None,
            hostile: Vec::new(),
        }
    }

    /// Starts hostile targets, and links them in the first installation.
    async fn let_in(&mut self, conducts: &[Conduct], seed: u64) {
        for conduct in conducts {
            let (name, address) = self.start(*conduct, seed).await;
            own_link(&self.source, &self.far, name, &[&address]).await;
        }
    }

    /// Creates the installation in [`APART`], and starts its controller.
    async fn start_apart(&mut self) {
        namespace(APART, &[&self.source]).await;
        other::install(&self.source, APART, &[]).await;
        self.apart = Some(other::controller(&self.source, APART, &[]));
    }

    /// Starts hostile targets, and links them in the installation in [`APART`]. Its controller is another process. So
    /// the hostile targets share only the machine and the API server with the neighbours.
    async fn let_in_apart(&mut self, conducts: &[Conduct], seed: u64) {
        self.start_apart().await;
        for conduct in conducts {
            let (name, address) = self.start(*conduct, seed).await;
            let made = objects(&self.far, name, &[&address]);
            apply(&self.source, &other::moved(made, APART)).await;
        }
    }

    /// Starts a hostile target. Returns its name, and the flag that links to it.
    async fn start(&mut self, conduct: Conduct, seed: u64) -> (&'static str, String) {
        let target = HostileTarget::start(&self.far, conduct, seed);
        let address = format!("--api-server-address={}", target.url());
        self.hostile.push(target);
        namespace(conduct.name(), &[&self.source]).await;
        (conduct.name(), address)
    }

    /// Changes the neighbours' Services for this long, and measures the effect.
    async fn phase(&self, name: &'static str, mark: &Mark, time: Duration) -> Figures {
        let shared = self.churn(&STEADY, time).await;
        self.figures(name, mark, time, shared, None)
    }

    /// Like [`Self::phase`], but also changes the Services of the other controller's neighbours at the same time.
    async fn compared(&self, name: &'static str, mark: &Mark, time: Duration) -> Figures {
        let (shared, calm) = tokio::join!(self.churn(&STEADY, time), self.churn(&CALM, time));
        self.figures(name, mark, time, shared, Some(calm))
    }

    async fn churn(&self, neighbours: &Neighbours, time: Duration) -> Latencies {
        neighbours::churn(neighbours, &self.source, &self.far, time).await
    }

    fn figures(
        &self,
        name: &'static str,
        mark: &Mark,
        time: Duration,
        latencies: Latencies,
        undisturbed: Option<Latencies>,
    ) -> Figures {
        let (source, controller) = (&self.source, &self.controller);
        Figures::since(mark, name, time, latencies, undisturbed, source, controller)
    }

    /// Wrong statements in the status of the hostile Links.
    async fn wrong_statuses(&self) -> Vec<String> {
        let mut untrue = Vec::new();
        for target in &self.hostile {
            let link = links(&self.source)
                .get(target.conduct.name())
                .await
                .unwrap();
            untrue.extend(target.conduct.is_untrue(&link.status.unwrap_or_default()));
        }
        untrue
    }

    fn mark(&self) -> Mark {
        Mark::here(&self.source, &self.controller)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn hostile_targets_do_no_harm_to_other_clusters() {
    let mut scene = Scene::set().await;
    scene.start_apart().await;
    neighbours::link_apart(&scene.source, &scene.far).await;
    let mark = scene.mark();
    scene.let_in(&Conduct::ALL, 1).await;
    let time = Duration::from_secs(20);
    let figures = scene.compared("hostile", &mark, time).await;
    neighbours::are_in_step(&scene.source).await;
    // On a busy machine, a hostile server may be too slow for a heartbeat, and the status says so. So the test waits.
    let right = eventually("right statuses of hostile Links", SOON, async || {
        let wrong = scene.wrong_statuses().await;
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(Some(()))
    });
    let mut wrong = figures.beyond(&BRIEF, &Conduct::ALL, None);
    wrong.extend(right.await.err().map(|error| format!("{error:#}")));
    eprintln!("{}", table(&[figures], &Conduct::ALL));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just hostile"]
async fn hostile_targets_stay_within_their_budgets_for_minutes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let Some(minutes) = number(MINUTES) else {
        return missing(MINUTES, "hostile targets for minutes");
    };
    let seed = number("LINKERD_MC_HOSTILE_SEED").unwrap_or_else(|| fastrand::u64(..));
    let seconds = 60 * minutes;
    let conducts = std::env::var("LINKERD_MC_HOSTILE_CONDUCTS");
    let conducts = conducts.map_or_else(|_| Conduct::ALL.to_vec(), |list| Conduct::named(&list));
    eprintln!("{seconds} seconds without and with {conducts:?}, LINKERD_MC_HOSTILE_SEED={seed}");
    let time = Duration::from_secs(seconds);
    let mut scene = Scene::set().await;
    let without = scene.phase("without", &scene.mark(), time).await;
    let mark = scene.mark();
    scene.let_in_apart(&conducts, seed).await;
    let apart = scene.phase("apart", &mark, time).await;
    drop(scene);
    let mut scene = Scene::set().await;
    let mark = scene.mark();
    scene.let_in(&conducts, seed).await;
    let with = scene.phase("with", &mark, time).await;
    let mut wrong = with.beyond(&LONG, &conducts, Some(&apart));
    eprintln!("{}", table(&[without, apart, with], &conducts));
    wrong.extend(scene.wrong_statuses().await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    neighbours::are_in_step(&scene.source).await;
}
