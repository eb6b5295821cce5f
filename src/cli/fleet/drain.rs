//! `fleet drain` and `fleet undrain`: take a cluster out of the federated Services of all its source clusters, and let it
//! rejoin.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use futures::future::join_all;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    complete,
    format::FleetFormat,
    loaded::{LoadedFleet, load},
    plugins::PluginFlags,
};
use crate::{
    api::duration::rfc3339,
    cli::{
        common::{
            args::{self, Global},
            interrupt::on_interrupt,
            output,
            wait::Progress,
        },
        drain::{DrainIn, Drained, span, to_undrain},
    },
    hint::fail,
    manifests::link::ClusterName,
    mirror::target::drain::until,
    timing,
};

const DRAIN_EXAMPLES: &str = "\
Examples:
  # Take east out of all federated Services, before an upgrade
  linkerd-mc fleet drain --file fleet.yaml east --duration 4h

  # Show what would be done, with the equivalent kubectl commands
  linkerd-mc fleet drain --file fleet.yaml east --dry-run

  # Let it rejoin
  linkerd-mc fleet undrain --file fleet.yaml east";

const UNDRAIN_EXAMPLES: &str = "\
Examples:
  # Let east rejoin all federated Services
  linkerd-mc fleet undrain --file fleet.yaml east";

/// Take a cluster out of federated Services everywhere, for maintenance
///
/// Does what `drain` does in each cluster that the file links to this one, side by side and until the same time. Requests
/// to federated Services go to the other members, also those that prefer this cluster. It stays in federated Services that
/// have no other member; the command lists them. A cluster that does not answer is named, and delays no other. Run the
/// command again for what is left, or to set a new time.
///
/// Exit codes: 0 it left all federated Services, 1 it is still in some, or a cluster failed, 2 invalid usage.
#[derive(Debug, Args)]
#[command(after_long_help = DRAIN_EXAMPLES)]
pub(super) struct FleetDrainArgs {
    #[command(flatten)]
    which: DrainedCluster,
    /// Duration of the drain, from 1m to 7d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = span)]
    duration: Duration,
    /// How long to wait until the cluster has left; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

impl FleetDrainArgs {
    /// Whether it changes clusters.
    pub(super) fn writes(&self) -> bool {
        !self.which.dry_run
    }
}

/// End the drain of a cluster everywhere, so that it rejoins federated Services
///
/// Exit codes: 0 it is not drained any more, 1 it is in some cluster, or a cluster failed, 2 invalid usage.
#[derive(Debug, Args)]
#[command(after_long_help = UNDRAIN_EXAMPLES)]
pub(super) struct FleetUndrainArgs {
    #[command(flatten)]
    which: DrainedCluster,
    /// How long to wait until the cluster has rejoined; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

impl FleetUndrainArgs {
    /// Whether it changes clusters.
    pub(super) fn writes(&self) -> bool {
        !self.which.dry_run
    }
}

/// The cluster, and how the outcome is printed.
#[derive(Debug, Args)]
struct DrainedCluster {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER", add = ArgValueCompleter::new(complete::clusters))]
    cluster: ClusterName,
    /// File with the fleet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    plugins: PluginFlags,
    /// Show what would be done, with the equivalent kubectl commands, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Text)]
    output: FleetFormat,
}

/// What to do in each source cluster.
#[derive(Clone, Copy, Debug)]
enum DrainOrder {
    Drain { duration: Duration },
    Undrain,
}

/// What happened, for all source clusters.
#[derive(Debug, Serialize)]
struct DrainReport<'r> {
    cluster: String,
    /// The end of the drain.
    until: Option<String>,
    sources: &'r [SourceDrain],
}

/// What happened in one source cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct SourceDrain {
    source: String,
    result: DrainResult,
    /// The federated Services in which the cluster stays, because they have no other member.
    services: Vec<String>,
    /// Why it failed.
    reason: Option<String>,
    /// The commands that would do it.
    commands: Vec<String>,
}

/// How it went in one source cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum DrainResult {
    /// It has left all federated Services, or nothing was waited for.
    Drained,
    /// It has left those that have another member.
    LastMember,
    /// It takes part again.
    Undrained,
    /// There was nothing to do.
    NotDrained,
    /// It would be done.
    Planned,
    Failed,
}

/// Runs `fleet drain`.
pub(super) async fn drain(global: &Global, args: &FleetDrainArgs) -> anyhow::Result<ExitCode> {
    let duration = args.duration;
    run(
        global,
        &args.which,
        DrainOrder::Drain { duration },
        args.wait,
    )
    .await
}

/// Runs `fleet undrain`.
pub(super) async fn undrain(global: &Global, args: &FleetUndrainArgs) -> anyhow::Result<ExitCode> {
    run(global, &args.which, DrainOrder::Undrain, args.wait).await
}

