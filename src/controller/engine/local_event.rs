//! The events of the watches of the local cluster, for the engine.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::sync::{mpsc, watch as latest};

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        metadata::Metadata,
        route::{Route, RouteKind},
    },
    controller::{
        metrics::{LOCAL, Metrics, ResourceKind},
        trouble::Trouble,
        watch::{ConnectionStatus, Event, EventHandler, Watched},
    },
    mirror::{ClusterNetworks, Local},
};

/// A change of the local cluster.
pub(in crate::controller) enum LocalEvent {
    Namespaces(Event<PartialObjectMeta<Namespace>>),
    Mirrors(Event<Service>),
    Slices(Event<EndpointSlice>),
    Gateways(Event<Service>),
    GatewaySlices(Event<EndpointSlice>),
    /// Routes of a kind; `None` if the API server does not serve the kind.
    Routes(RouteKind, Option<Event<Route>>),
    Members(Event<Service>),
    MemberSlices(Event<EndpointSlice>),
    Links(Event<LinkObject>),
    Secrets(Event<Secret>),
    /// The networks of the cluster. Gateways of other clusters cannot be in them.
    Networks(ClusterNetworks),
    /// How many `ClusterIP`s may be taken; `None` if that is unknown.
    Room(Option<i64>),
    /// A watch has recovered.
    Recovered,
}

/// What has to be listed before anything is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Required {
    Namespaces,
    Mirrors,
    Slices,
    Gateways,
    GatewaySlices,
    Members,
    Links,
    Secrets,
    Networks,
}

impl Required {
    pub(super) const ALL: [Self; 9] = [
        Self::Namespaces,
        Self::Mirrors,
        Self::Slices,
        Self::Gateways,
        Self::GatewaySlices,
        Self::Members,
        Self::Links,
        Self::Secrets,
        Self::Networks,
    ];
}

impl LocalEvent {
    /// The kind of which this is a list, if it is required.
    pub(super) fn lists(&self) -> Option<Required> {
        match self {
            Self::Namespaces(Event::List { .. }) => Some(Required::Namespaces),
            Self::Mirrors(Event::List { .. }) => Some(Required::Mirrors),
            Self::Slices(Event::List { .. }) => Some(Required::Slices),
            Self::Gateways(Event::List { .. }) => Some(Required::Gateways),
            Self::GatewaySlices(Event::List { .. }) => Some(Required::GatewaySlices),
            Self::Members(Event::List { .. }) => Some(Required::Members),
            Self::Links(Event::List { .. }) => Some(Required::Links),
            Self::Secrets(Event::List { .. }) => Some(Required::Secrets),
            Self::Networks(_) => Some(Required::Networks),
            _ => None,
        }
    }
}

/// The first lists of the local cluster. They are kept here until all of them have come: what has not been listed must
/// not be mistaken for what does not exist.
pub(super) struct FirstLists {
    local: Local,
    missing: BTreeSet<Required>,
}

impl Default for FirstLists {
    fn default() -> Self {
        Self {
            local: Local::default(),
            missing: Required::ALL.into(),
        }
    }
}

impl FirstLists {
    /// The local cluster, as far as it has been listed.
    pub(super) fn local(&mut self) -> &mut Local {
        &mut self.local
    }

    /// The local cluster as far as it has been listed; `None` before its mirrors have been.
    pub(super) fn with_mirrors(&self) -> Option<&Local> {
        (!self.missing.contains(&Required::Mirrors)).then_some(&self.local)
    }

    /// Records that a kind has been listed. Returns the local cluster if no other kind was missing.
    pub(super) fn on_listed(&mut self, kind: Required) -> Option<Local> {
        let is_last = self.missing.remove(&kind) && self.missing.is_empty();
        is_last.then(|| std::mem::take(&mut self.local))
    }
}

/// What has to be watched only if it is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::controller) struct Needed {
    /// The slices of members.
    pub(super) members: bool,
    /// Routes, although preferences are not enabled.
    pub(super) routes: bool,
}

impl Needed {
    /// Waits until something is needed, for ever if the engine ends: that is not a failure of the watch that waits.
    pub(super) async fn wait(mut needed: latest::Receiver<Self>, is_it: impl FnMut(&Self) -> bool) {
        if needed.wait_for(is_it).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What all watches of the local cluster have in common.
pub(super) struct Start<'a> {
    pub(super) client: &'a Client,
    /// The namespace of the installation.
    pub(super) ours: &'a str,
    pub(super) outbox: &'a mpsc::Sender<LocalEvent>,
    pub(super) metrics: &'a Metrics,
    /// Changes when the local API server recovers.
    pub(super) recovered: latest::Receiver<u64>,
}

impl Start<'_> {
    /// All objects of `api`, followed at once when the local API server recovers.
    pub(super) fn watched<K>(&self, api: Api<K>) -> Watched<K> {
        Watched::all(api).recovered(&self.recovered)
    }

