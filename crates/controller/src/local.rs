//! The watches of the local cluster. Routes are watched as soon as the API server serves their kind: our own, and those of
//! others that apply to federated Services.

mod event;
mod kinds;
mod routes;

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace};
use kube::{Api, Client, Resource, core::PartialObjectMeta};
use mirror_core::{
    api::route::RouteKind,
    mirror::{self, Config, LocalQueries, Omitted, Query},
};
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
};

pub use self::event::{LocalEvent, Needed};
use self::kinds::LocalKind;
use super::{
    metrics::{LOCAL, Metrics},
    route_versions::RouteVersions,
    trouble::Trouble,
    watch::{ConnectionStatus, Event, EventHandler, Watched, notice_recovery, watch},
};

/// Maximum size of an object's annotations in bytes. If they are larger, those that nobody reads are dropped. Otherwise
/// anybody who may label a Service as a mirror could fill the memory.
const LARGEST_ANNOTATIONS: usize = 16 << 10;

/// Starts the watches of the local cluster. They run until the set is dropped. If one ends earlier, the engine has
/// stopped receiving. Some watches start when `needed` says so.
pub fn watch_local(
    client: &Client,
    config: &Config,
    metrics: &Metrics,
    outbox: &mpsc::Sender<LocalEvent>,
    needed: latest::Receiver<Needed>,
    versions: &RouteVersions,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (recovered, seen) = latest::channel(0);
    tasks.spawn(notice_recovery(client.clone(), recovered));
    let start = Start {
        client,
        ours: &config.namespace,
        outbox,
        metrics,
        recovered: seen,
    };
    let LocalQueries {
        mirrors,
        gateways,
        gateway_slices,
        links,
        credentials,
    } = mirror::local_queries();
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    let handler = start.handler("Namespaces", LocalEvent::Namespaces);
    let namespaces = Watched::all(namespaces).recovered(&start.recovered);
    tasks.spawn(watch(namespaces, handler));
    tasks.spawn(start.watch(&mirrors, "mirror Services", LocalEvent::Mirrors));
    tasks.spawn(start.watch(&mirrors, "mirror EndpointSlices", LocalEvent::Slices));
    tasks.spawn(start.watch(&gateways, "Services of gateways", LocalEvent::Gateways));
    tasks.spawn(start.watch(
        &gateway_slices,
        "EndpointSlices of gateways",
        LocalEvent::GatewaySlices,
    ));
    tasks.spawn(start.watch(&links, "Links", LocalEvent::Links));
    tasks.spawn(start.watch(&credentials, "Secrets", LocalEvent::Secrets));
    for kind in RouteKind::ALL {
        // Without preferences, routes are watched only if some of ours may be left from when they were enabled.
        let waits = config.routes.is_none().then(|| needed.clone());
        tasks.spawn(start.watch_routes(kind, versions.clone(), waits));
    }
    start.watch_members(config, needed, &mut tasks);
    tasks
}

/// What all watches of the local cluster have in common.
struct Start<'a> {
    client: &'a Client,
    /// The namespace of the installation.
    ours: &'a str,
    outbox: &'a mpsc::Sender<LocalEvent>,
    metrics: &'a Metrics,
    /// Changes when the local API server recovers.
    recovered: latest::Receiver<u64>,
}

