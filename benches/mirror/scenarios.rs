//! The scenarios about one Link, and what all scenarios have in common.

use std::time::{Duration, Instant};

use control_plane::Lent;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use linkerd_mc::api::{
    k8s::{EndpointSlice, Service},
    link::Link,
    wire::Wire,
};
use serde_json::json;

use crate::{
    Args, Scenario,
    churn::{Subject, churn},
    limit::{self, Work},
    objects::{all, client, count, create, namespace, namespaces, paged, service},
    process::cost,
    report::{Outcome, Row},
    support::{
        controller::Controller,
        gateways::Gateways,
        installation::{CONTROLLER, NAMESPACE, link},
        planes::installed,
        program::run,
    },
};

/// The metric that counts the slices that the controller knows in the source cluster.
pub const SLICES: &str = r#"endpoints_cache_size{cluster="local"}"#;

/// The clusters, and what was measured so far.
pub struct Bench {
    pub args: Args,
    pub east: Lent,
    pub west: Lent,
    pub remote: Client,
    pub local: Client,
    controller: Option<Controller>,
    pub report: Outcome,
    /// Number of events of the audit log that the last call of [`Self::writes`] has seen.
    counted: usize,
    /// The controller whose CPU time the last row has, and its CPU time until then.
    spent: (u32, Duration),
    /// The server that answers the probes of all gateways.
    pub gateways: Gateways,
}

/// Runs the scenarios that were asked for.
pub async fn all_of(args: &Args) -> Outcome {
    let (east, west) = tokio::join!(
        installed("east", "192.0.2.10"),
        installed("west", "192.0.2.20")
    );
    let (remote, local) = (client(&east, None).await, client(&west, None).await);
    namespaces(&remote, "bench").await;
    namespaces(&local, "bench").await;
    // The Links of `links` select Services of their own.
    if args.scenarios != [Scenario::Links] {
        eprintln!("exporting {} Services", args.services);
        all((0..args.services).map(|index| {
            let labels = json!({ "mirror.linkerd.io/exported": "true" });
            let service = service(&namespace("bench", index), &format!("web-{index}"), labels);
            create(remote.clone(), service)
        }))
        .await;
        settled(&remote, args.services).await;
    }
    let mut bench = Bench {
        args: args.clone(),
        east,
        west,
        remote,
        local,
        controller: None,
        report: Outcome::default(),
        counted: 0,
        spent: (0, Duration::ZERO),
        gateways: Gateways::start(),
    };
    bench.limits("before").await;
    for scenario in &args.scenarios {
        match scenario {
            Scenario::Cold => bench.cold().await,
            Scenario::Restart => bench.restart().await,
            Scenario::Idle => bench.rest(args.services).await,
            Scenario::Churn => bench.churn().await,
            Scenario::Unexport => bench.unexport().await,
            Scenario::Delete => bench.delete().await,
            Scenario::Noise => bench.noise().await,
            Scenario::Links => bench.links().await,
            Scenario::Federated => bench.federated().await,
            Scenario::Gatewayed => bench.gatewayed().await,
            Scenario::Refused => bench.refused().await,
        }
    }
    // Measures the limit again, because the machine may have become slower or faster. While mirrors exist, it would be
    // another measurement: the allocation of a ClusterIP takes longer the more of them exist.
    if count(&bench.local).await == (0, 0) {
        bench.stop();
        bench.limits("after").await;
    }
    bench.report
}

