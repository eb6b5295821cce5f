//! `linkerd-mc drain` and `undrain`: a target cluster leaves federated Services for a while, and joins them again.
//!
//! An annotation of the Link says so, and the controller acts on it. The commands write it, and wait for the controller's
//! answer in the Link's status.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use clap_complete::ArgValueCompleter;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    args::{self, Global},
    cluster::{Cluster, block_on},
    complete,
    linked::{Mirrors, known_clusters, links},
    output,
    progress::Progress,
    unlink::SEEN,
};
use crate::{
    api::{labels, link::Link, time::rfc3339},
    controller::clock,
    hint::{fail, in_brief},
    manifests::link::ClusterName,
    mirror::{
        Reason,
        target::drain::{DRAINED, LEAVING, until},
    },
};

const DRAIN_EXAMPLES: &str = "\
Examples:
  # Take east out of the federated Services of west, before it is upgraded
  linkerd-mc --context west drain --cluster-name east

  # For longer
  linkerd-mc --context west drain --cluster-name east --for 4h

  # The command that would be run by hand
  linkerd-mc --context west drain --cluster-name east --dry-run

Exit codes: 0 it has left all; 1 it stays in some, or something failed.";

const UNDRAIN_EXAMPLES: &str = "\
Examples:
  # East takes part again in the federated Services of west
  linkerd-mc --context west undrain --cluster-name east";

/// The shortest drain, and the longest.
const BOUNDS: (Duration, Duration) = (
    Duration::from_secs(60),
    Duration::from_secs(7 * 24 * 60 * 60),
);
/// Time between two looks at a Link.
const LOOK: Duration = Duration::from_millis(250);

/// Take a cluster out of federated Services for a while, so that it can be worked on
///
/// Requests to federated Services of this cluster go to the other members. Where there is no other, the cluster stays:
/// those Services are listed. Mirrors of the cluster, which ask for it by name, stay as they are. It comes back when the
/// time is over, or with `undrain`; run again, the time begins anew.
///
/// An annotation of the Link says until when. In each cluster that has a Link to the one that is worked on, it is to be
/// drained.
#[derive(Debug, Args)]
#[command(after_long_help = DRAIN_EXAMPLES)]
pub(crate) struct Drain {
    #[command(flatten)]
    which: Which,
    /// Until it comes back by itself: 1m to 7d; 2d is 2 days
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = span)]
    span: Duration,
    /// Wait this long until it has left; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

/// End the drain of a cluster: it takes part in federated Services again
#[derive(Debug, Args)]
#[command(after_long_help = UNDRAIN_EXAMPLES)]
pub(crate) struct Undrain {
    #[command(flatten)]
    which: Which,
    /// Wait this long until it is back; 0s does not wait
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
    /// Print the command that does the same, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs `drain`. Exit code 1 where the cluster stays in a federated Service.
pub(crate) fn drain(global: &Global, args: &Drain) -> anyhow::Result<ExitCode> {
    block_on(async {
        let cluster = Cluster::connect(&global.access()).await?;
        let name = &args.which.cluster_name;
        let links = args.which.links(&cluster).await?;
        let end = clock::now() + args.span;
        if args.which.dry_run {
            return args.which.print(&links, Some(end));
        }
        annotate(&cluster, &links, Some(end)).await?;
        if args.wait.is_zero() {
            output::note(&format!("{name} is drained {}", until(end)));
            return Ok(ExitCode::SUCCESS);
        }
        let waiting = format!("waiting until {name} has left federated Services");
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
                    "the Link says {}; is the controller running? --wait waits longer",
                    until(end)
                ),
            )
        })?;
        tokio::time::sleep(SEEN).await;
        if all {
            output::note(&format!(
                "{name} is drained {}: it takes part in no federated Service",
                until(end)
            ));
            return Ok(ExitCode::SUCCESS);
        }
        args.which.list_those_it_stays_in(&cluster, end).await
    })
}

