//! `linkerd-mc drain` and `undrain`: take a target cluster out of federated Services for a while, and let it rejoin.
//!
//! The commands write an annotation of the Link, and wait until the Link's status shows that the controller acted on
//! it.

mod source;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use clap_complete::ArgValueCompleter;

pub(super) use self::source::{DrainIn, Drained, to_undrain};
use super::common::{
    args::{self, Global},
    cluster::Cluster,
    complete,
    interrupt::on_interrupt,
    output,
};
use crate::{api::labels, manifests::link::ClusterName, mirror::target::drain::until};

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

impl DrainArgs {
    /// Whether it changes clusters.
    pub(crate) fn writes(&self) -> bool {
        !self.which.dry_run
    }
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

impl UndrainArgs {
    /// Whether it changes clusters.
    pub(crate) fn writes(&self) -> bool {
        !self.which.dry_run
    }
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
    let source = args.which.of(&cluster);
    let links = source.links().await?;
    let end = cluster.now().await + args.duration;
    let until = until(end);
    if args.which.dry_run {
        output::note(&format!("would drain {name} {until}, as with"));
        output::data(&source.commands(&links, Some(end)))?;
        return Ok(ExitCode::SUCCESS);
    }
    on_interrupt(
        &format!("{name} may be drained {until}"),
        "run the same command again, or undrain",
    );
    match source.drain(&links, end, args.wait).await? {
        Drained::Written => output::note(&format!("{name} is drained {until}")),
        Drained::Left => output::note(&format!(
            "{name} is drained {until}: it has left all federated Services"
        )),
        Drained::StaysIn(services) => {
            let lines = services.iter().map(|service| format!("{service}\n"));
            output::data(&lines.collect::<String>())?;
            output::warning(&format!(
                "{name} is drained {until}, but stays in federated Services that have no other member: {}",
                services.len()
            ));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `undrain`.
pub(crate) async fn undrain(global: &Global, args: &UndrainArgs) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&global.access()).await?;
    let name = &args.which.cluster_name;
    let source = args.which.of(&cluster);
    let Some(links) = to_undrain(source.links().await?) else {
        output::note(&format!("{name} is not drained"));
        return Ok(ExitCode::SUCCESS);
    };
    if args.which.dry_run {
        output::note(&format!("would end the drain of {name}, as with"));
        output::data(&source.commands(&links, None))?;
        return Ok(ExitCode::SUCCESS);
    }
    source.undrain(&links, args.wait).await?;
    output::note(&format!("{name} is no longer drained"));
    Ok(ExitCode::SUCCESS)
}

impl Which {
    fn of<'a>(&'a self, cluster: &'a Cluster) -> DrainIn<'a> {
        DrainIn {
            cluster,
            name: &self.cluster_name,
            namespace: &self.namespace,
            has_others: false,
        }
    }
}

/// A Go duration, or days, within [`BOUNDS`].
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let span = args::days_or_duration(text)?;
    let (shortest, longest) = BOUNDS;
    if span < shortest || span > longest {
        return Err("must be between 1m and 7d".to_owned());
    }
    Ok(span)
}
