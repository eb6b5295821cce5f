//! Which cluster a name of a fleet stands for.
//!
//! A cluster is known by the UID of its Namespace kube-system, which is recorded on Links, on their credentials and on
//! accounts. So one that got another name in the file is not taken for one that left it and another one that joined it, and
//! another cluster behind the same context is not taken for the one that is linked.

use std::collections::{BTreeMap, BTreeSet};

use hints::hint::fail;
use manifests::link::ClusterName;

use crate::fleet::{
    gather::{ReadClusters, known},
    loaded::LoadedFleet,
    recorded::{recorded, renamed, uids_of_file},
    removal::KnownClusters,
};

/// Makes sure that each name stands for the cluster that was read under it. Fails if the file has two names for one cluster.
/// Nothing is used of a cluster that is not the recorded one.
pub fn tell_apart(loaded: &LoadedFleet, read: &mut ReadClusters) -> anyhow::Result<()> {
    let facts = known(read);
    refuse_doubles(loaded, &facts)?;
    let recorded = recorded(loaded, &facts);
    let renamed = renamed(loaded, &facts);
    let own: BTreeSet<&str> = uids_of_file(loaded, &facts).into_keys().collect();
    let read_ones = facts.iter().filter_map(|(name, facts)| {
        let uid = facts.ok()?.uid.as_deref();
        Some((*name, uid))
    });
    let mistaken = read_ones.filter_map(|(name, uid)| {
        let mut recorded = recorded.get(name).cloned().unwrap_or_default();
        let why = if loaded.has(name) {
            // Those of clusters that had this name, and have another one now.
            recorded.retain(|of| Some(*of) == uid || !own.contains(of));
            let is_other = !recorded.is_empty() && uid.is_some_and(|uid| !recorded.contains(uid));
            (is_other && !loaded.consent.replaced.contains(name)).then(|| {
                format!(
                    "its context leads to another cluster than the one that this fleet has linked as {name}; if {name} was \
                     built again, pass --replace {name}"
                )
            })
        } else if uid.is_some_and(|uid| recorded.contains(uid)) {
            None
        } else {
            Some(format!(
                "it is not in the file, and the context with its name does not lead to the cluster that this fleet has \
                 linked as {name}"
            ))
        };
        Some((name.clone(), why?))
    });
    let mistaken: Vec<(ClusterName, String)> = mistaken.collect();
    read.extend(mistaken.into_iter().map(|(name, why)| (name, Err(why))));
    read.retain(|name, _| !renamed.contains_key(name));
    Ok(())
}

/// Fails if the file has two names for one cluster.
fn refuse_doubles(loaded: &LoadedFleet, known: &KnownClusters<'_>) -> anyhow::Result<()> {
    let mut by_uid: BTreeMap<&str, &ClusterName> = BTreeMap::new();
    for (name, facts) in known.iter().filter(|(name, _)| loaded.has(name)) {
        let Some(uid) = facts.ok().and_then(|facts| facts.uid.as_deref()) else {
            continue;
        };
        if let Some(other) = by_uid.insert(uid, name) {
            return Err(fail(
                format!("{other} and {name} are the same cluster"),
                "remove one of them from the file, or give it the context of another cluster",
            ));
        }
    }
    Ok(())
}
