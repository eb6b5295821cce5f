//! From clusters as they are to what a file has to say so that nothing changes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use manifests::link::{ClusterName, LinkOptions};
use mirror_core::api::{labels, link::Link, metadata::cluster_uid};

use crate::{
    fleet::{
        facts::{ImportedCluster, fleet_of},
        link_settings::{cluster_settings, link_settings},
    },
    fleet_file::{ComposedCluster, ComposedFleet, ComposedSettings, LinkEnds},
    link_credentials::{Evidence, KubeconfigTarget, by_uid},
};

/// Name of a fleet, if nothing has one yet.
const FLEET_NAME: &str = "fleet";

/// What was imported.
#[derive(Debug)]
pub struct ImportedFleet {
    pub fleet: ComposedFleet,
    /// What is not in it, and why.
    pub left_out: Vec<String>,
}

/// A Link, and the clusters that it links.
struct FoundLink<'f> {
    source: usize,
    target: usize,
    link: &'f Link,
    held: Option<KubeconfigTarget>,
}

/// Turns clusters into a fleet. Without a name, it is the only fleet to which Links belong, if there is one. If this says
/// no ID, it gets the new one.
pub fn import(
    clusters: &[ImportedCluster],
    name: Option<&str>,
    new_id: &str,
    namespace: &str,
    defaults: &LinkOptions,
) -> ImportedFleet {
    let mut left_out = Vec::new();
    let mut found = Vec::new();
    for (source, cluster) in clusters.iter().enumerate() {
        for link in &cluster.links {
            let held = held(cluster, link, namespace);
            let target = match cluster.unreadable.get(&link.name_any()) {
                Some(why) => Err(format!("it cannot be decoded: {why}")),
                None => target_of(clusters, link, held.as_ref()),
            };
            match target {
                Ok(target) => found.push(FoundLink {
                    source,
                    target,
                    link,
                    held,
                }),
                Err(why) => left_out.push(format!(
                    "the Link {} of {}: {why}",
                    link.name_any(),
                    cluster.context
                )),
            }
        }
    }
    let names = names(clusters, &found, &mut left_out);
    let (mut links, mut said) = (
        BTreeMap::new(),
        BTreeMap::<usize, Vec<ComposedSettings>>::new(),
    );
    let mut homes = BTreeSet::new();
    for of in &found {
        let (Some(source), Some(target)) = (&names[of.source], &names[of.target]) else {
            continue; // the cluster is left out
        };
        let (own, named) = (of.link.name_any(), &of.link.spec.target_cluster_name);
        let why = if *named != target.to_string() {
            format!("it calls the cluster {named}, and others call it {target}")
        } else if own != *named {
            format!("a fleet has only Links with the name of their cluster, {target}")
        } else {
            String::new()
        };
        if !why.is_empty() {
            left_out.push(format!("the Link {own} of {source}: {why}"));
            continue;
        }
        let ends = LinkEnds {
            source: source.clone(),
            target: target.clone(),
        };
        links.insert(ends, link_settings(of.link, defaults));
        let account = of.held.as_ref().and_then(|held| held.account.as_ref());
        homes.extend(account.map(|account| account.namespace.as_str()));
        let reached = cluster_settings(of.link, of.held.as_ref(), &clusters[of.target]);
        said.entry(of.target).or_default().push(reached);
    }
    let composed = clusters.iter().enumerate().filter_map(|(at, cluster)| {
        Some(ComposedCluster {
            name: names[at].clone()?,
            context: Some(cluster.context.clone()),
            settings: said
                .get(&at)
                .and_then(|said| most(said))
                .unwrap_or_default(),
        })
    });
    let composed = composed.collect();
    let accounts = match homes.iter().collect::<Vec<_>>().as_slice() {
        [] => None,
        [home] => Some((**home).to_owned()).filter(|home| home != namespace),
        _ => {
            let homes: Vec<&str> = homes.into_iter().collect();
            left_out.push(format!(
                "the namespaces of accounts: they are in {}, and a fleet has all in one; `fleet apply` makes them in {namespace}",
                homes.join(" and ")
            ));
            None
        }
    };
    let identity = name.map_or_else(|| fleet_name(clusters), str::to_owned);
    let (name, id) = identity.split_once('.').unwrap_or((&identity, new_id));
    ImportedFleet {
        fleet: ComposedFleet {
            name: name.to_owned(),
            id: id.to_owned(),
            namespace: Some(namespace.to_owned())
                .filter(|namespace| namespace != labels::MULTICLUSTER_NAMESPACE),
            accounts,
            linkerd: None,
            clusters: composed,
            links,
        },
        left_out,
    }
}

