//! The scenarios. Each leaves the clusters as the next one in the default order expects them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use control_plane::ControlPlane;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use linkerd_mc::api::{
    k8s::{Endpoint, EndpointSlice, Service},
    link::Link,
};
use serde_json::json;

use crate::{
    Args,
    fleet::{Controller, NAMESPACE, installed, link},
    limit::{self, Limit},
    objects::{all, client, count, create, namespace, namespaces, service},
    process::cost,
    report::{Report, Row},
};

struct Bench {
    args: Args,
    east: Arc<ControlPlane>,
    west: Arc<ControlPlane>,
    remote: Client,
    local: Client,
    limit: Limit,
    controller: Option<Controller>,
    report: Report,
    /// Events of the audit log that were counted before.
    counted: usize,
    /// Where a gateway answers probes.
    gateway: String,
}

/// Runs the scenarios that were asked for.
pub async fn run(args: &Args) -> Report {
    let (east, west) = tokio::join!(
        installed("east", "192.0.2.10"),
        installed("west", "192.0.2.20")
    );
    let (remote, local) = (client(&east).await, client(&west).await);
    namespaces(&remote, "bench").await;
    namespaces(&local, "bench").await;
    eprintln!("exporting {} Services", args.services);
    all((0..args.services).map(|index| {
        let labels = json!({ "mirror.linkerd.io/exported": "true" });
        let service = service(&namespace("bench", index), &format!("web-{index}"), labels);
        create(remote.clone(), service, true)
    }))
    .await;
    let limit = limit::measure(&west, args.services, "first").await;
    let counted = west.audit().unwrap().len();
    let mut bench = Bench {
        args: args.clone(),
        east,
        west,
        remote,
        local,
        limit,
        controller: None,
        report: Report::default(),
        counted,
        gateway: gateway().await,
    };
    for scenario in &args.scenarios {
        match scenario.as_str() {
            "cold" => bench.cold().await,
            "restart" => bench.restart().await,
            "idle" => bench.idle().await,
            "churn" => bench.churn().await,
            "unexport" => bench.unexport().await,
            "delete" => bench.delete().await,
            other => eprintln!("no scenario {other}"),
        }
    }
    bench.report
}

/// A gateway that is always well.
async fn gateway() -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    });
    address
}

impl Bench {
    fn controller(&mut self) -> &mut Controller {
        let (west, gateway) = (self.west.clone(), self.gateway.clone());
        self.controller
            .get_or_insert_with(|| Controller::start(&west, &["--probe-address", &gateway]))
    }

    /// Writes of the controller since the last call: to objects, and to the status of Links.
    fn writes(&mut self) -> (usize, usize) {
        let audit = self.west.audit().unwrap();
        let new = &audit[self.counted..];
        self.counted = audit.len();
        let ours = new
            .iter()
            .filter(|e| e.user_agent.starts_with("linkerd-mc") && e.is_write());
        let ours: Vec<_> = ours.filter(|e| e.stage == "ResponseComplete").collect();
        let status = ours.iter().filter(|e| e.subresource == "status").count();
        let events = ours
            .iter()
            .filter(|e| e.resource == "events" || e.resource == "leases")
            .count();
        (ours.len() - status - events, status)
    }

