//! Objects by namespace and name, as last seen, without what nobody reads. Relists are diffs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use kube::{Resource, ResourceExt as _};

use super::metadata::label;
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
};

/// Objects that belong to another one of their namespace, by its name.
pub trait Grouped: Resource + Clone {
    /// Name of the object that this one belongs to: a slice's Service, an endpoint mirror's headless mirror.
    fn group(&self) -> Option<&str>;

    /// Host names of its endpoints, each once.
    fn hosts(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }

    /// Gives back the room that decoding has left in lists: it doubles, and most lists have one to three items.
    fn shrink(&mut self);
}

impl Grouped for EndpointSlice {
    fn group(&self) -> Option<&str> {
        label(&self.metadata, l::SLICE_SERVICE)
    }

    fn hosts(&self) -> BTreeSet<&str> {
        self.endpoints
            .iter()
            .filter_map(|endpoint| endpoint.hostname.as_deref())
            .collect()
    }

    fn shrink(&mut self) {
        for endpoint in &mut self.endpoints {
            endpoint.addresses.shrink_to_fit();
        }
        self.endpoints.shrink_to_fit();
        self.ports.shrink_to_fit();
    }
}

impl Grouped for Service {
    fn group(&self) -> Option<&str> {
        label(&self.metadata, l::HEADLESS_MIRROR)
    }

    fn shrink(&mut self) {
        self.spec.ports.shrink_to_fit();
    }
}

/// Namespaced objects of one kind. Both what a watch reports and what our own writes answered go in.
#[derive(Clone, Debug)]
pub struct Objects<T> {
    namespaces: BTreeMap<String, Shelf<T>>,
    len: usize,
    /// The last objects that were seen to go: UID, and version by then. Some only went out of sight, and come back later.
    gone: VecDeque<(String, u64)>,
}

/// So many objects that went are remembered: many times what goes while a write waits for its answer.
const REMEMBERED: usize = 512;

/// The objects of one namespace. What is looked up by group or host is sorted by name.
#[derive(Clone, Debug)]
struct Shelf<T> {
    names: BTreeMap<String, Arc<T>>,
    groups: BTreeMap<String, Vec<Arc<T>>>,
    hosts: BTreeMap<String, Vec<Arc<T>>>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            namespaces: BTreeMap::new(),
            len: 0,
            gone: VecDeque::new(),
        }
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            groups: BTreeMap::new(),
            hosts: BTreeMap::new(),
        }
    }
}

impl<T: Grouped> Shelf<T> {
    fn add(&mut self, name: String, object: Arc<T>) {
        if let Some(group) = object.group() {
            file(&mut self.groups, group, &object);
        }
        for host in object.hosts() {
            file(&mut self.hosts, host, &object);
        }
        self.names.insert(name, object);
    }

    fn take(&mut self, name: &str) -> Option<Arc<T>> {
        let object = self.names.remove(name)?;
        if let Some(group) = object.group() {
            unfile(&mut self.groups, group, name);
        }
        for host in object.hosts() {
            unfile(&mut self.hosts, host, name);
        }
        Some(object)
    }
}

/// Drops what nobody here reads and what can be as large as all the rest: who set which field, and a copy of the
/// whole object.
pub fn trim<K: Resource>(object: &mut K) {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    metadata.generate_name = None;
    metadata.self_link = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
    }
}

/// Trims, and gives back spare room: also the answer to a write, which no watch has trimmed.
fn lean<T: Grouped>(object: Arc<T>) -> Arc<T> {
    let mut object = Arc::unwrap_or_clone(object);
    trim(&mut object);
    object.shrink();
    if let Some(owners) = &mut object.meta_mut().owner_references {
        owners.shrink_to_fit();
    }
    Arc::new(object)
}

fn name_of<T: Resource>(object: &Arc<T>) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn file<T: Resource>(index: &mut BTreeMap<String, Vec<Arc<T>>>, under: &str, object: &Arc<T>) {
    let filed = match index.get_mut(under) {
        Some(filed) => filed,
        None => index.entry(under.to_owned()).or_default(),
    };
    let at = filed.partition_point(|known| name_of(known) < name_of(object));
    filed.insert(at, object.clone());
}

