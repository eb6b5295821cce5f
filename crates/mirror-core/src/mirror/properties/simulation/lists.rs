//! Lists of a target cluster: how a session, or one of its watches, handles them, and what the limit omits.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    super::operations::{CLUSTERS, Form, Limited},
    ClusterMembership, Event, Far, Simulation,
};
use crate::mirror::{Indexed, Key, Omitted, RemoteState, Store};

impl Limited {
    /// Whether a Service of this name is omitted.
    pub(crate) fn omits(self, name: &str) -> bool {
        matches!(self, Self::Services | Self::Unnamed) && name != "a"
    }

    /// Whether a slice of this name is omitted.
    pub(crate) fn cuts(self, name: &str) -> bool {
        self == Self::Slices && name != "a-0"
    }
}

impl Simulation {
    pub(crate) fn limited(&self, link: &str) -> Limited {
        self.links
            .get(link)
            .map_or(Limited::No, |linked| linked.limited)
    }

    /// The number of objects exceeds a Link's limit from now on, or no longer does.
    pub(crate) fn limit(&mut self, link: &str, limited: Limited) {
        if let Some(linked) = self.links.get_mut(link) {
            linked.limited = limited;
            self.list_again(link);
        }
    }

    /// The watches of a Link's cluster lose their pending events and list again.
    pub(crate) fn list_again(&mut self, link: &str) {
        for (lane, listed) in [
            ("remote", Event::Listed(link.to_owned())),
            ("remote slices", Event::ListedSlices(link.to_owned())),
        ] {
            let lane = self.lanes.entry(lane).or_default();
            let moot = |event: &Event| {
                event.link() == Some(link)
                    && matches!(event, Event::Remote(..) | Event::RemoteSlice(..))
            };
            lane.retain(|event| !moot(event));
            lane.push_back(listed);
        }
    }

    /// The watch of Services has listed, as it does after each error.
    pub(crate) fn listed(&mut self, link: &str) {
        let Some(fresh) = self.fresh_remote(link) else {
            return;
        };
        let Some((cluster, remote)) = self.remote_of(link) else {
            return;
        };
        let touched = replace(&mut remote.services, fresh.services);
        let omitted = std::mem::replace(&mut remote.omitted, fresh.omitted);
        let (before, now) = (&omitted[0], &remote.omitted[0].clone());
        let mut keys: Vec<Key> = touched
            .iter()
            .flat_map(|service| self.state.keys_of_remote(&cluster, service))
            .collect();
        keys.extend(self.state.keys_of_limit(&cluster, before, now));
        self.mark(keys);
    }

    /// The watch of slices has listed.
    pub(crate) fn listed_slices(&mut self, link: &str) {
        let Some(fresh) = self.fresh_remote(link) else {
            return;
        };
        let Some((cluster, remote)) = self.remote_of(link) else {
            return;
        };
        let touched = replace(&mut remote.slices, fresh.slices);
        let omitted = std::mem::replace(&mut remote.omitted_slices, fresh.omitted_slices);
        let (before, now) = (&omitted[0], &remote.omitted_slices[0].clone());
        let mut keys: Vec<Key> = touched
            .iter()
            .flat_map(|slice| self.state.keys_of_remote_slice(&cluster, slice))
            .collect();
        keys.extend(self.state.keys_of_limit(&cluster, before, now));
        self.mark(keys);
    }

    fn fresh_remote(&self, link: &str) -> Option<RemoteState> {
        let linked = self.links.get(link)?;
        let far = self.far.get(CLUSTERS[linked.made.cluster]);
        (linked.made.form == Form::Valid).then(|| linked.list(link, far))
    }

    /// The watches of a Link have listed its cluster.
    pub(crate) fn synced(&mut self, link: &str) {
        let Some(linked) = self.links.get(link) else {
            return;
        };
        if linked.made.form != Form::Valid {
            return; // no session is started for it
        }
        let cluster = CLUSTERS[linked.made.cluster];
        let remote = linked.list(link, self.far.get(cluster));
        let keys = self
            .state
            .change_link(link, |links| links.listed(link, remote));
        if let Some(linked) = self.links.get_mut(link) {
            linked.listed = Some(cluster.to_owned());
        }
        // The list is newer than the pending events of these watches.
        for lane in ["remote", "remote slices"] {
            let lane = self.lanes.entry(lane).or_default();
            lane.retain(|event| event.link() != Some(link));
        }
        let said: Vec<Key> = self
            .reports
            .keys()
            .filter(|(remote, _)| remote.cluster == cluster)
            .map(|(remote, federated)| {
                if *federated {
                    Key::federated(&remote.namespace, &remote.service)
                } else {
                    Key::mirror(cluster, &remote.namespace, &remote.service)
                }
            })
            .collect();
        self.mark(keys.into_iter().chain(said));
    }
}

impl ClusterMembership {
    pub(crate) fn list(&self, link: &str, far: Option<&Far>) -> RemoteState {
        let (mut services, mut slices) = (Store::remote(), Store::remote());
        let (mut omitted, mut omitted_slices) = (Omitted::default(), Omitted::default());
        for service in far.iter().flat_map(|far| far.services.values()) {
            if !self.watches(link, service) {
                continue;
            }
            if self.limited.omits(service.metadata.name()) {
                omitted.add(service.metadata.id());
            } else {
                services.put(Arc::new(service.clone()));
            }
        }
        for slice in far.iter().flat_map(|far| far.slices.values()) {
            if self.limited.cuts(slice.metadata.name()) {
                let service = slice.group().unwrap_or_default().to_owned();
                omitted_slices.add((slice.metadata.namespace().to_owned(), service));
            } else {
                slices.put(Arc::new(slice.clone()));
            }
        }
        if self.limited == Limited::Unnamed {
            omitted.forget_names();
        }
        RemoteState {
            services: vec![services],
            slices: vec![slices],
            omitted: vec![omitted],
            omitted_slices: vec![omitted_slices],
        }
    }
}

/// Replaces what is known by a list. Returns the changed objects, before and after.
fn replace<T: Indexed>(known: &mut [Store<T>], fresh: Vec<Store<T>>) -> Vec<Arc<T>> {
    let mut touched = Vec::new();
    for (known, fresh) in known.iter_mut().zip(fresh) {
        let listed: BTreeSet<_> = fresh.iter().map(|object| object.metadata().id()).collect();
        touched.extend(known.retain_listed(&listed));
        for object in fresh.iter() {
            touched.extend(known.put(object.clone()));
            touched.push(object.clone());
        }
    }
    touched
}
