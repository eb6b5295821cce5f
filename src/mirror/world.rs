//! Everything that is known of the local cluster, the Links and the target clusters. Plain data.
//!
//! The owner of a [`World`] puts in what it sees; its `keys_of_` methods (`dirty.rs`) say which keys that concerns.
//! Unknown is not absent: what has not been seen yet is told apart from what is not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;

use super::{
    claims::{Claim, Holder},
    endpoints::is_ours,
    exclusions::Exclusions,
    key::Names,
    limit::LeftOut,
    links::{LinkEntry, Links},
    metadata::{Belonging, installation, is_managed},
    names::{federated_name, member_name, probe_name},
    namespaces::{Namespace, NamespacePhase, Namespaces},
    networks::ClusterNetworks,
    selector::Selector,
    store::{Grouped, Objects},
    target::Target,
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    metadata::Metadata,
    routes::{Route, RouteKind},
};

/// What the controller was told at its start.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Namespace of Links, credentials and probe Services. It also names this installation on all that it writes.
    pub namespace: String,
    /// The installation whose mirrors this one takes over, if it moved to another namespace.
    pub take_over_from: Option<String>,
    /// Missing namespaces that are created for one target cluster, at most; 0 for none.
    pub max_namespaces: usize,
    /// Namespaces in which nothing is mirrored or federated, whatever a Link says. That of the Links always is one.
    pub protected_namespaces: BTreeSet<String>,
    /// Selects members of federated Services in the local cluster; `None`: the local cluster takes no part.
    pub local_members: Option<Selector>,
    /// What is not copied from local members.
    pub local_exclusions: Exclusions,
    /// How long a preferred cluster must have been back before it takes requests again; `None`: preferences are not heeded,
    /// and no routes are written.
    pub routes: Option<Duration>,
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// What the controller was told.
    pub config: Config,
    /// Local namespaces; `None` until listed.
    pub namespaces: Option<Namespaces>,
    /// Local Services with the label [`MIRRORED_SERVICE`](crate::api::labels::MIRRORED_SERVICE); `None` until listed.
    pub mirrors: Option<Objects<Service>>,
    /// Local EndpointSlices with the same label; `None` until listed.
    pub slices: Option<Objects<EndpointSlice>>,
    /// Probe Services; `None` until listed.
    pub probes: Option<Objects<Service>>,
    /// Slices of probe Services; `None` until listed.
    pub probe_slices: Option<Objects<EndpointSlice>>,
    /// Members of federated Services in the local cluster; `None` until listed.
    pub members: Option<Objects<Service>>,
    /// Slices of members in the local cluster; `None` until listed. Nobody looks at them before a federated Service is made
    /// of slices ([`Links::by_slices`]), unless preferences are heeded.
    pub member_slices: Option<Objects<EndpointSlice>>,
    /// Routes by kind: ours, and those of others that apply to federated Services. Without an entry: not known yet; `None`:
    /// the API server has no such kind.
    pub routes: BTreeMap<RouteKind, Option<Objects<Route>>>,
    /// Links by name; `None` until listed.
    pub links: Option<Links>,
    /// Networks of this cluster, where no gateway is; `None` until looked up.
    pub networks: Option<ClusterNetworks>,
    /// Slots, by namespace and name, in which a live look found a Service that is not ours.
    pub foreign: BTreeMap<(String, String), String>,
    /// The time of day, as [`World::advance`] was told last. Drains end by it.
    pub now: Timestamp,
}

/// What is known of a target cluster. Complete as of some moment: all of it was listed.
#[derive(Clone, Debug, Default)]
pub struct Remote {
    /// Services, one store per watch: a Service that two selectors take is in two.
    pub services: Vec<Objects<Service>>,
    /// EndpointSlices of Services in gateway mode, one store per watch.
    pub slices: Vec<Objects<EndpointSlice>>,
    /// Services that are left out because of the limit, by watch: their absence says nothing.
    pub left_out: Vec<LeftOut>,
    /// Services some of whose slices are left out because of the limit, by watch of slices.
    pub cut: Vec<LeftOut>,
    /// Services whose slices have not been listed yet, or not all of them, by namespace and name.
    pub unlisted: Names,
}

/// What is known of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayState {
    /// Addresses, sorted, as they were resolved: [`World::reach`] says which are used. `None` while unresolved.
    pub addresses: Option<Vec<IpAddr>>,
    /// Whether it answers probes.
    pub liveness: Liveness,
}

