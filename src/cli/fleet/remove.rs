//! Removes what the file of a fleet does not name any more, in the order that loses no request: the Link, then, when
//! its mirrors are gone, its Secrets, and then the account in the target cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::join_all;

use super::{
    apply::FleetOutcome,
    change::FleetChange,
    facts::AccountFacts,
    gather::{ReadCluster, ReadClusters},
    loaded::LoadedFleet,
    plan::{ClusterPlan, FleetPlan},
};
use crate::{
    api::labels,
    cli::common::{
        cluster::Cluster,
        inventory::{self, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, LINK, SECRET, SERVICE_ACCOUNT},
        linked::{Mirrors, PROPAGATION, elsewhere},
        output,
        wait::{Progress, poll},
    },
    fleet::LinkEnds,
    manifests::{link::ClusterName, render::ObjectName},
};

/// Poll interval while mirrors are removed.
const RETRY: Duration = Duration::from_millis(500);

/// Removes what the plan says, in all clusters side by side.
pub(super) async fn remove_all(
    loaded: &LoadedFleet,
    read: &ReadClusters,
    plan: &FleetPlan,
    wait: Duration,
    unready: &BTreeMap<LinkEnds, String>,
    outcome: &mut FleetOutcome,
) {
    let progress = Progress::new("waiting for mirrors to be removed");
    let removals = plan.clusters.iter().filter_map(|cluster| {
        let name = cluster.name.parse::<ClusterName>().ok()?;
        let read = read.get(&name)?.as_ref().ok()?;
        let unready = unready.keys().filter(|ends| ends.source == name);
        let unready = unready.map(|ends| ends.target.to_string()).collect();
        Some(async move {
            let removed = links_of(loaded, read, cluster, &unready, wait).await;
            (name, removed)
        })
    });
    let removed = progress.during(join_all(removals)).await;
    // An account may still be in use where a link has not gone.
    let mut kept = BTreeSet::new();
    for (name, removed) in removed {
        outcome.written += removed.deleted;
        for (target, why) in removed.failed {
            outcome.failed.push(format!(
                "{name}: the link to {target} is not removed: {why}"
            ));
            kept.insert((name.clone(), target));
        }
    }
    let accounts = plan.clusters.iter().filter_map(|cluster| {
        let name = cluster.name.parse::<ClusterName>().ok()?;
        let read = read.get(&name)?.as_ref().ok()?;
        Some(accounts_of(read, cluster, &kept))
    });
    for (deleted, failed) in join_all(accounts).await {
        outcome.written += deleted;
        outcome.failed.extend(failed);
    }
}

/// What was removed in one cluster, and the targets whose links could not be.
#[derive(Default)]
struct RemovedLinks {
    deleted: usize,
    failed: BTreeMap<String, String>,
}

async fn links_of(
    loaded: &LoadedFleet,
    read: &ReadCluster,
    plan: &ClusterPlan,
    unready: &BTreeSet<String>,
    wait: Duration,
) -> RemovedLinks {
    let mut targets: BTreeMap<String, Vec<&FleetChange>> = BTreeMap::new();
    for change in plan.changes.iter().filter(|change| change.verb == "delete") {
        let target = match change.kind.as_str() {
            "Link" => {
                let mut links = read.facts.links.iter();
                let link = links.find(|link| link.metadata.name.as_ref() == Some(&change.name));
                link.map(|link| link.spec.target_cluster_name.clone())
            }
            "Secret" => {
                let target = change.name.strip_prefix(labels::CREDENTIALS_PREFIX);
                target.map(str::to_owned)
            }
            _ => None,
        };
        if let Some(target) = target {
            targets.entry(target).or_default().push(change);
        }
    }
    let removals = targets.iter().map(|(target, changes)| async move {
        let mut successors = changes
            .iter()
            .filter_map(|change| change.replaced_by.as_ref());
        let removed = match successors.find(|new| unready.contains(*new)) {
            Some(new) => Err(anyhow::anyhow!("the Link {new} is not ready")),
            None => link(loaded, read, target, changes, wait).await,
        };
        (target.clone(), removed)
    });
    let mut all = RemovedLinks::default();
    for (target, removed) in join_all(removals).await {
        match removed {
            Ok(deleted) => all.deleted += deleted,
            Err(error) => {
                all.failed.insert(target, format!("{error:#}"));
            }
        }
    }
    if all.deleted > 0 {
        let (cluster, deleted) = (&plan.name, all.deleted);
        output::note(&format!(
            "{cluster}: {deleted} objects of its links deleted"
        ));
    }
    all
}

