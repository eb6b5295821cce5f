//! Changes a target cluster at a steady rate, and measures how long each change takes to reach the source cluster.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use linkerd_mc::api::{
    k8s::{Endpoint, EndpointSlice, Service},
    wire::Wire,
};
use serde_json::json;

/// Changes per second.
const RATE: u64 = 50;

/// An exported Service with the slice that [`crate::objects::create`] makes, and the name of its mirror.
#[derive(Clone, Debug)]
pub struct Subject {
    pub namespace: String,
    pub name: String,
    pub mirror: String,
}

/// The latencies of the changes that arrived, and the number of the others.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The time from the start of each write in the target cluster until a watch of the source cluster reports the
    /// changed mirror. Sorted.
    latencies: Vec<Duration>,
    /// Changes that no watch event showed: a later change of the same Service replaced them first, or they never
    /// reached the mirror.
    unseen: usize,
}

impl Outcome {
    /// The latency that this share of the changes did not exceed.
    pub fn at(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((self.latencies.len().saturating_sub(1)) as f64 * share) as usize;
        self.latencies.get(index).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |share| self.at(share).as_millis();
        write!(
            f,
            "{} changes seen, p50 {} ms, p99 {} ms, max {} ms, {} unseen",
            self.latencies.len(),
            millis(0.5),
            millis(0.99),
            millis(1.0),
            self.unseen
        )
    }
}

/// `waiting` maps the expected effect of each change, as a text that [`watch`] can rebuild from an object, to the start
/// of the change. `latencies` has the times of the effects that arrived. `replaced` counts the changes whose effect a
/// later change expects too, so that nobody can tell which of them arrived.
#[derive(Clone, Debug, Default)]
struct Outcomes {
    waiting: Arc<Mutex<HashMap<String, Instant>>>,
    latencies: Arc<Mutex<Vec<Duration>>>,
    replaced: Arc<AtomicUsize>,
}

impl Outcomes {
    fn expect(&self, effect: String) {
        let earlier = self.waiting.lock().unwrap().insert(effect, Instant::now());
        if earlier.is_some() {
            self.replaced.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn arrived(&self, effect: &str) {
        if let Some(since) = self.waiting.lock().unwrap().remove(effect) {
            self.latencies.lock().unwrap().push(since.elapsed());
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.lock().unwrap().len()
    }
}

/// Changes labels, ports and endpoints of the subjects in turn, at [`RATE`] and for `time`.
pub async fn churn(
    remote: &Client,
    local: &Client,
    subjects: &[Subject],
    time: Duration,
) -> Outcome {
    let outcomes = Outcomes::default();
    let watches = watch(local, &outcomes);
    tokio::time::sleep(Duration::from_secs(2)).await; // enough for the first lists of both watches
    let total = usize::try_from(time.as_secs() * RATE).unwrap();
    let mut tick = tokio::time::interval(Duration::from_millis(1000 / RATE));
    let mut writes = Vec::new();
    for change in 0..total {
        tick.tick().await;
        let subject = subjects[change % subjects.len()].clone();
        writes.push(tokio::spawn(write(
            remote.clone(),
            outcomes.clone(),
            subject,
            change,
            // Also if the number of subjects is a multiple of three, each has changes of all kinds.
            (change + change / subjects.len()) % 3,
        )));
    }
    for write in writes {
        write.await.unwrap();
    }
    let ended = Instant::now();
    while outcomes.waiting() > 0 && ended.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for watch in watches {
        watch.abort();
    }
    let mut latencies = std::mem::take(&mut *outcomes.latencies.lock().unwrap());
    latencies.sort();
    Outcome {
        latencies,
        unseen: outcomes.waiting() + outcomes.replaced.load(Ordering::Relaxed),
    }
}

fn watch(local: &Client, outcomes: &Outcomes) -> [tokio::task::JoinHandle<()>; 2] {
    let selector = "mirror.linkerd.io/mirrored-service=true";
    let (of_services, of_slices) = (outcomes.clone(), outcomes.clone());
    let services: Api<Wire<Service>> = Api::all(local.clone());
    let slices: Api<Wire<EndpointSlice>> = Api::all(local.clone());
    let config = || watcher::Config::default().labels(selector);
    [
        tokio::spawn(
            watcher(services, config())
                .default_backoff()
                .for_each(move |event| {
                    if let Ok(watcher::Event::Apply(service)) = event {
                        let service = service.object;
                        let name = service.metadata.name();
                        if let Some(label) = service.metadata.labels.get("churn") {
                            of_services.arrived(&format!("{name}={label}"));
                        }
                        let port = service.spec.ports.first().map_or(0, |port| port.port);
                        of_services.arrived(&format!("{name}:{port}"));
                    }
                    std::future::ready(())
                }),
        ),
        tokio::spawn(
            watcher(slices, config())
                .default_backoff()
                .for_each(move |event| {
                    if let Ok(watcher::Event::Apply(slice)) = event {
                        let slice = slice.object;
                        let labels = &slice.metadata.labels;
                        let name = labels.get("kubernetes.io/service-name");
                        let name = name.unwrap_or_default();
                        of_slices.arrived(&format!("{name}#{}", !slice.endpoints.is_empty()));
                    }
                    std::future::ready(())
                }),
        ),
    ]
}

async fn write(remote: Client, outcomes: Outcomes, subject: Subject, change: usize, kind: usize) {
    let Subject {
        namespace,
        name,
        mirror,
    } = subject;
    let services: Api<Wire<Service>> = Api::namespaced(remote.clone(), &namespace);
    let slices: Api<Wire<EndpointSlice>> = Api::namespaced(remote, &namespace);
    let parameters = PatchParams::default();
    match kind {
        0 => {
            let value = format!("r{change}");
            outcomes.expect(format!("{mirror}={value}"));
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "churn": value } } }));
            services.patch(&name, &parameters, &patch).await.unwrap();
        }
        1 => {
            let port = 10_000 + change % 20_000;
            outcomes.expect(format!("{mirror}:{port}"));
            let ports = json!([{ "name": "http", "port": port, "targetPort": 8080 }]);
            let patch = Patch::Merge(json!({ "spec": { "ports": ports } }));
            services.patch(&name, &parameters, &patch).await.unwrap();
        }
        _ => {
            let slice = format!("{name}-bench");
            let now = slices.get(&slice).await.unwrap();
            let ready = !now.object.endpoints.iter().any(Endpoint::is_ready);
            outcomes.expect(format!("{mirror}#{ready}"));
            let endpoint = json!({ "addresses": ["192.0.2.99"], "conditions": { "ready": ready } });
            let patch = Patch::Merge(json!({ "endpoints": [endpoint] }));
            slices.patch(&slice, &parameters, &patch).await.unwrap();
        }
    }
}