async fn run(
    global: &Global,
    which: &DrainedCluster,
    order: DrainOrder,
    wait: Duration,
) -> anyhow::Result<ExitCode> {
    let loaded = load(global, &which.file, &which.plugins).await?;
    let sources = sources(&loaded, &which.cluster)?;
    if !which.dry_run {
        on_interrupt(
            "a part of this may be done",
            "run the same command again, which does the rest",
        );
    }
    let all = sources.into_iter().map(async |source| {
        let done = of_source(global, &loaded, which, source, order, wait);
        let done = Box::pin(done).await;
        done.unwrap_or_else(|error| SourceDrain {
            reason: Some(format!("{error:#}")),
            ..SourceDrain::of(source, DrainResult::Failed)
        })
    });
    let waiting = format!("waiting for the clusters that link to {}", which.cluster);
    let done = Progress::new(&waiting).during(join_all(all)).await;
    let until = match order {
        DrainOrder::Drain { duration } => Some(timing::now() + duration),
        DrainOrder::Undrain => None,
    };
    match which.output {
        FleetFormat::Text => say(&which.cluster, until, &done)?,
        FleetFormat::Json => output::data(&output::json(&DrainReport {
            cluster: which.cluster.to_string(),
            until: until.map(rfc3339),
            sources: &done,
        })?)?,
    }
    let is_left = |source: &SourceDrain| {
        matches!(source.result, DrainResult::Failed | DrainResult::LastMember)
    };
    Ok(output::exit_code(done.iter().any(is_left)))
}

/// The clusters that the file links to this one, at least one.
fn sources<'l>(
    loaded: &'l LoadedFleet,
    target: &ClusterName,
) -> anyhow::Result<Vec<&'l ClusterName>> {
    loaded.cluster(target)?;
    let links = loaded.fleet.links.keys();
    let sources = links.filter(|ends| ends.target == *target);
    let sources: Vec<&ClusterName> = sources.map(|ends| &ends.source).collect();
    if sources.is_empty() {
        return Err(fail(
            format!("the file links no cluster to {target}"),
            "a cluster to which no other one links is in no federated Service of another cluster",
        ));
    }
    Ok(sources)
}

async fn of_source(
    global: &Global,
    loaded: &LoadedFleet,
    which: &DrainedCluster,
    name: &ClusterName,
    order: DrainOrder,
    wait: Duration,
) -> anyhow::Result<SourceDrain> {
    let (_, cluster) = loaded.connect(&global.access(), name).await?;
    let source = DrainIn {
        cluster: &cluster,
        name: &which.cluster,
        namespace: &loaded.namespace,
        has_others: true,
    };
    let links = source.links().await?;
    let (links, end) = match order {
        DrainOrder::Drain { duration } => (links, Some(cluster.now().await + duration)),
        DrainOrder::Undrain => match to_undrain(links) {
            Some(links) => (links, None),
            None => return Ok(SourceDrain::of(name, DrainResult::NotDrained)),
        },
    };
    if which.dry_run {
        let commands = source.commands(&links, end);
        return Ok(SourceDrain {
            commands: commands.lines().map(str::to_owned).collect(),
            ..SourceDrain::of(name, DrainResult::Planned)
        });
    }
    let Some(end) = end else {
        source.undrain(&links, wait).await?;
        return Ok(SourceDrain::of(name, DrainResult::Undrained));
    };
    Ok(match source.drain(&links, end, wait).await? {
        Drained::Written | Drained::Left => SourceDrain::of(name, DrainResult::Drained),
        Drained::StaysIn(services) => SourceDrain {
            services,
            ..SourceDrain::of(name, DrainResult::LastMember)
        },
    })
}

impl SourceDrain {
    fn of(source: &ClusterName, result: DrainResult) -> Self {
        Self {
            source: source.to_string(),
            result,
            services: Vec::new(),
            reason: None,
            commands: Vec::new(),
        }
    }
}

/// Says what happened in each source cluster. On stdout are the commands of a dry run, and the federated Services in which
/// the cluster stays.
fn say(cluster: &ClusterName, end: Option<Timestamp>, done: &[SourceDrain]) -> anyhow::Result<()> {
    let until = end.map(until).unwrap_or_default();
    for source in done {
        let name = &source.source;
        match source.result {
            DrainResult::Drained => output::note(&format!("{name}: {cluster} is drained {until}")),
            DrainResult::LastMember => {
                output::warning(&format!(
                    "{name}: {cluster} is drained {until}, but stays in federated Services that have no other member: {}",
                    source.services.len()
                ));
                for service in &source.services {
                    output::data(&format!("{name}: {service}\n"))?;
                }
            }
            DrainResult::Undrained => {
                output::note(&format!("{name}: {cluster} is no longer drained"));
            }
            DrainResult::NotDrained => output::note(&format!("{name}: {cluster} is not drained")),
            DrainResult::Planned => {
                for command in &source.commands {
                    output::data(&format!("{command}\n"))?;
                }
            }
            DrainResult::Failed => output::warning(&format!(
                "{name}: {}",
                source.reason.as_deref().unwrap_or_default()
            )),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::fleet::loaded::parse;

    #[test]
    fn all_clusters_that_link_to_it_are_drained() {
        let text = "name: f\nclusters: [{name: a}, {name: b}, {name: c}]\nlinks: [{hub: a, spokes: all}]\n";
        let loaded = parse("fleet.yaml", text, std::path::Path::new(""), "linkerd").unwrap();
        let of = |name: &str| match sources(&loaded, &name.parse().unwrap()) {
            Ok(sources) => sources.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        assert_eq!(of("a"), ["b", "c"]);
        assert_eq!(of("b"), ["the file links no cluster to b"]);
        assert_eq!(of("d"), ["the file has no cluster d"]);
    }
}
