//! The UIDs of clusters that objects of a fleet have recorded. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use manifests::link::ClusterName;
use mirror_core::api::metadata::cluster_uid;

use crate::fleet::{
    facts::{ClusterFacts, is_of},
    loaded::LoadedFleet,
    removal::KnownClusters,
};

/// The names that the fleet had for clusters, with those that the file has for them now.
pub fn renamed(
    loaded: &LoadedFleet,
    known: &KnownClusters<'_>,
) -> BTreeMap<ClusterName, ClusterName> {
    let own = uids_of_file(loaded, known);
    let left = recorded(loaded, known).into_iter();
    let left = left.filter(|(name, _)| !loaded.has(name));
    let renamed = left.filter_map(|(old, uids)| {
        let new = uids.iter().find_map(|uid| own.get(uid))?;
        Some((old, (*new).clone()))
    });
    renamed.collect()
}

/// The clusters of the file that were read, by their UIDs.
pub fn uids_of_file<'k>(
    loaded: &LoadedFleet,
    known: &KnownClusters<'k>,
) -> BTreeMap<&'k str, &'k ClusterName> {
    let own = known.iter().filter(|(name, _)| loaded.has(name));
    let uids = own.filter_map(|(name, facts)| Some((facts.ok()?.uid.as_deref()?, *name)));
    uids.collect()
}

/// The UIDs that objects of the fleet have recorded for each name: Links to a cluster, and accounts that it uses.
pub fn recorded<'k>(
    loaded: &LoadedFleet,
    known: &KnownClusters<'k>,
) -> BTreeMap<ClusterName, BTreeSet<&'k str>> {
    let fleet = &loaded.fleet.name;
    let of = |facts: &'k ClusterFacts| {
        let links = facts.links.iter().filter(|link| is_of(*link, fleet));
        let links = links.map(|link| (link.spec.target_cluster_name.clone(), cluster_uid(link)));
        let accounts = &facts.accounts;
        let accounts = accounts.accounts.iter().chain(&accounts.former.accounts);
        let accounts = accounts.filter(|account| is_of(*account, fleet));
        let accounts = accounts.map(|account| (account.name_any(), cluster_uid(account)));
        links.chain(accounts).collect::<Vec<_>>()
    };
    let mut all = BTreeMap::<ClusterName, BTreeSet<&str>>::new();
    for (name, uid) in known.values().filter_map(|facts| facts.ok()).flat_map(of) {
        if let (Ok(name), Some(uid)) = (name.parse(), uid) {
            all.entry(name).or_default().insert(uid);
        }
    }
    all
}
