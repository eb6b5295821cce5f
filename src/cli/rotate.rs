//! `linkerd-mc rotate`: replaces the credentials of links without interrupting traffic.
//!
//! Two processes read a link's credentials: our controller watches its Secret, and Linkerd's destination controller
//! reads its own once, at startup. The old token is revoked when both have the new one.

mod args;
mod credentials;
mod decision;
mod gather;
mod outcome;
mod restart;
mod rotation;
mod secrets;
mod tokens;

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::Context as _;
use serde_json::json;

pub(crate) use self::args::Rotate;
use self::{
    args::Format,
    gather::{Source, Target},
    outcome::{Done, Ending, Outcome},
    rotation::{Rotation, Step},
};
use super::{
    args::Global,
    cluster::{Cluster, block_on},
    linked::{known_clusters, links},
    output,
    progress::spin,
};
use crate::{
    api::{conditions::ready::DUPLICATE_CLUSTER, link::Link},
    client::{Access, requests::DEADLINE},
    clusters::{
        cluster_client::ClusterClient,
        collect_full,
        snapshot::{Destination, Known},
    },
    hint::fail,
};

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
    let all = links(&source.cluster, &source.namespace).await?;
    let mut outcomes = Vec::new();
    let mut due = Vec::new();
    let destination = destination(&access, global).await?;
    for link in chosen(&source, args, &all)? {
        let cluster = link.spec.target_cluster_name.clone();
        let gathered = gather(global, &source, args, link.clone());
        match Box::pin(gathered).await {
            Ok(mut rotation) => {
                let restart_is_due = restart::is_due(&destination, &cluster).unwrap_or_default();
                match rotation.next(args, restart_is_due) {
                    Step::Ended(result, reason) => {
                        output::note(&format!("{cluster}: {reason}"));
                        let done = std::mem::take(&mut rotation.done);
                        outcomes.push(Outcome::new(&cluster, result, Some(reason), done));
                    }
                    step => due.push((rotation, step)),
                }
            }
            Err(error) => outcomes.push(Outcome::failed(&cluster, &error, Done::default())),
        }
    }
    if due.is_empty() {
        return Ok(outcomes);
    }
    // Before anything is changed: a restart that is not possible would leave all of it half done.
    let restarts = !args.no_restart && due.iter().any(|(rotation, _)| rotation.needs_restart());
    let names = |rotation: &Rotation<'_>| rotation.cluster().to_owned();
    let proven: BTreeSet<String> = due.iter().map(|(rotation, _)| names(rotation)).collect();
    if restarts && let Err(error) = restart::is_possible(&source, &all, &proven).await {
        output::error(&error);
        let reason = format!("{error:#}");
        outcomes.extend(due.iter().map(|(rotation, _)| {
            let reason = Some(reason.clone());
            Outcome::new(rotation.cluster(), Ending::Failed, reason, Done::default())
        }));
        return Ok(outcomes);
    }
    let mut written = Vec::new();
    for (mut rotation, step) in due {
        let ended = match step {
            Step::Write { begun } => rotation.write(begun.as_deref(), args.wait).await,
            Step::Written | Step::Ended(..) => Ok(()),
        };
        let cluster = rotation.cluster().to_owned();
        match ended.with_context(|| format!("cannot rotate the credentials for {cluster}")) {
            Ok(()) => written.push(rotation),
            Err(error) => outcomes.push(Outcome::failed(&cluster, &error, rotation.done)),
        }
    }
    let restarted = if written.iter().any(Rotation::needs_restart) && !args.no_restart {
        let proven = written.iter().map(names).collect();
        let restarted = Box::pin(restarted(&access, global, &source, args, &proven)).await;
        restarted.inspect_err(output::error)
    } else {
        Ok(())
    };
    for mut rotation in written {
        let cluster = rotation.cluster().to_owned();
        let outcome = match &restarted {
            _ if rotation.needs_restart() && args.no_restart => {
                rotation.keep();
                let reason = restart_is_needed(&source, &cluster);
                Outcome::new(&cluster, Ending::RestartNeeded, Some(reason), rotation.done)
            }
            Err(error) if rotation.needs_restart() => {
                rotation.keep();
                let reason = Some(format!("{error:#}"));
                Outcome::new(&cluster, Ending::Failed, reason, rotation.done)
            }
            _ => match rotation.revoke().await {
                Ok(()) => Outcome::new(&cluster, Ending::Rotated, None, rotation.done),
                Err(error) => Outcome::failed(&cluster, &error, rotation.done),
            },
        };
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Reads what is known of a link.
async fn gather<'a>(
    global: &Global,
    source: &'a Source,
    args: &Rotate,
    link: Link,
) -> anyhow::Result<Rotation<'a>> {
    let name = link.spec.target_cluster_name.clone();
    let context = args.from.clone().unwrap_or_else(|| name.clone());
    let gathered = async {
        let cluster = Cluster::connect(&global.access().with_context(&context)).await?;
        Rotation::gather(source, Target { cluster, context }, link).await
    };
    gathered
        .await
        .with_context(|| format!("cannot rotate the credentials for {name}"))
}

