//! Everything that is known of the local cluster, the Links and the target clusters. Plain data.
//!
//! The owner of a [`State`] updates it with what it sees. The `keys_of_` methods (`triggers.rs`) return the keys that a
//! change concerns. Unknown is not absent: what has not been listed yet is distinguished from what does not exist.

pub(crate) mod limit;
pub(crate) mod links;
pub(crate) mod namespaces;
pub(crate) mod remote;
pub(crate) mod store;

pub use self::{
    limit::{Limit, Limits, Omitted},
    links::{LinkEntry, LinkEntryMut, Links},
    namespaces::{Namespace, NamespacePhase, Namespaces},
    remote::{GatewayState, Liveness, RemoteState},
    store::{Indexed, Inserted, Store},
};

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;

use super::{
    metadata::{Installation, installation, is_managed, is_our_slice},
    names::{GatewayService, federated_name, member_name},
    target::{Target, exclusions::Exclusions, networks::ClusterNetworks},
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
    metadata::Metadata,
    route::{Route, RouteKind},
    selector::Selector,
};

/// Settings of the controller.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Namespace of Links, credentials and gateway Services. It also names this installation on all that it writes.
    pub namespace: String,
    /// The installation whose mirrors this one takes over, if it moved to another namespace.
    pub take_over_from: Option<String>,
    /// Maximum number of namespaces that are created for one target cluster; 0 for none.
    pub max_namespaces: usize,
    /// Namespaces in which nothing is mirrored or federated, whatever a Link says. The namespace of the Links is always
    /// protected.
    pub protected_namespaces: BTreeSet<String>,
    /// Trust domain of the workloads of this cluster; `None` if it is not known. Target clusters name it where they export
    /// a Service to some clusters only.
    pub trust_domain: Option<String>,
    /// Selects members of federated Services in the local cluster; `None`: the local cluster takes no part.
    pub local_members: Option<Selector>,
    /// Labels and annotations that are not copied from local members.
    pub local_exclusions: Exclusions,
    /// How long a preferred cluster must be available again before it receives requests (hold-down). `None`:
    /// preferences are not applied, and no routes are written.
    pub routes: Option<Duration>,
    /// Age of a Link from which federated Services name its cluster. Linkerd adds clusters one after the other, and does
    /// not follow a federated Service that names a cluster before that.
    pub join_delay: Duration,
}

/// The local cluster, of which every kind has been listed.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// Namespaces.
    pub namespaces: Namespaces,
    /// Services with the label [`MIRRORED_SERVICE`](crate::api::labels::MIRRORED_SERVICE).
    pub mirrors: Store<Service>,
    /// EndpointSlices with the same label.
    pub slices: Store<EndpointSlice>,
    /// Services that lead to gateways themselves.
    pub gateways: Store<Service>,
    /// Slices of these Services.
    pub gateway_slices: Store<EndpointSlice>,
    /// Members of federated Services.
    pub members: Store<Service>,
    /// Slices of members; `None` until listed, which is not waited for. They are used only if a federated Service is
    /// made of slices ([`Links::by_slices`]), or if preferences are enabled.
    pub member_slices: Option<Store<EndpointSlice>>,
    /// Routes by kind: ours, and those of others that apply to federated Services. A kind without an entry has not been
    /// listed yet, which is not waited for. `None` means that the API server does not have the kind.
    pub routes: BTreeMap<RouteKind, Option<Store<Route>>>,
    /// Networks in which no gateway may be.
    pub networks: ClusterNetworks,
}

impl Local {
    /// Whether any federated Service has slices of ours, whatever its form is now.
    pub fn has_federated_slices(&self) -> bool {
        self.slices.iter().any(|slice| {
            let is_federated = slice
                .group()
                .is_some_and(|name| member_name(name).is_some());
            is_federated && is_our_slice(slice)
        })
    }

    /// Whether any federated Service of ours has a preference, or had one when preferences were enabled: it may have
    /// routes.
    pub fn has_preferences(&self) -> bool {
        self.mirrors.iter().any(|service| {
            let metadata = &service.metadata;
            is_managed(metadata) && metadata.annotations.contains_key(l::PREFER)
        })
    }
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Settings of the controller.
    pub config: Config,
    /// The local cluster; `None` until all of it has been listed, the Links too. Until then, nothing is planned.
    pub local: Option<Local>,
    /// Links by name, and what is known of their target clusters.
    pub links: Links,
    /// Names that belong to a Service that is not ours, as a live read found: by namespace and name, with a text for
    /// its owner.
    pub foreign: BTreeMap<(String, String), String>,
    /// The current time, as last set by [`State::advance`]. Drains and hold-downs end by it.
    pub now: Timestamp,
}

impl State {
    /// A local cluster that has been listed, with these namespaces, without labels, and no objects of ours.
    pub fn listed(
        config: Config,
        namespaces: impl IntoIterator<Item = (String, NamespacePhase)>,
    ) -> Self {
        let namespaces = namespaces.into_iter();
        let namespaces = namespaces.map(|(name, phase)| (name, Namespace::from(phase)));
        let local = Local {
            namespaces: namespaces.collect(),
            member_slices: Some(Store::default()),
            ..Local::default()
        };
        Self {
            config,
            local: Some(local),
            ..Self::default()
        }
    }

    /// The Link in charge of a target cluster: the oldest valid one that names it.
    pub fn link(&self, cluster: &str) -> Option<(&Target, &LinkEntry)> {
        self.links.in_charge(cluster)
    }

    /// What is known of a target cluster, through the Link in charge of it.
    pub(crate) fn remote(&self, cluster: &str) -> Option<&RemoteState> {
        let (_, entry) = self.link(cluster)?;
        entry.remote.as_ref()
    }

