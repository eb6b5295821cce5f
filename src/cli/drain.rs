//! `linkerd-mc drain` and `undrain`: take a target cluster out of federated Services for a while, and let it rejoin.
//!
//! The commands write an annotation of the Link, and wait until the Link's status shows that the controller acted on
//! it.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use clap_complete::ArgValueCompleter;
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::common::{
    args::{self, Global},
    cluster::Cluster,
    complete,
    linked::{Mirrors, PROPAGATION, known_clusters, links},
    output,
    wait::{POLL_INTERVAL, Progress, poll},
};
use crate::{
    api::{
        conditions::{DRAINED, drained},
        duration::rfc3339,
        labels,
        link::Link,
        text::in_brief,
    },
    hint::fail,
    manifests::link::ClusterName,
    mirror::{Reason, target::drain::until},
    timing,
};

const DRAIN_EXAMPLES: &str = "\
Examples:
  # Take east out of the federated Services of west, before an upgrade
  linkerd-mc --context west drain --cluster-name east

  # Drain it for 4 hours
  linkerd-mc --context west drain --cluster-name east --duration 4h

  # Show what would be done, with the equivalent kubectl command
  linkerd-mc --context west drain --cluster-name east --dry-run

Exit codes: 0 it left all federated Services; 1 it is still in some, or failed.";

const UNDRAIN_EXAMPLES: &str = "\
Examples:
  # Let east rejoin the federated Services of west
  linkerd-mc --context west undrain --cluster-name east";

/// Minimum and maximum duration of a drain.
const BOUNDS: (Duration, Duration) = (
    Duration::from_secs(60),
    Duration::from_secs(7 * 24 * 60 * 60),
);

/// Take a cluster out of federated Services for maintenance
///
/// Requests to federated Services of this cluster go to the other members. The cluster stays in federated Services that
/// have no other member; the command lists them. Mirrors of the cluster are not affected. The drain ends after
/// --duration or with `undrain`. Running `drain` again restarts the time.
///
/// The end of the drain is stored in an annotation of the Link. Run the command for each source cluster that has a Link
/// to the drained cluster.
#[derive(Debug, Args)]
#[command(after_long_help = DRAIN_EXAMPLES)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    which: Which,
    /// Duration of the drain, from 1m to 7d
    #[arg(long, alias = "for", value_name = "DURATION", default_value = "1h", value_parser = span)]
    duration: Duration,
    /// How long to wait until the cluster has left; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

