//! Objects by namespace and name, as last seen. Relists are diffs.
//!
//! There are four objects for each mirrored Service, so an index does not repeat what its objects say.

mod by_cluster;
mod grouped;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;

use self::by_cluster::{ByCluster, find};
pub use self::grouped::Grouped;
use crate::api::metadata::Metadata;

/// Namespaced objects of one kind. Both what a watch reports and what our own writes answered go in.
#[derive(Clone, Debug)]
pub struct Store<T> {
    namespaces: BTreeMap<String, Shelf<T>>,
    clusters: ByCluster<T>,
    len: usize,
    /// Those that are due, by time, namespace and name.
    due: BTreeSet<(Timestamp, Box<str>, Box<str>)>,
    /// The last objects that were seen to go: UID, and version by then. Some only went out of sight, and come back later.
    gone: VecDeque<(Box<str>, u64)>,
}

/// So many objects that went are remembered: many times what goes while a write waits for its answer.
const REMEMBERED: usize = 512;

/// The objects of one namespace.
#[derive(Clone, Debug)]
struct Shelf<T> {
    /// All, sorted by name.
    objects: Vec<Arc<T>>,
    /// Those of a group, sorted by group and name.
    groups: Vec<Arc<T>>,
    /// Those with hosts, by host and sorted by name.
    hosts: BTreeMap<Box<str>, Vec<Arc<T>>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            namespaces: BTreeMap::new(),
            clusters: ByCluster::default(),
            len: 0,
            due: BTreeSet::new(),
            gone: VecDeque::new(),
        }
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            groups: Vec::new(),
            hosts: BTreeMap::new(),
        }
    }
}

impl<T: Grouped> Shelf<T> {
    fn group(&self, group: &str) -> &[Arc<T>] {
        let begin = self
            .groups
            .partition_point(|object| object.group() < Some(group));
        let rest = &self.groups[begin..];
        let others = rest.iter().position(|o| o.group() != Some(group));
        &rest[..others.unwrap_or(rest.len())]
    }

    /// Adds an object whose name is not there.
    fn add(&mut self, object: Arc<T>) {
        let name = object.metadata().name();
        if let Some(group) = object.group() {
            let at = self.groups.partition_point(|o| before(&**o, group, name));
            self.groups.insert(at, object.clone());
        }
        for host in object.hosts() {
            let filed = match self.hosts.get_mut(host) {
                Some(filed) => filed,
                None => self.hosts.entry(host.into()).or_default(),
            };
            let at = find(filed, name).unwrap_or_else(|at| at);
            filed.insert(at, object.clone());
        }
        let at = find(&self.objects, name).unwrap_or_else(|at| at);
        self.objects.insert(at, object);
    }

    fn take(&mut self, name: &str) -> Option<Arc<T>> {
        let object = self.objects.remove(find(&self.objects, name).ok()?);
        if let Some(group) = object.group() {
            let at = self.groups.partition_point(|o| before(&**o, group, name));
            self.groups.remove(at);
        }
        for host in object.hosts() {
            if let Some(filed) = self.hosts.get_mut(host) {
                if let Ok(at) = find(filed, name) {
                    filed.remove(at);
                }
                if filed.is_empty() {
                    self.hosts.remove(host);
                }
            }
        }
        Some(object)
    }
}

/// Where an object is among those that are due, if it is.
fn due<T: Grouped>(object: &T) -> Option<(Timestamp, Box<str>, Box<str>)> {
    let metadata = object.metadata();
    let at = object.due()?;
    Some((at, metadata.namespace().into(), metadata.name().into()))
}

/// Whether an object is sorted before that of this group and name.
fn before<T: Grouped>(object: &T, group: &str, name: &str) -> bool {
    let by_group = object.group().cmp(&Some(group));
    by_group.then_with(|| object.metadata().name().cmp(name)) == Ordering::Less
}

