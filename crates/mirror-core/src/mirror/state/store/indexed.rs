//! Keys of a store's indexes, besides namespaces and names; and the index by target cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        metadata::Metadata,
        preference::FailedOver,
        route::Route,
        wire::StoredObject,
    },
    mirror::{
        metadata::{Owner, is_our_route, is_our_slice, member_clusters, owner, preferred_clusters},
        names::{NameOwner, labelled, member_name},
    },
};

/// Used instead of a cluster's name for objects that lost the label for their cluster.
pub(crate) const ANY: &str = "";

/// Maximum number of members of one object in the index. An object with more counts as one that may belong to
/// any. Otherwise annotations with thousands of names would take many times their size.
const MAX_CLUSTERS: usize = 256;

/// Objects with index keys. An object may belong to another one of its namespace, which is its group.
pub trait Indexed: StoredObject {
    /// Name of the object that this one belongs to: a slice's Service, an endpoint mirror's headless mirror.
    fn group(&self) -> Option<&str>;

    /// Host names of its endpoints, each once.
    fn hosts(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }

    /// Target clusters to which it belongs, each once, and an empty name if it may belong to any.
    fn clusters(&self) -> BTreeSet<&str>;

    /// When its key has to be planned again, even if nothing else happens until then: each time once.
    fn due(&self) -> BTreeSet<Timestamp> {
        BTreeSet::new()
    }
}

/// The Service that a slice of ours was created for, by the slice's name: see `desired::endpoints`, and `slices.rs` of
/// federated Services.
fn created_as(slice: &EndpointSlice) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unnumbered = |text| match str::rsplit_once(text, '-') {
        Some((rest, number)) if is_number(number) => rest,
        _ => text,
    };
    let name = slice.metadata.name();
    // The slice of a federated Service that leads to a gateway. Names of Services have no dot.
    if let Some((service, _)) = name.split_once('.') {
        return member_name(service).map(|_| service);
    }
    let unhashed = unnumbered(name).rsplit_once('-').map(|(rest, _)| rest);
    if let Some(federated) = unhashed.and_then(|rest| rest.strip_suffix("-local")) {
        return member_name(federated).map(|_| federated);
    }
    let of_hosts = unnumbered(unnumbered(name));
    let mut families = ["-ipv4", "-ipv6"].iter();
    families.find_map(|family| of_hosts.strip_suffix(family))
}

impl Indexed for EndpointSlice {
    /// Somebody may have changed the label of a slice of ours. Its owner says for which Service the slice was created, and
    /// the slice's name begins with that of the Service. Without an owner, the slice's name alone says it.
    fn group(&self) -> Option<&str> {
        let Metadata {
            labels,
            owner_references,
            ..
        } = &self.metadata;
        let mut owners = owner_references.iter().map(|owner| &*owner.name);
        let created_for = |service: &&str| {
            let suffix = self.metadata.name().strip_prefix(service);
            is_our_slice(self) && suffix.is_some_and(|suffix| suffix.starts_with(['-', '.']))
        };
        let owner = owners.find(created_for);
        let named = || is_our_slice(self).then(|| created_as(self)).flatten();
        owner
            .or_else(named)
            .or_else(|| labels.get(l::SLICE_SERVICE))
    }

    fn hosts(&self) -> BTreeSet<&str> {
        self.endpoints
            .iter()
            .filter_map(|endpoint| endpoint.hostname.as_deref())
            .collect()
    }

    fn clusters(&self) -> BTreeSet<&str> {
        let labels = &self.metadata.labels;
        let ours = [l::MIRRORED_SERVICE, l::MIRRORED_GATEWAY];
        let ours = ours.iter().any(|label| labels.contains_key(label));
        let cluster = labels.get(l::CLUSTER_NAME).or_else(|| ours.then_some(ANY));
        cluster.into_iter().collect()
    }
}

impl Indexed for Service {
    fn group(&self) -> Option<&str> {
        self.metadata.labels.get(l::HEADLESS_MIRROR)
    }

