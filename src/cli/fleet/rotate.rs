//! `fleet rotate`: new tokens for the accounts of the links of a file. Source clusters are rotated side by side, and the
//! links of one of them together, with one restart of Linkerd.

mod args;
mod choice;

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context as _;
use futures::future::join_all;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;

pub(super) use self::args::FleetRotateArgs;
use self::choice::chosen;
use super::{
    format::FleetFormat,
    loaded::{LoadedFleet, load},
};
use crate::{
    api::link::Link,
    cli::{
        common::{args::Global, interrupt::on_interrupt, linked::links, output, wait::spin},
        rotate::{
            Batch, Ending, RotationDetails, RotationOutcome, SourceCluster, TargetCluster,
            WantedRotation, is_duplicate,
        },
    },
    manifests::link::ClusterName,
};

/// The result of one link.
#[derive(Debug, Serialize)]
struct LinkRotation {
    source: String,
    #[serde(flatten)]
    outcome: RotationOutcome,
}

/// All that the rotation of a source cluster needs.
struct FleetRotation<'a> {
    global: &'a Global,
    args: &'a FleetRotateArgs,
    loaded: &'a LoadedFleet,
    limit: Semaphore,
}

/// Runs the command.
pub(super) async fn rotate(global: &Global, args: &FleetRotateArgs) -> anyhow::Result<ExitCode> {
    let loaded = load(&args.file, &global.linkerd_namespace)?;
    let chosen = chosen(&loaded, &args.cluster, &args.link)?;
    if !args.flags.dry_run {
        on_interrupt(
            "a part of this may be done, and all tokens that are in use are valid",
            "run the same command again, which does the rest",
        );
    }
    let mut sources: BTreeMap<&ClusterName, Vec<&ClusterName>> = BTreeMap::new();
    for ends in chosen {
        sources.entry(&ends.source).or_default().push(&ends.target);
    }
    let fleet = FleetRotation {
        global,
        args,
        loaded: &loaded,
        limit: Semaphore::new(args.at_most.get().into()),
    };
    let rotations = sources.iter();
    let rotations = rotations.map(|(source, targets)| fleet.of_source(source, targets));
    let done = spin("rotating", join_all(rotations)).await;
    let done: Vec<LinkRotation> = done.into_iter().flatten().collect();
    output::note(&summary(&done));
    if args.output == FleetFormat::Json {
        output::data(&output::json(&json!({ "links": done }))?)?;
    }
    let has_failed = |link: &LinkRotation| link.outcome.result == Ending::Failed;
    Ok(output::exit_code(done.iter().any(has_failed)))
}

impl FleetRotation<'_> {
    /// Rotates the links of one source cluster.
    async fn of_source(&self, name: &ClusterName, targets: &[&ClusterName]) -> Vec<LinkRotation> {
        let done = Box::pin(self.try_source(name, targets)).await;
        let done = done.with_context(|| format!("cannot rotate the credentials in {name}"));
        let outcomes = done.unwrap_or_else(|error| {
            output::error(&error);
            let failed = targets.iter().map(|target| failed(target, &error));
            failed.collect()
        });
        let outcomes = outcomes.into_iter().map(|outcome| LinkRotation {
            source: name.to_string(),
            outcome,
        });
        outcomes.collect()
    }

    async fn try_source(
        &self,
        name: &ClusterName,
        targets: &[&ClusterName],
    ) -> anyhow::Result<Vec<RotationOutcome>> {
        let (access, cluster) = self.loaded.connect(&self.global.access(), name).await?;
        let source = SourceCluster {
            name: Some(name.to_string()),
            cluster,
            access,
            namespace: self.loaded.namespace.clone(),
            linkerd: self.loaded.linkerd.clone(),
        };
        let links = links(&source.cluster, &source.namespace).await?;
        let (mut wanted, mut outcomes) = (Vec::new(), Vec::new());
        for target in targets {
            let Some(link) = link_to(&links, target) else {
                let why = "there is no Link; `fleet apply` makes it";
                output::warning(&format!("{name} → {target}: {why}"));
                outcomes.push(failed(target, &anyhow::anyhow!(why)));
                continue;
            };
            wanted.push(WantedRotation {
                link: link.clone(),
                target: self.target(target).await,
            });
        }
        let batch = Batch {
            flags: &self.args.flags,
            source: &source,
            limit: &self.limit,
            prepares: true,
        };
        outcomes.extend(batch.rotate(&links, wanted).await?);
        Ok(outcomes)
    }

    async fn target(&self, name: &ClusterName) -> anyhow::Result<TargetCluster> {
        let (access, cluster) = self.loaded.connect(&self.global.access(), name).await?;
        let context = access.context.unwrap_or_default();
        Ok(TargetCluster { cluster, context })
    }
}

/// The Link to this cluster that the controller uses.
fn link_to<'l>(links: &'l [Link], target: &ClusterName) -> Option<&'l Link> {
    let target = target.to_string();
    let mut links = links.iter();
    links.find(|link| link.spec.target_cluster_name == target && !is_duplicate(link))
}

fn failed(target: &ClusterName, error: &anyhow::Error) -> RotationOutcome {
    RotationOutcome {
        cluster: target.to_string(),
        result: Ending::Failed,
        reason: Some(format!("{error:#}")),
        done: RotationDetails::default(),
    }
}

/// How many links ended in which way.
fn summary(done: &[LinkRotation]) -> String {
    let endings = [
        (Ending::Rotated, "rotated"),
        (Ending::RestartNeeded, "to be restarted"),
        (Ending::Planned, "would be rotated"),
        (Ending::Skipped, "skipped"),
        (Ending::Failed, "failed"),
    ];
    let counts = endings.iter().filter_map(|(ending, what)| {
        let links = done.iter();
        let count = links.filter(|link| link.outcome.result == *ending).count();
        (count > 0).then(|| format!("{count} {what}"))
    });
    let counts: Vec<String> = counts.collect();
    format!("links: {}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_there_is() {
        let of = |result| LinkRotation {
            source: "west".to_owned(),
            outcome: RotationOutcome {
                result,
                ..failed(&"east".parse().unwrap(), &anyhow::anyhow!("no"))
            },
        };
        let done = [Ending::Failed, Ending::Rotated, Ending::Rotated].map(of);
        assert_eq!(summary(&done), "links: 2 rotated, 1 failed");
    }
}
