//! The events of the watches of the local cluster, for the engine.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::core::PartialObjectMeta;
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        route::{Route, RouteKind},
    },
    mirror::ClusterNetworks,
};
use tokio::sync::watch as latest;

use crate::watch::Event;

/// A change of the local cluster.
pub enum LocalEvent {
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

/// The optional kinds of the local cluster that have to be watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// The slices of members, also of those in target clusters. Once needed, they stay so.
    pub members: bool,
    /// Routes, although preferences are not enabled.
    pub routes: bool,
}

impl Needed {
    /// Waits until `is_it` holds, for ever if the engine ends: that is not a failure of the watch that waits.
    pub async fn wait(mut needed: latest::Receiver<Self>, is_it: impl FnMut(&Self) -> bool) {
        if needed.wait_for(is_it).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
