//! Which keys a change concerns. After a change, reconciling the keys returned here has the same result as reconciling
//! all keys.
//!
//! The states before and after a change both count. For a change of an object, call the function with both states of
//! the object. For a change of a Link, call it before and after the change.

mod changes;

use super::{
    key::{Key, Names},
    metadata::{Owner, is_managed, owner, preferred_clusters},
    names::{
        GatewayService, endpoint_mirror_name, federated_name, member_name, mirror_name,
        without_suffix,
    },
    state::{
        Local, State,
        limit::Omitted,
        remote::RemoteState,
        store::{Indexed as _, Store},
    },
    target::export::member,
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
    metadata::Metadata,
    route::Route,
};

impl Local {
    /// The Services of a target cluster that have objects here.
    pub fn services_with_objects(&self, cluster: &str) -> Names {
        let existing = self.mirrors.of_cluster(cluster);
        let services = existing.flat_map(|object| {
            let (namespace, name) = (object.metadata.namespace(), object.metadata.name());
            let named = [member_name(name), without_suffix(name, cluster)];
            let named = named.into_iter().flatten().map(str::to_owned);
            let written = written_for(namespace, name, fq_name(&object.metadata));
            let keys = own_key(object).into_iter().chain(written);
            let owned = keys.filter_map(|key| match key {
                Key::Mirror {
                    cluster: of,
                    service,
                    ..
                } => (of == cluster).then_some(service),
                Key::Federated { .. } | Key::Gateway { .. } => None,
            });
            let services = named
                .chain(owned)
                .map(|service| (namespace.to_owned(), service));
            services.collect::<Vec<_>>()
        });
        services.collect()
    }
}

impl State {
    /// Keys that a local Service with our labels concerns: its own, and those that may claim its name.
    pub fn keys_of_local(&self, service: &Service) -> Vec<Key> {
        let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
        let mut keys = self.keys_for_name(namespace, name);
        keys.extend(own_key(service));
        if is_managed(&service.metadata) {
            keys.extend(written_for(namespace, name, fq_name(&service.metadata)));
        }
        keys.extend(self.keys_of_preference(service));
        keys
    }

    /// Keys that a local Service concerns because of preferences. For a federated Service, these are the keys of the
    /// mirrors of the clusters that it prefers. For a mirror, these are the key of the federated Service that may send
    /// requests to it, and the keys of federated Services whose slices may have names that the mirror needs. They have to
    /// be enqueued after our own writes too.
    pub fn keys_of_preference(&self, service: &Service) -> Vec<Key> {
        let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
        let mut keys = Vec::new();
        if let Some(member) = member_name(name) {
            for cluster in preferred_clusters(&service.metadata) {
                keys.push(Key::mirror(cluster, namespace, member));
                keys.extend(self.keys_for_name(namespace, &mirror_name(member, cluster)));
            }
        }
        if let Some(Key::Mirror { service, .. }) = own_key(service) {
            let federated = self.existing(namespace, &federated_name(&service));
            let prefers = |found: &&Service| found.metadata.annotations.contains_key(l::PREFER);
            let key = || Key::federated(namespace, &service);
            keys.extend(federated.filter(prefers).map(|_| key()));
        }
        keys
    }

    /// Keys of a federated Service that depend on the existing routes: its own, and those of the mirrors of clusters that
    /// it prefers.
    fn keys_of_routed(&self, service: &Service) -> Vec<Key> {
        let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
        let Some(member) = member_name(name) else {
            return Vec::new();
        };
        let mut keys = self.keys_of_preference(service);
        keys.push(Key::federated(namespace, member));
        keys
    }

    /// Keys that a local route concerns: those of the federated Services that it applies to or belongs to, and those of the
    /// mirrors that it sends requests to.
    pub fn keys_of_route(&self, route: &Route) -> Vec<Key> {
        let namespace = route.metadata.namespace();
        let services = route.services().map(|(name, _)| name).chain(route.group());
        let federated = services.filter_map(member_name);
        let mut keys: Vec<Key> = federated
            .map(|member| Key::federated(namespace, member))
            .collect();
        let backends = route.backends();
        let mirrors = backends.filter_map(|name| self.existing(namespace, name));
        keys.extend(mirrors.filter_map(own_key));
        once_each(keys)
    }

