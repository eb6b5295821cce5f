//! Links to clusters that behave well, changes of their Services, and how soon these are mirrored.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Lent, eventually};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::{api::ListParams, runtime::watcher};
use serde_json::json;
use tokio::{task::JoinSet, time::interval};

use super::APART;
use crate::support::{
    SOON,
    links::{in_step, is_well, objects, own_link, status_that},
    objects::{apply, export, namespace, patch, ports, services, web},
    other,
};

/// Links to clusters that behave well. All these clusters have the same API server.
pub(super) struct Neighbours {
    /// The Links, named after their target clusters.
    links: [&'static str; 3],
    /// Namespace of their Services.
    namespace: &'static str,
}

/// The neighbours of the first installation. Its controller has hostile targets in the brief run, and in the last phase
/// of the long run.
pub(super) const STEADY: Neighbours = Neighbours {
    links: ["steady-0", "steady-1", "steady-2"],
    namespace: "steady",
};
/// The neighbours of the installation in [`APART`], whose controller has no other Links.
pub(super) const CALM: Neighbours = Neighbours {
    links: ["calm-0", "calm-1", "calm-2"],
    namespace: "calm",
};

/// Services of each Link.
const SERVICES: usize = 30;
/// Time between two changes.
const EVERY: Duration = Duration::from_millis(100);

/// How soon changes were mirrored.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// For each time that a mirror was behind its Service: how long it was behind. Sorted.
    times: Vec<Duration>,
    /// Number of Services whose last change was not mirrored.
    pub(super) missing: usize,
}

impl Latencies {
    /// The time within which mirrors caught up in this percentage of the cases.
    pub(super) fn at(&self, percent: usize) -> Duration {
        let last = self.times.len().saturating_sub(1);
        self.times
            .get(last * percent / 100)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.times.len()
    }
}

/// Creates the Links of [`STEADY`], and the Services that they mirror.
pub(super) async fn link(source: &ControlPlane, far: &ControlPlane) {
    export_all(&STEADY, source, far).await;
    for cluster in STEADY.links {
        own_link(source, far, cluster, &[]).await;
    }
}

/// Creates the Links of [`CALM`] in the installation [`APART`], and waits until their Services are mirrored.
pub(super) async fn link_apart(source: &ControlPlane, far: &ControlPlane) {
    export_all(&CALM, source, far).await;
    for cluster in CALM.links {
        let made = objects(far, cluster, &[]);
        apply(source, &other::moved(made, APART)).await;
    }
    let mirrors = services(source, CALM.namespace);
    eventually("the mirrors of the other controller", SOON, async || {
        let found = mirrors.list(&ListParams::default()).await?.items.len();
        Ok((found == CALM.links.len() * SERVICES).then_some(()))
    })
    .await
    .unwrap();
}

async fn export_all(neighbours: &Neighbours, source: &ControlPlane, far: &ControlPlane) {
    namespace(neighbours.namespace, &[source, far]).await;
    for cluster in neighbours.links {
        for number in 0..SERVICES {
            let name = format!("{cluster}-web-{number}");
            export(far, neighbours.namespace, &web(&name, cluster)).await;
        }
    }
}

/// Waits until all Services of [`STEADY`] are mirrored.
pub(super) async fn are_well(source: &ControlPlane) {
    let all = i64::try_from(SERVICES).unwrap();
    for cluster in STEADY.links {
        is_well(source, cluster).await;
        status_that(source, cluster, |status| status.mirrored == Some(all)).await;
    }
}

/// Waits until all mirrors of [`STEADY`] are as `plan` computes them, and the Links report that they are ready.
pub(super) async fn are_in_step(source: &ControlPlane) {
    for cluster in STEADY.links {
        in_step(source, cluster, &[]).await;
    }
    are_well(source).await;
}

/// Mirrors whose port has to change: the new port, and since when the mirror is behind its Service. On a slow machine,
/// a Service may change again before its mirror has the previous change. Only the last change has to arrive.
type Expected = Arc<Mutex<HashMap<String, (i32, Instant)>>>;

/// For this long, changes a port of one Service after the other, and waits for the changes in the source cluster.
pub(super) async fn churn(
    neighbours: &Neighbours,
    source: &ControlPlane,
    far: &Lent,
    time: Duration,
) -> Latencies {
    let Neighbours { links, namespace } = *neighbours;
    let (expected, arrived) = (Expected::default(), Arc::new(Mutex::new(Vec::new())));
    let (waiting, took) = (expected.clone(), arrived.clone());
    let watch = watcher(services(source, namespace), watcher::Config::default());
    let watch = tokio::spawn(watch.for_each(move |event| {
        if let Ok(watcher::Event::Apply(mirror) | watcher::Event::InitApply(mirror)) = event {
            took.lock().unwrap().extend(arrival(&waiting, &mirror));
        }
        std::future::ready(())
    }));
    let (started, mut ticks) = (Instant::now(), interval(EVERY));
    let mut writes = JoinSet::new();
    for number in 0.. {
        ticks.tick().await;
        if started.elapsed() >= time {
            break;
        }
        let cluster = links[number % links.len()];
        let name = format!("{cluster}-web-{}", number / links.len() % SERVICES);
        let port = i32::try_from(10_000 + number % 20_000).unwrap();
        let mirror = format!("{name}-{cluster}");
        let mut behind = expected.lock().unwrap();
        let since = || (port, Instant::now());
        behind.entry(mirror).or_insert_with(since).0 = port;
        drop(behind);
        let far = far.clone();
        writes.spawn(async move {
            let ports = json!([{ "name": "http", "port": port, "targetPort": 8080 }]);
            let ports = json!({ "spec": { "ports": ports } });
            patch(&far, namespace, &name, ports).await;
        });
    }
    writes.join_all().await;
    // Changes that have not arrived after this time count as missing.
    let _ = eventually("the last changes", SOON, async || {
        Ok(expected.lock().unwrap().is_empty().then_some(()))
    })
    .await;
    watch.abort();
    let missing = expected.lock().unwrap().len();
    let mut times = std::mem::take(&mut *arrived.lock().unwrap());
    times.sort();
    Latencies { times, missing }
}

/// How long this mirror was behind its Service, if it has caught up now.
fn arrival(expected: &Expected, mirror: &Service) -> Option<Duration> {
    let mut expected = expected.lock().unwrap();
    let name = mirror.metadata.name.as_deref()?;
    let (port, since) = expected.get(name)?;
    let is_there = ports(mirror).iter().any(|(_, actual)| actual == port);
    let took = is_there.then(|| since.elapsed());
    if is_there {
        expected.remove(name);
    }
    took
}
