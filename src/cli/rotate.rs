//! `linkerd-mc rotate`: replaces the credentials of links without interrupting traffic.
//!
//! Two processes read a link's credentials: our controller watches its Secret, and Linkerd's destination controller
//! reads its own once, at startup. The old token is revoked when both have the new one.
//!
//! The links are those of one source cluster, or of the file of a fleet, whose source clusters are rotated side by side.

mod args;
mod choice;
mod remaining;
mod revoke;

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context as _;
use client::Cluster;
use futures::future::join_all;
use hints::hint::{fail, misuse};
use links::{
    cluster_name::context_of,
    fleet::{
        loaded::LoadedFleet,
        part::{LinkPart, UsedClusters},
        remaining::text as remaining_text,
    },
    fleet_file::LinkEnds,
    linked::KnownLinks,
    rotate::{
        batch::{Batch, WantedRotation},
        flags::RotationFlags,
        gather::{SourceCluster, TargetCluster},
        outcome::{Ending, RotationOutcome, plan, summary},
    },
};
use manifests::link::ClusterName;
use observe::clusters::kube_context::side_by_side;
use serde_json::json;
use tokio::sync::Semaphore;

pub use self::args::Rotate;
use self::{
    choice::{chosen_of_cluster, chosen_of_file, link_to},
    remaining::remaining,
};
use super::common::{
    args::Global,
    interrupt::on_interrupt,
    output,
    prompt::{canceled, check_can_ask, confirmed},
    wait::spin,
};

/// Runs the command.
pub async fn run(global: &Global, args: &Rotate) -> anyhow::Result<ExitCode> {
    if global.context.is_some() && args.source.is_some() {
        return Err(misuse(
            "--context cannot be used with --source",
            "remove one of them",
        ));
    }
    global.refuse_address()?;
    let file = args.fleet.load(global).await?;
    let parts = match &file {
        Some(loaded) => Parts::of_file(loaded, args)?,
        None => Parts::of_one_cluster(),
    };
    let mut run = RotationRun {
        global,
        args,
        flags: args.flags.clone(),
        file: file.as_ref(),
        limit: Semaphore::new(args.at_most.get().into()),
    };
    if args.asks() {
        run.confirm(&parts).await?;
    }
    if args.writes() {
        // A token is revoked only when nothing uses it.
        on_interrupt(
            "a part of this may be done, and all tokens that are in use are valid",
            "run the same command again, which does the rest",
        );
    }
    let done = run.rotate(&parts).await?;
    output::note(&summary(&done));
    if let Some(plan) = plan(&done).filter(|_| args.flags.dry_run) {
        output::note(&plan);
    }
    let remaining = match &file {
        Some(loaded) => remaining(loaded, &done),
        None => Vec::new(),
    };
    let document = json!({ "links": done, "remaining": remaining });
    let text = || remaining_text(&remaining);
    output::data(&args.output.of(&document, text)?)?;
    let has_failed = |link: &RotationOutcome| link.result == Ending::Failed;
    Ok(output::exit_code(done.iter().any(has_failed)))
}

/// What is to be done in which cluster.
#[derive(Debug, Default)]
struct Parts<'p> {
    /// By source cluster: the links that are rotated there, and in which way. Without a file, there is one source cluster
    /// without a name, and its Links say which links there are.
    sources: BTreeMap<Option<&'p ClusterName>, Vec<(&'p LinkEnds, LinkPart)>>,
    /// By target cluster: the source clusters that cannot be used.
    targets: BTreeMap<&'p ClusterName, Vec<&'p ClusterName>>,
}

impl<'p> Parts<'p> {
    fn of_one_cluster() -> Self {
        Self {
            sources: [(None, Vec::new())].into(),
            targets: BTreeMap::new(),
        }
    }

