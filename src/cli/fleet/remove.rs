//! Removes what the file of a fleet does not name any more, in the order that loses no request: the Link, then, when
//! its mirrors are gone, its Secrets, and then the account in the target cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::join_all;
use kube::ResourceExt as _;
use links::{
    fleet::{
        apply::FleetOutcome,
        gather::{ReadCluster, ReadClusters, known},
        loaded::LoadedFleet,
        plan::{ClusterPlan, FleetPlan},
        recorded::renamed,
    },
    fleet_file::LinkEnds,
    linked::{LinkedObjects, PROPAGATION},
    steps::{LinkStep, StepPart},
};
use manifests::link::ClusterName;

use crate::cli::common::{output, wait::Progress};

/// Removes what the plan says, in all clusters side by side.
pub async fn remove_all(
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
    // An account may still be in use where a link has not gone, also if the link has the old name of its target cluster.
    let renamed = renamed(loaded, &known(read));
    let mut kept = BTreeSet::new();
    for (name, removed) in removed {
        outcome.written += removed.deleted;
        for (target, why) in removed.failed {
            outcome.failed.push(format!(
                "{name}: the link to {target} is not removed: {why}"
            ));
            let new = target.parse().ok();
            let new = new.and_then(|old: ClusterName| renamed.get(&old));
            let target = new.map_or(target, ToString::to_string);
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
    let mut targets: BTreeMap<&str, Vec<&LinkStep>> = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| step.deleted().is_some()) {
        if let Some(target) = step.part.target() {
            targets.entry(target).or_default().push(step);
        }
    }
    let removals = targets.iter().map(|(target, steps)| async move {
        let mut successors = steps
            .iter()
            .filter_map(|step| step.change.replaced_by.as_ref());
        let removed = match successors.find(|new| unready.contains(*new)) {
            Some(new) => Err(anyhow::anyhow!("the Link {new} is not ready")),
            None => link(loaded, read, target, steps, wait).await,
        };
        ((*target).to_owned(), removed)
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
    steps: &[&LinkStep],
    wait: Duration,
) -> anyhow::Result<usize> {
    let cluster = &read.cluster;
    let (links, secrets): (Vec<&LinkStep>, Vec<&LinkStep>) =
        steps.iter().partition(|step| step.unlinks());
    for link in &links {
        link.run(cluster).await?;
    }
    let name: ClusterName = target.parse()?;
    let mut others = read.facts.links.iter().filter(|link| {
        let mut gone = links.iter();
        link.spec.target_cluster_name == target
            && !gone.any(|gone| gone.change.name == link.name_any())
    });
    // Another Link to the cluster has the mirrors now.
    if others.next().is_none() {
        let linked = LinkedObjects::default();
        let left = linked.mirrors_left(cluster, &name, &loaded.namespace, wait);
        let left = Box::pin(left).await?.count();
        if left > 0 {
            anyhow::bail!(
                "{left} of its mirrors are left after {wait:?}; check that the controller is running, and run the same command \
                 again"
            );
        }
        tokio::time::sleep(PROPAGATION).await;
    }
    for secret in &secrets {
        secret.run(cluster).await?;
    }
    Ok(links.len() + secrets.len())
}

/// Removes accounts whose clusters have no link any more.
async fn accounts_of(
    read: &ReadCluster,
    plan: &ClusterPlan,
    kept: &BTreeSet<(ClusterName, String)>,
) -> (usize, Vec<String>) {
    let (mut deleted, mut failed) = (0, Vec::new());
    let mut stuck = BTreeSet::new();
    for step in unused_accounts(plan, kept) {
        // The binding says where the account is, until it has gone.
        if let StepPart::Former(source) = &step.part
            && stuck.contains(source)
        {
            continue;
        }
        match step.run(&read.cluster).await {
            Ok(()) => deleted += 1,
            Err(error) => {
                if let StepPart::Former(source) = &step.part {
                    stuck.insert(source);
                }
                failed.push(format!("{}: {error:#}", plan.name));
            }
        }
    }
    (deleted, failed)
}

/// The objects of accounts that a plan deletes, except for those of `kept` links.
pub fn unused_accounts<'p>(
    plan: &'p ClusterPlan,
    kept: &BTreeSet<(ClusterName, String)>,
) -> Vec<&'p LinkStep> {
    let is_kept = |source: &str| {
        let mut kept = kept.iter();
        kept.any(|(from, to)| from.to_string() == source && *to == plan.name)
    };
    let unused = plan.steps.iter().filter(|step| match &step.part {
        StepPart::Account(source) => step.deleted().is_some() && !is_kept(source),
        StepPart::Former(source) => !is_kept(source),
        StepPart::Link(_) | StepPart::Credentials(_) => false,
    });
    unused.collect()
}