/// Waits until Kubernetes has created its own slices for `services` Services. That work would disturb a measurement.
pub async fn settled(client: &Client, services: usize) {
    let slices: Api<Wire<EndpointSlice>> = Api::all(client.clone());
    let ours = ListParams::default().labels("endpointslice.kubernetes.io/managed-by!=bench,app");
    let started = Instant::now();
    let made = async || {
        let slices = paged(&ours, async |page| slices.list_metadata(&page).await);
        slices.await.len()
    };
    while made().await < services {
        assert!(started.elapsed() < Duration::from_secs(600), "no slices");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

impl Bench {
    /// Measures the limit of each writer of `--limits`.
    async fn limits(&mut self, round: &str) {
        for writer in self.args.limits.clone() {
            let limit = limit::measure(&self.west, self.args.services, round, writer).await;
            self.report.limit(writer, limit);
        }
        self.writes();
    }

    /// The running controller. Starts one if none runs.
    pub fn controller(&mut self) -> &mut Controller {
        let (west, gateway) = (self.west.clone(), self.gateways.address());
        self.controller.get_or_insert_with(|| {
            let flags = ["--probe-address", &gateway, "--log-level=info"];
            Controller::start(&west, &flags)
        })
    }

    /// Ends the controller, if one runs.
    pub fn stop(&mut self) {
        if let Some(mut controller) = self.controller.take() {
            controller.terminate();
        }
    }

    /// Writes of the controller since the last call: to objects other than Events and Leases, and to the status of
    /// Links.
    pub fn writes(&mut self) -> (usize, usize) {
        let audit = self.west.audit_since(0).unwrap();
        let new = &audit[self.counted..];
        self.counted = audit.len();
        let ours = new.iter().filter(|e| e.user == CONTROLLER && e.is_write());
        let ours: Vec<_> = ours.filter(|e| e.stage == "ResponseComplete").collect();
        let status = ours.iter().filter(|e| e.subresource == "status").count();
        let events = ours
            .iter()
            .filter(|e| e.resource == "events" || e.resource == "leases")
            .count();
        (ours.len() - status - events, status)
    }

    /// Polls `done`: every 50 ms, or less often, so that it is idle ten times as long as it asks, but at least once a
    /// second. The metrics of hundreds of Links, for example, take the controller milliseconds. Fails after ten minutes.
    pub async fn until(&self, what: &str, done: impl AsyncFn() -> bool) {
        let started = Instant::now();
        loop {
            let asked = Instant::now();
            if done().await {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(600),
                "{what} takes too long"
            );
            let pause = 10 * asked.elapsed();
            let (shortest, longest) = (Duration::from_millis(50), Duration::from_secs(1));
            tokio::time::sleep(pause.clamp(shortest, longest)).await;
        }
    }

    /// Waits until a metric of the controller has a value that satisfies `is`.
    pub async fn metric_is(&self, series: &str, is: impl Fn(usize) -> bool) {
        let controller = self.controller.as_ref().unwrap();
        self.until("the controller", async || {
            let value = controller.metric(series).await;
            value.ok().flatten().is_some_and(&is)
        })
        .await;
    }

    /// Waits until there are `expected` mirrors, each with endpoints.
    pub async fn mirrored(&self, expected: usize) {
        let local = self.local.clone();
        // Waits for the controller's own metric first. Repeated lists of all objects would slow down what is measured.
        self.metric_is(SLICES, |slices| {
            slices == expected || (expected > 0 && slices > expected)
        })
        .await;
        self.until("mirroring", async || {
            count(&local).await == (expected, expected)
        })
        .await;
    }

    /// A row with the memory of the controller, its CPU time since the last row or its start, and its writes since the
    /// last call of [`Self::writes`].
    pub fn row(&mut self, scenario: &str, took: Option<Duration>, limit: Option<Work>) -> Row {
        let pid = self.controller().pid();
        let cost = cost(pid);
        let before = match self.spent {
            (of, spent) if of == pid => spent,
            _ => Duration::ZERO,
        };
        self.spent = (pid, cost.cpu);
        let (writes, status) = self.writes();
        Row {
            scenario: scenario.to_owned(),
            objects: self.args.services,
            took,
            limit,
            writes: Some(writes),
            status: Some(status),
            rss: Some(cost.rss),
            peak: Some(cost.peak),
            cpu: Some(cost.cpu.saturating_sub(before)),
            note: String::new(),
        }
    }

    async fn cold(&mut self) {
        link(&self.west, &self.east, "east", &[]).await;
        self.writes();
        let started = Instant::now();
        self.controller();
        self.mirrored(self.args.services).await;
        let took = started.elapsed();
        let row = self.row("cold", Some(took), Some(Work::Create));
        self.report.add(row);
    }

    async fn restart(&mut self) {
        self.stop();
        self.writes();
        let started = Instant::now();
        let controller = self.controller();
        while controller.get("/ready").await.map_or(0, |(code, _)| code) != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = started.elapsed();
        // Then waits until the controller has finished the first sync of the Link.
        while !self.controller().is_in_step() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let settled = started.elapsed();
        let mut row = self.row("restart", Some(took), None);
        row.note = format!("in step after {:.2} s", settled.as_secs_f64());
        self.report.add(row);
    }

    /// Measures a controller that has nothing to do for this number of mirrors.
    pub async fn rest(&mut self, mirrors: usize) {
        self.writes();
        self.spent = (self.controller().pid(), cost(self.controller().pid()).cpu);
        let time = Duration::from_secs(self.args.seconds);
        tokio::time::sleep(time).await;
        let mut row = self.row("idle", Some(time), None);
        row.objects = mirrors;
        self.report.add(row);
    }

    async fn churn(&mut self) {
        self.writes();
        let subjects: Vec<Subject> = (0..self.args.services)
            .map(|index| Subject {
                namespace: namespace("bench", index),
                name: format!("web-{index}"),
                mirror: format!("web-{index}-east"),
            })
            .collect();
        let time = Duration::from_secs(self.args.seconds);
        let outcome = churn(&self.remote, &self.local, &subjects, time).await;
        // `plan` reads both clusters anew, and prints the writes that are still missing.
        let pending = run(self.west.kubeconfig(), &["plan", "--link", "east"]);
        let mut row = self.row("churn", None, None);
        row.note = format!("{outcome}; plan: {}", pending.stdout.trim());
        self.report.add(row);
    }

    async fn unexport(&mut self) {
        self.writes();
        let started = Instant::now();
        let remote = self.remote.clone();
        all((0..self.args.services).map(|index| {
            let api: Api<Wire<Service>> =
                Api::namespaced(remote.clone(), &namespace("bench", index));
            async move {
                let patch =
                    json!({ "metadata": { "labels": { "mirror.linkerd.io/exported": null } } });
                let patch = Patch::Merge(patch);
                api.patch(&format!("web-{index}"), &PatchParams::default(), &patch)
                    .await
                    .unwrap();
            }
        }))
        .await;
        self.mirrored(0).await;
        let row = self.row("un-export all", Some(started.elapsed()), Some(Work::Delete));
        self.report.add(row);
    }

    async fn delete(&mut self) {
        self.writes();
        let links: Api<Link> = Api::namespaced(self.local.clone(), NAMESPACE);
        let started = Instant::now();
        links
            .delete("east", &DeleteParams::default())
            .await
            .unwrap();
        self.mirrored(0).await;
        let row = self.row("Link deleted", Some(started.elapsed()), Some(Work::Delete));
        self.report.add(row);
    }
}