/// End the drain of a cluster, so that it rejoins federated Services
#[derive(Debug, Args)]
#[command(after_long_help = UNDRAIN_EXAMPLES)]
pub(crate) struct UndrainArgs {
    #[command(flatten)]
    which: Which,
    /// How long to wait until the cluster has rejoined; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

/// Which cluster, and whether anything is written.
#[derive(Debug, Args)]
struct Which {
    /// Name of the target cluster
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: ClusterName,
    /// Namespace of the Link
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Show what would be done, with the equivalent kubectl command, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs `drain`. Exit code 1 if the cluster stays in a federated Service.
pub(crate) async fn drain(global: &Global, args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&global.access()).await?;
    let name = &args.which.cluster_name;
    let links = args.which.links(&cluster).await?;
    let end = timing::now() + args.duration;
    if args.which.dry_run {
        output::note(&format!("would drain {name} {}, as with", until(end)));
        return args.which.print(&cluster, &links, Some(end));
    }
    annotate(&cluster, &links, Some(end)).await?;
    if args.wait.is_zero() {
        output::note(&format!("{name} is drained {}", until(end)));
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = format!("waiting for {name} to leave federated Services");
    let left = args
        .which
        .wait(&cluster, &waiting, args.wait, |links| has_left(links, end));
    let all = Box::pin(left).await?.map_err(|why| {
        fail(
            format!(
                "{name} has not left federated Services after {:?}: {why}",
                args.wait
            ),
            format!(
                "the Link is drained {}; check that the controller is running, or pass a longer --wait",
                until(end)
            ),
        )
    })?;
    tokio::time::sleep(PROPAGATION).await;
    if all {
        output::note(&format!(
            "{name} is drained {}: it has left all federated Services",
            until(end)
        ));
        return Ok(ExitCode::SUCCESS);
    }
    args.which.list_those_it_stays_in(&cluster, end).await
}

/// Runs `undrain`.
pub(crate) async fn undrain(global: &Global, args: &UndrainArgs) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&global.access()).await?;
    let name = &args.which.cluster_name;
    let Some(links) = to_undrain(args.which.links(&cluster).await?) else {
        output::note(&format!("{name} is not drained"));
        return Ok(ExitCode::SUCCESS);
    };
    if args.which.dry_run {
        output::note(&format!("would end the drain of {name}, as with"));
        return args.which.print(&cluster, &links, None);
    }
    annotate(&cluster, &links, None).await?;
    if !args.wait.is_zero() {
        let waiting = format!("waiting for {name} to rejoin federated Services");
        let back = args.which.wait(&cluster, &waiting, args.wait, is_back);
        Box::pin(back).await?.map_err(|why| {
            fail(
                format!("{name} has not rejoined federated Services after {:?}: {why}", args.wait),
                format!(
                    "check that the controller is running and the cluster is connected with {}, or pass a longer --wait",
                    cluster.flags.mc("check", &[])
                ),
            )
        })?;
    }
    output::note(&format!("{name} is no longer drained"));
    Ok(ExitCode::SUCCESS)
}

impl Which {
    /// The Links to the cluster, at least one.
    async fn links(&self, cluster: &Cluster) -> anyhow::Result<Vec<Link>> {
        let mut found = links(cluster, &self.namespace).await?;
        let hint = known_clusters(
            &found,
            "choose another namespace with --namespace, or another cluster with --context",
        );
        let name = self.cluster_name.to_string();
        found.retain(|link| link.spec.target_cluster_name == name);
        if found.is_empty() {
            return Err(fail(
                format!(
                    "no Link to {name:?} found in namespace {:?}",
                    self.namespace
                ),
                hint,
            ));
        }
        Ok(found)
    }

