//! `linkerd-mc drain`: takes a target cluster out of federated Services for a while, and lets it rejoin.
//!
//! The command writes an annotation of the Link, and waits until the Link's status shows that the controller acted on it.
//! With the file of a fleet, it does so in all clusters that link to this one.

mod forecast;
mod report;
mod source;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use client::Cluster;
use futures::future::join_all;
use hints::{hint::fail, prose::listed};
use links::fleet::loaded::LoadedFleet;
use manifests::link::ClusterName;
use mirror_core::api::labels;
use tokio::time::timeout;

use self::{
    forecast::{forecast, losses},
    report::{DrainReport, DrainResult, SourceDrain},
    source::{DrainIn, Drained, to_rejoin},
};
use super::{
    common::{
        args::{self, Global},
        complete,
        interrupt::on_interrupt,
        output,
        prompt::{canceled, confirmed},
        wait::Progress,
    },
    fleet::{FleetFile, clusters_or_targets},
};

const EXAMPLES: &str = "\
Examples:
  # Take east out of the federated Services of west, before an upgrade
  linkerd-mc --context west drain east

  # Drain it for 4 hours
  linkerd-mc --context west drain east --duration 4h

  # Show whether west can lose east, and the equivalent kubectl command
  linkerd-mc --context west drain east --dry-run

  # Let it rejoin
  linkerd-mc --context west drain east --end

  # Drain it in all clusters that a file of `fleet` links to it
  linkerd-mc drain --file fleet.yaml east --duration 4h

Exit codes: 0 it left all federated Services, or rejoined; 1 it is still in
some, or a cluster failed. With --dry-run: 1 it would stay in some, or a
cluster failed.";

/// Minimum and maximum duration of a drain.
const BOUNDS: (Duration, Duration) = (
    Duration::from_secs(60),
    Duration::from_secs(7 * 24 * 60 * 60),
);

/// Federated Services that a question names.
const NAMED: usize = 10;
/// How long to look for other members. A cluster that is dead does not say which endpoints it has.
const LOOK: Duration = Duration::from_secs(5);

/// Take a cluster out of federated Services for maintenance
///
/// Requests to federated Services of this cluster go to the other members, also those that prefer it. The cluster stays in
/// federated Services that have no other member; the command lists them. It asks first if others have members, but no
/// ready endpoint. Mirrors of the cluster are not affected. The drain
/// ends after --duration or with --end. Running `drain` again restarts the time.
///
/// --dry-run tells whether the cluster can be taken out: which federated Services have no other member with a ready
/// endpoint, who calls its mirrors, which a drain does not move, and how many requests would go to which members. Callers and
/// requests are those that proxies count, of up to 100 Pods in the mesh. This requires permission to get `pods/proxy`; without
/// it, they are not seen.
///
/// The end of the drain is stored in an annotation of the Link. Run the command for each source cluster that has a Link
/// to the drained cluster. With --file, it drains the cluster in all clusters that the file links to it, side by side and
/// until the same time. A cluster that does not answer is named, and delays no other. Run the command again for what is
/// left.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct DrainArgs {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER", add = ArgValueCompleter::new(clusters_or_targets))]
    cluster: ClusterName,
    #[command(flatten)]
    fleet: FleetFile,
    /// End the drain, so that the cluster rejoins federated Services
    #[arg(long, conflicts_with = "duration")]
    end: bool,
    /// Duration of the drain, from 1m to 7d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = span)]
    duration: Duration,
    /// How long to wait until the cluster has left or rejoined; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
    /// Namespace of the Link
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, conflicts_with = "file", value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Do not ask before federated Services lose all ready endpoints
    #[arg(long)]
    yes: bool,
    /// Show what would be done and what would be lost, with the equivalent kubectl commands, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = DrainFormat::Text)]
    output: DrainFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DrainFormat {
    /// The federated Services in which the cluster stays
    Text,
    /// One JSON document
    Json,
}

impl DrainArgs {
    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        !self.dry_run
    }
}

/// Runs the command. Exit code 1 if the cluster stays in a federated Service, or a source cluster failed.
pub async fn run(global: &Global, args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let file = args.fleet.load(global).await?;
    let here = global.access();
    let current = || here.kubeconfig().ok()?.current_context;
    let here = here.context.clone().or_else(current);
    let here = here.as_deref().unwrap_or("this cluster");
    let places = places(global, args, file.as_ref()).await?;
    if args.writes() && !args.end && !args.yes {
        confirm(args, &places, here).await?;
    }
    if args.writes() {
        on_interrupt(
            "a part of this may be done",
            "run the same command again, which does the rest",
        );
    }
    let mut sources = in_all(args, &places).await?;
    for source in &mut sources {
        source.answer_as(here, &args.cluster);
    }
    let report = DrainReport::of(&args.cluster, &sources);
    match args.output {
        DrainFormat::Text => report.say(args.wait)?,
        DrainFormat::Json => output::data(&output::json(&report)?)?,
    }
    Ok(output::exit_code(report.is_incomplete()))
}

/// A source cluster.
struct SourcePlace<'a> {
    /// Its name, if there may be others.
    name: Option<&'a ClusterName>,
    /// The namespace of its Links.
    namespace: &'a str,
    cluster: anyhow::Result<Cluster>,
}

