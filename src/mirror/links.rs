//! The Links, by name and by the target cluster that they name. Knows which of them is in charge of a cluster.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map},
};

use super::{
    target::{InvalidLink, Target},
    world::{GatewayState, Remote},
};

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

/// What changes while a Link stays as it is.
#[derive(Debug)]
pub struct Known<'a> {
    /// The target cluster.
    pub remote: &'a mut Option<Remote>,
    /// The gateway.
    pub gateway: &'a mut GatewayState,
}

/// All Links. Looking up the one in charge of a cluster takes no walk over the others.
#[derive(Clone, Debug, Default)]
pub struct Links {
    entries: BTreeMap<String, LinkEntry>,
    clusters: BTreeMap<String, Named>,
}

/// The Links that name one cluster.
#[derive(Clone, Debug, Default)]
struct Named {
    /// Names of those that can be worked with, the oldest first: it is in charge.
    valid: Vec<String>,
    /// Whether there is one that cannot be worked with.
    invalid: bool,
}

impl Links {
    /// The Link of this name.
    pub fn get(&self, link: &str) -> Option<&LinkEntry> {
        self.entries.get(link)
    }

    /// What is known through the Link of this name. The Link itself is changed by [`Self::insert`] and
    /// [`Self::set_target`].
    pub fn get_mut(&mut self, link: &str) -> Option<Known<'_>> {
        let LinkEntry {
            remote, gateway, ..
        } = self.entries.get_mut(link)?;
        Some(Known { remote, gateway })
    }

    /// Whether there is a Link of this name.
    pub fn contains_key(&self, link: &str) -> bool {
        self.entries.contains_key(link)
    }

    /// Names and Links, by name.
    pub fn iter(&self) -> btree_map::Iter<'_, String, LinkEntry> {
        self.entries.iter()
    }

    /// Names of Links.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// Links, by name.
    pub fn values(&self) -> impl Iterator<Item = &LinkEntry> {
        self.entries.values()
    }

    /// Number of Links.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no Links.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes a Link in. Returns the one that had its name.
    pub fn insert(&mut self, link: String, entry: LinkEntry) -> Option<LinkEntry> {
        let cluster = entry.cluster.clone();
        let before = self.entries.insert(link, entry);
        if let Some(before) = &before {
            self.index(&before.cluster);
        }
        self.index(&cluster);
        before
    }

    /// Replaces what the Link of this name says, and keeps what is known through it.
    pub fn set_target(&mut self, link: &str, cluster: &str, target: Result<Target, InvalidLink>) {
        if let Some(entry) = self.entries.get_mut(link) {
            let before = std::mem::replace(&mut entry.cluster, cluster.to_owned());
            entry.target = target;
            self.index(&before);
            self.index(cluster);
        }
    }

    /// Forgets a Link.
    pub fn remove(&mut self, link: &str) -> Option<LinkEntry> {
        let before = self.entries.remove(link)?;
        self.index(&before.cluster);
        Some(before)
    }

    /// The Link in charge of a target cluster: the oldest valid one that names it.
    pub fn in_charge(&self, cluster: &str) -> Option<(&Target, &LinkEntry)> {
        self.first(self.clusters.get(cluster)?)
    }

    /// The Links in charge, by target cluster.
    pub fn all_in_charge(&self) -> impl Iterator<Item = (&Target, &LinkEntry)> {
        self.clusters.values().filter_map(|named| self.first(named))
    }

    /// Whether a Link that names this cluster exists but cannot be worked with.
    pub(super) fn is_named_by_invalid(&self, cluster: &str) -> bool {
        self.clusters
            .get(cluster)
            .is_some_and(|named| named.invalid)
    }

    /// Names of the Links that name this cluster.
    pub(super) fn naming<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries
            .iter()
            .filter(move |(_, entry)| entry.cluster == cluster)
            .map(|(link, _)| link.as_str())
    }

    fn first(&self, named: &Named) -> Option<(&Target, &LinkEntry)> {
        let entry = self.entries.get(named.valid.first()?)?;
        Some((entry.target.as_ref().ok()?, entry))
    }

    /// Looks afresh which Links name a cluster. Links change rarely: a walk over all is no harm here.
    fn index(&mut self, cluster: &str) {
        let mut named = Named::default();
        let mut valid: Vec<(&Target, &String)> = Vec::new();
        for (link, entry) in &self.entries {
            if entry.cluster == cluster {
                match &entry.target {
                    Ok(target) => valid.push((target, link)),
                    Err(_) => named.invalid = true,
                }
            }
        }
        if valid.is_empty() && !named.invalid {
            self.clusters.remove(cluster);
            return;
        }
        valid.sort_by(|(a, _), (b, _)| by_age(a, b));
        named.valid = valid.into_iter().map(|(_, link)| link.clone()).collect();
        self.clusters.insert(cluster.to_owned(), named);
    }
}

impl FromIterator<(String, LinkEntry)> for Links {
    fn from_iter<I: IntoIterator<Item = (String, LinkEntry)>>(entries: I) -> Self {
        let mut links = Self::default();
        for (link, entry) in entries {
            links.insert(link, entry);
        }
        links
    }
}

impl<'a> IntoIterator for &'a Links {
    type Item = (&'a String, &'a LinkEntry);
    type IntoIter = btree_map::Iter<'a, String, LinkEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn by_age(a: &Target, b: &Target) -> Ordering {
    a.age().cmp(&b.age())
}

#[cfg(test)]
mod tests;
