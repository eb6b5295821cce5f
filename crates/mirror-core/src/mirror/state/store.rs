//! Objects by namespace and name, as last seen. A new list is applied as a difference to the known objects.
//!
//! There are four objects for each mirrored Service. To save memory, an index does not repeat the texts of its objects.

mod indexed;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub use self::indexed::Indexed;
use self::indexed::{ByCluster, find};
use crate::api::metadata::Metadata;

/// Namespaced objects of one kind. It is updated by the events of watches and by the responses to our own writes.
#[derive(Clone, Debug, Default)]
pub struct Store<T> {
    namespaces: BTreeMap<String, NamespaceIndex<T>>,
    clusters: ByCluster<T>,
    len: usize,
    /// Objects with due times, by time, namespace and name.
    due: BTreeSet<(Timestamp, Box<str>, Box<str>)>,
    /// The objects that were last seen to be deleted: UID and resource version. Some only stopped matching the watch's
    /// selector, and may come back later.
    gone: VecDeque<(Box<str>, u64)>,
    /// Whether the objects are those of a target cluster. There are no responses to writes of them, so deleted ones are
    /// not remembered. Nobody asks which clusters they belong to, so `clusters` is empty.
    is_remote: bool,
}

/// Number of deleted objects that are remembered. Far fewer are deleted while a write waits for its response.
const REMEMBERED: usize = 512;

/// The objects of one namespace.
#[derive(Clone, Debug, Default)]
struct NamespaceIndex<T> {
    /// All objects, sorted by name.
    objects: Vec<Arc<T>>,
    /// Objects that belong to a group, sorted by group and name.
    groups: Vec<Arc<T>>,
    /// Objects with hosts, by host and sorted by name.
    hosts: BTreeMap<Box<str>, Vec<Arc<T>>>,
}

impl<T: Indexed> NamespaceIndex<T> {
    fn group(&self, group: &str) -> &[Arc<T>] {
        let begin = self
            .groups
            .partition_point(|object| object.group() < Some(group));
        let rest = &self.groups[begin..];
        let others = rest.iter().position(|o| o.group() != Some(group));
        &rest[..others.unwrap_or(rest.len())]
    }

    /// Adds an object whose name is not in the index.
    fn add(&mut self, object: Arc<T>) {
        let name = object.metadata().name();
        if let Some(group) = object.group() {
            let at = self.groups.partition_point(|o| before(&**o, group, name));
            self.groups.insert(at, object.clone());
        }
        for host in object.hosts() {
            let bucket = match self.hosts.get_mut(host) {
                Some(bucket) => bucket,
                None => self.hosts.entry(host.into()).or_default(),
            };
            let at = find(bucket, name).unwrap_or_else(|at| at);
            bucket.insert(at, object.clone());
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
            if let Some(bucket) = self.hosts.get_mut(host) {
                if let Ok(at) = find(bucket, name) {
                    bucket.remove(at);
                }
                if bucket.is_empty() {
                    self.hosts.remove(host);
                }
            }
        }
        Some(object)
    }
}

/// The entries of an object in the index of due times.
fn due<T: Indexed>(object: &T) -> impl Iterator<Item = (Timestamp, Box<str>, Box<str>)> {
    let metadata = object.metadata();
    let times = object.due().into_iter();
    times.map(|at| (at, metadata.namespace().into(), metadata.name().into()))
}

/// Whether an object is sorted before the one of this group and name.
fn before<T: Indexed>(object: &T, group: &str, name: &str) -> bool {
    let by_group = object.group().cmp(&Some(group));
    by_group.then_with(|| object.metadata().name().cmp(name)) == Ordering::Less
}

impl<T: Indexed> Store<T> {
    /// A store for objects of a target cluster.
    pub fn remote() -> Self {
        Self {
            is_remote: true,
            ..Self::default()
        }
    }

