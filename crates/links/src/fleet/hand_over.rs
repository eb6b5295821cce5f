//! What remains for the owners of clusters that were not read, in the order in which it has to be done. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hints::suggest::{ClusterFlags, Suggested};
use manifests::link::ClusterName;

use crate::fleet::{loaded::LoadedFleet, remaining::RemainingStep};

/// The folder in which credentials are handed over.
const FOLDER: &str = "handed";

/// What has to be done by whom.
#[derive(Debug, Default)]
pub struct HandOvers {
    /// Clusters with accounts to make or to remove, and whether some are to be removed.
    accounts: BTreeMap<ClusterName, bool>,
    /// By target cluster: the source clusters that need credentials for it.
    credentials: BTreeMap<ClusterName, BTreeSet<ClusterName>>,
    /// By target cluster: the accounts that are not needed any more, as soon as their clusters have removed their Links.
    revoked: BTreeMap<ClusterName, BTreeSet<ClusterName>>,
}

impl HandOvers {
    /// The owner of this cluster makes the accounts of others in it.
    pub fn accounts(&mut self, target: &ClusterName) {
        self.accounts.entry(target.clone()).or_default();
    }

    /// The owner of this cluster removes accounts that are not in the file.
    pub fn unused_accounts(&mut self, target: &ClusterName) {
        self.accounts.insert(target.clone(), true);
    }

    /// The source cluster needs the Link to a target cluster, and credentials for it.
    pub fn credentials(&mut self, source: &ClusterName, target: &ClusterName) {
        let sources = self.credentials.entry(target.clone()).or_default();
        sources.insert(source.clone());
    }

    /// The source cluster removes its Link, and then the target cluster the account.
    pub fn revoked(&mut self, source: &ClusterName, target: &ClusterName) {
        let sources = self.revoked.entry(target.clone()).or_default();
        sources.insert(source.clone());
    }

    /// The steps as commands.
    pub fn steps(&self, loaded: &LoadedFleet) -> Vec<RemainingStep> {
        let mut steps = Vec::new();
        let (file, here) = (loaded.name.as_str(), ClusterFlags::default());
        let apply = |cluster: &ClusterName, prunes: bool| {
            let values = [file, &cluster.to_string()];
            let command = if prunes {
                here.mc("fleet apply --file {} --only {} --prune", &values)
            } else {
                here.mc("fleet apply --file {} --only {}", &values)
            };
            RemainingStep::of(cluster, &command)
        };
        let accounts = self.accounts.iter();
        steps.extend(accounts.map(|(cluster, prunes)| apply(cluster, *prunes)));
        let mut handed: BTreeMap<&ClusterName, Vec<&ClusterName>> = BTreeMap::new();
        for (target, sources) in &self.credentials {
            let names = joined(sources);
            let values = [file, &target.to_string(), &names, FOLDER];
            let command = here.mc(
                "fleet credentials --file {} --target {} --source {} --with-link --output-dir {}",
                &values,
            );
            steps.push(RemainingStep::of(target, &command));
            for source in sources {
                handed.entry(source).or_default().push(target);
            }
        }
        for (source, targets) in handed {
            for target in targets {
                let path = format!("{FOLDER}/{source}/{target}.yaml");
                steps.push(take(loaded, source, &path));
            }
            steps.push(apply(source, false));
        }
        let sources: BTreeSet<&ClusterName> = self.revoked.values().flatten().collect();
        steps.extend(sources.into_iter().map(|source| apply(source, true)));
        for (target, sources) in &self.revoked {
            let (flags, names) = (flags(loaded, target), joined(sources));
            let revoke = revoke(loaded, &flags, &names);
            let command = revoke.piped(&flags.kubectl("delete -f -", &[]));
            steps.push(RemainingStep::of(target, &command));
        }
        steps
    }
}

/// The owner of a source cluster takes what is in this file.
pub fn take(loaded: &LoadedFleet, source: &ClusterName, path: &str) -> RemainingStep {
    let context = context(loaded, source);
    let flags = ClusterFlags::default().of_linkerd(&loaded.linkerd);
    let command = flags.mc(
        "link --from-file {} --source {} --namespace {}",
        &[path, &context, &loaded.namespace],
    );
    RemainingStep::of(source, &command)
}

/// The command that prints the accounts with these names, to delete them.
pub fn revoke(loaded: &LoadedFleet, flags: &ClusterFlags, names: &str) -> Suggested {
    flags.mc(
        "allow --delete --service-account-name {} --namespace {}",
        &[names, &loaded.accounts],
    )
}

fn joined(names: &BTreeSet<ClusterName>) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// The flags that name a cluster.
pub fn flags(loaded: &LoadedFleet, name: &ClusterName) -> ClusterFlags {
    ClusterFlags::of_context(&context(loaded, name))
}

/// The context of the file, or the one with the name of the cluster.
fn context(loaded: &LoadedFleet, name: &ClusterName) -> String {
    let cluster = loaded.cluster(name).ok();
    let context = cluster.and_then(|cluster| cluster.context.clone());
    context.unwrap_or_else(|| name.to_string())
}
