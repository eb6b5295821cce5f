//! What has to be listed of the local cluster before anything is planned.

use std::collections::BTreeSet;

use mirror_core::mirror::Local;

use crate::{local::LocalEvent, watch::Event};

/// What has to be listed before anything is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Required {
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

/// The number of variants of [`Required`].
const REQUIRED: usize = 9;

impl Required {
    /// The required kind that an event lists, if it does.
    pub fn listed_by(event: &LocalEvent) -> Option<Self> {
        match event {
            LocalEvent::Namespaces(Event::List { .. }) => Some(Self::Namespaces),
            LocalEvent::Mirrors(Event::List { .. }) => Some(Self::Mirrors),
            LocalEvent::Slices(Event::List { .. }) => Some(Self::Slices),
            LocalEvent::Gateways(Event::List { .. }) => Some(Self::Gateways),
            LocalEvent::GatewaySlices(Event::List { .. }) => Some(Self::GatewaySlices),
            LocalEvent::Members(Event::List { .. }) => Some(Self::Members),
            LocalEvent::Links(Event::List { .. }) => Some(Self::Links),
            LocalEvent::Secrets(Event::List { .. }) => Some(Self::Secrets),
            LocalEvent::Networks(_) => Some(Self::Networks),
            _ => None,
        }
    }
}

/// The first lists of the local cluster. They are kept here until all of them have come: what has not been listed must
/// not be mistaken for what does not exist.
#[derive(Default)]
pub struct FirstLists {
    local: Local,
    listed: BTreeSet<Required>,
}

impl FirstLists {
    /// The local cluster, as far as it has been listed.
    pub fn local(&mut self) -> &mut Local {
        &mut self.local
    }

    /// The local cluster as far as it has been listed; `None` before its mirrors have been.
    pub fn with_mirrors(&self) -> Option<&Local> {
        (self.listed.contains(&Required::Mirrors)).then_some(&self.local)
    }

    /// Records that a kind has been listed. Returns the local cluster if no other kind was missing.
    pub fn on_listed(&mut self, kind: Required) -> Option<Local> {
        let is_last = self.listed.insert(kind) && self.listed.len() == REQUIRED;
        is_last.then(|| std::mem::take(&mut self.local))
    }
}

#[cfg(test)]
mod tests {
    use mirror_core::mirror::{ClusterNetworks, Omitted};

    use super::*;

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
                let kind = Required::listed_by(&event).unwrap();
                let is_complete = lists.on_listed(kind).is_some();
                assert_eq!(is_complete, index + 1 == count, "{kind:?}");
                // A second list of the same kind is nothing new.
                assert!(lists.on_listed(kind).is_none(), "{kind:?}");
            }
        }
    }
}