/// Removes one link: all of its objects in the source cluster.
async fn link(
    loaded: &LoadedFleet,
    read: &ReadCluster,
    target: &str,
    changes: &[&FleetChange],
    wait: Duration,
) -> anyhow::Result<usize> {
    let cluster = &read.cluster;
    let of_kind = |kind: &'static str| changes.iter().filter(move |change| change.kind == kind);
    let mut deleted = 0;
    for change in of_kind("Link") {
        let link = LINK.named(Some(change.namespace.clone()), change.name.clone());
        inventory::delete(cluster, &link).await?;
        deleted += 1;
    }
    let name: ClusterName = target.parse()?;
    let others = read.facts.links.iter().filter(|link| {
        let is_removed =
            of_kind("Link").any(|change| link.metadata.name.as_ref() == Some(&change.name));
        link.spec.target_cluster_name == target && !is_removed
    });
    // Another Link to the cluster has the mirrors now.
    if others.count() == 0 {
        without_mirrors(cluster, &name, &loaded.namespace, wait).await?;
        tokio::time::sleep(PROPAGATION).await;
    }
    let elsewhere = elsewhere(cluster, &loaded.namespace, &name).await?;
    for change in of_kind("Secret") {
        // Links of other namespaces need Linkerd's Secret.
        if change.namespace == loaded.linkerd && !elsewhere.is_empty() {
            continue;
        }
        let secret = SECRET.named(Some(change.namespace.clone()), change.name.clone());
        inventory::delete(cluster, &secret).await?;
        deleted += 1;
    }
    Ok(deleted)
}

/// Waits until the controller has removed all mirrors of a cluster.
async fn without_mirrors(
    cluster: &Cluster,
    name: &ClusterName,
    namespace: &str,
    wait: Duration,
) -> anyhow::Result<()> {
    let attempt = async || {
        let left = Box::pin(Mirrors::gather(cluster, name, namespace)).await?;
        anyhow::Ok(if left.len() == 0 {
            Ok(())
        } else {
            Err(left.len())
        })
    };
    let left = poll(RETRY, wait, attempt, |_| ()).await?;
    left.map_err(|left| {
        anyhow::anyhow!(
            "{left} of its mirrors are left after {wait:?}; check that the controller is running, and run the same command again"
        )
    })
}

/// Removes accounts whose clusters have no link any more.
async fn accounts_of(
    read: &ReadCluster,
    plan: &ClusterPlan,
    kept: &BTreeSet<(ClusterName, String)>,
) -> (usize, Vec<String>) {
    let (mut deleted, mut failed) = (0, Vec::new());
    for object in unused_accounts(&read.facts.accounts, plan, kept) {
        match inventory::delete(&read.cluster, &object).await {
            Ok(()) => deleted += 1,
            Err(error) => failed.push(format!("{}: {error:#}", plan.name)),
        }
    }
    (deleted, failed)
}

/// The objects of accounts that a plan deletes, except for those of `kept` links.
pub(super) fn unused_accounts(
    facts: &AccountFacts,
    plan: &ClusterPlan,
    kept: &BTreeSet<(ClusterName, String)>,
) -> Vec<ObjectName> {
    let is_kept = |source: &str| {
        let mut kept = kept.iter();
        kept.any(|(from, to)| from.to_string() == source && *to == plan.name)
    };
    let deletions = plan.changes.iter().filter(|change| change.verb == "delete");
    let objects = deletions.filter_map(|change| {
        let name = change.name.as_str();
        let (source, kind) = match change.kind.as_str() {
            "ClusterRole" => (name, CLUSTER_ROLE),
            "ClusterRoleBinding" => (name, CLUSTER_ROLE_BINDING),
            "ServiceAccount" => (name, SERVICE_ACCOUNT),
            // The name does not say whose token it is: Kubernetes cuts long names of accounts when it adds a random end.
            "Secret" => (facts.account_of_token(name)?, SECRET),
            _ => return None,
        };
        let namespace = Some(change.namespace.clone()).filter(|namespace| !namespace.is_empty());
        (!is_kept(source)).then(|| kind.named(namespace, name.to_owned()))
    });
    objects.collect()
}
