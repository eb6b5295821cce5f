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
        metrics::{Kind, LOCAL, Metrics},
        trouble::Trouble,
        watch::{Change, Contact, Listener},
    },
    mirror::ClusterNetworks,
};

/// A change of the local cluster.
pub(in crate::controller) enum Local {
    Namespaces(Change<PartialObjectMeta<Namespace>>),
    Mirrors(Change<Service>),
    Slices(Change<EndpointSlice>),
    Probes(Change<Service>),
    ProbeSlices(Change<EndpointSlice>),
    /// Routes of a kind; `None`: the API server has no such kind.
    Routes(RouteKind, Option<Change<Route>>),
    Members(Change<Service>),
    MemberSlices(Change<EndpointSlice>),
    Links(Change<LinkObject>),
    Secrets(Change<Secret>),
    /// The networks of the cluster, where no gateway is.
    Networks(ClusterNetworks),
    /// A watch that had failed works again.
    Recovered,
}

/// What all watches of the local cluster have in common.
pub(super) struct Start<'a> {
    pub(super) outbox: &'a mpsc::Sender<Local>,
    pub(super) metrics: &'a Metrics,
}

impl Start<'_> {
    /// Who tells the changes of one watch.
    pub(super) fn teller<T>(
        &self,
        what: &str,
        kind: Kind,
        wrap: fn(Change<T>) -> Local,
    ) -> Teller<T> {
        Teller {
            outbox: self.outbox.clone(),
            metrics: self.metrics.clone(),
            kind,
            wrap,
            trouble: Trouble::new(format!("watch {what} of the local cluster")),
        }
    }
}

/// Hands the changes of one watch to the engine, and says when it is in trouble.
pub(super) struct Teller<T> {
    outbox: mpsc::Sender<Local>,
    metrics: Metrics,
    kind: Kind,
    wrap: fn(Change<T>) -> Local,
    trouble: Trouble,
}

impl<T: Send + Sync> Listener<T> for Teller<T> {
    async fn tell(&mut self, change: Change<T>) -> bool {
        self.outbox.send((self.wrap)(change)).await.is_ok()
    }

    async fn contact(&mut self, contact: Contact) {
        match contact {
            Contact::Alive => {
                if self.trouble.clear() {
                    // Nobody listening is found out by the next change.
                    let _ = self.outbox.send(Local::Recovered).await;
                }
            }
            Contact::Lost(message) => {
                self.metrics.watch_restarted(LOCAL, self.kind);
                self.trouble.set(&message);
            }
        }
    }
}