    async fn until(&self, what: &str, done: impl AsyncFn() -> bool) {
        let started = Instant::now();
        while !done().await {
            assert!(
                started.elapsed() < Duration::from_secs(600),
                "{what} takes too long"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn mirrored(&self, expected: usize) {
        let local = self.local.clone();
        self.until("mirroring", async || {
            count(&local).await == (expected, expected)
        })
        .await;
    }

    fn row(&mut self, scenario: &str, took: Option<Duration>, limit: Option<Duration>) -> Row {
        let pid = self.controller().pid();
        let cost = cost(pid);
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
            cpu: Some(cost.cpu),
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
        let row = self.row("cold", Some(took), Some(self.limit.create));
        self.report.add(&row);
    }

    async fn restart(&mut self) {
        self.controller().terminate();
        self.controller = None;
        self.writes();
        let started = Instant::now();
        let controller = self.controller();
        while controller.get("/ready").await.map_or(0, |(code, _)| code) != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = started.elapsed();
        // In step again: the first sync of the Link is worked through.
        while !self
            .controller()
            .log()
            .contains("in step with its target cluster")
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let settled = started.elapsed();
        let mut row = self.row("restart", Some(took), None);
        row.note = format!("in step after {:.2} s", settled.as_secs_f64());
        self.report.add(&row);
    }

    async fn idle(&mut self) {
        self.writes();
        let before = cost(self.controller().pid()).cpu;
        let time = Duration::from_secs(self.args.seconds);
        tokio::time::sleep(time).await;
        let mut row = self.row("idle", Some(time), None);
        row.cpu = row.cpu.map(|cpu| cpu.saturating_sub(before));
        self.report.add(&row);
    }

    async fn churn(&mut self) {
        self.writes();
        let latencies = crate::scenarios::churn(self).await;
        let mut sorted = latencies;
        sorted.sort();
        let at = |share: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "an index"
            )]
            let index = ((sorted.len() as f64 - 1.0) * share) as usize;
            sorted.get(index).copied().unwrap_or_default()
        };
        let mut row = self.row("churn", None, None);
        row.note = format!(
            "{} changes, p50 {:?}, p99 {:?}, max {:?}",
            sorted.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
        self.report.add(&row);
    }

    async fn unexport(&mut self) {
        self.writes();
        let started = Instant::now();
        let remote = self.remote.clone();
        all((0..self.args.services).map(|index| {
            let api: Api<Service> = Api::namespaced(remote.clone(), &namespace("bench", index));
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
        let row = self.row(
            "un-export all",
            Some(started.elapsed()),
            Some(self.limit.delete),
        );
        self.report.add(&row);
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
        let row = self.row(
            "Link deleted",
            Some(started.elapsed()),
            Some(self.limit.delete),
        );
        self.report.add(&row);
    }
}

/// Changes 50 Services a second, ports, labels and endpoints in turn; returns the time from each remote write's
/// answer to the arrival of the mirror's state that shows it.
async fn churn(bench: &mut Bench) -> Vec<Duration> {
    use futures::StreamExt as _;
    use kube::runtime::{WatchStreamExt as _, watcher};
    use std::{collections::HashMap, sync::Mutex};

    type Waiting = Arc<Mutex<HashMap<String, Instant>>>;
    let waiting: Waiting = Arc::default();
    let latencies: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let arrived = {
        let (waiting, latencies) = (waiting.clone(), latencies.clone());
        move |mark: Option<String>| {
            let at = Instant::now();
            if let Some(since) = mark.and_then(|mark| waiting.lock().unwrap().remove(&mark)) {
                latencies
                    .lock()
                    .unwrap()
                    .push(at.saturating_duration_since(since));
            }
        }
    };
    let selector = "mirror.linkerd.io/mirrored-service=true";
    let services: Api<Service> = Api::all(bench.local.clone());
    let slices: Api<EndpointSlice> = Api::all(bench.local.clone());
    let on_service = arrived.clone();
    let watch_services = tokio::spawn(
        watcher(services, watcher::Config::default().labels(selector))
            .default_backoff()
            .for_each(move |event| {
                if let Ok(watcher::Event::Apply(service)) = event {
                    let name = service.metadata.name.clone().unwrap_or_default();
                    let label = service
                        .metadata
                        .labels
                        .and_then(|l| l.get("churn").cloned());
                    on_service(label.map(|label| format!("{name}={label}")));
                    let port = service.spec.ports.first().map_or(0, |port| port.port);
                    on_service(Some(format!("{name}:{port}")));
                }
                std::future::ready(())
            }),
    );
    let watch_slices = tokio::spawn(
        watcher(slices, watcher::Config::default().labels(selector))
            .default_backoff()
            .for_each(move |event| {
                if let Ok(watcher::Event::Apply(slice)) = event {
                    let labels = slice.metadata.labels.unwrap_or_default();
                    let name = labels
                        .get("kubernetes.io/service-name")
                        .cloned()
                        .unwrap_or_default();
                    arrived(Some(format!("{name}#{}", !slice.endpoints.is_empty())));
                }
                std::future::ready(())
            }),
    );
    tokio::time::sleep(Duration::from_secs(2)).await; // both watches are past their lists
    let total = usize::try_from(bench.args.seconds * 50).unwrap();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let mut writes = Vec::new();
    for change in 0..total {
        tick.tick().await;
        let index = change * 7 % bench.args.services;
        let (remote, waiting) = (bench.remote.clone(), waiting.clone());
        writes.push(tokio::spawn(async move {
            let (namespace, name) = (namespace("bench", index), format!("web-{index}"));
            let services: Api<Service> = Api::namespaced(remote.clone(), &namespace);
            let slices: Api<EndpointSlice> = Api::namespaced(remote, &namespace);
            let mirror = format!("{name}-east");
            let parameters = PatchParams::default();
            match change % 3 {
                0 => {
                    let value = format!("r{change}");
                    waiting
                        .lock()
                        .unwrap()
                        .insert(format!("{mirror}={value}"), Instant::now());
                    let patch =
                        Patch::Merge(json!({ "metadata": { "labels": { "churn": value } } }));
                    services.patch(&name, &parameters, &patch).await.unwrap();
                }
                1 => {
                    let port = 10_000 + change % 20_000;
                    waiting
                        .lock()
                        .unwrap()
                        .insert(format!("{mirror}:{port}"), Instant::now());
                    let patch = Patch::Merge(json!({ "spec": { "ports": [
                        { "name": "http", "port": port, "targetPort": 8080 } ] } }));
                    services.patch(&name, &parameters, &patch).await.unwrap();
                }
                _ => {
                    let slice = format!("{name}-bench");
                    let ready = slices
                        .get(&slice)
                        .await
                        .unwrap()
                        .endpoints
                        .iter()
                        .any(Endpoint::is_ready);
                    waiting
                        .lock()
                        .unwrap()
                        .insert(format!("{mirror}#{}", !ready), Instant::now());
                    let patch = Patch::Merge(json!({ "endpoints": [
                        { "addresses": ["192.0.2.99"], "conditions": { "ready": !ready } } ] }));
                    slices.patch(&slice, &parameters, &patch).await.unwrap();
                }
            }
        }));
    }
    for write in writes {
        write.await.unwrap();
    }
    let done = async || waiting.lock().unwrap().is_empty();
    let started = Instant::now();
    while !done().await && started.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    watch_services.abort();
    watch_slices.abort();
    let lost = waiting.lock().unwrap().len();
    eprintln!("{lost} changes were overtaken or lost");
    std::mem::take(&mut *latencies.lock().unwrap())
}
