//! How many federated Services send requests to each cluster first, and how many leave it out.

use std::collections::BTreeMap;

use crate::{
    api::preference::{ClusterRef, FailedOver, Preference},
    mirror::{Key, active_clusters},
};

/// The results of the preferences of federated Services.
#[derive(Debug, Default)]
pub(super) struct Preferences {
    /// By key of a Service with a preference.
    known: BTreeMap<Key, Taken>,
    /// Numbers of Services that send requests to a cluster first, and of Services that leave it out. A cluster is not
    /// removed when both are zero.
    counts: BTreeMap<ClusterRef, [usize; 2]>,
}

/// The clusters that receive the requests to one Service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Clusters that receive them first.
    by: Vec<ClusterRef>,
    /// Preferred clusters that receive none.
    failed_over: Vec<ClusterRef>,
}

impl Taken {
    pub(super) fn new(
        preference: &Preference,
        failed_over: &FailedOver,
        has_member: impl Fn(&ClusterRef) -> bool,
    ) -> Self {
        let by = active_clusters(preference, failed_over, has_member);
        Self {
            by: by.into_iter().cloned().collect(),
            failed_over: failed_over.0.keys().cloned().collect(),
        }
    }
}

impl Preferences {
    /// Updates a Service; `None` if it has no preference, or does not exist. Returns the clusters whose numbers change.
    pub(super) fn note(&mut self, key: &Key, now: Option<Taken>) -> Vec<(ClusterRef, [usize; 2])> {
        if self.known.get(key) == now.as_ref() {
            return Vec::new();
        }
        let mut changed = Vec::new();
        if let Some(before) = self.known.remove(key) {
            self.count(&before, &mut changed, |count| *count -= 1);
        }
        if let Some(now) = now {
            self.count(&now, &mut changed, |count| *count += 1);
            self.known.insert(key.clone(), now);
        }
        changed.sort();
        changed.dedup();
        let numbers = changed.into_iter().map(|cluster| {
            let counts = self.counts.get(&cluster).copied().unwrap_or_default();
            (cluster, counts)
        });
        numbers.collect()
    }

    fn count(&mut self, taken: &Taken, changed: &mut Vec<ClusterRef>, by: impl Fn(&mut usize)) {
        for (index, clusters) in [&taken.by, &taken.failed_over].into_iter().enumerate() {
            for cluster in clusters {
                by(&mut self.counts.entry(cluster.clone()).or_default()[index]);
                changed.push(cluster.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_counted_by_clusters_that_receive_requests_or_are_left_out() {
        let taken = |preference: &str, failed_over: &str| {
            let preference = preference.parse().unwrap();
            Some(Taken::new(
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
            (&web, taken("local,east", ""), vec![(local.clone(), [1, 0])]),
            (&web, taken("local,east", ""), vec![]),
            (
                &web,
                taken("local,east", away),
                vec![(local.clone(), [0, 1]), (east.clone(), [1, 0])],
            ),
            (
                &api,
                taken("east=2,local=1", ""),
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