    fn of_file(loaded: &'p LoadedFleet, args: &Rotate) -> anyhow::Result<Self> {
        let used = UsedClusters::named(loaded, &args.only, |_| false)?;
        let mut parts = Self::default();
        for ends in chosen_of_file(loaded, &args.names)? {
            let LinkEnds { source, target } = ends;
            match LinkPart::of(ends, &used) {
                Some(LinkPart::Target) => parts.targets.entry(target).or_default().push(source),
                Some(part) => {
                    let links = parts.sources.entry(Some(source)).or_default();
                    links.push((ends, part));
                }
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

/// All that a rotation needs.
struct RotationRun<'a> {
    global: &'a Global,
    args: &'a Rotate,
    /// Those of the arguments, or of a dry run before them.
    flags: RotationFlags,
    file: Option<&'a LoadedFleet>,
    /// Bounds what happens at the same time.
    limit: Semaphore,
}

impl RotationRun<'_> {
    /// Shows what would be done, and asks whether it may. Fails if it may not, or if nobody can answer.
    async fn confirm(&mut self, parts: &Parts<'_>) -> anyhow::Result<()> {
        let otherwise = "pass --yes to rotate all links, or name some";
        check_can_ask(otherwise)?;
        self.flags.dry_run = true;
        let planned = self.rotate(parts).await?;
        self.flags.dry_run = false;
        let Some(plan) = plan(&planned) else {
            return Ok(()); // the run says why
        };
        output::line(&plan);
        if confirmed("Do this?", otherwise)? {
            return Ok(());
        }
        Err(canceled())
    }

    /// Does all parts side by side. What fails in a cluster of a file is in the outcome.
    async fn rotate(&self, parts: &Parts<'_>) -> anyhow::Result<Vec<RotationOutcome>> {
        let Some(loaded) = self.file else {
            return self.of_source(None, &[]).await;
        };
        let sources = parts.sources.iter();
        let sources = sources.map(async |(name, links)| {
            let done = self.of_source(*name, links).await;
            done.unwrap_or_else(|error| {
                output::error(&error);
                let failed = links.iter();
                let failed = failed.map(|(ends, _)| RotationOutcome::failed(ends, &error));
                failed.collect()
            })
        });
        let targets = parts.targets.iter();
        let targets = targets.map(|(target, sources)| self.of_target(loaded, target, sources));
        let all = async { futures::join!(join_all(sources), join_all(targets)) };
        let (sources, targets) = spin("rotating", all).await;
        Ok(sources.into_iter().chain(targets).flatten().collect())
    }

    /// Rotates links of one source cluster, which has a name if it is one of a file.
    async fn of_source(
        &self,
        name: Option<&ClusterName>,
        links: &[(&LinkEnds, LinkPart)],
    ) -> anyhow::Result<Vec<RotationOutcome>> {
        let done = Box::pin(self.try_source(name, links)).await;
        match name {
            Some(name) => done.with_context(|| format!("cannot rotate the credentials in {name}")),
            None => done,
        }
    }

    async fn try_source(
        &self,
        name: Option<&ClusterName>,
        links: &[(&LinkEnds, LinkPart)],
    ) -> anyhow::Result<Vec<RotationOutcome>> {
        let source = self.source(name).await?;
        let known = KnownLinks::read(&source.cluster, &source.namespace).await?;
        let (mut wanted, mut outcomes) = (Vec::new(), Vec::new());
        for (ends, part) in links {
            let Some(link) = link_to(&known.links, &ends.target) else {
                let why = "there is no Link; `fleet apply` makes it";
                let outcome = RotationOutcome::failed(ends, &anyhow::anyhow!(why));
                output::warning(&format!("{} → {}: {why}", ends.source, ends.target));
                outcomes.push(outcome);
                continue;
            };
            wanted.push((link, *part));
        }
        if name.is_none() {
            let all = chosen_of_cluster(&source, &self.args.names, &known.links)?;
            wanted.extend(all.into_iter().map(|link| (link, LinkPart::Whole)));
        }
        let wanted = wanted.into_iter().map(async |(link, part)| WantedRotation {
            link: link.clone(),
            target: match part {
                LinkPart::Whole => {
                    let target = self.target(&link.spec.target_cluster_name).await;
                    target.map(Some)
                }
                LinkPart::Source | LinkPart::Target => Ok(None),
            },
        });
        let wanted = side_by_side(wanted).await;
        let batch = Batch {
            flags: &self.flags,
            source: &source,
            limit: &self.limit,
            prepares: name.is_some(),
        };
        outcomes.extend(Box::pin(batch.rotate(&known, wanted)).await?);
        Ok(outcomes)
    }

    async fn source(&self, name: Option<&ClusterName>) -> anyhow::Result<SourceCluster> {
        let all = self.global.access();
        if let (Some(loaded), Some(name)) = (self.file, name) {
            let (_, cluster) = loaded.connect(&all, name).await?;
            return Ok(SourceCluster {
                name: Some(name.to_string()),
                cluster,
                namespace: loaded.namespace.clone(),
                linkerd: loaded.linkerd.clone(),
            });
        }
        let access = match &self.args.source {
            Some(context) => all.with_context(context),
            None => all,
        };
        Ok(SourceCluster {
            name: None,
            cluster: Cluster::connect(&access).await?,
            namespace: self.args.namespace.clone(),
            linkerd: self.global.linkerd_namespace.clone(),
        })
    }

    async fn target(&self, name: &str) -> anyhow::Result<TargetCluster> {
        let all = self.global.access();
        if let Some(loaded) = self.file {
            let (access, cluster) = loaded.connect(&all, &name.parse()?).await?;
            let context = access.context.unwrap_or_default();
            return Ok(TargetCluster { cluster, context });
        }
        let context = self.target_context(name)?;
        let cluster = Cluster::connect(&all.with_context(&context)).await?;
        Ok(TargetCluster { cluster, context })
    }

    /// The context of a target cluster: the given one, or the one for a cluster of this name.
    fn target_context(&self, cluster: &str) -> anyhow::Result<String> {
        if let Some(given) = &self.args.target {
            return Ok(given.clone());
        }
        let contexts = self.global.access().kubeconfig()?.contexts;
        let names = || contexts.iter().map(|context| context.name.as_str());
        let found = context_of(cluster, names()).map(str::to_owned);
        found.map_err(|several| match several.as_slice() {
            [] => fail(
                format!("no context of the kubeconfig is called {cluster}"),
                format!(
                    "pass the context of {cluster} with --target; known contexts: {}",
                    names().collect::<Vec<_>>().join(", ")
                ),
            ),
            several => fail(
                format!(
                    "several contexts are of a cluster {cluster}: {}",
                    several.join(", ")
                ),
                "pass one of them with --target",
            ),
        })
    }
}
