//! How many federated Services send requests to each cluster first, and how many leave it out.

use std::collections::BTreeMap;

use mirror_core::{
    api::preference::{ClusterRef, FailedOver, Preference},
    mirror::{Key, active_clusters},
};

/// The results of the preferences of federated Services.
#[derive(Debug, Default)]
pub struct Preferences {
    /// By key of a Service with a preference.
    known: BTreeMap<Key, Receivers>,
    /// Numbers of Services that send requests to a cluster first, and of Services that leave it out. A cluster is not
    /// removed when both are zero.
    counts: BTreeMap<ClusterRef, [usize; 2]>,
}

/// The clusters that receive the requests to one Service first, and preferred clusters that are left out.
#[derive(Debug, PartialEq, Eq)]
pub struct Receivers([Vec<ClusterRef>; 2]);

impl Receivers {
    pub fn new(
        preference: &Preference,
        failed_over: &FailedOver,
        has_member: impl Fn(&ClusterRef) -> bool,
    ) -> Self {
        let first = active_clusters(preference, failed_over, has_member);
        Self([
            first.into_iter().cloned().collect(),
            failed_over.0.keys().cloned().collect(),
        ])
    }
}

impl Preferences {
    /// Updates a Service; `None` if it has no preference, or does not exist. Returns the clusters whose numbers change.
    pub fn note(&mut self, key: &Key, now: Option<Receivers>) -> Vec<(ClusterRef, [usize; 2])> {
        if self.known.get(key) == now.as_ref() {
            return Vec::new();
        }
        let before = self.known.remove(key);
        let mut changed = BTreeMap::new();
        for (receivers, is_new) in [(&before, false), (&now, true)] {
            for (index, places) in receivers.iter().flat_map(|of| of.0.iter().enumerate()) {
                for place in places {
                    let counts = self.counts.entry(place.clone()).or_default();
                    counts[index] = counts[index] + usize::from(is_new) - usize::from(!is_new);
                    changed.insert(place.clone(), *counts);
                }
            }
        }
        self.known.extend(now.map(|now| (key.clone(), now)));
        changed.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_counted_by_clusters_that_receive_requests_or_are_left_out() {
        let receivers = |preference: &str, failed_over: &str| {
            let preference = preference.parse().unwrap();
            Some(Receivers::new(
                &preference,
                &FailedOver::read(failed_over),
                |_| true,
            ))
        };
        let (local, east) = (ClusterRef::Local, ClusterRef::from("east"));
        let (web, api) = (Key::federated("ns", "web"), Key::federated("ns", "api"));
        let away = "local=2026-01-02T03:04:05Z/..";
        let mut preferences = Preferences::default();
        for (key, now, expected) in [
            (
                &web,
                receivers("local,east", ""),
                vec![(local.clone(), [1, 0])],
            ),
            (&web, receivers("local,east", ""), vec![]),
            (
                &web,
                receivers("local,east", away),
                vec![(local.clone(), [0, 1]), (east.clone(), [1, 0])],
            ),
            (
                &api,
                receivers("east=2,local=1", ""),
                vec![(local.clone(), [1, 1]), (east.clone(), [2, 0])],
            ),
            (
                &web,
                None,
                vec![(local.clone(), [1, 0]), (east.clone(), [1, 0])],
            ),
        ] {
            assert_eq!(preferences.note(key, now), expected);
        }
    }
}
