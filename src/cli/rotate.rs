//! `linkerd-mc rotate`: new credentials for links, while traffic flows.
//!
//! Two readers have a link's credentials: our controller follows its Secret, Linkerd's destination controller reads its
//! own once, when it starts. The old token is revoked when both have the new one.

mod credentials;
mod restart;
mod rotation;
mod tokens;

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use serde::Serialize;
use serde_json::json;

use self::rotation::{Done, Rotation, Source, Step};
use super::{
    args::{self, Global},
    cluster::{Cluster, block_on},
    complete,
    linked::{known_clusters, links},
    output,
    progress::spin,
};
use crate::{
    api::{labels, link::Link},
    hint::fail,
    manifests::link::ClusterName,
};

const EXAMPLES: &str = "\
Examples:
  # New credentials for the link from west to east; both are contexts
  linkerd-mc rotate --cluster-name east --to west

  # What would be done
  linkerd-mc rotate --cluster-name east --to west --dry-run

  # All links whose credentials are older than 30 days, for a CronJob
  linkerd-mc rotate --all --to west --older-than 30d -o json

Exit codes: 0 done, or nothing to do; 1 a link failed: its old token works.";

/// Give links new credentials without losing a request, and revoke the old ones
///
/// For each link: mints a token Secret of its own in the target cluster, writes it into the Secret of the controller,
/// and waits until the Link says that it is in use; writes it into the Secret of Linkerd, and restarts Linkerd's
/// destination controller, which reads credentials only when it starts; then deletes the old token. Whatever ends it on
/// the way, run it again: it goes on with what it has minted.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Rotate {
    /// Name of the target cluster
    #[arg(long, value_name = "NAME", required_unless_present = "all", conflicts_with = "all", add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: Option<ClusterName>,
    /// All links of the namespace
    #[arg(long)]
    all: bool,
    /// Context of the target cluster [default: the one that is called like the cluster]
    #[arg(long, value_name = "CONTEXT", conflicts_with = "all", add = ArgValueCompleter::new(complete::contexts))]
    from: Option<String>,
    /// Context of the source cluster [default: --context, or the current one]
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    to: Option<String>,
    /// Only credentials that are older than this, or end within this time; 30d is 30 days
    #[arg(long, value_name = "DURATION", value_parser = args::days_or_duration)]
    older_than: Option<Duration>,
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Do not restart Linkerd's destination controller, and revoke nothing: until it is restarted it has the old token
    #[arg(long)]
    no_restart: bool,
    /// Also revoke a token that was not minted for this link alone, such as that of `install`: other links may use it
    #[arg(long)]
    revoke_shared: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait this long for the controller, and for the restart
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = args::duration)]
    wait: Duration,
    /// How to print what was done
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each step, on standard error
    Text,
    /// One JSON document
    Json,
}

/// What became of one link.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    cluster: String,
    result: Ending,
    /// Why it failed, or nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    done: Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Ending {
    /// New credentials are in use, and the old token is revoked or kept on purpose.
    Rotated,
    /// The credentials are young enough.
    Skipped,
    /// It would be rotated.
    Planned,
    /// Something failed; the old token still works.
    Failed,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Rotate) -> anyhow::Result<ExitCode> {
    let outcomes = block_on(rotate(global, args))?;
    if args.output == Format::Json {
        let document = serde_json::to_string_pretty(&json!({ "links": outcomes }))?;
        output::data(&format!("{document}\n"))?;
    }
    let failed = |outcome: &Outcome| outcome.result == Ending::Failed;
    Ok(if outcomes.iter().any(failed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn rotate(global: &Global, args: &Rotate) -> anyhow::Result<Vec<Outcome>> {
    let access = match &args.to {
        Some(context) => global.access().with_context(context),
        None => global.access(),
    };
    let source = Source {
        cluster: Cluster::connect(&access).await?,
        namespace: args.namespace.clone(),
        linkerd: global.linkerd_namespace.clone(),
    };
    let mut outcomes = Vec::new();
    let mut written = Vec::new();
    for link in chosen(&source, args).await? {
        let cluster = link.spec.target_cluster_name.clone();
        let context = args.from.clone().unwrap_or_else(|| cluster.clone());
        let step = async {
            let target = Cluster::connect(&global.access().with_context(&context)).await?;
            let rotation = Rotation::gather(&source, target, link).await?;
            rotation.write(args).await
        };
        match step
            .await
            .with_context(|| format!("cannot rotate the credentials for {cluster}"))
        {
            Ok(Step::Written(rotation)) => written.push(rotation),
            Ok(Step::Ended(result, reason)) => {
                output::note(&format!("{cluster}: {reason}"));
                outcomes.push(Outcome::new(
                    &cluster,
                    result,
                    Some(reason),
                    Done::default(),
                ));
            }
            Err(error) => outcomes.push(Outcome::failed(&cluster, &error, Done::default())),
        }
    }
    if written.is_empty() {
        return Ok(outcomes);
    }
    let restarted = Box::pin(restarted(&source, args)).await;
    for rotation in written {
        let cluster = rotation.cluster().to_owned();
        let (done, ended) = match &restarted {
            Ok(true) => rotation.revoke(args.revoke_shared).await,
            Ok(false) => (rotation.keep(), Ok(())),
            Err(error) => (rotation.keep(), Err(anyhow::anyhow!("{error:#}"))),
        };
        outcomes.push(match ended {
            Ok(()) => Outcome::new(&cluster, Ending::Rotated, None, done),
            Err(error) => Outcome::failed(&cluster, &error, done),
        });
    }
    Ok(outcomes)
}

/// Restarts Linkerd's destination controller. `false`: it was not asked for.
async fn restarted(source: &Source, args: &Rotate) -> anyhow::Result<bool> {
    if args.no_restart {
        output::warning(&format!(
            "{0} still has the old token, and nothing is revoked: `kubectl -n {1} rollout restart deployment/{0}`, then \
             run this again",
            restart::DESTINATION,
            source.linkerd
        ));
        return Ok(false);
    }
    let waiting = format!("restarting {}", restart::DESTINATION);
    let restart = restart::restart(&source.cluster, &source.linkerd, args.wait);
    spin(&waiting, Box::pin(restart)).await?;
    output::note(&format!("{} has started anew", restart::DESTINATION));
    Ok(true)
}

/// The Links that are asked for, at least one.
async fn chosen(source: &Source, args: &Rotate) -> anyhow::Result<Vec<Link>> {
    let known = links(&source.cluster, &source.namespace).await?;
    let hint = known_clusters(
        &known,
        "--namespace says where to look, --to in which cluster",
    );
    let wanted = args.cluster_name.as_ref().map(ToString::to_string);
    let chosen: Vec<Link> = known
        .into_iter()
        .filter(|link| {
            wanted
                .as_ref()
                .is_none_or(|name| *name == link.spec.target_cluster_name)
        })
        .collect();
    if chosen.is_empty() {
        let what = wanted.map_or_else(|| "any cluster".to_owned(), |name| format!("{name:?}"));
        return Err(fail(
            format!(
                "no Link in the namespace {:?} is to {what}",
                source.namespace
            ),
            hint,
        ));
    }
    Ok(chosen)
}

impl Outcome {
    fn new(cluster: &str, result: Ending, reason: Option<String>, done: Done) -> Self {
        Self {
            cluster: cluster.to_owned(),
            result,
            reason,
            done,
        }
    }

    /// Says what failed, too.
    fn failed(cluster: &str, error: &anyhow::Error, done: Done) -> Self {
        output::error(error);
        Self::new(cluster, Ending::Failed, Some(format!("{error:#}")), done)
    }
}
