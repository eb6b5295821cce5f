//! Links to clusters that behave well, changes of their Services, and how soon these are mirrored.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, eventually};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher;
use serde_json::json;
use tokio::{task::JoinSet, time::interval};

use crate::support::{
    SOON,
    links::{in_step, is_well, own_link, status_that},
    objects::{export, namespace, patch, ports, services, web},
};

/// The Links and their target clusters. All have the same API server.
pub(super) const LINKS: [&str; 3] = ["steady-0", "steady-1", "steady-2"];
/// Namespace of their Services.
pub(super) const NAMESPACE: &str = "steady";
/// Services of each Link.
const SERVICES: usize = 30;
/// Time between two changes.
const EVERY: Duration = Duration::from_millis(100);

/// Times until changes were mirrored, sorted, without those that were never mirrored.
#[derive(Debug, Default)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    /// The time within which this percentage of the changes were mirrored.
    pub(super) fn at(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get(last * percent / 100)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Creates the Links, and the Services that they mirror.
pub(super) async fn link(source: &ControlPlane, far: &ControlPlane) {
    namespace(NAMESPACE, &[source, far]).await;
    for cluster in LINKS {
        own_link(source, far, cluster, &[]).await;
        for number in 0..SERVICES {
            let name = format!("{cluster}-web-{number}");
            export(far, NAMESPACE, &web(&name, cluster)).await;
        }
    }
}

/// Waits until all Services are mirrored.
pub(super) async fn are_well(source: &ControlPlane) {
    let all = i64::try_from(SERVICES).unwrap();
    for cluster in LINKS {
        is_well(source, cluster).await;
        status_that(source, cluster, |status| status.mirrored == Some(all)).await;
    }
}

/// Waits until all mirrors are as `plan` computes them, and the Links report that they are ready.
pub(super) async fn are_in_step(source: &ControlPlane) {
    for cluster in LINKS {
        in_step(source, cluster, &[]).await;
    }
    are_well(source).await;
}

/// Mirrors whose port has to change: the new port, and when the Service was changed.
type Expected = Arc<Mutex<HashMap<String, (i32, Instant)>>>;

/// For this long, changes a port of one Service after the other, and waits for the changes in the source cluster.
pub(super) async fn churn(
    source: &ControlPlane,
    far: &Arc<ControlPlane>,
    time: Duration,
) -> Latencies {
    let (expected, arrived) = (Expected::default(), Arc::new(Mutex::new(Vec::new())));
    let (waiting, took) = (expected.clone(), arrived.clone());
    let watch = watcher(services(source, NAMESPACE), watcher::Config::default());
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
        let cluster = LINKS[number % LINKS.len()];
        let name = format!("{cluster}-web-{}", number / LINKS.len() % SERVICES);
        let port = i32::try_from(10_000 + number % 20_000).unwrap();
        expected
            .lock()
            .unwrap()
            .insert(format!("{name}-{cluster}"), (port, Instant::now()));
        let far = far.clone();
        writes.spawn(async move {
            let ports = json!([{ "name": "http", "port": port, "targetPort": 8080 }]);
            patch(
                &far,
                NAMESPACE,
                &name,
                json!({ "spec": { "ports": ports } }),
            )
            .await;
        });
    }
    writes.join_all().await;
    // Changes that are still missing after this are reported as missing.
    let _ = eventually("the last changes", SOON, async || {
        Ok(expected.lock().unwrap().is_empty().then_some(()))
    })
    .await;
    watch.abort();
    let mut latencies = std::mem::take(&mut *arrived.lock().unwrap());
    latencies.sort();
    Latencies(latencies)
}

/// How long the change of this mirror took, if the mirror has it.
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