impl<T: Grouped> Store<T> {
    /// The object, if known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        let shelf = self.namespaces.get(namespace)?;
        let at = find(&shelf.objects, name).ok()?;
        Some(&shelf.objects[at])
    }

    /// Namespaces in which there are any.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// Objects of one namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces
            .get(namespace)
            .into_iter()
            .flat_map(|shelf| &shelf.objects)
    }

    /// Objects of one group, by name.
    pub fn in_group(&self, namespace: &str, group: &str) -> &[Arc<T>] {
        self.namespaces
            .get(namespace)
            .map(|shelf| shelf.group(group))
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

    /// Objects that stand for a target cluster here, or may do so.
    pub(crate) fn of_cluster(&self, cluster: &str) -> impl Iterator<Item = &Arc<T>> {
        self.clusters.of(cluster)
    }

    /// Objects that are due after `from`, and at `to` at the latest.
    pub(crate) fn due_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = &Arc<T>> {
        let due = self.due.iter().skip_while(move |(at, ..)| *at <= from);
        let due = due.take_while(move |(at, ..)| *at <= to);
        due.filter_map(|(_, namespace, name)| self.get(namespace, name))
    }

    /// When the next one is due after this.
    pub(crate) fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        let mut due = self.due.iter().map(|(at, ..)| *at);
        due.find(|at| *at > after)
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces.values().flat_map(|shelf| &shelf.objects)
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
    /// overtake the answer: an object that was seen to go does not come back with it, nor in place of its successor.
    pub fn insert(&mut self, object: Arc<T>) -> Inserted<T> {
        let new = object.metadata();
        let known = self.get(new.namespace(), new.name());
        let stale = match known.map(|known| known.metadata()) {
            Some(known) if known.uid == new.uid => {
                known.version() > 0 && known.version() >= new.version()
            }
            // A later one has taken the name: versions of all objects of a kind can be compared.
            Some(known) if new.version() > 0 && known.version() > new.version() => true,
            _ => self.is_gone(new),
        };
        if stale {
            Inserted::Stale
        } else {
            Inserted::Taken(self.put(object))
        }
    }

    /// Takes an object in, whatever is known. For lists: after a restore of etcd they go back in time.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let new = object.metadata();
        if let Some(uid) = &new.uid {
            self.gone.retain(|(gone, _)| gone != uid);
        }
        let namespace = new.namespace().to_owned();
        let shelf = self.namespaces.entry(namespace).or_default();
        let before = shelf.take(new.name());
        if let Some(before) = &before {
            self.clusters.remove(before);
            if let Some(due) = due(&**before) {
                self.due.remove(&due);
            }
        }
        self.clusters.add(&object);
        self.due.extend(due(&*object));
        shelf.add(object);
        self.len += usize::from(before.is_none());
        before
    }

    /// Forgets an object, unless what is known under its name is another one (by UID) or a later state.
    pub fn remove(&mut self, object: &T) -> Option<Arc<T>> {
        let old = object.metadata();
        let (namespace, name) = (old.namespace(), old.name());
        if let Some(uid) = &old.uid {
            if self.gone.len() == REMEMBERED {
                self.gone.pop_front();
            }
            self.gone.push_back((uid.clone(), old.version()));
        }
        let known = self.get(namespace, name)?.metadata();
        let other = known.uid != old.uid;
        let newer = known.version() > old.version() && old.version() > 0;
        if other || newer {
            return None;
        }
        self.forget(namespace, name)
    }

    /// Whether this state of an object is older than its end, or than the one that went out of sight.
    fn is_gone(&self, state: &Metadata) -> bool {
        let mut ends = self.gone.iter().rev();
        ends.any(|(gone, last)| Some(gone) == state.uid.as_ref() && state.version() < *last)
    }

    /// Forgets what is known under a name.
    pub fn forget(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let shelf = self.namespaces.get_mut(namespace)?;
        let removed = shelf.take(name)?;
        self.len -= 1;
        if shelf.objects.is_empty() {
            self.namespaces.remove(namespace);
        }
        self.clusters.remove(&removed);
        if let Some(due) = due(&*removed) {
            self.due.remove(&due);
        }
        Some(removed)
    }

    /// Forgets everything that a complete list did not name, and returns it.
    pub fn retain_listed(&mut self, listed: &BTreeSet<(String, String)>) -> Vec<Arc<T>> {
        let missing: Vec<(String, String)> = self
            .iter()
            .map(|object| object.metadata().id())
            .filter(|id| !listed.contains(id))
            .collect();
        missing
            .iter()
            .filter_map(|(namespace, name)| self.forget(namespace, name))
            .collect()
    }
}

/// What became of an object handed to [`Store::insert`].
#[derive(Debug)]
pub enum Inserted<T> {
    /// A newer state is known; nothing changed.
    Stale,
    /// Taken; with the state known before.
    Taken(Option<Arc<T>>),
}

#[cfg(test)]
mod tests;