fn unfile<T: Resource>(index: &mut BTreeMap<String, Vec<Arc<T>>>, under: &str, name: &str) {
    if let Some(filed) = index.get_mut(under) {
        filed.retain(|known| name_of(known) != name);
        if filed.is_empty() {
            index.remove(under);
        }
    }
}

impl<T: Grouped> Objects<T> {
    /// The object, if known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.namespaces.get(namespace)?.names.get(name)
    }

    /// Objects of one namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces
            .get(namespace)
            .into_iter()
            .flat_map(|shelf| shelf.names.values())
    }

    /// Objects of one group, by name.
    pub fn in_group(&self, namespace: &str, group: &str) -> &[Arc<T>] {
        self.namespaces
            .get(namespace)
            .and_then(|shelf| shelf.groups.get(group))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Objects that have an endpoint of this host name, by name.
    pub fn with_host(&self, namespace: &str, host: &str) -> &[Arc<T>] {
        self.namespaces
            .get(namespace)
            .and_then(|shelf| shelf.hosts.get(host))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces
            .values()
            .flat_map(|shelf| shelf.names.values())
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes an object in, unless a newer state of it is known. Returns what was known before, if it was taken.
    ///
    /// Our own write's answer can overtake the watch: then the watch's older event must not undo it. And the watch can
    /// overtake the answer: an object that was seen to go does not come back with it.
    /// Kubernetes: resource versions of one object can be compared as numbers (KEP-5504).
    pub fn insert(&mut self, object: Arc<T>) -> Inserted<T> {
        let known = self.get(&object.namespace().unwrap_or_default(), &object.name_any());
        let stale = known.is_some_and(|known| {
            let seen = version(known.as_ref());
            known.meta().uid == object.meta().uid && seen > 0 && seen >= version(object.as_ref())
        });
        let gone = known.is_none() && self.is_gone(object.as_ref());
        if stale || gone {
            Inserted::Stale
        } else {
            Inserted::Taken(self.put(object))
        }
    }

    /// Takes an object in, whatever is known. For lists: after a restore of etcd they go back in time.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let object = lean(object);
        if let Some(uid) = &object.meta().uid {
            self.gone.retain(|(gone, _)| gone != uid);
        }
        let shelf = self.namespaces.entry(namespace).or_default();
        let before = shelf.take(&name);
        shelf.add(name, object);
        self.len += usize::from(before.is_none());
        before
    }

    /// Forgets an object, unless what is known under its name is another one (by UID) or a later state.
    pub fn remove(&mut self, object: &T) -> Option<Arc<T>> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        if let Some(uid) = object.uid() {
            if self.gone.len() == REMEMBERED {
                self.gone.pop_front();
            }
            self.gone.push_back((uid, version(object)));
        }
        let known = self.get(&namespace, &name)?;
        let other = known.meta().uid != object.meta().uid;
        let newer = version(known.as_ref()) > version(object) && version(object) > 0;
        if other || newer {
            return None;
        }
        self.forget(&namespace, &name)
    }

    /// Whether this state of an object is older than its end, or than the one that went out of sight.
    fn is_gone(&self, object: &T) -> bool {
        let uid = object.meta().uid.as_ref();
        let mut ends = self.gone.iter().rev();
        ends.any(|(gone, last)| Some(gone) == uid && version(object) < *last)
    }

    /// Forgets what is known under a name.
    pub fn forget(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let shelf = self.namespaces.get_mut(namespace)?;
        let removed = shelf.take(name)?;
        self.len -= 1;
        if shelf.names.is_empty() {
            self.namespaces.remove(namespace);
        }
        Some(removed)
    }

    /// Forgets everything that a complete list did not name, and returns it.
    pub fn retain_listed(&mut self, listed: &BTreeSet<(String, String)>) -> Vec<Arc<T>> {
        let missing: Vec<(String, String)> = self
            .iter()
            .map(|object| (object.namespace().unwrap_or_default(), object.name_any()))
            .filter(|id| !listed.contains(id))
            .collect();
        missing
            .iter()
            .filter_map(|(namespace, name)| self.forget(namespace, name))
            .collect()
    }
}

/// What became of an object handed to [`Objects::insert`].
#[derive(Debug)]
pub enum Inserted<T> {
    /// A newer state is known; nothing changed.
    Stale,
    /// Taken; with the state known before.
    Taken(Option<Arc<T>>),
}

/// The resource version as a number; 0 when there is none.
pub(super) fn version(object: &impl Resource) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
