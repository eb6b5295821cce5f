//! The events of the watches of the local cluster, for the engine.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::core::PartialObjectMeta;
use tokio::sync::watch as latest;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        route::{Route, RouteKind},
    },
    controller::watch::Event,
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

/// The number of kinds.
const REQUIRED: usize = 9;

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
#[derive(Default)]
pub(super) struct FirstLists {
    local: Local,
    listed: BTreeSet<Required>,
}

impl FirstLists {
    /// The local cluster, as far as it has been listed.
    pub(super) fn local(&mut self) -> &mut Local {
        &mut self.local
    }

    /// The local cluster as far as it has been listed; `None` before its mirrors have been.
    pub(super) fn with_mirrors(&self) -> Option<&Local> {
        (self.listed.contains(&Required::Mirrors)).then_some(&self.local)
    }

    /// Records that a kind has been listed. Returns the local cluster if no other kind was missing.
    pub(super) fn on_listed(&mut self, kind: Required) -> Option<Local> {
        let is_last = self.listed.insert(kind) && self.listed.len() == REQUIRED;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Omitted;

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
