//! Follows the mirrors of canaries by watches, and records when each was seen.

use std::{collections::BTreeMap, pin::pin};

use client::Cluster;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use mirror_core::api::labels::{MIRRORED_SERVICE, SLICE_SERVICE};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

use crate::clusters::kube_context::WATCH;

/// What is known of a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenMirror {
    /// When it was first seen.
    pub created: Option<Instant>,
    /// Its address.
    pub cluster_ip: Option<String>,
    /// When a ready endpoint of it was first seen in this cluster.
    pub ready: Option<Instant>,
    /// When it was seen to be gone.
    pub gone: Option<Instant>,
}

/// The mirrors in a namespace, by name.
#[derive(Clone, Debug, Default)]
pub struct SeenMirrors {
    by_name: BTreeMap<String, SeenMirror>,
    /// Whether the Services have been listed once.
    listed: bool,
}

impl SeenMirrors {
    /// A mirror that exists.
    pub fn existing(&self, name: &str) -> Option<&SeenMirror> {
        let mirror = self.by_name.get(name)?;
        (mirror.created.is_some() && mirror.gone.is_none()).then_some(mirror)
    }

    /// When the last mirror was gone; `None` as long as there is one, or none is known.
    pub fn all_gone(&self) -> Option<Instant> {
        let created = self.by_name.values().filter(|m| m.created.is_some());
        let gone: Option<Vec<Instant>> = created.map(|mirror| mirror.gone).collect();
        gone?.into_iter().max()
    }

    /// Whether there certainly is none.
    pub fn is_empty(&self) -> bool {
        let mut all = self.by_name.values();
        self.listed && all.all(|mirror| mirror.created.is_none() || mirror.gone.is_some())
    }

    fn service(&mut self, service: &Service, now: Instant) {
        let mirror = self.by_name.entry(service.name_any()).or_default();
        mirror.created.get_or_insert(now);
        mirror.gone = None;
        let spec = service.spec.as_ref();
        mirror.cluster_ip = spec.and_then(|spec| spec.cluster_ip.clone());
    }

    fn gone(&mut self, name: &str, now: Instant) {
        if let Some(mirror) = self.by_name.get_mut(name) {
            mirror.gone.get_or_insert(now);
        }
    }

    /// After a list: what is not in it is gone.
    fn only(&mut self, names: &[String], now: Instant) {
        self.listed = true;
        for (name, mirror) in &mut self.by_name {
            if mirror.created.is_some() && !names.contains(name) {
                mirror.gone.get_or_insert(now);
            }
        }
    }

    fn slice(&mut self, slice: &EndpointSlice, now: Instant) {
        // Kubernetes takes an endpoint that does not say so for a ready one.
        let is_ready = slice.endpoints.iter().any(|endpoint| {
            let ready = endpoint.conditions.as_ref().and_then(|c| c.ready);
            ready.unwrap_or(true)
        });
        if let Some(service) = slice.labels().get(SLICE_SERVICE).filter(|_| is_ready) {
            let mirror = self.by_name.entry(service.clone()).or_default();
            mirror.ready.get_or_insert(now);
        }
    }
}

/// The watches of the mirrors in a namespace. They end when this is dropped.
pub struct MirrorWatch {
    seen: watch::Receiver<SeenMirrors>,
    tasks: [JoinHandle<()>; 2],
}

impl MirrorWatch {
    /// Watches the mirrors in a namespace.
    pub fn start(cluster: &Cluster, namespace: &str) -> Self {
        let client = cluster.client.clone();
        let seconds = u32::try_from(WATCH.as_secs()).unwrap_or(u32::MAX);
        let config = || {
            let mirrors = format!("{MIRRORED_SERVICE}=true");
            watcher::Config::default().timeout(seconds).labels(&mirrors)
        };
        let (send, seen) = watch::channel(SeenMirrors::default());
        let services: Api<Service> = Api::namespaced(client.clone(), namespace);
        let slices: Api<EndpointSlice> = Api::namespaced(client, namespace);
        let services = watcher::watcher(services, config()).default_backoff();
        let slices = watcher::watcher(slices, config()).default_backoff();
        Self {
            tasks: [
                tokio::spawn(follow_services(services, send.clone())),
                tokio::spawn(follow_slices(slices, send)),
            ],
            seen,
        }
    }

