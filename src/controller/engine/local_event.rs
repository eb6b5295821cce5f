//! What the watches of the local cluster tell the engine.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::core::PartialObjectMeta;
use tokio::sync::mpsc;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        routes::{Route, RouteKind},
    },
    controller::{
        metrics::{LOCAL, Metrics, ResourceKind},
        trouble::Trouble,
        watch::{ConnectionStatus, Event, EventHandler},
    },
    mirror::ClusterNetworks,
};

/// A change of the local cluster.
pub(in crate::controller) enum LocalEvent {
    Namespaces(Event<PartialObjectMeta<Namespace>>),
    Mirrors(Event<Service>),
    Slices(Event<EndpointSlice>),
    Probes(Event<Service>),
    ProbeSlices(Event<EndpointSlice>),
    /// Routes of a kind; `None`: the API server has no such kind.
    Routes(RouteKind, Option<Event<Route>>),
    Members(Event<Service>),
    MemberSlices(Event<EndpointSlice>),
    Links(Event<LinkObject>),
    Secrets(Event<Secret>),
    /// The networks of the cluster, where no gateway is.
    Networks(ClusterNetworks),
    /// A watch that had failed works again.
    Recovered,
}

/// What all watches of the local cluster have in common.
pub(super) struct Start<'a> {
    pub(super) outbox: &'a mpsc::Sender<LocalEvent>,
    pub(super) metrics: &'a Metrics,
}

impl Start<'_> {
    /// Who tells the changes of one watch.
    pub(super) fn handler<T>(
        &self,
        what: &str,
        kind: ResourceKind,
        wrap: fn(Event<T>) -> LocalEvent,
    ) -> LocalHandler<T> {
        LocalHandler {
            outbox: self.outbox.clone(),
            metrics: self.metrics.clone(),
            kind,
            wrap,
            trouble: Trouble::new(format!("watch {what} of the local cluster")),
        }
    }
}

/// Hands the changes of one watch to the engine, and says when it is in trouble.
pub(super) struct LocalHandler<T> {
    outbox: mpsc::Sender<LocalEvent>,
    metrics: Metrics,
    kind: ResourceKind,
    wrap: fn(Event<T>) -> LocalEvent,
    trouble: Trouble,
}

impl<T: Send + Sync> EventHandler<T> for LocalHandler<T> {
    async fn on_event(&mut self, change: Event<T>) -> bool {
        self.outbox.send((self.wrap)(change)).await.is_ok()
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        match connection {
            ConnectionStatus::Alive => {
                if self.trouble.clear() {
                    // Nobody listening is found out by the next change.
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