/// Linkerd's credentials, and when its destination controller started.
async fn destination(access: &Access, global: &Global) -> anyhow::Result<Known<Destination>> {
    let cluster = ClusterClient::new("source", access, DEADLINE, &global.linkerd_namespace).await?;
    Ok(collect_full::destination(&cluster).await)
}

/// Restarts Linkerd's destination controller, and checks that no old Pod of it is left.
async fn restarted(
    access: &Access,
    global: &Global,
    source: &Source,
    args: &Rotate,
    proven: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let all = links(&source.cluster, &source.namespace).await?;
    restart::is_possible(source, &all, proven).await?;
    let waiting = format!("restarting {}", restart::DESTINATION);
    let restart = restart::restart(source, args.wait);
    spin(&waiting, Box::pin(restart)).await?;
    let known = destination(access, global).await?;
    let old = proven
        .iter()
        .find(|cluster| restart::is_due(&known, cluster) == Some(true));
    if let Some(cluster) = old {
        return Err(fail(
            format!(
                "a Pod of {} still has the old credentials for {cluster}",
                restart::DESTINATION
            ),
            "see `kubectl get pods` in Linkerd's namespace, then run this again; the old token still works",
        ));
    }
    output::note(&format!("restarted {}", restart::DESTINATION));
    Ok(())
}

/// Says that Linkerd still uses the old token.
fn restart_is_needed(source: &Source, cluster: &str) -> String {
    let reason = format!(
        "{0} still uses the old token, so nothing was revoked; run `kubectl -n {1} rollout restart deployment/{0}`, then \
         run this again to revoke it",
        restart::DESTINATION,
        source.linkerd
    );
    output::warning(&format!("{cluster}: {reason}"));
    reason
}

/// The chosen Links, at least one. Of several Links to one cluster, those that the controller does not use are left out.
fn chosen<'l>(source: &Source, args: &Rotate, known: &'l [Link]) -> anyhow::Result<Vec<&'l Link>> {
    let hint = known_clusters(
        known,
        "choose another namespace with --namespace, or another cluster with --to",
    );
    let wanted = args.cluster_name.as_ref().map(ToString::to_string);
    let chosen: Vec<&Link> = known
        .iter()
        .filter(|link| {
            let is_wanted = |name: &String| *name == link.spec.target_cluster_name;
            wanted.as_ref().is_none_or(is_wanted)
        })
        .filter(|link| !is_duplicate(link))
        .collect();
    if chosen.is_empty() {
        let what = wanted.map_or_else(|| "any cluster".to_owned(), |name| format!("{name:?}"));
        return Err(fail(
            format!(
                "no Link to {what} found in namespace {:?}",
                source.namespace
            ),
            hint,
        ));
    }
    Ok(chosen)
}

/// Whether the controller uses an older Link to the same cluster instead.
fn is_duplicate(link: &Link) -> bool {
    let conditions = link.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.reason == DUPLICATE_CLUSTER)
}