    /// The object, if known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        let index = self.namespaces.get(namespace)?;
        let at = find(&index.objects, name).ok()?;
        Some(&index.objects[at])
    }

    /// Namespaces that have objects.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// Objects of one namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces
            .get(namespace)
            .into_iter()
            .flat_map(|index| &index.objects)
    }

    /// Objects of one group, by name.
    pub fn in_group(&self, namespace: &str, group: &str) -> &[Arc<T>] {
        self.namespaces
            .get(namespace)
            .map(|index| index.group(group))
            .unwrap_or_default()
    }

    /// Objects that have an endpoint of this host name, by name.
    pub fn with_host(&self, namespace: &str, host: &str) -> &[Arc<T>] {
        self.namespaces
            .get(namespace)
            .and_then(|index| index.hosts.get(host))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Local objects of a target cluster, or that may be of it.
    pub(crate) fn of_cluster(&self, cluster: &str) -> impl Iterator<Item = &Arc<T>> {
        self.clusters.of(cluster)
    }

    /// Objects that are due after `from`, and not later than `to`, once for each such time.
    pub(crate) fn due_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = &Arc<T>> {
        let due = self.due_after(from);
        let due = due.take_while(move |(at, ..)| *at <= to);
        due.filter_map(|(_, namespace, name)| self.get(namespace, name))
    }

    /// The next due time after this.
    pub(crate) fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        self.due_after(after).next().map(|(at, ..)| *at)
    }

    /// What is due after this, without a walk over what was due before.
    fn due_after(
        &self,
        after: Timestamp,
    ) -> impl Iterator<Item = &(Timestamp, Box<str>, Box<str>)> {
        let next = after.checked_add(SignedDuration::from_nanos(1));
        let from = next.ok().map(|next| (next, Box::default(), Box::default()));
        from.into_iter().flat_map(|from| self.due.range(from..))
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces.values().flat_map(|index| &index.objects)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds or replaces an object, unless a newer state of it is known. If it was taken, returns what was known before.
    ///
    /// The response to our own write can arrive before the watch's events: then an older event must not undo it. It can
    /// also arrive after them: then an object that was deleted meanwhile must not come back, or replace its successor.
    pub fn insert(&mut self, object: Arc<T>) -> Inserted<T> {
        let new = object.metadata();
        let known = self.get(new.namespace(), new.name());
        let stale = match known.map(|known| known.metadata()) {
            Some(known) if known.uid == new.uid => {
                known.version() > 0 && known.version() >= new.version()
            }
            // A later object has the name: resource versions of all objects of a kind can be compared.
            Some(known) if new.version() > 0 && known.version() > new.version() => true,
            _ => self.is_gone(new),
        };
        if stale {
            Inserted::Stale
        } else {
            Inserted::Taken(self.put(object))
        }
    }

    /// Adds or replaces an object, whatever is known. For lists: after a restore of etcd, resource versions are lower.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let new = object.metadata();
        if let Some(uid) = &new.uid {
            self.gone.retain(|(gone, _)| gone != uid);
        }
        let namespace = new.namespace().to_owned();
        let index = self.namespaces.entry(namespace).or_default();
        let before = index.take(new.name());
        if let Some(before) = &before {
            self.clusters.remove(before);
            for due in due(&**before) {
                self.due.remove(&due);
            }
        }
        if !self.is_remote {
            self.clusters.add(&object);
        }
        self.due.extend(due(&*object));
        index.add(object);
        self.len += usize::from(before.is_none());
        before
    }

    /// Forgets an object, unless another object (by UID) or a later state is known under its name.
    pub fn remove(&mut self, object: &T) -> Option<Arc<T>> {
        let old = object.metadata();
        let (namespace, name) = (old.namespace(), old.name());
        if let Some(uid) = &old.uid
            && !self.is_remote
        {
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

    /// Whether this state of an object is older than its deletion, or than the time at which it stopped matching.
    fn is_gone(&self, state: &Metadata) -> bool {
        let mut ends = self.gone.iter().rev();
        ends.any(|(gone, last)| Some(gone) == state.uid.as_ref() && state.version() < *last)
    }

    /// Forgets the object of this name.
    pub fn forget(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let index = self.namespaces.get_mut(namespace)?;
        let removed = index.take(name)?;
        self.len -= 1;
        if index.objects.is_empty() {
            self.namespaces.remove(namespace);
        }
        self.clusters.remove(&removed);
        for due in due(&*removed) {
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

/// The result of [`Store::insert`].
#[derive(Debug)]
pub enum Inserted<T> {
    /// A newer state is known; nothing changed.
    Stale,
    /// The object was taken. Contains the state that was known before.
    Taken(Option<Arc<T>>),
}

#[cfg(test)]
mod tests;