    /// Waits until this is found. The caller has a deadline.
    pub async fn until<T>(&self, find: impl Fn(&SeenMirrors) -> Option<T>) -> T {
        let mut seen = self.seen.clone();
        loop {
            if let Some(found) = find(&seen.borrow_and_update()) {
                return found;
            }
            if seen.changed().await.is_err() {
                // The watches have ended, which they only do with this object.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for MirrorWatch {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn follow_services(
    events: impl Stream<Item = watcher::Result<Event<Service>>>,
    seen: watch::Sender<SeenMirrors>,
) {
    let mut events = pin!(events);
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let now = Instant::now();
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(service)) => {
                listed.push(service.name_any());
                seen.send_modify(|mirrors| mirrors.service(&service, now));
            }
            Ok(Event::InitDone) => seen.send_modify(|mirrors| mirrors.only(&listed, now)),
            Ok(Event::Apply(service)) => seen.send_modify(|mirrors| mirrors.service(&service, now)),
            Ok(Event::Delete(service)) => {
                seen.send_modify(|mirrors| mirrors.gone(&service.name_any(), now));
            }
            // It is tried again.
            Err(_) => {}
        }
    }
}

async fn follow_slices(
    events: impl Stream<Item = watcher::Result<Event<EndpointSlice>>>,
    seen: watch::Sender<SeenMirrors>,
) {
    let mut events = pin!(events.applied_objects());
    while let Some(event) = events.next().await {
        let now = Instant::now();
        if let Ok(slice) = event {
            seen.send_modify(|mirrors| mirrors.slice(&slice, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn service(name: &str) -> Service {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "verify" },
            "spec": { "clusterIP": "10.0.0.7", "ports": [] },
        }))
        .unwrap()
    }

    fn slice(service: &str, ready: bool) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": "s", "namespace": "verify", "labels": { SLICE_SERVICE: service } },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } }],
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_time_is_the_first_at_which_something_was_seen() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut mirrors = SeenMirrors::default();
        mirrors.slice(&slice("web-east", false), at(1));
        assert_eq!(mirrors.existing("web-east"), None);
        // The slice may be seen before the Service.
        mirrors.slice(&slice("web-east", true), at(2));
        assert_eq!(mirrors.existing("web-east"), None);
        mirrors.service(&service("web-east"), at(3));
        mirrors.service(&service("web-east"), at(4));
        mirrors.slice(&slice("web-east", true), at(5));
        let found = mirrors.existing("web-east").unwrap();
        assert_eq!(found.created, Some(at(3)));
        assert_eq!(found.ready, Some(at(2)));
        assert_eq!(found.cluster_ip.as_deref(), Some("10.0.0.7"));
        assert_eq!(mirrors.all_gone(), None);
        mirrors.gone("web-east", at(8));
        assert_eq!(mirrors.existing("web-east"), None);
        assert_eq!(mirrors.all_gone(), Some(at(8)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_list_lacks_is_gone() {
        let start = Instant::now();
        let mut mirrors = SeenMirrors::default();
        assert!(!mirrors.is_empty(), "nothing is known yet");
        for name in ["a", "b"] {
            mirrors.service(&service(name), start);
        }
        let later = start + Duration::from_secs(1);
        mirrors.only(&["a".to_owned()], later);
        assert!(mirrors.existing("a").is_some() && mirrors.existing("b").is_none());
        assert!(!mirrors.is_empty());
        mirrors.only(&[], later);
        assert!(mirrors.is_empty());
        assert_eq!(mirrors.all_gone(), Some(later));
    }
}
