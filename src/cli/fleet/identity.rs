//! Which names of a fleet mean the same cluster.
//!
//! A cluster is known by the UID of its Namespace kube-system. One that got another name in the file must not be taken for
//! one that left it and one that joined it: that deletes what the new name needs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::{
    facts::{ClusterFacts, is_of, kubeconfig},
    gather::{ReadClusters, known},
    loaded::LoadedFleet,
    removal::KnownClusters,
};
use crate::{api::link::Link, hint::fail, manifests::link::ClusterName};

/// Fails if the file has two names for one cluster, or another name than Links of this fleet. What was read under a name
/// that is in no Link any more is forgotten.
pub(super) fn tell_apart(loaded: &LoadedFleet, read: &mut ReadClusters) -> anyhow::Result<()> {
    let facts = known(read);
    let mut by_uid: BTreeMap<&str, &ClusterName> = BTreeMap::new();
    let mut aliases = BTreeMap::new();
    let is_in_file = |name: &ClusterName| is_in_file(loaded, name);
    let (own, left): (Vec<_>, Vec<_>) = facts.iter().partition(|(name, _)| is_in_file(name));
    for (name, facts) in own.into_iter().chain(left) {
        let Some(uid) = facts.ok().and_then(|facts| facts.uid.as_deref()) else {
            continue;
        };
        match by_uid.get(uid) {
            None => {
                by_uid.insert(uid, name);
            }
            Some(other) if is_in_file(name) => {
                return Err(fail(
                    format!("{other} and {name} are the same cluster"),
                    "remove one of them from the file, or give it the context of another cluster",
                ));
            }
            Some(other) => {
                aliases.insert((*name).clone(), (*other).clone());
            }
        }
    }
    if let Some((old, new)) = renamed(loaded, &facts, &aliases) {
        return Err(fail(
            format!(
                "{new} is the cluster that this fleet has linked as {old}, and a cluster cannot be renamed, because its \
                 mirrors have the name"
            ),
            format!(
                "keep the name {old} in the file, with the context of the cluster; docs/fleet.md says how to move to \
                 another name"
            ),
        ));
    }
    for (old, new) in aliases {
        read.insert(old, Err(format!("it is called {new} in the file")));
    }
    Ok(())
}

fn is_in_file(loaded: &LoadedFleet, name: &ClusterName) -> bool {
    let mut clusters = loaded.fleet.clusters.iter();
    clusters.any(|cluster| cluster.name == *name)
}

/// A name that Links of the fleet have and the file has not, and the name that the file has for this cluster. `aliases`
/// are the names of clusters that were read under both.
fn renamed(
    loaded: &LoadedFleet,
    known: &KnownClusters<'_>,
    aliases: &BTreeMap<ClusterName, ClusterName>,
) -> Option<(ClusterName, ClusterName)> {
    let sources = known.values().filter_map(|facts| facts.ok());
    let links = sources.flat_map(|facts| facts.links.iter().map(move |link| (facts, link)));
    let mut own = links.filter(|(_, link)| is_of(*link, &loaded.fleet.name));
    own.find_map(|(source, link)| {
        let old: ClusterName = link.spec.target_cluster_name.parse().ok()?;
        if is_in_file(loaded, &old) {
            return None;
        }
        let new = aliases.get(&old).cloned();
        let new = new.or_else(|| led_to(loaded, source, link, known))?;
        Some((old, new))
    })
}

/// The cluster of the file whose account the credentials of a Link are for.
fn led_to(
    loaded: &LoadedFleet,
    source: &ClusterFacts,
    link: &Link,
    known: &KnownClusters<'_>,
) -> Option<ClusterName> {
    let mut credentials = source.credentials.iter();
    let named = |held: &&Secret| held.name_any() == link.spec.cluster_credentials_secret;
    let held = kubeconfig(credentials.find(named)?)?;
    let account = held.account?;
    let has_it = |facts: &ClusterFacts| {
        let found = facts.accounts.account(&account.name);
        account.uid.is_some() && found.and_then(ResourceExt::uid) == account.uid
    };
    let mut known = known.iter();
    let found = known.find(|(name, facts)| is_in_file(loaded, name) && facts.is_ok_and(has_it));
    found.map(|(name, _)| (*name).clone())
}