impl Start<'_> {
    /// The handler for the events of one watch.
    fn handler<T>(
        &self,
        what: &str,
        wrap: impl Fn(Event<T>) -> LocalEvent + Send + Sync + 'static,
    ) -> LocalHandler<T> {
        LocalHandler {
            outbox: self.outbox.clone(),
            metrics: self.metrics.clone(),
            wrap: Box::new(wrap),
            trouble: Trouble::new(format!("watch {what} of the local cluster")),
            what: what.to_owned(),
            is_lost: latest::Sender::new(false),
            is_logged: AtomicBool::default(),
        }
    }

    /// Watches what a query selects.
    fn watch<T: LocalKind + From<T::Requested>>(
        &self,
        query: &Query,
        what: &str,
        wrap: fn(Event<T>) -> LocalEvent,
    ) -> impl Future<Output = ()> + Send + use<T>
    where
        T::Requested: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = if query.of_installation {
            Api::<T::Requested>::namespaced(self.client.clone(), self.ours)
        } else {
            Api::all(self.client.clone())
        };
        let mut watched = Watched::all(api).recovered(&self.recovered);
        (watched.labels, watched.fields) = (query.labels.clone(), query.fields.clone());
        watch(watched, self.handler(what, wrap))
    }

    /// Watches the Services that are members of federated Services, and their slices as soon as they are needed.
    fn watch_members(
        &self,
        config: &Config,
        needed: latest::Receiver<Needed>,
        tasks: &mut JoinSet<()>,
    ) {
        let Some(selector) = &config.local_members else {
            let none = Event::List {
                objects: Vec::new(),
                omitted: Omitted::default(),
            };
            // The channel has room, because no watch has run yet.
            let _ = self.outbox.try_send(LocalEvent::Members(none));
            return;
        };
        let members = Query::of_labels(selector.query());
        tasks.spawn(self.watch(&members, "federated members", LocalEvent::Members));
        // Kubernetes copies the labels of a Service to the slices that it creates for it.
        let what = "EndpointSlices of federated members";
        let slices = self.watch(&members, what, LocalEvent::MemberSlices);
        let begins = config.routes.is_some();
        tasks.spawn(async move {
            // With preferences, requests go to local members only if these are available.
            if !begins {
                Needed::wait(needed, |needed| needed.members).await;
            }
            slices.await;
        });
    }
}

/// Sends the events of one watch to the engine, and logs its failures.
struct LocalHandler<T> {
    outbox: mpsc::Sender<LocalEvent>,
    metrics: Metrics,
    wrap: Box<dyn Fn(Event<T>) -> LocalEvent + Send + Sync>,
    trouble: Trouble,
    what: String,
    /// Whether the watch fails.
    is_lost: latest::Sender<bool>,
    /// Whether it was logged that annotations were dropped.
    is_logged: AtomicBool,
}

impl<T: LocalKind> EventHandler<T> for LocalHandler<T> {
    async fn on_event(&mut self, change: Event<T>) -> bool {
        self.outbox.send((self.wrap)(change)).await.is_ok()
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        let is_lost = matches!(connection, ConnectionStatus::Lost(_));
        self.is_lost.send_replace(is_lost);
        match connection {
            ConnectionStatus::Alive => {
                if self.trouble.clear() {
                    // If the engine has ended, the next event notices it.
                    let _ = self.outbox.send(LocalEvent::Recovered).await;
                }
            }
            ConnectionStatus::Lost(loss) => {
                self.metrics.watch_restarted(LOCAL, T::KIND);
                self.trouble.set(&loss.why);
            }
        }
    }

    fn keeps(&self, object: &T) -> bool {
        object.is_needed()
    }

    fn trimmed(&self, object: T) -> T {
        let mut object = object.reduced();
        if let Some(metadata) = object.metadata()
            && metadata.truncate(LARGEST_ANNOTATIONS)
            && !self.is_logged.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                namespace = metadata.namespace(),
                name = metadata.name(),
                "annotations of {} that have more than {} KiB are ignored; others are not logged",
                self.what,
                LARGEST_ANNOTATIONS >> 10
            );
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use client::of_test_server;
    use mirror_core::api::{k8s::Service, labels as l};

    use super::*;

    #[tokio::test]
    async fn large_annotations_of_local_objects_are_not_kept() {
        let (outbox, _events) = mpsc::channel(1);
        let (_, recovered) = latest::channel(0);
        let metrics = crate::metrics::tests::filled();
        let client = of_test_server(|_| std::future::pending());
        let start = Start {
            client: &client,
            ours: "mc",
            outbox: &outbox,
            metrics: &metrics,
            recovered,
        };
        let handler = start.handler("mirror Services", LocalEvent::Mirrors);
        let service = |size: usize| {
            let mut service = Service::default();
            let annotations = &mut service.metadata.annotations;
            annotations.insert("theirs", "x".repeat(size));
            annotations.insert(l::MEMBERS, "web@east");
            service
        };
        let small = service(1000);
        assert_eq!(handler.trimmed(small.clone()), small);
        let large = handler.trimmed(service(250 << 10));
        assert!(large.metadata.is_truncated);
        assert!(
            large.metadata.weight() < 1000,
            "{}",
            large.metadata.weight()
        );
        assert_eq!(large.metadata.annotation(l::MEMBERS), "web@east");
        // The log line is written only once.
        assert!(handler.is_logged.load(Ordering::Relaxed));
    }
}
