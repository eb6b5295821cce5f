//! Everything that is known of the local cluster, the Links and the target clusters. Plain data.
//!
//! The owner of a [`World`] puts in what it sees; [`affected`](World) methods say which keys that concerns.
//! Unknown is not absent: what has not been seen yet is told apart from what is not there.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use kube::ResourceExt as _;

use super::{
    export,
    key::Key,
    metadata::{Exclusions, Owner, label, owner},
    names::{FEDERATED_SUFFIX, probe_name, without_suffix},
    selector::Selector,
    store::{Grouped, Objects, version},
    target::{InvalidLink, Target, oldest_by_cluster},
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
};

/// What the controller was told at its start.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Namespace of Links, credentials and probe Services.
    pub namespace: String,
    /// Whether missing namespaces are created.
    pub create_namespaces: bool,
    /// Selects members of federated Services in the local cluster; `None`: the local cluster takes no part.
    pub local_members: Option<Selector>,
    /// What is not copied from local members.
    pub local_exclusions: Exclusions,
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// What the controller was told.
    pub config: Config,
    /// Local namespaces; `None` until listed.
    pub namespaces: Option<BTreeMap<String, NamespacePhase>>,
    /// Local Services with the label [`l::MIRRORED_SERVICE`]; `None` until listed.
    pub mirrors: Option<Objects<Service>>,
    /// Local EndpointSlices with the label [`l::MIRRORED_SERVICE`]; `None` until listed.
    pub slices: Option<Objects<EndpointSlice>>,
    /// Probe Services; `None` until listed.
    pub probes: Option<Objects<Service>>,
    /// Slices of probe Services; `None` until listed.
    pub probe_slices: Option<Objects<EndpointSlice>>,
    /// Members of federated Services in the local cluster; `None` until listed.
    pub members: Option<Objects<Service>>,
    /// Links by name; `None` until listed.
    pub links: Option<BTreeMap<String, LinkEntry>>,
    /// Slots, by namespace and name, in which a live look found a Service that is not ours.
    pub foreign: BTreeMap<(String, String), String>,
}

/// A local namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespacePhase {
    /// It takes objects.
    Active,
    /// It is being deleted and takes none.
    Terminating,
}

/// A Link, and what is known through it.
#[derive(Clone, Debug)]
pub struct LinkEntry {
    /// Name of the target cluster, as the Link has it.
    pub cluster: String,
    /// The Link, parsed.
    pub target: Result<Target, InvalidLink>,
    /// The target cluster; `None` until all its watches have listed.
    pub remote: Option<Remote>,
    /// The gateway.
    pub gateway: GatewayState,
}

/// What is known of a target cluster. Complete as of some moment: all of it was listed.
#[derive(Clone, Debug, Default)]
pub struct Remote {
    /// Services, one store per watch: a Service that two selectors take is in two.
    pub services: Vec<Objects<Service>>,
    /// EndpointSlices of Services in gateway mode, one store per watch.
    pub slices: Vec<Objects<EndpointSlice>>,
    /// Whether more Services are exported than the limit allows. Then absence says nothing.
    pub over_limit: bool,
}

/// What is known of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayState {
    /// Addresses, sorted; `None` while unresolved.
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
            .max_by_key(|service| version(service.as_ref()))
    }

    /// All Services; one that two watches see may come twice.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter().flat_map(Objects::iter)
    }

    /// The slices of a Service.
    pub fn slices_of<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices
            .iter()
            .flat_map(move |store| store.in_group(namespace, service).map(AsRef::as_ref))
    }
}

impl World {
    /// Whether the local cluster has been listed whole. Until then nothing is planned.
    pub fn is_complete(&self) -> bool {
        self.namespaces.is_some()
            && self.mirrors.is_some()
            && self.slices.is_some()
            && self.probes.is_some()
            && self.probe_slices.is_some()
            && self.members.is_some()
            && self.links.is_some()
    }

    /// The Link in charge of a target cluster: the oldest valid one that names it.
    pub fn link(&self, cluster: &str) -> Option<(&Target, &LinkEntry)> {
        self.targets()
            .filter(|(target, _)| target.cluster == cluster)
            .min_by(|(a, _), (b, _)| a.age().cmp(&b.age()))
    }