impl SourcePlace<'_> {
    fn drain<'d>(&'d self, args: &'d DrainArgs, cluster: &'d Cluster) -> DrainIn<'d> {
        DrainIn {
            cluster,
            name: &args.cluster,
            namespace: self.namespace,
            has_others: self.name.is_some(),
        }
    }
}

/// The cluster of the context, or all that the file links to this one.
async fn places<'a>(
    global: &Global,
    args: &'a DrainArgs,
    file: Option<&'a LoadedFleet>,
) -> anyhow::Result<Vec<SourcePlace<'a>>> {
    let Some(loaded) = file else {
        let cluster = Cluster::connect(&global.access()).await?;
        return Ok(vec![SourcePlace {
            name: None,
            namespace: &args.namespace,
            cluster: Ok(cluster),
        }]);
    };
    let access = global.access();
    let sources = sources(loaded, &args.cluster)?.into_iter();
    let places = sources.map(async |source| {
        let connected = Box::pin(loaded.connect(&access, source)).await;
        SourcePlace {
            name: Some(source),
            namespace: &loaded.namespace,
            cluster: connected.map(|(_, cluster)| cluster),
        }
    });
    Ok(join_all(places).await)
}

/// Asks before federated Services lose all ready endpoints. What cannot be read is a warning: a cluster may have to go
/// although others do not answer. `here` is the name of a cluster without one.
async fn confirm(args: &DrainArgs, places: &[SourcePlace<'_>], here: &str) -> anyhow::Result<()> {
    let all = places.iter().filter_map(|place| {
        let cluster = place.cluster.as_ref().ok()?;
        Some(async move {
            let source = place.drain(args, cluster);
            let found = timeout(LOOK, Box::pin(losses(&source))).await;
            let found = found.unwrap_or_else(|_| Err(anyhow::anyhow!("not within {LOOK:?}")));
            let name = place
                .name
                .map_or_else(|| here.to_owned(), ToString::to_string);
            (name, found)
        })
    });
    let progress = Progress::new("looking for other members");
    let mut lost = Vec::new();
    for (name, found) in progress.during(join_all(all)).await {
        match found {
            Ok(found) => lost.extend(found.iter().map(|id| format!("{id} in {name}"))),
            Err(why) => output::warning(&format!(
                "it could not be seen in {name} whether federated Services keep a ready endpoint: {why:#}"
            )),
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    output::line(&format!(
        "no other member has a ready endpoint: {}",
        listed(&lost, NAMED)
    ));
    let question = format!("Drain {} all the same?", args.cluster);
    let otherwise = "add a member or wait until one is ready, or pass --yes to drain it all the same; --dry-run shows more";
    if confirmed(&question, otherwise)? {
        return Ok(());
    }
    Err(canceled())
}

/// Does it in all of them, side by side. One that has a name does not fail the others.
async fn in_all(args: &DrainArgs, places: &[SourcePlace<'_>]) -> anyhow::Result<Vec<SourceDrain>> {
    let all = places.iter().map(async |place| {
        let done = match &place.cluster {
            Ok(cluster) => Box::pin(in_source(args, place, cluster)).await,
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        match (done, place.name) {
            (Err(error), Some(_)) => Ok(SourceDrain {
                reason: Some(format!("{error:#}")),
                ..SourceDrain::of(place.name, DrainResult::Failed)
            }),
            (done, _) => done,
        }
    });
    let all = join_all(all);
    if places.iter().all(|place| place.name.is_none()) {
        return all.await.into_iter().collect();
    }
    let waiting = format!("waiting for the clusters that link to {}", args.cluster);
    let done = Progress::new(&waiting).during(all).await;
    done.into_iter().collect()
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

/// Does it in one source cluster.
async fn in_source(
    args: &DrainArgs,
    place: &SourcePlace<'_>,
    cluster: &Cluster,
) -> anyhow::Result<SourceDrain> {
    let (source, name) = (place.drain(args, cluster), place.name);
    let links = source.links().await?;
    let (links, end) = if args.end {
        match to_rejoin(links) {
            Some(links) => (links, None),
            None => return Ok(SourceDrain::of(name, DrainResult::NotDrained)),
        }
    } else {
        (links, Some(cluster.now().await + args.duration))
    };
    let of = |result| SourceDrain {
        end,
        ..SourceDrain::of(name, result)
    };
    if args.dry_run {
        let commands = source.commands(&links, end);
        let forecast = match end {
            Some(_) => Some(Box::pin(forecast(&source)).await?),
            None => None,
        };
        return Ok(SourceDrain {
            forecast,
            commands: commands.lines().map(str::to_owned).collect(),
            ..of(DrainResult::Planned)
        });
    }
    let Some(end) = end else {
        source.rejoin(&links, args.wait).await?;
        return Ok(of(DrainResult::Ended));
    };
    Ok(match source.drain(&links, end, args.wait).await? {
        Drained::Written | Drained::Left => of(DrainResult::Drained),
        Drained::StaysIn(services) => SourceDrain {
            services,
            ..of(DrainResult::LastMember)
        },
    })
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
