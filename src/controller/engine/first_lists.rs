//! The first lists of the local cluster. They are kept here until all of them have come: what has not been listed must
//! not be mistaken for what does not exist.

use std::collections::BTreeSet;

use super::{
    absorb::{absorb, absorb_listed, absorb_routes, namespaces},
    local_event::{LocalEvent, Required},
};
use crate::mirror::Local;

/// The local cluster, as far as it has been listed.
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
    /// Handles a change of the local cluster. Links and Secrets are not kept here.
    pub(super) fn on_event(&mut self, event: LocalEvent) {
        let local = &mut self.local;
        match event {
            LocalEvent::Namespaces(change) => {
                for (name, now) in namespaces(&local.namespaces, change) {
                    local.namespaces.set(&name, now);
                }
            }
            LocalEvent::Mirrors(change) => drop(absorb_listed(&mut local.mirrors, change, true)),
            LocalEvent::Slices(change) => drop(absorb_listed(&mut local.slices, change, true)),
            LocalEvent::Probes(change) => drop(absorb_listed(&mut local.probes, change, true)),
            LocalEvent::ProbeSlices(change) => {
                drop(absorb_listed(&mut local.probe_slices, change, true));
            }
            LocalEvent::Members(change) => drop(absorb_listed(&mut local.members, change, false)),
            LocalEvent::MemberSlices(change) => {
                drop(absorb(&mut local.member_slices, change, false));
            }
            LocalEvent::Routes(kind, change) => {
                drop(absorb_routes(&mut local.routes, kind, change));
            }
            LocalEvent::Networks(networks) => local.networks = networks,
            LocalEvent::Links(_)
            | LocalEvent::Secrets(_)
            | LocalEvent::Room(_)
            | LocalEvent::Recovered => {}
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        controller::watch::Event,
        mirror::{ClusterNetworks, LeftOut},
    };

    fn list<T>() -> Event<T> {
        Event::List {
            objects: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    #[test]
    fn local_cluster_is_not_known_before_every_kind_has_been_listed() {
        let events = || {
            [
                LocalEvent::Namespaces(list()),
                LocalEvent::Mirrors(list()),
                LocalEvent::Slices(list()),
                LocalEvent::Probes(list()),
                LocalEvent::ProbeSlices(list()),
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
                lists.on_event(event);
                let is_complete = lists.on_listed(kind).is_some();
                assert_eq!(is_complete, index + 1 == count, "{kind:?}");
                // A second list of the same kind is nothing new.
                assert!(lists.on_listed(kind).is_none(), "{kind:?}");
            }
        }
    }
}