/// Runs `undrain`.
pub(crate) fn undrain(global: &Global, args: &Undrain) -> anyhow::Result<ExitCode> {
    block_on(async {
        let cluster = Cluster::connect(&global.access()).await?;
        let name = &args.which.cluster_name;
        let mut links = args.which.links(&cluster).await?;
        links.retain(|link| link.annotations().contains_key(labels::DRAINED_UNTIL));
        if links.is_empty() {
            output::note(&format!("{name} is not drained"));
            return Ok(ExitCode::SUCCESS);
        }
        if args.which.dry_run {
            return args.which.print(&links, None);
        }
        annotate(&cluster, &links, None).await?;
        if !args.wait.is_zero() {
            let waiting = format!("waiting until {name} takes part in federated Services");
            let back = args.which.wait(&cluster, &waiting, args.wait, is_back);
            Box::pin(back).await?.map_err(|why| {
                fail(
                    format!("{name} is not back in federated Services after {:?}: {why}", args.wait),
                    "is the controller running, and the cluster connected? `linkerd-mc check` says more; --wait waits longer",
                )
            })?;
        }
        output::note(&format!("{name} takes part in federated Services again"));
        Ok(ExitCode::SUCCESS)
    })
}

impl Which {
    /// The Links to the cluster, at least one.
    async fn links(&self, cluster: &Cluster) -> anyhow::Result<Vec<Link>> {
        let mut found = links(cluster, &self.namespace).await?;
        let hint = known_clusters(
            &found,
            "--namespace says where to look, --context in which cluster",
        );
        let name = self.cluster_name.to_string();
        found.retain(|link| link.spec.target_cluster_name == name);
        if found.is_empty() {
            return Err(fail(
                format!(
                    "no Link in the namespace {:?} is to {name:?}",
                    self.namespace
                ),
                hint,
            ));
        }
        Ok(found)
    }

    /// Prints what sets the end of a drain, or takes it away.
    fn print(&self, links: &[Link], end: Option<Timestamp>) -> anyhow::Result<ExitCode> {
        let change = match end {
            Some(end) => format!("--overwrite {}={}", labels::DRAINED_UNTIL, rfc3339(end)),
            None => format!("{}-", labels::DRAINED_UNTIL),
        };
        for link in links {
            output::data(&format!(
                "kubectl -n {} annotate links.multicluster.linkerd.io {} {change}\n",
                self.namespace,
                link.name_any()
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Looks at the Links until they tell what is waited for. Inside, `Err` is what they told last.
    async fn wait<T>(
        &self,
        cluster: &Cluster,
        waiting: &str,
        wait: Duration,
        told: impl Fn(&[Link]) -> Result<T, String>,
    ) -> anyhow::Result<Result<T, String>> {
        let progress = Progress::new(waiting);
        let started = Instant::now();
        let looking = async {
            loop {
                match told(&self.links(cluster).await?) {
                    Err(why) if started.elapsed() < wait => {
                        progress.say(&format!("{waiting} ({why})"));
                    }
                    told => return anyhow::Ok(told),
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        progress.during(Box::pin(looking)).await
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
            "{name} is drained {}, and stays in federated Services without another member: {}",
            until(end),
            carried.len()
        ));
        Ok(ExitCode::FAILURE)
    }
}

/// Sets the annotation of these Links, or takes it away.
async fn annotate(cluster: &Cluster, links: &[Link], end: Option<Timestamp>) -> anyhow::Result<()> {
    for link in links {
        let namespace = link.namespace().unwrap_or_default();
        let api = Api::<Link>::namespaced(cluster.client.clone(), &namespace);
        let name = link.name_any();
        // Not a Link of this name that was made since.
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

/// Whether the cluster of these Links has left all federated Services, or all but those without another member, in the
/// drain that lasts until `end`. `Err`: it has others to leave; what is known.
fn has_left(links: &[Link], end: Timestamp) -> Result<bool, String> {
    let mut why = "no controller has looked at the Link".to_owned();
    for link in links {
        let conditions = link.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions {
            match condition.type_.as_str() {
                DRAINED if condition.message.starts_with(&until(end)) => {
                    if condition.reason != LEAVING {
                        return Ok(condition.reason == DRAINED);
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

/// Whether nothing says that the cluster of these Links is drained. `Err`: what does.
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
            return Err(format!("federated Services to join: {out}"));
        }
    }
    Ok(())
}

/// A Go duration, or days, within [`BOUNDS`].
fn span(text: &str) -> Result<Duration, String> {
    let span = args::days_or_duration(text)?;
    let (shortest, longest) = BOUNDS;
    if span < shortest || span > longest {
        return Err("a drain lasts 1m to 7d".to_owned());
    }
    Ok(span)
}

#[cfg(test)]
mod tests;
