//! `fleet rotate`: new tokens for the accounts of the links of a file. Source clusters are rotated side by side, and the
//! links of one of them together, with one restart of Linkerd.

mod args;
mod choice;
mod context;
mod hand_over;
mod outcome;
mod remaining;

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context as _;
use futures::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;

pub(super) use self::args::FleetRotateArgs;
use self::{
    choice::chosen,
    context::FleetRotation,
    hand_over::handed,
    outcome::{LinkRotation, failed, plan, summary},
    remaining::remaining,
};
use super::{
    format::FleetFormat,
    loaded::load,
    part::{LinkPart, UsedClusters},
    remaining::text,
};
use crate::{
    api::link::Link,
    cli::{
        common::{
            args::Global,
            linked::KnownLinks,
            output,
            prompt::{check_can_ask, confirmed},
            wait::spin,
        },
        rotate::{
            Batch, Ending, RotationOutcome, SourceCluster, TargetCluster, TokenSource,
            WantedRotation, is_duplicate, say_if_interrupted,
        },
    },
    fleet::LinkEnds,
    hint::fail,
    manifests::{kubeconfig::Secret, link::ClusterName},
};

/// Runs the command.
pub(super) async fn rotate(global: &Global, args: &FleetRotateArgs) -> anyhow::Result<ExitCode> {
    let loaded = load(global, &args.file, &args.plugins).await?;
    let chosen = chosen(&loaded, &args.cluster, &args.link)?;
    let used = UsedClusters::named(&loaded, &args.only, |_| false)?;
    let parts = Parts::of(chosen, &used)?;
    let mut fleet = FleetRotation {
        global,
        args,
        flags: args.flags.clone(),
        loaded: &loaded,
        limit: Semaphore::new(args.at_most.get().into()),
    };
    if args.asks() {
        fleet.confirm(&parts).await?;
    }
    if args.writes() {
        say_if_interrupted();
    }
    let done = spin("rotating", fleet.rotate(&parts)).await;
    output::note(&summary(&done));
    if let Some(plan) = plan(&done).filter(|_| args.flags.dry_run) {
        output::note(&plan);
    }
    let remaining = remaining(&args.file, args.hand_over.as_deref(), &done);
    output::data(&match args.output {
        FleetFormat::Text => text(&remaining),
        FleetFormat::Json => output::json(&json!({ "links": done, "remaining": remaining }))?,
    })?;
    let has_failed = |link: &LinkRotation| link.outcome.result == Ending::Failed;
    Ok(output::exit_code(done.iter().any(has_failed)))
}

/// What is to be done in which cluster.
#[derive(Debug, Default)]
struct Parts<'p> {
    /// By source cluster: the links that are rotated there, and in which way.
    sources: BTreeMap<&'p ClusterName, Vec<(&'p LinkEnds, LinkPart)>>,
    /// By target cluster: the source clusters that cannot be used.
    targets: BTreeMap<&'p ClusterName, Vec<&'p ClusterName>>,
}

impl<'p> Parts<'p> {
    fn of(chosen: Vec<&'p LinkEnds>, used: &UsedClusters) -> anyhow::Result<Self> {
        let mut parts = Self::default();
        for ends in chosen {
            let LinkEnds { source, target } = ends;
            match LinkPart::of(ends, used) {
                Some(LinkPart::Target) => parts.targets.entry(target).or_default().push(source),
                Some(part) => parts.sources.entry(source).or_default().push((ends, part)),
                None => {}
            }
        }
        if parts.sources.is_empty() && parts.targets.is_empty() {
            return Err(fail(
                "the clusters of --only have none of these links",
                "name a cluster of these links with --only",
            ));
        }
        Ok(parts)
    }
}

impl FleetRotation<'_> {
    /// Shows what would be done, and asks whether it may. Fails if it may not, or if nobody can answer.
    async fn confirm(&mut self, parts: &Parts<'_>) -> anyhow::Result<()> {
        let otherwise = "pass --yes to rotate all links, or choose some with --cluster or --link";
        check_can_ask(otherwise)?;
        self.flags.dry_run = true;
        let planned = spin("reading the clusters", self.rotate(parts)).await;
        self.flags.dry_run = false;
        let Some(plan) = plan(&planned) else {
            return Ok(()); // the run says why
        };
        output::line(&plan);
        if confirmed("Do this?", otherwise)? {
            return Ok(());
        }
        Err(fail("canceled: nothing was changed", otherwise))
    }

    /// Does all parts side by side.
    async fn rotate(&self, parts: &Parts<'_>) -> Vec<LinkRotation> {
        let sources = parts.sources.iter();
        let sources = sources.map(|(source, links)| self.of_source(source, links));
        let targets = parts.targets.iter();
        let targets = targets.map(|(target, sources)| self.of_target(target, sources));
        let (sources, targets) = futures::join!(join_all(sources), join_all(targets));
        sources.into_iter().chain(targets).flatten().collect()
    }

    /// Rotates the links of one source cluster.
    async fn of_source(
        &self,
        name: &ClusterName,
        targets: &[(&LinkEnds, LinkPart)],
    ) -> Vec<LinkRotation> {
        let done = Box::pin(self.try_source(name, targets)).await;
        let done = done.with_context(|| format!("cannot rotate the credentials in {name}"));
        let outcomes = done.unwrap_or_else(|error| {
            output::error(&error);
            let failed = targets.iter().map(|(ends, _)| failed(&ends.target, &error));
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
        targets: &[(&LinkEnds, LinkPart)],
    ) -> anyhow::Result<Vec<RotationOutcome>> {
        let (_, cluster) = self.loaded.connect(&self.global.access(), name).await?;
        let source = SourceCluster {
            name: Some(name.to_string()),
            cluster,
            namespace: self.loaded.namespace.clone(),
            linkerd: self.loaded.linkerd.clone(),
        };
        let known = KnownLinks::read(&source.cluster, &source.namespace).await?;
        let (mut wanted, mut outcomes) = (Vec::new(), Vec::new());
        for (ends, part) in targets {
            let target = &ends.target;
            let Some(link) = link_to(&known.links, target) else {
                let why = "there is no Link; `fleet apply` makes it";
                output::warning(&format!("{name} → {target}: {why}"));
                outcomes.push(failed(target, &anyhow::anyhow!(why)));
                continue;
            };
            wanted.push(WantedRotation {
                link: link.clone(),
                from: match part {
                    LinkPart::Whole => {
                        let target = self.target(target).await;
                        target.map(|target| TokenSource::Target(Box::new(target)))
                    }
                    LinkPart::Source | LinkPart::Target => {
                        self.handed(ends).map(TokenSource::HandedOver)
                    }
                },
            });
        }
        let batch = Batch {
            flags: &self.flags,
            source: &source,
            limit: &self.limit,
            prepares: true,
        };
        outcomes.extend(batch.rotate(&known, wanted).await?);
        Ok(outcomes)
    }

    /// The token that was handed over for a link, if there is one.
    fn handed(&self, ends: &LinkEnds) -> anyhow::Result<Option<Secret>> {
        match &self.args.take_over {
            Some(folder) => handed(folder, ends),
            None => Ok(None),
        }
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