    fn clusters(&self) -> BTreeSet<&str> {
        let mut clusters = BTreeSet::new();
        match owner(&self.metadata) {
            Owner::Mirror(own) | Owner::EndpointMirror(own, _) | Owner::Gateway(own) => {
                clusters.insert(own);
            }
            Owner::Federated if member_clusters(&self.metadata).nth(MAX_CLUSTERS).is_some() => {
                clusters.insert(ANY);
            }
            Owner::Federated => {
                clusters.extend(member_clusters(&self.metadata));
                // A preferred cluster that takes no part now is not among the members, but may return.
                clusters.extend(preferred_clusters(&self.metadata));
            }
            Owner::Foreign => {}
        }
        // A Service whose labels somebody changed may have been written for any cluster.
        if labelled(self) == NameOwner::Stray {
            clusters.insert(ANY);
        }
        clusters
    }

    fn due(&self) -> BTreeSet<Timestamp> {
        let failed_over = self.metadata.annotations.get(l::FAILED_OVER);
        let outages = failed_over.map(FailedOver::read).unwrap_or_default();
        outages.returns().collect()
    }
}

impl Indexed for Route {
    /// The federated Service to which a route of ours belongs. Its name, which nobody can change, says which one.
    fn group(&self) -> Option<&str> {
        let (service, port) = self.metadata.name().rsplit_once('-')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        (is_our_route(self) && is_port && member_name(service).is_some()).then_some(service)
    }

    fn clusters(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }
}

/// Objects of one cluster, by namespace and sorted by name.
type ByNamespace<T> = BTreeMap<Box<str>, Vec<Arc<T>>>;

/// Local objects by cluster, so that a change of one cluster does not require a walk over the objects of all clusters.
/// Objects without a cluster are not in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByCluster<T>(BTreeMap<Box<str>, ByNamespace<T>>);

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
    use crate::mirror::state::store::Store;

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
    fn service_of_very_many_clusters_takes_one_place_in_the_index() {
        let list = |count: usize| {
            let names: Vec<_> = (0..count).map(|n| format!("web@c{n}")).collect();
            names.join(",")
        };
        let mut services = Store::default();
        for (count, places) in [(MAX_CLUSTERS, MAX_CLUSTERS), (50_000, 1)] {
            let federated = [OURS, (l::REMOTE_DISCOVERY, &list(count))];
            put(&mut services, "web-federated", &[MIRROR], &federated);
            assert_eq!(services.clusters.0.len(), places, "{count}");
            assert_eq!(of(&services, "c7"), ["web-federated"], "{count}");
        }
        services.forget("ns", "web-federated");
        assert!(services.clusters.0.is_empty());
    }

    #[test]
    fn services_of_target_clusters_are_not_found_by_clusters() {
        let mut services = Store::remote();
        let members = (l::REMOTE_DISCOVERY, "x@y");
        let prefer = (l::PREFER, "aaaa,aaab");
        for _ in 0..2 {
            put(
                &mut services,
                "web-federated",
                &[MIRROR],
                &[members, prefer],
            );
            assert!(services.clusters.0.is_empty());
        }
        assert_eq!(of(&services, "aaaa"), [""; 0]);
        assert!(services.forget("ns", "web-federated").is_some());
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

    #[test]
    fn a_route_of_ours_belongs_to_the_federated_service_that_its_name_says() {
        for (name, manager, expected) in [
            ("web-federated-80", l::MANAGER, Some("web-federated")),
            ("web-federated-80", "somebody-else", None),
            ("web-federated-http", l::MANAGER, None),
            ("web-federated-8080x", l::MANAGER, None),
            ("web-federated-", l::MANAGER, None),
            ("web-federated", l::MANAGER, None),
            ("web-80", l::MANAGER, None),
            ("web-80", "somebody-else", None),
            ("web", l::MANAGER, None),
        ] {
            let route = Route {
                metadata: metadata(name, &[], &[(l::MANAGED_BY, manager)]),
                ..Route::default()
            };
            assert_eq!(route.group(), expected, "{name} of {manager}");
        }
    }

    #[test]
    fn routes_are_of_no_cluster() {
        let mut routes = Store::default();
        routes.put(Arc::new(Route {
            metadata: metadata("web-federated-80", &[(l::CLUSTER_NAME, "east")], &[OURS]),
            ..Route::default()
        }));
        assert_eq!(of(&routes, "east"), [""; 0]);
        assert!(routes.clusters.0.is_empty());
    }

    #[test]
    fn slices_and_routes_are_due_at_no_time() {
        assert!(EndpointSlice::default().due().is_empty());
        assert!(Route::default().due().is_empty());
    }
}