/// Whether a gateway answers probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// Not probed yet, or not probed at all: readiness stays as it is, and new endpoints are ready.
    #[default]
    Unknown,
    /// It answers.
    Alive,
    /// It does not.
    Dead,
}

impl Remote {
    /// The Service as last seen by any watch.
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Arc<Service>> {
        self.services
            .iter()
            .filter_map(|store| store.get(namespace, name))
            .max_by_key(|service| service.metadata.version())
    }

    /// All Services; one that two watches see may come twice.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter().flat_map(Objects::iter)
    }

    /// Whether a Service that is not known may be there, and have been left out.
    pub fn may_leave_out(&self, namespace: &str, name: &str) -> bool {
        self.left_out.iter().any(|left| !left.is_complete()) || self.leaves_out(namespace, name)
    }

    /// Whether a Service that is not known is there, and was left out.
    pub fn leaves_out(&self, namespace: &str, name: &str) -> bool {
        is_named(&self.left_out, namespace, name)
    }

    /// Whether a Service may have slices that are not among those that are known. Then what is not there says nothing.
    pub fn lacks_slices_of(&self, namespace: &str, service: &str) -> bool {
        let id = || (namespace.to_owned(), service.to_owned());
        !self.unlisted.is_empty() && self.unlisted.contains(&id())
            || self.cuts_slices_of(namespace, service)
    }

    /// Whether a Service may have slices that were left out.
    pub fn cuts_slices_of(&self, namespace: &str, service: &str) -> bool {
        self.cut.iter().any(|left| !left.is_complete()) || is_named(&self.cut, namespace, service)
    }

    /// The slices of a Service; each once, though two watches see it.
    pub fn slices_of<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let stores = self.slices.iter().enumerate();
        stores.flat_map(move |(index, store)| {
            let seen = move |slice: &&Arc<EndpointSlice>| {
                let mut earlier = self.slices[..index].iter();
                earlier.any(|store| store.get(namespace, slice.metadata.name()).is_some())
            };
            let found = store.in_group(namespace, service).iter();
            found.filter(move |slice| !seen(slice)).map(AsRef::as_ref)
        })
    }
}

fn is_named(left: &[LeftOut], namespace: &str, name: &str) -> bool {
    let id = || (namespace.to_owned(), name.to_owned());
    left.iter().any(|left| !left.is_empty()) && left.iter().any(|left| left.names(&id()))
}

impl World {
    /// A local cluster that has been listed, and in which nothing is ours: there are these namespaces, without labels.
    pub fn listed(
        config: Config,
        namespaces: impl IntoIterator<Item = (String, NamespacePhase)>,
    ) -> Self {
        let namespaces = namespaces.into_iter();
        let namespaces = namespaces.map(|(name, phase)| (name, Namespace::from(phase)));
        Self {
            config,
            namespaces: Some(namespaces.collect()),
            mirrors: Some(Objects::default()),
            slices: Some(Objects::default()),
            probes: Some(Objects::default()),
            probe_slices: Some(Objects::default()),
            members: Some(Objects::default()),
            member_slices: Some(Objects::default()),
            routes: BTreeMap::new(),
            links: Some(Links::default()),
            networks: Some(ClusterNetworks::default()),
            foreign: BTreeMap::new(),
            now: Timestamp::default(),
        }
    }

    /// Whether the local cluster has been listed whole. Until then nothing is planned.
    pub fn is_complete(&self) -> bool {
        self.namespaces.is_some()
            && self.mirrors.is_some()
            && self.slices.is_some()
            && self.probes.is_some()
            && self.probe_slices.is_some()
            && self.members.is_some()
            && self.links.is_some()
            && self.networks.is_some()
    }

    /// The Link in charge of a target cluster: the oldest valid one that names it.
    pub fn link(&self, cluster: &str) -> Option<(&Target, &LinkEntry)> {
        self.links.as_ref()?.in_charge(cluster)
    }

    /// The Links in charge, by target cluster.
    pub fn active(&self) -> impl Iterator<Item = (&Target, &LinkEntry)> {
        self.links.iter().flat_map(Links::all_in_charge)
    }

