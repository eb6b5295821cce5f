//! The Links, by name and by target cluster, and which of them is in charge of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::remote::{GatewayState, RemoteState};
use crate::{
    api::{link::LinkObject, names::is_dns_label},
    mirror::target::{InvalidLink, Target, policy::FederatedThrough},
};

/// A Link, and what is known through it.
#[derive(Clone, Debug)]
pub struct LinkEntry {
    /// Name of the target cluster; `None` if the Link names none, or an invalid one.
    pub cluster: Option<String>,
    /// When the Link was created. `None` counts as the oldest.
    pub created: Option<Timestamp>,
    /// When the Link and its credentials were both there; `None` if there was no session yet.
    pub linked: Option<Timestamp>,
    /// The target cluster that was listed last. The existing mirrors of this Link belong to it.
    pub listed: Option<String>,
    /// The Link, parsed.
    pub target: Result<Target, InvalidLink>,
    /// The target cluster; `None` until all its watches have listed.
    pub remote: Option<RemoteState>,
    /// The gateway.
    pub gateway: GatewayState,
    /// Addresses of the gateway that leads to the API server.
    pub api_gateway: GatewayState,
}

impl LinkEntry {
    /// A Link, and the cluster that its status names. Nothing else is known yet.
    pub fn new(object: &LinkObject, headless_default: bool) -> Self {
        let named = &object.link.spec.target_cluster_name;
        let status = object.link.status.as_ref();
        Self {
            cluster: is_dns_label(named).then(|| named.clone()),
            created: object
                .link
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
            linked: None,
            listed: status.and_then(|status| status.target_cluster_name.clone()),
            target: Target::parse_object(object, headless_default),
            remote: None,
            gateway: GatewayState::default(),
            api_gateway: GatewayState::default(),
        }
    }

    /// The cluster that it names, or if it names none, the one that was listed last.
    pub fn known_cluster(&self) -> Option<&str> {
        self.cluster.as_deref().or(self.listed.as_deref())
    }

    /// The cluster that this Link leaves when it changes to `now`, if it names another one then. A change to an invalid
    /// Link is not a move, because it takes no effect: what is known stays that of the cluster that was listed last.
    pub fn left_for(&self, now: &Self) -> Option<String> {
        let known = match self.target {
            Ok(_) => self.cluster.as_ref(),
            Err(_) => self.listed.as_ref().or(self.cluster.as_ref()),
        }?;
        let moved = now.target.is_ok() && now.cluster.as_ref() != Some(known);
        moved.then(|| known.clone())
    }

    /// The cluster that it is in charge of, if no older Link is. An invalid Link remains in charge of the cluster that
    /// was listed last: what it asks for is unknown, and another Link may ask for less.
    fn claims(&self) -> Option<&String> {
        match self.target {
            Ok(_) => self.cluster.as_ref(),
            Err(_) => self.listed.as_ref(),
        }
    }

    /// The clusters that it concerns: the one that it names, and the one that was listed last.
    fn clusters(&self) -> BTreeSet<&String> {
        self.cluster.iter().chain(&self.listed).collect()
    }

    /// Whether it may have mirrors of other clusters than the one that it names.
    fn may_have_other_mirrors(&self) -> bool {
        self.target.is_err() || (self.listed.is_some() && self.listed != self.cluster)
    }
}

/// A Link, and what is known through it, which changes without a change of the Link.
#[derive(Debug)]
pub struct LinkEntryMut<'a> {
    /// The Link, parsed.
    pub target: &'a Result<Target, InvalidLink>,
    /// The target cluster.
    pub remote: &'a mut Option<RemoteState>,
    /// The gateway.
    pub gateway: &'a mut GatewayState,
    /// Addresses of the gateway that leads to the API server.
    pub api_gateway: &'a mut GatewayState,
}

/// All Links, with an index by cluster.
#[derive(Clone, Debug, Default)]
pub struct Links {
    entries: BTreeMap<String, LinkEntry>,
    clusters: BTreeMap<String, ClusterLinks>,
    /// Names of the Links that may have mirrors of other clusters than the one that they name. Few.
    moving: BTreeSet<String>,
    /// Names of the Links with a drain, even if it has ended. Few.
    drains: BTreeSet<String>,
    /// Names of the Links with a session, by when they were linked.
    linked: BTreeSet<(Timestamp, String)>,
}

/// The Links that name one cluster.
#[derive(Clone, Debug, Default)]
struct ClusterLinks {
    /// Links that claim it, by time of creation and name. The first, the oldest one, is in charge.
    claims: BTreeSet<(Option<Timestamp>, String)>,
    /// Names of the invalid Links that name it.
    invalid: BTreeSet<String>,
}

