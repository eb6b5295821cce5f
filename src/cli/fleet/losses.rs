//! Which mirrors go with what a plan changes and deletes.

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use kube::ResourceExt as _;
use links::{
    fleet::{
        gather::{ReadCluster, ReadClusters, SIDE_BY_SIDE},
        loaded::LoadedFleet,
        plan::FleetPlan,
    },
    linked::{Losses, Mirrors},
    steps::Removes,
};
use mirror_core::api::link::Link;

use crate::cli::{common::mirroring::Parse, plan::losses::losses};

/// What is known of the cluster of this name.
fn of<'r>(read: &'r ReadClusters, name: &str) -> Option<&'r ReadCluster> {
    read.get(&name.parse().ok()?)?.as_ref().ok()
}

/// Reads what the controllers would remove, and adds it to the plan.
pub async fn read_losses(
    loaded: &LoadedFleet,
    read: &ReadClusters,
    plan: &mut FleetPlan,
    parse: Parse,
) {
    let mut reads: Vec<BoxFuture<'_, ([String; 2], anyhow::Result<Losses>)>> = Vec::new();
    for (source, link) in plan.changed() {
        let id = [source.to_owned(), link.name_any()];
        let losses = of_change(read, source, link, parse);
        reads.push(async { (id, Box::pin(losses).await) }.boxed());
    }
    for cluster in &plan.clusters {
        let Some(source) = of(read, &cluster.name) else {
            continue;
        };
        let is_gone = |link: &&Link| {
            let mut steps = cluster.steps.iter().chain(&cluster.unwanted);
            steps.any(|step| step.unlinks() && step.change.name == link.name_any())
        };
        let (gone, staying): (Vec<&Link>, Vec<&Link>) =
            source.facts.links.iter().partition(is_gone);
        for link in gone {
            let target = &link.spec.target_cluster_name;
            // Another Link to the cluster keeps the mirrors that it selects.
            if staying
                .iter()
                .any(|other| other.spec.target_cluster_name == *target)
            {
                continue;
            }
            let id = [cluster.name.clone(), link.name_any()];
            let read = of_deletion(source, target, &loaded.namespace);
            reads.push(async { (id, Box::pin(read).await) }.boxed());
        }
    }
    let reads = stream::iter(reads).buffer_unordered(SIDE_BY_SIDE);
    let found: Vec<_> = reads.collect().await;
    for ([cluster, link], losses) in found {
        let mut plans = plan.clusters.iter_mut();
        let plan = plans.find(|plan| plan.name == cluster);
        let steps = plan.into_iter();
        let steps = steps.flat_map(|plan| plan.steps.iter_mut().chain(&mut plan.unwanted));
        let mut changes = steps.map(|step| &mut step.change);
        let change = changes.find(|change| change.kind == "Link" && change.name == link);
        if let Some(change) = change {
            change.removes = Some(match losses {
                // In federated Services, the new name takes the place of the old one.
                Ok(losses) if change.replaced_by.is_some() => Removes::Known(Losses {
                    mirrors: losses.mirrors,
                    ..Losses::default()
                }),
                Ok(losses) => Removes::Known(losses),
                Err(error) => Removes::Unknown {
                    unknown: format!("{error:#}"),
                },
            });
        }
    }
}

/// What goes if a Link is changed.
async fn of_change(
    read: &ReadClusters,
    source: &str,
    link: &Link,
    parse: Parse,
) -> anyhow::Result<Losses> {
    let target = &link.spec.target_cluster_name;
    let (Some(source), Some(there)) = (of(read, source), of(read, target)) else {
        anyhow::bail!("{target} was not read");
    };
    losses(&source.cluster.client, &there.cluster.client, link, parse).await
}

/// What goes with the last Link to a cluster.
async fn of_deletion(
    source: &ReadCluster,
    target: &str,
    namespace: &str,
) -> anyhow::Result<Losses> {
    let mirrors = Mirrors::gather(&source.cluster, &target.parse()?, namespace).await?;
    Ok(Losses::of(&mirrors))
}