    /// Whether there are federated Services that are made of slices.
    pub fn by_slices(&self) -> bool {
        self.links.as_ref().is_some_and(Links::by_slices)
    }

    /// Whether slices of ours stand for a federated Service, whatever its form is by now.
    pub fn has_federated_slices(&self) -> bool {
        let mut slices = self.slices.iter().flat_map(Objects::iter);
        slices.any(|slice| {
            let is_federated = slice
                .group()
                .is_some_and(|name| member_name(name).is_some());
            is_federated && is_ours(slice)
        })
    }

    /// Whether what stands for this cluster, of which no Link is in charge, may still be a Link's.
    pub(super) fn may_keep(&self, cluster: &str) -> bool {
        let links = self.links.as_ref();
        links.is_some_and(|links| links.may_keep(cluster))
    }

    /// Which installation an object that carries our labels belongs to.
    pub(super) fn belonging<'a>(&self, metadata: &'a Metadata) -> Belonging<'a> {
        match installation(metadata) {
            Some(name) if name == self.config.namespace => Belonging::Ours,
            Some(name) if self.config.take_over_from.as_deref() != Some(name) => {
                Belonging::Theirs(name)
            }
            _ => Belonging::Unclaimed,
        }
    }

    /// Whether an object is another installation's: it is never written.
    pub(super) fn is_theirs(&self, metadata: &Metadata) -> bool {
        matches!(self.belonging(metadata), Belonging::Theirs(_))
    }

    /// Whether an object is ours to collect once nothing asks for it any more: this installation has written it.
    pub(super) fn is_collected(&self, metadata: &Metadata) -> bool {
        is_managed(metadata) && self.belonging(metadata) == Belonging::Ours
    }

    /// A local Service that carries our labels, or those of a probe Service.
    pub(super) fn standing(&self, namespace: &str, name: &str) -> Option<&Service> {
        let stores = [&self.mirrors, &self.probes].into_iter().flatten();
        stores
            .filter_map(|store| store.get(namespace, name))
            .max_by_key(|service| service.metadata.version())
            .map(AsRef::as_ref)
    }

    /// The federated Service of members of this name, if one stands that is ours.
    pub fn federated(&self, namespace: &str, service: &str) -> Option<&Service> {
        let found = self.standing(namespace, &federated_name(service))?;
        self.is_collected(&found.metadata).then_some(found)
    }

    /// Local slices of a Service.
    pub(super) fn local_slices(&self, namespace: &str, service: &str) -> &[Arc<EndpointSlice>] {
        in_group(self.slices.as_ref(), namespace, service)
    }

    /// Slices of a Link's probe Service.
    pub(super) fn local_probe_slices(&self, link: &str) -> &[Arc<EndpointSlice>] {
        in_group(
            self.probe_slices.as_ref(),
            &self.config.namespace,
            &probe_name(link),
        )
    }

    /// Local endpoint mirrors of a headless mirror.
    pub(super) fn endpoint_mirrors(&self, namespace: &str, headless: &str) -> &[Arc<Service>] {
        in_group(self.mirrors.as_ref(), namespace, headless)
    }

    /// The Link of this name, if it is in charge of its target cluster: then it may have a probe Service.
    pub fn probe_link(&self, link: &str) -> Option<(&Target, &LinkEntry)> {
        let entry = self.links.as_ref()?.get(link)?;
        let target = entry.target.as_ref().ok()?;
        let (active, _) = self.link(&target.cluster)?;
        (active.link == target.link).then_some((target, entry))
    }

    /// The ClusterIP of a Link's probe Service, once there is one that is ours.
    pub fn probe_address(&self, link: &str) -> Option<IpAddr> {
        let service = self.probe(link)?;
        let ours = self.holder(service) == Holder::Claim(Claim::Probe(link));
        let ip = service.spec.cluster_ip.as_deref().filter(|_| ours)?;
        ip.parse().ok()
    }

    /// The probe Service of a Link, if there is one.
    pub(super) fn probe(&self, link: &str) -> Option<&Service> {
        self.probes
            .as_ref()?
            .get(&self.config.namespace, &probe_name(link))
            .map(AsRef::as_ref)
    }
}

fn in_group<'a, T: Grouped>(
    store: Option<&'a Objects<T>>,
    namespace: &str,
    group: &str,
) -> &'a [Arc<T>] {
    store
        .map(|store| store.in_group(namespace, group))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