    /// Keys that a local slice with our labels concerns.
    pub fn keys_of_local_slice(&self, slice: &EndpointSlice) -> Vec<Key> {
        let namespace = slice.metadata.namespace();
        let service = slice.group();
        if slice.metadata.labels.contains_key(l::MIRRORED_GATEWAY) {
            let link = service.and_then(GatewayService::link_of);
            return link.map(Key::gateway).into_iter().collect();
        }
        let mut keys = Vec::new();
        let federated = service.and_then(member_name);
        keys.extend(federated.map(|service| Key::federated(namespace, service)));
        if let Some(cluster) = slice.metadata.labels.get(l::CLUSTER_NAME) {
            // For an endpoint mirror: the key of the headless Service, and the one that deletes the slice if the
            // endpoint mirror is deleted.
            let headless = slice.metadata.labels.get(l::HEADLESS_MIRROR);
            let names = headless.into_iter().chain(service);
            let own = names.filter_map(|name| without_suffix(name, cluster));
            keys.extend(own.map(|service| Key::mirror(cluster, namespace, service)));
        }
        // The labels of a slice that others created do not say that its Service is a probe Service or an endpoint
        // mirror. A slice of a former mirror of that name may share addresses with slices of the present one.
        let existing = service.and_then(|service| self.existing(namespace, service));
        keys.extend(existing.and_then(own_key));
        // Somebody may have changed the labels of a slice that we wrote.
        let owners = slice.metadata.owner_references.iter();
        for name in owners.map(|owner| owner.name.as_ref()).chain(service) {
            keys.extend(written_for(namespace, name, fq_name(&slice.metadata)));
        }
        keys
    }

    /// Keys that this state of a Service of a target cluster concerns: its own, and those that may have lost a name to it.
    pub fn keys_of_remote(&self, cluster: &str, state: &Service) -> Vec<Key> {
        let (namespace, service) = (state.metadata.namespace(), state.metadata.name());
        let mut keys = vec![Key::mirror(cluster, namespace, service)];
        keys.extend(self.keys_for_name(namespace, &mirror_name(service, cluster)));
        // Most Services are not members. Plans of federated Services look at all clusters, so they are avoided.
        let federated = federated_name(service);
        let joins = self
            .link(cluster)
            .is_some_and(|(target, _)| member(target, state));
        if joins || self.existing(namespace, &federated).is_some() {
            keys.push(Key::federated(namespace, service));
            keys.extend(self.keys_for_name(namespace, &federated));
        }
        let remote = self.remote(cluster);
        let slices = remote
            .into_iter()
            .flat_map(|remote| remote.slices_of(namespace, service));
        for slice in slices {
            self.extend_with_hosts(cluster, slice, &mut keys);
        }
        keys
    }

    /// Keys that a slice of a target cluster concerns: those of its Service, and those that may have lost a
    /// name to one of its hosts.
    pub fn keys_of_remote_slice(&self, cluster: &str, slice: &EndpointSlice) -> Vec<Key> {
        let namespace = slice.metadata.namespace();
        let mut keys = match slice.group() {
            Some(service) => self.keys_of_endpoints(cluster, namespace, service),
            None => Vec::new(),
        };
        self.extend_with_hosts(cluster, slice, &mut keys);
        keys
    }

    /// Keys that the endpoints of a Service of a target cluster concern.
    pub fn keys_of_endpoints(&self, cluster: &str, namespace: &str, service: &str) -> Vec<Key> {
        let mut keys = vec![Key::mirror(cluster, namespace, service)];
        // A federated Service that does not exist yet is planned again once it does.
        let federated = federated_name(service);
        if self.existing(namespace, &federated).is_some() {
            keys.push(Key::federated(namespace, service));
        }
        keys
    }

    /// Keys that a slice of a member in the local cluster concerns.
    pub fn keys_of_member_slice(&self, slice: &EndpointSlice) -> Vec<Key> {
        let service = slice.group();
        let key = service.map(|service| Key::federated(slice.metadata.namespace(), service));
        key.into_iter().collect()
    }