    /// Links in charge, by target cluster.
    pub fn active(&self) -> BTreeMap<&str, &Target> {
        oldest_by_cluster(self.targets().map(|(target, _)| target))
    }

    /// Whether a Link that names this cluster exists but cannot be worked with.
    pub(super) fn is_named_by_invalid_link(&self, cluster: &str) -> bool {
        self.entries()
            .any(|entry| entry.cluster == cluster && entry.target.is_err())
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = (&Target, &LinkEntry)> {
        self.entries()
            .filter_map(|entry| entry.target.as_ref().ok().map(|t| (t, entry)))
    }

    fn entries(&self) -> impl Iterator<Item = &LinkEntry> {
        self.links.iter().flat_map(BTreeMap::values)
    }

    /// A local Service that carries our labels.
    pub(super) fn local(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.mirrors
            .as_ref()?
            .get(namespace, name)
            .map(AsRef::as_ref)
    }

    /// Phase of a local namespace; `None` if there is none.
    pub(super) fn namespace(&self, name: &str) -> Option<NamespacePhase> {
        self.namespaces.as_ref()?.get(name).copied()
    }

    /// Local slices of a Service.
    pub(super) fn local_slices(&self, namespace: &str, service: &str) -> Vec<&EndpointSlice> {
        in_group(self.slices.as_ref(), namespace, service)
    }

    /// Slices of a Link's probe Service.
    pub(super) fn local_probe_slices(&self, link: &str) -> Vec<&EndpointSlice> {
        in_group(
            self.probe_slices.as_ref(),
            &self.config.namespace,
            &probe_name(link),
        )
    }

    /// Local endpoint mirrors of a headless mirror.
    pub(super) fn endpoint_mirrors(&self, namespace: &str, headless: &str) -> Vec<&Service> {
        in_group(self.mirrors.as_ref(), namespace, headless)
    }

    /// Keys that a local Service with our labels concerns: its own, and those that would like its name.
    pub fn keys_of_local(&self, service: &Service) -> Vec<Key> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let mut keys = self.claimants(&namespace, &name);
        match owner(&service.metadata) {
            Owner::Mirror(cluster) => {
                keys.extend(
                    without_suffix(&name, cluster).map(|s| Key::mirror(cluster, &namespace, s)),
                );
            }
            Owner::EndpointMirror(cluster, headless) => keys.extend(
                without_suffix(headless, cluster).map(|s| Key::mirror(cluster, &namespace, s)),
            ),
            Owner::Probe(_) => keys.extend(name.strip_prefix("probe-").map(Key::probe)),
            Owner::Federated | Owner::Foreign => {}
        }
        keys
    }

    /// Keys that a local slice with our labels concerns.
    pub fn keys_of_local_slice(&self, slice: &EndpointSlice) -> Vec<Key> {
        let namespace = slice.namespace().unwrap_or_default();
        let cluster = label(&slice.metadata, l::CLUSTER_NAME);
        let service = label(&slice.metadata, l::HEADLESS_MIRROR)
            .or_else(|| label(&slice.metadata, l::SLICE_SERVICE));
        if label(&slice.metadata, l::MIRRORED_GATEWAY).is_some() {
            return service
                .and_then(|s| s.strip_prefix("probe-"))
                .map(Key::probe)
                .into_iter()
                .collect();
        }
        cluster
            .zip(service)
            .and_then(|(cluster, service)| {
                Some(Key::mirror(
                    cluster,
                    &namespace,
                    without_suffix(service, cluster)?,
                ))
            })
            .into_iter()
            .collect()
    }

    /// Keys that could want the Service of this name: one per target cluster whose name is its end.
    pub fn claimants(&self, namespace: &str, name: &str) -> Vec<Key> {
        let mut keys: Vec<Key> = self
            .active()
            .keys()
            .filter_map(|cluster| {
                Some(Key::mirror(
                    cluster,
                    namespace,
                    without_suffix(name, cluster)?,
                ))
            })
            .collect();
        keys.extend(
            name.strip_suffix(FEDERATED_SUFFIX)
                .filter(|service| !service.is_empty())
                .map(|service| Key::federated(namespace, service)),
        );
        keys
    }

    /// Keys that a remote Service concerns.
    pub fn keys_of_remote(cluster: &str, namespace: &str, service: &str) -> [Key; 2] {
        [
            Key::mirror(cluster, namespace, service),
            Key::federated(namespace, service),
        ]
    }