    /// Prints the command that sets or removes the annotation.
    fn print(
        &self,
        cluster: &Cluster,
        links: &[Link],
        end: Option<Timestamp>,
    ) -> anyhow::Result<ExitCode> {
        let (namespace, key) = (self.namespace.as_str(), labels::DRAINED_UNTIL);
        for link in links {
            let name = link.name_any();
            let command = match end.map(rfc3339) {
                Some(end) => cluster.flags.kubectl(
                    "-n {} annotate links.multicluster.linkerd.io {} --overwrite {}={}",
                    &[namespace, &name, key, &end],
                ),
                None => cluster.flags.kubectl(
                    "-n {} annotate links.multicluster.linkerd.io {} {}-",
                    &[namespace, &name, key],
                ),
            };
            output::data(&format!("{}\n", command.line()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Polls the Links until `check` returns `Ok`. The inner `Err` is its last error.
    async fn wait<T>(
        &self,
        cluster: &Cluster,
        waiting: &str,
        wait: Duration,
        check: impl Fn(&[Link]) -> Result<T, String>,
    ) -> anyhow::Result<Result<T, String>> {
        let progress = Progress::new(waiting);
        let attempt = async || anyhow::Ok(check(&self.links(cluster).await?));
        let waits = |why: &String| progress.say(&format!("{waiting} ({why})"));
        let polling = poll(POLL_INTERVAL, wait, attempt, waits);
        progress.during(Box::pin(polling)).await
    }

    /// Lists the federated Services that have no other member.
    async fn list_those_it_stays_in(
        &self,
        cluster: &Cluster,
        end: Timestamp,
    ) -> anyhow::Result<ExitCode> {
        let name = &self.cluster_name;
        let mirrors = Box::pin(Mirrors::gather(cluster, name, &self.namespace)).await?;
        let carried = mirrors.federated.into_iter().chain(mirrors.shared);
        let mut carried: Vec<String> = carried
            .map(|service| {
                let namespace = service.namespace.unwrap_or_default();
                format!("{namespace}/{}\n", service.name)
            })
            .collect();
        carried.sort();
        output::data(&carried.concat())?;
        output::warning(&format!(
            "{name} is drained {}, but stays in federated Services that have no other member: {}",
            until(end),
            carried.len()
        ));
        Ok(ExitCode::FAILURE)
    }
}

/// Sets or removes the annotation of these Links.
async fn annotate(cluster: &Cluster, links: &[Link], end: Option<Timestamp>) -> anyhow::Result<()> {
    for link in links {
        let namespace = link.namespace().unwrap_or_default();
        let api = cluster.api::<Link>(&namespace);
        let name = link.name_any();
        // The UID excludes a newer Link of this name.
        let patch = json!({ "metadata": {
            "uid": link.uid(),
            "annotations": { labels::DRAINED_UNTIL: end.map(rfc3339) },
        } });
        let parameters = PatchParams::default();
        let patch = Patch::Merge(patch);
        cluster
            .request(
                &format!("annotate the Link {name}"),
                api.patch_metadata(&name, &parameters, &patch),
            )
            .await?;
    }
    Ok(())
}

/// Whether the cluster of these Links has left all federated Services (`true`), or all but those without another member
/// (`false`), in the drain that lasts until `end`. `Err` while it has not, with the reason.
fn has_left(links: &[Link], end: Timestamp) -> Result<bool, String> {
    let mut why = "no status reported yet".to_owned();
    for link in links {
        let conditions = link.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions {
            match condition.type_.as_str() {
                DRAINED if condition.message.starts_with(&until(end)) => {
                    if condition.reason != drained::LEAVING {
                        return Ok(condition.reason == drained::DRAINED);
                    }
                    why.clone_from(&condition.message);
                }
                "Ready" if condition.status != "True" => {
                    why = in_brief(&format!("{}: {}", condition.reason, condition.message));
                }
                _ => {}
            }
        }
    }
    Err(why)
}

/// The Links that have the annotation of a drain. `None` if the cluster is not drained: no Link has the annotation, and
/// no status shows a drain. Statuses still show one after an `undrain` that timed out; then the list may be empty.
fn to_undrain(mut links: Vec<Link>) -> Option<Vec<Link>> {
    let is_over = is_back(&links).is_ok();
    links.retain(|link| link.annotations().contains_key(labels::DRAINED_UNTIL));
    (!links.is_empty() || !is_over).then_some(links)
}

/// Succeeds if the status of none of these Links shows a drain. `Err` is what the status shows.
fn is_back(links: &[Link]) -> Result<(), String> {
    for status in links.iter().filter_map(|link| link.status.as_ref()) {
        if let Some(drained) = status.conditions.iter().find(|c| c.type_ == DRAINED) {
            return Err(format!("drained {}", drained.message));
        }
        let federated = status.federated_services.iter();
        let out = federated.filter(|service| {
            let mut said = service.conditions.iter();
            said.any(|c| c.reason == Reason::Drained.as_str())
        });
        let out = out.count();
        if out > 0 {
            return Err(format!("federated Services left to rejoin: {out}"));
        }
    }
    Ok(())
}

/// A Go duration, or days, within [`BOUNDS`].
fn span(text: &str) -> Result<Duration, String> {
    let span = args::days_or_duration(text)?;
    let (shortest, longest) = BOUNDS;
    if span < shortest || span > longest {
        return Err("must be between 1m and 7d".to_owned());
    }
    Ok(span)
}

#[cfg(test)]
mod tests;