    fn extend_with_hosts(&self, cluster: &str, slice: &EndpointSlice, keys: &mut Vec<Key>) {
        let by_host = self
            .link(cluster)
            .is_some_and(|(target, _)| target.headless);
        if by_host {
            let namespace = slice.metadata.namespace();
            for host in slice.hosts() {
                keys.extend(self.keys_for_name(namespace, &endpoint_mirror_name(host, cluster)));
            }
        }
    }

    /// Keys that a Service of the local cluster concerns, as a member of a federated Service.
    pub fn keys_of_member(&self, service: &Service) -> Vec<Key> {
        let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
        let mut keys = vec![Key::federated(namespace, name)];
        let federated = federated_name(name);
        keys.extend(self.keys_for_name(namespace, &federated));
        // It decides which clusters may join, and so which mirrors a preference needs.
        let existing = self.existing(namespace, &federated);
        keys.extend(
            existing
                .into_iter()
                .flat_map(|s| self.keys_of_preference(s)),
        );
        keys
    }

    /// Keys that the members in the local cluster concern.
    pub fn keys_of_members(&self) -> Vec<Key> {
        let members = self.local.iter().flat_map(|local| local.members.iter());
        let keys = members.flat_map(|member| self.keys_of_member(member));
        keys.collect()
    }

    /// Keys that depend on the existing routes.
    pub fn keys_of_all_routed(&self) -> Vec<Key> {
        let services = self.local.iter().flat_map(|local| local.mirrors.iter());
        let keys = services.flat_map(|service| self.keys_of_routed(service));
        // Of a route that lost its owner, the federated Service may be gone.
        let routes = self.routes().flat_map(Store::iter);
        let routed = routes.flat_map(|route| self.keys_of_route(route));
        once_each(keys.chain(routed).collect())
    }

    /// All keys of a target cluster: those of its exported Services, of its local objects, and of the probes of the
    /// Links that name it.
    pub fn keys_of_cluster(&self, cluster: &str) -> Vec<Key> {
        let mut keys: Vec<Key> = self.links.naming(cluster).map(Key::gateway).collect();
        self.extend_with_exports(cluster, &mut keys);
        if let Some(local) = &self.local {
            let services = local.mirrors.of_cluster(cluster);
            for service in services.chain(local.gateways.of_cluster(cluster)) {
                keys.extend(self.keys_of_local(service));
            }
            let slices = local.slices.of_cluster(cluster);
            for slice in slices.chain(local.gateway_slices.of_cluster(cluster)) {
                keys.extend(self.keys_of_local_slice(slice));
            }
        }
        once_each(keys)
    }

    /// All keys that the exported Services of a target cluster concern. Other keys of the cluster do not depend on its
    /// exports.
    pub fn keys_of_exports(&self, cluster: &str) -> Vec<Key> {
        let mut keys = Vec::new();
        self.extend_with_exports(cluster, &mut keys);
        once_each(keys)
    }

    pub(crate) fn extend_with_exports(&self, cluster: &str, keys: &mut Vec<Key>) {
        let remote = self.remote(cluster);
        for service in remote.into_iter().flat_map(RemoteState::services) {
            keys.extend(self.keys_of_remote(cluster, service));
        }
        for left in remote.into_iter().flat_map(|remote| &remote.omitted) {
            keys.extend(self.keys_of_omitted(cluster, left.services()));
        }
    }

    /// Keys that a change of what the limit omits concerns.
    pub fn keys_of_limit(&self, cluster: &str, before: &Omitted, now: &Omitted) -> Vec<Key> {
        if before.unnamed() == now.unnamed() {
            let others = before.services().symmetric_difference(now.services());
            self.keys_of_omitted(cluster, others)
        } else {
            self.keys_of_cluster(cluster)
        }
    }