impl Links {
    /// The Link of this name.
    pub fn get(&self, link: &str) -> Option<&LinkEntry> {
        self.entries.get(link)
    }

    /// What is known through the Link of this name. To change the Link itself, use [`Self::insert`].
    pub fn get_mut(&mut self, link: &str) -> Option<LinkEntryMut<'_>> {
        let LinkEntry {
            target,
            remote,
            gateway,
            api_gateway,
            ..
        } = self.entries.get_mut(link)?;
        Some(LinkEntryMut {
            target,
            remote,
            gateway,
            api_gateway,
        })
    }

    /// Names of Links.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// Adds or replaces a Link. Returns the one that had its name.
    ///
    /// If the Link is valid, what is known through it is recorded as that of the cluster that it names.
    pub fn insert(&mut self, link: String, mut entry: LinkEntry) -> Option<LinkEntry> {
        if entry.target.is_ok() && entry.remote.is_some() {
            entry.listed.clone_from(&entry.cluster);
        }
        let before = self.remove(&link);
        let name = link.clone();
        self.entries.insert(link, entry);
        self.index(&name);
        before
    }

    /// Forgets a Link.
    pub fn remove(&mut self, link: &str) -> Option<LinkEntry> {
        let before = self.entries.remove(link)?;
        self.unindex(link, &before);
        Some(before)
    }

    /// Records that the cluster of a Link was listed. From now on, the Link's mirrors belong to this cluster.
    pub fn listed(&mut self, link: &str, remote: RemoteState) {
        if let Some(mut entry) = self.remove(link) {
            entry.remote = Some(remote);
            self.insert(link.to_owned(), entry);
        }
    }

    /// Records when a Link and its credentials were both there.
    pub fn linked(&mut self, link: &str, at: Option<Timestamp>) {
        if let Some(mut entry) = self.remove(link) {
            entry.linked = at;
            self.insert(link.to_owned(), entry);
        }
    }

    /// Takes over what the status of a Link records. Another replica wrote it while it was the leader.
    pub fn take_over(&mut self, link: &str, listed: Option<String>, gateway: GatewayState) {
        if let Some(mut entry) = self.remove(link) {
            (entry.listed, entry.gateway) = (listed, gateway);
            self.insert(link.to_owned(), entry);
        }
    }

    /// The Link in charge of a target cluster: the oldest that names it, unless that is invalid now. Then what it asks
    /// for is unknown, and none is in charge.
    pub fn in_charge(&self, cluster: &str) -> Option<(&Target, &LinkEntry)> {
        self.first(self.clusters.get(cluster)?)
    }

    /// The Link of this name, if it is in charge of its target cluster.
    pub(crate) fn active(&self, link: &str) -> Option<(&Target, &LinkEntry)> {
        let entry = self.entries.get(link)?;
        let target = entry.target.as_ref().ok()?;
        let (in_charge, _) = self.in_charge(&target.cluster)?;
        (in_charge.link == target.link).then_some((target, entry))
    }

    /// The name of the Link that is in charge of a target cluster, or was until it became invalid. While there is one,
    /// younger Links that name the cluster do nothing.
    pub fn holder(&self, cluster: &str) -> Option<&str> {
        let (_, oldest) = self.clusters.get(cluster)?.claims.first()?;
        Some(oldest)
    }

    /// The Links in charge, by target cluster.
    pub fn all_in_charge(&self) -> impl Iterator<Item = (&Target, &LinkEntry)> {
        self.clusters.values().filter_map(|named| self.first(named))
    }

    /// Whether federated Services have slices: a cluster takes part through its gateway, or did before, because streams
    /// that began with slices continue to use them. `have_slices`: whether any Service has some now.
    pub fn by_slices(&self, have_slices: impl FnOnce() -> bool) -> bool {
        let mut targets = self.all_in_charge().map(|(target, _)| target);
        targets.any(|target| target.federated_through == FederatedThrough::Gateway) || have_slices()
    }

    /// The Links in charge that have a drain, even if it has ended, each with its end.
    pub(crate) fn drains(&self) -> impl Iterator<Item = (&Target, Timestamp)> {
        self.drains.iter().filter_map(|link| {
            let (target, _) = self.active(link)?;
            Some((target, target.drained_until?))
        })
    }

    /// The Links in charge that were linked since this time, each with when.
    pub(crate) fn linked_since(
        &self,
        since: Timestamp,
    ) -> impl Iterator<Item = (&Target, Timestamp)> {
        let linked = self.linked.range((since, String::new())..);
        linked.filter_map(|(at, link)| Some((self.active(link)?.0, *at)))
    }

    /// Whether objects of this cluster may belong to a Link although none is in charge of it.
    pub(crate) fn may_keep(&self, cluster: &str) -> bool {
        self.keepers(cluster).next().is_some()
    }

    /// The Links to which objects of a cluster may belong although they are not in charge of it: invalid Links that named
    /// the cluster, or may have; and Links that have moved to another cluster, which was not listed yet.
    fn keepers<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = (&'a str, &'a LinkEntry)> {
        self.moving().filter(move |(_, entry)| {
            let (named, listed) = (entry.cluster.as_deref(), entry.listed.as_deref());
            match &entry.target {
                Err(_) if named.is_none() && listed.is_none() => true,
                Err(_) => named == Some(cluster) || listed == Some(cluster),
                Ok(target) => listed == Some(cluster) && !self.is_listed(&target.cluster),
            }
        })
    }

    /// Whether a Link to which objects of a cluster may belong, although it is not in charge of it, is older than this
    /// ([`Target::age`]).
    pub(crate) fn older_may_keep(&self, cluster: &str, than: (Option<Timestamp>, &str)) -> bool {
        let mut keepers = self.keepers(cluster);
        keepers.any(|(link, entry)| (entry.created, link) < than)
    }

    /// Whether this Link is invalid and may have named any cluster.
    pub(crate) fn is_any_cluster(&self, link: &str) -> bool {
        let entry = self.entries.get(link);
        entry.is_some_and(|e| e.target.is_err() && e.cluster.is_none() && e.listed.is_none())
    }

    /// The clusters that Links have left for this one. They may still have mirrors.
    pub(crate) fn left_for<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = &'a str> {
        self.moving()
            .filter(move |(_, entry)| entry.cluster.as_deref() == Some(cluster))
            .filter_map(|(_, entry)| entry.listed.as_deref())
    }

    /// The Links that may have mirrors of other clusters than the one that they name, by name.
    fn moving(&self) -> impl Iterator<Item = (&str, &LinkEntry)> {
        let moving = self.moving.iter();
        moving.filter_map(|link| Some((link.as_str(), self.entries.get(link)?)))
    }

    fn is_listed(&self, cluster: &str) -> bool {
        let in_charge = self.in_charge(cluster);
        in_charge.is_some_and(|(_, entry)| entry.remote.is_some())
    }

    /// Names of the Links that name this cluster, or listed it last and are invalid: those that claim it, the oldest
    /// first, then others that are invalid.
    pub fn naming<'a>(&'a self, cluster: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let named = self.clusters.get(cluster).into_iter();
        named
            .flat_map(|named| {
                let claims = named.claims.iter().map(|(_, link)| link);
                claims.chain(&named.invalid)
            })
            .map(String::as_str)
    }

    fn first(&self, named: &ClusterLinks) -> Option<(&Target, &LinkEntry)> {
        let (_, oldest) = named.claims.first()?;
        let entry = self.entries.get(oldest)?;
        Some((entry.target.as_ref().ok()?, entry))
    }

    /// Adds a Link to the index, under the cluster that it names.
    fn index(&mut self, link: &str) {
        let Some(entry) = self.entries.get(link) else {
            return;
        };
        if entry.may_have_other_mirrors() {
            self.moving.insert(link.to_owned());
        }
        if (entry.target.as_ref()).is_ok_and(|target| target.drained_until.is_some()) {
            self.drains.insert(link.to_owned());
        }
        if let Some(at) = entry.linked {
            self.linked.insert((at, link.to_owned()));
        }
        let claimed = entry.claims();
        if let Some(cluster) = claimed {
            let named = self.clusters.entry(cluster.clone()).or_default();
            named.claims.insert((entry.created, link.to_owned()));
        }
        let named = entry
            .cluster
            .as_ref()
            .filter(|named| Some(*named) != claimed);
        if let Some(cluster) = named {
            let named = self.clusters.entry(cluster.clone()).or_default();
            named.invalid.insert(link.to_owned());
        }
    }

    /// Removes a Link from the index.
    fn unindex(&mut self, link: &str, before: &LinkEntry) {
        self.moving.remove(link);
        self.drains.remove(link);
        if let Some(at) = before.linked {
            self.linked.remove(&(at, link.to_owned()));
        }
        for cluster in before.clusters() {
            if let Some(named) = self.clusters.get_mut(cluster) {
                named.claims.retain(|(_, known)| known != link);
                named.invalid.remove(link);
                if named.claims.is_empty() && named.invalid.is_empty() {
                    self.clusters.remove(cluster);
                }
            }
        }
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

#[cfg(test)]
mod tests;
