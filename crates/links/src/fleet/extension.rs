//! The extension of each cluster of a fleet, as far as files for Git have it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use manifests::link::ClusterName;
use serde_json::Value;

use crate::{
    extension::{ExtensionObjects, InstallFacts},
    fleet::loaded::LoadedFleet,
    fleet_file::FleetCluster,
};

/// The objects of clusters; an error says why they are not known.
pub type Extensions = BTreeMap<ClusterName, Result<ExtensionObjects, String>>;

/// What becomes of the files that have the extension.
pub enum ExtensionFiles {
    /// Those that there are stay as they are.
    Kept,
    /// There are none.
    Removed,
    /// They have these objects.
    Written(Extensions),
}

impl ExtensionFiles {
    /// What the user has to know about the objects of each cluster.
    pub fn warnings(&self) -> Vec<String> {
        let Self::Written(made) = self else {
            return Vec::new();
        };
        let known = made
            .iter()
            .filter_map(|(name, made)| Some((name, made.as_ref().ok()?)));
        let said = known.flat_map(|(name, made)| {
            let warnings = made.warnings.iter();
            warnings.map(move |warning| format!("{name}: {warning}"))
        });
        said.collect()
    }
}

/// The objects of the clusters of the file, from what was read of them.
pub fn extensions(
    loaded: &LoadedFleet,
    mut read: BTreeMap<ClusterName, Result<InstallFacts, String>>,
) -> Extensions {
    let clusters = loaded.fleet.clusters.iter();
    let made = clusters.map(|cluster| {
        let unread = || Err("it was not read".to_owned());
        let facts = read.remove(&cluster.name).unwrap_or_else(unread);
        let made = facts.and_then(|facts| {
            objects(loaded, cluster, &facts).map_err(|error| format!("{error:#}"))
        });
        (cluster.name.clone(), made)
    });
    made.collect()
}

fn objects(
    loaded: &LoadedFleet,
    cluster: &FleetCluster,
    facts: &InstallFacts,
) -> anyhow::Result<ExtensionObjects> {
    let (linkerd, namespace) = (&loaded.linkerd, &loaded.namespace);
    let made = ExtensionObjects::of_fleet(linkerd, namespace, &cluster.install, facts)?;
    refuse_accounts_of_links(loaded, &cluster.name, made.manifest.objects()?)?;
    Ok(made)
}

/// No object may be in two files. The values can name accounts, and so do links.
fn refuse_accounts_of_links(
    loaded: &LoadedFleet,
    target: &ClusterName,
    objects: &[Value],
) -> anyhow::Result<()> {
    let to_it = loaded
        .links
        .iter()
        .filter(|link| link.ends.target == *target);
    let accounts: BTreeSet<String> = to_it.map(|link| link.ends.source.to_string()).collect();
    let twice = objects.iter().find_map(|object| {
        let name = object["metadata"]["name"].as_str()?;
        let kind = object["kind"].as_str()?;
        let is_of_account = ["ClusterRole", "ServiceAccount"].contains(&kind);
        (is_of_account && accounts.contains(name)).then_some((kind, name))
    });
    match twice {
        Some((kind, name)) => bail!(
            "its values make the {kind} {name}, which belongs to the link of {name}: take {name} out of \
             remoteMirrorServiceAccountName"
        ),
        None => Ok(()),
    }
}