    /// The handler for the events of one watch.
    pub(super) fn handler<T>(
        &self,
        what: &str,
        kind: ResourceKind,
        wrap: impl Fn(Event<T>) -> LocalEvent + Send + Sync + 'static,
    ) -> LocalHandler<T> {
        LocalHandler {
            outbox: self.outbox.clone(),
            metrics: self.metrics.clone(),
            kind,
            wrap: Box::new(wrap),
            trouble: Trouble::new(format!("watch {what} of the local cluster")),
            what: what.to_owned(),
            metadata: None,
            told: AtomicBool::default(),
        }
    }
}

/// Maximum size of an object's annotations in bytes, if some are not read. Whoever may label a Service as a mirror could
/// otherwise fill the memory.
const LARGEST_ANNOTATIONS: usize = 16 << 10;

/// Sends the events of one watch to the engine, and logs its failures.
pub(super) struct LocalHandler<T> {
    outbox: mpsc::Sender<LocalEvent>,
    metrics: Metrics,
    kind: ResourceKind,
    wrap: Box<dyn Fn(Event<T>) -> LocalEvent + Send + Sync>,
    trouble: Trouble,
    what: String,
    /// Returns the metadata whose annotations may be dropped.
    pub(super) metadata: Option<fn(&mut T) -> &mut Metadata>,
    /// Whether it was logged that annotations were dropped.
    told: AtomicBool,
}

impl<T> LocalHandler<T> {
    /// Drops annotations of these objects that are too large and that nobody reads.
    pub(super) fn truncating(self, metadata: fn(&mut T) -> &mut Metadata) -> Self {
        Self {
            metadata: Some(metadata),
            ..self
        }
    }
}

impl<T: Send + Sync> EventHandler<T> for LocalHandler<T> {
    async fn on_event(&mut self, change: Event<T>) -> bool {
        self.outbox.send((self.wrap)(change)).await.is_ok()
    }

    fn trimmed(&self, mut object: T) -> T {
        if let Some(metadata) = self.metadata {
            let metadata = metadata(&mut object);
            if metadata.truncate(LARGEST_ANNOTATIONS) && !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    namespace = metadata.namespace(),
                    name = metadata.name(),
                    "annotations of {} that have more than {} KiB are ignored; others are not logged",
                    self.what,
                    LARGEST_ANNOTATIONS >> 10
                );
            }
        }
        object
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        match connection {
            ConnectionStatus::Alive => {
                if self.trouble.clear() {
                    // If the engine has ended, the next event notices it.
                    let _ = self.outbox.send(LocalEvent::Recovered).await;
                }
            }
            ConnectionStatus::Lost(message) => {
                self.metrics.watch_restarted(LOCAL, self.kind);
                self.trouble.set(&message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::labels as l, controller::engine::tests::client, mirror::Omitted};

    #[tokio::test]
    async fn large_annotations_of_local_objects_are_not_kept() {
        let (outbox, _events) = mpsc::channel(1);
        let (_, recovered) = latest::channel(0);
        let metrics = crate::controller::metrics::tests::filled();
        let client = client();
        let start = Start {
            client: &client,
            ours: "mc",
            outbox: &outbox,
            metrics: &metrics,
            recovered,
        };
        let handler = start
            .handler(
                "mirror Services",
                ResourceKind::Service,
                LocalEvent::Mirrors,
            )
            .truncating(|service| &mut service.metadata);
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
        // What is said in the log is said once.
        assert!(handler.told.load(Ordering::Relaxed));
    }

    fn list<T>() -> Event<T> {
        Event::List {
            objects: Vec::new(),
            omitted: Omitted::default(),
        }
    }

    #[test]
    fn local_cluster_is_not_known_before_every_kind_has_been_listed() {
        let events = || {
            [
                LocalEvent::Namespaces(list()),
                LocalEvent::Mirrors(list()),
                LocalEvent::Slices(list()),
                LocalEvent::Gateways(list()),
                LocalEvent::GatewaySlices(list()),
                LocalEvent::Members(list()),
                LocalEvent::Links(list()),
                LocalEvent::Secrets(list()),
                LocalEvent::Networks(ClusterNetworks::default()),
            ]
        };
        let count = events().len();
        for last in 0..count {
            let mut lists = FirstLists::default();
            let mut order: Vec<_> = events().into_iter().collect();
            order.rotate_left(last);
            for (index, event) in order.into_iter().enumerate() {
                let kind = event.lists().unwrap();
                let is_complete = lists.on_listed(kind).is_some();
                assert_eq!(is_complete, index + 1 == count, "{kind:?}");
                // A second list of the same kind is nothing new.
                assert!(lists.on_listed(kind).is_none(), "{kind:?}");
            }
        }
    }
}
