//! Local objects by target cluster, so that a change of one cluster does not require a walk over the objects of all
//! clusters.

use std::{collections::BTreeMap, sync::Arc};

use super::indexed::{ANY, Indexed};
use crate::api::wire::StoredObject;

/// Objects of one cluster, by namespace and sorted by name.
type ByNamespace<T> = BTreeMap<Box<str>, Vec<Arc<T>>>;

/// Objects by cluster. Objects without a cluster are not in it.
#[derive(Clone, Debug)]
pub(crate) struct ByCluster<T>(BTreeMap<Box<str>, ByNamespace<T>>);

impl<T> Default for ByCluster<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Indexed> ByCluster<T> {
    /// Objects of a cluster, or that may be of it.
    pub(crate) fn of(&self, cluster: &str) -> impl Iterator<Item = &Arc<T>> {
        let bucket = [cluster, ANY].map(|name| self.0.get(name));
        bucket
            .into_iter()
            .flatten()
            .flat_map(BTreeMap::values)
            .flatten()
    }

    /// Adds an object whose name is not in the index.
    pub(crate) fn add(&mut self, object: &Arc<T>) {
        let (namespace, name) = (object.metadata().namespace(), object.metadata().name());
        for cluster in object.clusters() {
            let namespaces = match self.0.get_mut(cluster) {
                Some(namespaces) => namespaces,
                None => self.0.entry(cluster.into()).or_default(),
            };
            let bucket = match namespaces.get_mut(namespace) {
                Some(bucket) => bucket,
                None => namespaces.entry(namespace.into()).or_default(),
            };
            let at = find(bucket, name).unwrap_or_else(|at| at);
            bucket.insert(at, object.clone());
        }
    }

    /// Removes an object that is in the index.
    pub(crate) fn remove(&mut self, object: &T) {
        let (namespace, name) = (object.metadata().namespace(), object.metadata().name());
        for cluster in object.clusters() {
            let Some(namespaces) = self.0.get_mut(cluster) else {
                continue;
            };
            if let Some(bucket) = namespaces.get_mut(namespace) {
                if let Ok(at) = find(bucket, name) {
                    bucket.remove(at);
                }
                if bucket.is_empty() {
                    namespaces.remove(namespace);
                }
            }
            if namespaces.is_empty() {
                self.0.remove(cluster);
            }
        }
    }
}

/// The position of the object of this name in objects sorted by name. `Err` is the position where it would be.
pub(crate) fn find<T: StoredObject>(objects: &[Arc<T>], name: &str) -> Result<usize, usize> {
    objects.binary_search_by(|object| object.metadata().name().cmp(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{
            k8s::{EndpointSlice, Service},
            labels as l,
            metadata::Metadata,
        },
        mirror::state::store::Store,
    };

    fn metadata(name: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Metadata {
        Metadata {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            labels: labels.iter().copied().collect(),
            annotations: annotations.iter().copied().collect(),
            ..Metadata::default()
        }
    }

    fn put(
        services: &mut Store<Service>,
        name: &str,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) {
        services.put(Arc::new(Service {
            metadata: metadata(name, labels, annotations),
            ..Service::default()
        }));
    }

    fn of<T: Indexed>(objects: &Store<T>, cluster: &str) -> Vec<String> {
        let found = objects.of_cluster(cluster);
        found.map(|o| o.metadata().name().to_owned()).collect()
    }

    const MIRROR: (&str, &str) = (l::MIRRORED_SERVICE, "true");
    const OURS: (&str, &str) = (l::MANAGED_BY, l::MANAGER);

    #[test]
    fn services_are_found_by_their_clusters() {
        let east = (l::CLUSTER_NAME, "east");
        let mut services = Store::default();
        put(&mut services, "web-east", &[MIRROR, east], &[OURS]);
        put(
            &mut services,
            "probe-east",
            &[(l::MIRRORED_GATEWAY, "true"), east],
            &[OURS],
        );
        put(
            &mut services,
            "web-west",
            &[MIRROR, (l::CLUSTER_NAME, "west")],
            &[OURS],
        );
        let members = (l::REMOTE_DISCOVERY, "web@west, web@north");
        put(&mut services, "web-federated", &[MIRROR], &[OURS, members]);
        put(&mut services, "users", &[], &[]);
        assert_eq!(of(&services, "east"), ["probe-east", "web-east"]);
        assert_eq!(of(&services, "west"), ["web-federated", "web-west"]);
        assert_eq!(of(&services, "north"), ["web-federated"]);
        // An object that lost its labels may have been written for any cluster.
        put(&mut services, "web-east", &[MIRROR], &[OURS]);
        for cluster in ["east", "south"] {
            assert!(of(&services, cluster).contains(&"web-east".to_owned()));
        }
        for name in ["web-east", "probe-east", "web-west", "web-federated"] {
            services.forget("ns", name);
        }
        assert!(services.clusters.0.is_empty());
        assert_eq!(services.len(), 1);
    }

    #[test]
    fn slices_are_found_by_their_label_and_without_it_for_any_cluster() {
        let mut slices = Store::default();
        for (name, labels) in [
            ("a", &[MIRROR, (l::CLUSTER_NAME, "east")][..]),
            ("b", &[MIRROR]),
            ("c", &[(l::CLUSTER_NAME, "west")]),
            ("d", &[]),
        ] {
            slices.put(Arc::new(EndpointSlice {
                metadata: metadata(name, labels, &[]),
                ..EndpointSlice::default()
            }));
        }
        assert_eq!(of(&slices, "east"), ["a", "b"]);
        assert_eq!(of(&slices, "west"), ["c", "b"]);
    }
}