    /// The Links in charge, by target cluster.
    pub fn active(&self) -> impl Iterator<Item = (&Target, &LinkEntry)> {
        self.links.all_in_charge()
    }

    /// Whether federated Services have slices, or need some.
    pub fn by_slices(&self) -> bool {
        let local = self.local.as_ref();
        self.links
            .by_slices(|| local.is_some_and(Local::has_federated_slices))
    }

    /// Whether objects of this cluster, which has no Link in charge, may still belong to a Link.
    pub(crate) fn may_keep(&self, cluster: &str) -> bool {
        self.links.may_keep(cluster)
    }

    /// A local namespace; `None` if there is none.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.local.as_ref()?.namespaces.get(name)
    }

    /// Whether another namespace may be created for a target cluster, while `under_way` ones are being created.
    pub fn may_create_namespace(&self, cluster: &str, under_way: usize) -> bool {
        let local = self.local.as_ref();
        let created = local.map_or(0, |local| local.namespaces.created_for(cluster));
        created + under_way < self.config.max_namespaces
    }

    /// Whether a target cluster is drained now.
    pub(crate) fn is_drained(&self, target: &Target) -> bool {
        target.drained_until.is_some_and(|until| until > self.now)
    }

    /// Whether Linkerd may not know the cluster of a Link yet. A Link from far in the future does not count: one of the
    /// clocks is wrong.
    pub(crate) fn is_new(&self, entry: &LinkEntry) -> bool {
        entry.linked.is_some_and(|linked| {
            self.now.duration_since(linked).unsigned_abs() < self.config.join_delay
        })
    }

    /// Which installation an object that carries our labels belongs to.
    pub(crate) fn installation_of<'a>(&self, metadata: &'a Metadata) -> Installation<'a> {
        match installation(metadata) {
            Some(name) if name == self.config.namespace => Installation::Ours,
            Some(name) if self.config.take_over_from.as_deref() != Some(name) => {
                Installation::Theirs(name)
            }
            _ => Installation::Unclaimed,
        }
    }

    /// Whether an object belongs to another installation. Such an object is never written.
    pub(crate) fn is_theirs(&self, metadata: &Metadata) -> bool {
        matches!(self.installation_of(metadata), Installation::Theirs(_))
    }

    /// Whether this installation may change a slice.
    pub(crate) fn writes_slice(&self, slice: &EndpointSlice) -> bool {
        is_our_slice(slice) && !self.is_theirs(&slice.metadata)
    }

    /// Whether this installation has written an object, and so may delete it once it is not needed.
    pub(crate) fn may_delete(&self, metadata: &Metadata) -> bool {
        is_managed(metadata) && self.installation_of(metadata) == Installation::Ours
    }

    /// A local Service that carries our labels, or those of a gateway Service.
    pub(crate) fn existing(&self, namespace: &str, name: &str) -> Option<&Service> {
        let local = self.local.as_ref()?;
        [&local.mirrors, &local.gateways]
            .into_iter()
            .filter_map(|store| store.get(namespace, name))
            .max_by_key(|service| service.metadata.version())
            .map(AsRef::as_ref)
    }

    /// The existing federated Service for members of this name, if it is ours.
    pub fn federated(&self, namespace: &str, service: &str) -> Option<&Service> {
        let found = self.existing(namespace, &federated_name(service))?;
        self.may_delete(&found.metadata).then_some(found)
    }

    /// Local slices of a Service.
    pub(crate) fn local_slices(&self, namespace: &str, service: &str) -> &[Arc<EndpointSlice>] {
        self.in_group(|local| &local.slices, namespace, service)
    }

    /// Slices of a gateway Service of a Link.
    pub(crate) fn local_gateway_slices(
        &self,
        link: &str,
        service: GatewayService,
    ) -> &[Arc<EndpointSlice>] {
        let (namespace, name) = (&self.config.namespace, service.name(link));
        self.in_group(|local| &local.gateway_slices, namespace, &name)
    }

    /// Local endpoint mirrors of a headless mirror.
    pub(crate) fn endpoint_mirrors(&self, namespace: &str, headless: &str) -> &[Arc<Service>] {
        self.in_group(|local| &local.mirrors, namespace, headless)
    }

    /// Slices of members in the local cluster; `None` until listed.
    pub(crate) fn member_slices(&self) -> Option<&Store<EndpointSlice>> {
        self.local.as_ref()?.member_slices.as_ref()
    }

    /// Local routes of each kind that the API server has, as far as they have been listed.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Store<Route>> {
        let local = self.local.iter();
        local.flat_map(|local| local.routes.values().flatten())
    }

    /// The Link of this name, if it is in charge of its target cluster. Only then may it have gateway Services.
    pub fn active_link(&self, link: &str) -> Option<(&Target, &LinkEntry)> {
        self.links.active(link)
    }

    /// A gateway Service of a Link, if there is one.
    pub(crate) fn gateway_service(&self, link: &str, service: GatewayService) -> Option<&Service> {
        let gateways = &self.local.as_ref()?.gateways;
        gateways
            .get(&self.config.namespace, &service.name(link))
            .map(AsRef::as_ref)
    }

    fn in_group<T: Indexed>(
        &self,
        store: impl FnOnce(&Local) -> &Store<T>,
        namespace: &str,
        group: &str,
    ) -> &[Arc<T>] {
        let local = self.local.as_ref();
        local.map_or(&[], |local| store(local).in_group(namespace, group))
    }
}

#[cfg(test)]
mod tests;