/// The kubeconfig of the controller for a Link.
fn held(cluster: &ImportedCluster, link: &Link, namespace: &str) -> Option<KubeconfigTarget> {
    let name = &link.spec.cluster_credentials_secret;
    let mut secrets = cluster.credentials.iter();
    let secret = secrets.find(|secret| {
        secret.name_any() == *name && secret.namespace().as_deref() == Some(namespace)
    });
    secret.and_then(KubeconfigTarget::of_secret)
}

/// The cluster that a Link leads to: by its credentials, or by its name if there are none.
fn target_of(
    clusters: &[ImportedCluster],
    link: &Link,
    held: Option<&KubeconfigTarget>,
) -> Result<usize, String> {
    let name = &link.spec.target_cluster_name;
    let is_called = |of: &usize| {
        let derived = clusters[*of].derived.as_ref();
        derived.is_some_and(|derived| derived.to_string() == *name)
    };
    if let Some(uid) = cluster_uid(link) {
        let mut all = clusters.iter();
        if let Some(found) = all.position(|cluster| cluster.uid.as_deref() == Some(uid)) {
            return Ok(found);
        }
    }
    let Some(held) = held else {
        let is_another = |of: &usize| {
            let actual = clusters[*of].uid.as_deref();
            by_uid(cluster_uid(link), actual) == Some(Evidence::Elsewhere)
        };
        let mut all = (0..clusters.len()).filter(|of| !is_another(of));
        return all.find(is_called).ok_or_else(|| {
            format!("its credentials are not known, and no context is called {name}")
        });
    };
    let leads_to = |cluster: &ImportedCluster| {
        let account = held.account.as_ref();
        let known = account.and_then(|of| {
            let mut accounts = cluster.accounts.iter();
            accounts.find(|account| account.name_any() == of.name && account.uid() == of.uid)
        });
        let uids = (cluster_uid(link), cluster.uid.as_deref());
        held.leads_to(uids, &cluster.entry, known) == Evidence::Same
    };
    let same = (0..clusters.len()).filter(|at| leads_to(&clusters[*at]));
    let same: Vec<usize> = same.collect();
    let called = same.iter().copied().find(is_called);
    called
        .or_else(|| same.first().copied())
        .ok_or_else(|| format!("it leads to {name}, which is none of the contexts"))
}

/// The name of each cluster: that which Links have for it, or the one of its context.
fn names(
    clusters: &[ImportedCluster],
    found: &[FoundLink<'_>],
    left_out: &mut Vec<String>,
) -> Vec<Option<ClusterName>> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (at, cluster) in clusters.iter().enumerate() {
        let used = found.iter().filter(|of| of.target == at);
        let used = used.filter_map(|of| of.link.spec.target_cluster_name.parse().ok());
        let used: Vec<ClusterName> = used.collect();
        let name = most(&used).or_else(|| cluster.derived.clone());
        let name = name.filter(|name| taken.insert(name.clone()));
        if name.is_none() {
            let context = &cluster.context;
            left_out.push(format!(
                "the context {context}: it has no name that no other cluster has"
            ));
        }
        names.push(name);
    }
    names
}

/// The fleet to which Links belong, if it is one.
fn fleet_name(clusters: &[ImportedCluster]) -> String {
    let links = clusters.iter().flat_map(|cluster| &cluster.links);
    let fleets: BTreeSet<&str> = links.filter_map(fleet_of).collect();
    let only = fleets.iter().next().filter(|_| fleets.len() == 1);
    only.copied().unwrap_or(FLEET_NAME).to_owned()
}

/// The value that occurs most often; of several, the first.
fn most<T: Clone + PartialEq>(all: &[T]) -> Option<T> {
    let count = |of: &T| all.iter().filter(|other| *other == of).count();
    let top = all.iter().map(count).max()?;
    all.iter().find(|of| count(of) == top).cloned()
}
