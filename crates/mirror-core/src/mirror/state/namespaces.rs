//! The local namespaces: what is known of each, and how many were created for each target cluster.

use std::collections::BTreeMap;

use kube_core::ObjectMeta;

use crate::api::{labels as l, map::Map};

/// A local namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Whether it accepts objects.
    pub phase: NamespacePhase,
    /// Its labels, except the one for its name.
    pub labels: Map,
}

/// Whether a namespace accepts objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespacePhase {
    /// It accepts objects.
    Active,
    /// It is being deleted and accepts none.
    Terminating,
}

impl Namespace {
    /// A namespace with these labels. The label that Kubernetes sets on each namespace is not kept.
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

    /// The namespace with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let phase = match metadata.deletion_timestamp {
            None => NamespacePhase::Active,
            Some(_) => NamespacePhase::Terminating,
        };
        let labels = metadata.labels.iter().flatten();
        Self::new(phase, labels.map(|(key, value)| (&**key, &**value)))
    }

    /// The target cluster that it was created for, if a service mirror created it.
    pub(crate) fn created_for(&self) -> Option<&str> {
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

    /// Sets what is known of a namespace; `None` if there is none of this name. Returns what was known before.
    pub fn set(&mut self, name: &str, now: Option<Namespace>) -> Option<Namespace> {
        if let Some(cluster) = now.as_ref().and_then(Namespace::created_for) {
            *self.created.entry(cluster.to_owned()).or_default() += 1;
        }
        let before = match now {
            Some(now) => self.known.insert(name.to_owned(), now),
            None => self.known.remove(name),
        };
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
    pub(crate) fn created_for(&self, cluster: &str) -> usize {
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
            all.set(&name, Some(namespace));
        }
        all
    }
}
