//! The local namespaces: what is known of each, and how many were created for each target cluster.

use std::collections::BTreeMap;

use super::{key::Key, world::World};
use crate::api::{labels as l, map::Map};

/// A local namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Whether it takes objects.
    pub phase: NamespacePhase,
    /// Its labels, but for the one that holds its name.
    pub labels: Map,
}

/// Whether a namespace takes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespacePhase {
    /// It takes objects.
    Active,
    /// It is being deleted and takes none.
    Terminating,
}

impl Namespace {
    /// A namespace with these labels. The one that Kubernetes gives to each is not kept.
    pub fn new<'a>(
        phase: NamespacePhase,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let labels = labels.into_iter();
        Self {
            phase,
            labels: labels
                .filter(|(key, _)| *key != l::NAMESPACE_NAME)
                .collect(),
        }
    }

    /// The target cluster that it was created for, if a service mirror created it.
    fn created_for(&self) -> Option<&str> {
        let mirrored = self.labels.get(l::MIRRORED_SERVICE) == Some("true");
        self.labels.get(l::CLUSTER_NAME).filter(|_| mirrored)
    }
}

impl From<NamespacePhase> for Namespace {
    fn from(phase: NamespacePhase) -> Self {
        Self::new(phase, [])
    }
}

/// The local namespaces, by name.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    known: BTreeMap<String, Namespace>,
    /// How many were created for each target cluster.
    created: BTreeMap<String, usize>,
}

impl Namespaces {
    /// The namespace of this name.
    pub fn get(&self, name: &str) -> Option<&Namespace> {
        self.known.get(name)
    }

    /// Takes a namespace in. Returns the one that had its name.
    pub fn insert(&mut self, name: String, namespace: Namespace) -> Option<Namespace> {
        if let Some(cluster) = namespace.created_for() {
            *self.created.entry(cluster.to_owned()).or_default() += 1;
        }
        let before = self.known.insert(name, namespace);
        self.uncount(before.as_ref());
        before
    }

    /// Forgets a namespace.
    pub fn remove(&mut self, name: &str) -> Option<Namespace> {
        let before = self.known.remove(name);
        self.uncount(before.as_ref());
        before
    }

    /// Names of the namespaces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Number of namespaces.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How many were created for a target cluster.
    fn created_for(&self, cluster: &str) -> usize {
        self.created.get(cluster).copied().unwrap_or_default()
    }

    fn uncount(&mut self, before: Option<&Namespace>) {
        let Some(cluster) = before.and_then(Namespace::created_for) else {
            return;
        };
        if let Some(count) = self.created.get_mut(cluster) {
            *count -= 1;
            if *count == 0 {
                self.created.remove(cluster);
            }
        }
    }
}

impl FromIterator<(String, Namespace)> for Namespaces {
    fn from_iter<I: IntoIterator<Item = (String, Namespace)>>(namespaces: I) -> Self {
        let mut all = Self::default();
        for (name, namespace) in namespaces {
            all.insert(name, namespace);
        }
        all
    }
}

impl World {
    /// A local namespace; `None` if there is none.
    pub(super) fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.as_ref()?.get(name)
    }

    /// Whether another namespace may be created for a target cluster, while so many are being created.
    pub fn may_create_namespace(&self, cluster: &str, under_way: usize) -> bool {
        let known = self.namespaces.as_ref();
        let created = known.map_or(0, |known| known.created_for(cluster));
        created + under_way < self.config.max_namespaces
    }

    /// Takes in what a namespace is now; `None` if it is gone. Returns the keys that this concerns; `None` if nothing
    /// has changed, or namespaces have not been listed.
    pub fn change_namespace(&mut self, name: &str, now: Option<Namespace>) -> Option<Vec<Key>> {
        let known = self.namespaces.as_mut()?;
        if known.get(name) == now.as_ref() {
            return None;
        }
        let cluster = |namespace: Option<&Namespace>| namespace?.created_for().map(str::to_owned);
        let counted = cluster(now.as_ref());
        let before = match now {
            Some(now) => known.insert(name.to_owned(), now),
            None => known.remove(name),
        };
        let mut keys = self.keys_of_namespace(name);
        // One less is counted, so another one may be created.
        let freed = cluster(before.as_ref()).filter(|freed| Some(freed) != counted.as_ref());
        if let Some(freed) = freed {
            keys.extend(self.keys_of_missing_namespaces(&freed));
        }
        Some(keys)
    }

    /// Takes in that a namespace was created, with these labels, unless it is known by now. Returns the keys that this
    /// concerns: others may have waited for it.
    pub fn created_namespace(&mut self, name: &str, labels: Map) -> Vec<Key> {
        if self.namespace(name).is_some() {
            return Vec::new();
        }
        let phase = NamespacePhase::Active;
        let keys = self.change_namespace(name, Some(Namespace { phase, labels }));
        keys.unwrap_or_default()
    }

    /// Keys of what a target cluster exports in namespaces that do not exist here.
    fn keys_of_missing_namespaces(&self, cluster: &str) -> Vec<Key> {
        let remote = self
            .link(cluster)
            .and_then(|(_, entry)| entry.remote.as_ref());
        let mut keys = Vec::new();
        for store in remote.into_iter().flat_map(|remote| &remote.services) {
            let missing = store
                .namespaces()
                .filter(|name| self.namespace(name).is_none());
            for service in missing.flat_map(|name| store.in_namespace(name)) {
                let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
                keys.push(Key::mirror(cluster, namespace, name));
                keys.push(Key::federated(namespace, name));
            }
        }
        keys
    }
}