    fn keys_of_omitted<'a>(
        &self,
        cluster: &str,
        services: impl IntoIterator<Item = &'a (String, String)>,
    ) -> Vec<Key> {
        let keys = services
            .into_iter()
            .flat_map(|(namespace, service)| self.keys_of_endpoints(cluster, namespace, service));
        keys.collect()
    }

    /// All keys of a namespace.
    pub fn keys_of_namespace(&self, namespace: &str) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for (target, entry) in self.active() {
            let services = entry.remote.iter().flat_map(|remote| &remote.services);
            for service in services.flat_map(|store| store.in_namespace(namespace)) {
                keys.extend(exported_keys(&target.cluster, service));
            }
        }
        if let Some(local) = &self.local {
            for service in local.mirrors.in_namespace(namespace) {
                keys.extend(self.keys_of_local(service));
            }
            for slice in local.slices.in_namespace(namespace) {
                keys.extend(self.keys_of_local_slice(slice));
            }
            for member in local.members.in_namespace(namespace) {
                keys.push(Key::federated(namespace, member.metadata.name()));
            }
        }
        once_each(keys)
    }

    /// All keys.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.links.keys().map(|link| Key::gateway(link)).collect();
        for (target, entry) in self.active() {
            for service in entry.remote.iter().flat_map(RemoteState::services) {
                keys.extend(exported_keys(&target.cluster, service));
            }
            for left in entry.remote.iter().flat_map(|remote| &remote.omitted) {
                keys.extend(self.keys_of_omitted(&target.cluster, left.services()));
            }
        }
        if let Some(local) = &self.local {
            for service in local.mirrors.iter().chain(local.gateways.iter()) {
                keys.extend(self.keys_of_local(service));
            }
            for slice in local.slices.iter().chain(local.gateway_slices.iter()) {
                keys.extend(self.keys_of_local_slice(slice));
            }
            for member in local.members.iter() {
                let (namespace, name) = (member.metadata.namespace(), member.metadata.name());
                keys.push(Key::federated(namespace, name));
            }
            for route in local.routes.values().flatten().flat_map(Store::iter) {
                keys.extend(self.keys_of_route(route));
            }
        }
        once_each(keys)
    }
}

pub(crate) fn once_each(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort();
    keys.dedup();
    keys
}

/// The key of a mirror, of the headless Service that an endpoint mirror belongs to, or of a gateway Service, by its
/// labels.
fn own_key(service: &Service) -> Option<Key> {
    let name = service.metadata.name();
    let (cluster, mirror) = match owner(&service.metadata) {
        Owner::Mirror(cluster) => (cluster, name),
        Owner::EndpointMirror(cluster, headless) => (cluster, headless),
        Owner::Gateway(_) => return GatewayService::link_of(name).map(Key::gateway),
        Owner::Federated | Owner::Foreign => return None,
    };
    let remote = without_suffix(mirror, cluster)?;
    Some(Key::mirror(cluster, service.metadata.namespace(), remote))
}

/// The keys of an exported Service: of its mirror, and of the federated Service that it may be a member of.
fn exported_keys(cluster: &str, service: &Service) -> [Key; 2] {
    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
    [
        Key::mirror(cluster, namespace, name),
        Key::federated(namespace, name),
    ]
}

fn fq_name(metadata: &Metadata) -> &str {
    metadata
        .annotations
        .get(l::REMOTE_FQ_NAME)
        .unwrap_or_default()
}

/// The key for which a Service of this name was written, by its annotation [`l::REMOTE_FQ_NAME`]:
/// `<service>.<namespace>.svc.…`, or `<host>.<service>.<namespace>.svc.…` for an endpoint mirror.
fn written_for(namespace: &str, name: &str, fq_name: &str) -> Option<Key> {
    let parts: Vec<&str> = fq_name.splitn(5, '.').collect();
    let (stem, service) = match parts.as_slice() {
        [service, own, "svc", ..] if *own == namespace => (*service, *service),
        [host, service, own, "svc", ..] if *own == namespace => (*host, *service),
        _ => return None,
    };
    let cluster = name
        .strip_prefix(stem)?
        .strip_prefix('-')
        .filter(|cluster| !cluster.is_empty())?;
    Some(Key::mirror(cluster, namespace, service))
}

#[cfg(test)]
mod tests;