    /// All keys that have to do with a target cluster: all that it exports, and all that stands for it here.
    pub fn keys_of_cluster(&self, cluster: &str) -> Vec<Key> {
        let remote = self
            .link(cluster)
            .and_then(|(_, entry)| entry.remote.as_ref());
        let mut keys: Vec<Key> = remote
            .into_iter()
            .flat_map(Remote::services)
            .flat_map(|s| {
                Self::keys_of_remote(cluster, &s.namespace().unwrap_or_default(), &s.name_any())
            })
            .collect();
        for service in self.mirrors.iter().flat_map(Objects::iter) {
            let ours = match owner(&service.metadata) {
                Owner::Mirror(own) | Owner::EndpointMirror(own, _) => own == cluster,
                Owner::Federated => true,
                Owner::Probe(_) | Owner::Foreign => false,
            };
            if ours {
                keys.extend(self.keys_of_local(service));
            }
        }
        for slice in self.slices.iter().flat_map(Objects::iter) {
            if label(&slice.metadata, l::CLUSTER_NAME) == Some(cluster) {
                keys.extend(self.keys_of_local_slice(slice));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// All keys of a namespace.
    pub fn keys_of_namespace(&self, namespace: &str) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for (target, entry) in self.targets() {
            for service in entry
                .remote
                .iter()
                .flat_map(|r| &r.services)
                .flat_map(|s| s.in_namespace(namespace))
            {
                keys.extend(Self::keys_of_remote(
                    &target.cluster,
                    namespace,
                    &service.name_any(),
                ));
            }
        }
        for service in self.mirrors.iter().flat_map(|m| m.in_namespace(namespace)) {
            keys.extend(self.keys_of_local(service));
        }
        for member in self.members.iter().flat_map(|m| m.in_namespace(namespace)) {
            keys.push(Key::federated(namespace, &member.name_any()));
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// All keys there are.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for (target, entry) in self.targets() {
            keys.push(Key::probe(&target.link));
            for service in entry.remote.iter().flat_map(Remote::services) {
                let namespace = service.namespace().unwrap_or_default();
                keys.extend(Self::keys_of_remote(
                    &target.cluster,
                    &namespace,
                    &service.name_any(),
                ));
            }
        }
        for store in [&self.mirrors, &self.probes] {
            keys.extend(
                store
                    .iter()
                    .flat_map(Objects::iter)
                    .flat_map(|s| self.keys_of_local(s)),
            );
        }
        for store in [&self.slices, &self.probe_slices] {
            keys.extend(
                store
                    .iter()
                    .flat_map(Objects::iter)
                    .flat_map(|s| self.keys_of_local_slice(s)),
            );
        }
        for member in self.members.iter().flat_map(Objects::iter) {
            keys.push(Key::federated(
                &member.namespace().unwrap_or_default(),
                &member.name_any(),
            ));
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// Another Link's Service that maps to the same name and comes first: its Link is older.
    ///
    /// `a` of cluster `b-c` and `a-b` of cluster `c` both want `a-b-c`.
    pub(super) fn rival(&self, target: &Target, namespace: &str, name: &str) -> Option<String> {
        self.active()
            .into_values()
            .filter(|other| other.cluster != target.cluster && other.age() < target.age())
            .find_map(|other| {
                let service = without_suffix(name, &other.cluster)?;
                let remote = self.link(&other.cluster)?.1.remote.as_ref()?;
                let service = remote.service(namespace, service)?;
                export::mode(other, service).map(|_| {
                    format!(
                        "Service {} of cluster {}",
                        service.name_any(),
                        other.cluster
                    )
                })
            })
    }

    /// Whether a probe Service of this name belongs to a Link.
    pub(super) fn probe_link(&self, link: &str) -> Option<(&Target, &LinkEntry)> {
        let entry = self.links.as_ref()?.get(link)?;
        let target = entry.target.as_ref().ok()?;
        let (active, _) = self.link(&target.cluster)?;
        (active.link == target.link).then_some((target, entry))
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
) -> Vec<&'a T> {
    store
        .into_iter()
        .flat_map(|store| store.in_group(namespace, group))
        .map(AsRef::as_ref)
        .collect()
}
