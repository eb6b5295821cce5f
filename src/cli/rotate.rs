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
mod tokens;

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::Context as _;
use serde_json::json;

pub(crate) use self::args::Rotate;
use self::{
    args::RotateFormat,
    decision::{DESTINATION, TokenHolder},
    gather::{SourceCluster, TargetCluster},
    outcome::{Ending, RotationDetails, RotationOutcome},
    rotation::Rotation,
};
pub(super) use self::{credentials::TokenAccount, tokens::link_id};
use super::common::{
    args::Global,
    cluster::Cluster,
    cluster_name::context_of,
    linked::{known_clusters, links},
    output,
    wait::Progress,
};
use crate::{
    api::{conditions::ready::DUPLICATE_CLUSTER, link::Link},
    client::requests::DEADLINE,
    clusters::{
        cluster_client::ClusterClient,
        collect_full,
        snapshot::{Destination, Known},
    },
    hint::{fail, misuse},
};

/// Runs the command.
pub(crate) async fn run(global: &Global, args: &Rotate) -> anyhow::Result<ExitCode> {
    if global.context.is_some() && args.source.is_some() {
        return Err(misuse(
            "--context cannot be used with --source",
            "remove one of them",
        ));
    }
    global.refuse_address()?;
    let outcomes = Box::pin(rotate(global, args)).await?;
    if args.output == RotateFormat::Json {
        let document = serde_json::to_string_pretty(&json!({ "links": outcomes }))?;
        output::data(&format!("{document}\n"))?;
    }
    let failed = |outcome: &RotationOutcome| outcome.result == Ending::Failed;
    Ok(output::exit_code(outcomes.iter().any(failed)))
}

async fn rotate(global: &Global, args: &Rotate) -> anyhow::Result<Vec<RotationOutcome>> {
    let access = match &args.source {
        Some(context) => global.access().with_context(context),
        None => global.access(),
    };
    let source = SourceCluster {
        cluster: Cluster::connect(&access).await?,
        namespace: args.namespace.clone(),
        linkerd: global.linkerd_namespace.clone(),
        access,
    };
    let links = links(&source.cluster, &source.namespace).await?;
    let mut outcomes = Vec::new();
    let due = due(global, args, &source, &links, &mut outcomes).await?;
    // Checked before anything is changed: without the restart, all links would stay half rotated.
    if let Err(error) = may_restart(args, &source, &links, &due).await {
        output::error(&error);
        outcomes.extend(due.into_iter().map(|rotation| rotation.failed(&error)));
        return Ok(outcomes);
    }
    let written = written(args, due, &mut outcomes).await;
    let restarted = Box::pin(restarted(args, &source, &written)).await;
    let restarted = restarted.inspect_err(output::error);
    // Read only now, when all links have their new tokens.
    let holders = if written.iter().any(Rotation::revokes) {
        gather::holders(&source).await
    } else {
        Ok(Vec::new())
    };
    let holders = holders.context("cannot find out who uses the old tokens");
    let holders = holders.inspect_err(output::error);
    for rotation in written {
        outcomes.push(ended(args, rotation, &restarted, &holders).await);
    }
    Ok(outcomes)
}

/// The links for which there is something to do. Adds the outcomes of the others.
async fn due<'a>(
    global: &Global,
    args: &Rotate,
    source: &'a SourceCluster,
    links: &[Link],
    outcomes: &mut Vec<RotationOutcome>,
) -> anyhow::Result<Vec<Rotation<'a>>> {
    let destination = destination(source).await?;
    let mut due = Vec::new();
    for link in chosen(source, args, links)? {
        let cluster = link.spec.target_cluster_name.clone();
        let gathered = gather(global, source, args, link.clone());
        match Box::pin(gathered).await {
            Ok(mut rotation) => {
                if let Some((result, reason)) = rotation.decide(args, &destination) {
                    output::note(&format!("{cluster}: {reason}"));
                    outcomes.push(rotation.ended(result, Some(reason)));
                } else {
                    due.push(rotation);
                }
            }
            Err(error) => {
                output::error(&error);
                outcomes.push(RotationOutcome {
                    cluster,
                    result: Ending::Failed,
                    reason: Some(format!("{error:#}")),
                    done: RotationDetails::default(),
                });
            }
        }
    }
    Ok(due)
}

/// Fails if Linkerd has to be restarted, and cannot be.
async fn may_restart(
    args: &Rotate,
    source: &SourceCluster,
    links: &[Link],
    due: &[Rotation<'_>],
) -> anyhow::Result<()> {
    if args.no_restart || !due.iter().any(Rotation::needs_restart) {
        return Ok(());
    }
    restart::is_possible(source, links, &names(due)).await
}

/// Puts new tokens into use. Returns the links that have them, and adds the outcomes of the others.
async fn written<'a>(
    args: &Rotate,
    due: Vec<Rotation<'a>>,
    outcomes: &mut Vec<RotationOutcome>,
) -> Vec<Rotation<'a>> {
    let mut written = Vec::new();
    for mut rotation in due {
        let ended = Box::pin(rotation.write(args.wait)).await;
        let cluster = rotation.cluster().to_owned();
        match ended.with_context(|| format!("cannot rotate the credentials for {cluster}")) {
            Ok(()) => written.push(rotation),
            Err(error) => {
                output::error(&error);
                outcomes.push(rotation.failed(&error));
            }
        }
    }
    written
}

/// Revokes the old tokens of a link, if Linkerd does not use them any more.
async fn ended(
    args: &Rotate,
    mut rotation: Rotation<'_>,
    restarted: &anyhow::Result<()>,
    holders: &anyhow::Result<Vec<TokenHolder>>,
) -> RotationOutcome {
    if rotation.needs_restart() && args.no_restart {
        let reason = rotation.restart_is_needed();
        return rotation.ended(Ending::RestartNeeded, Some(reason));
    }
    let in_doubt = match (restarted, holders) {
        (Err(error), _) if rotation.needs_restart() => Some(error),
        (_, Err(error)) if rotation.revokes() => Some(error),
        _ => None,
    };
    if let Some(error) = in_doubt {
        rotation.keep();
        return rotation.failed(error);
    }
    let holders = holders.as_deref().unwrap_or_default();
    match rotation.revoke(holders).await {
        Ok(()) => rotation.ended(Ending::Rotated, None),
        Err(error) => {
            output::error(&error);
            rotation.failed(&error)
        }
    }
}

/// The target clusters of these links.
fn names(rotations: &[Rotation<'_>]) -> BTreeSet<String> {
    rotations
        .iter()
        .map(|rotation| rotation.cluster().to_owned())
        .collect()
}

/// Reads what is known of a link.
async fn gather<'a>(
    global: &Global,
    source: &'a SourceCluster,
    args: &Rotate,
    link: Link,
) -> anyhow::Result<Rotation<'a>> {
    let name = link.spec.target_cluster_name.clone();
    let gathered = async {
        let context = target_context(global, args, &name)?;
        let cluster = Cluster::connect(&global.access().with_context(&context)).await?;
        Rotation::gather(source, TargetCluster { cluster, context }, link).await
    };
    gathered
        .await
        .with_context(|| format!("cannot rotate the credentials for {name}"))
}

/// The context of a target cluster: the given one, or the one for a cluster of this name.
fn target_context(global: &Global, args: &Rotate, cluster: &str) -> anyhow::Result<String> {
    if let Some(given) = &args.target {
        return Ok(given.clone());
    }
    let contexts = global.access().kubeconfig()?.contexts;
    let names = contexts.iter().map(|context| context.name.as_str());
    context_of(cluster, names)
        .map(str::to_owned)
        .map_err(|several| {
            let what = format!("no context of the kubeconfig is called {cluster}");
            let known: Vec<&str> = contexts
                .iter()
                .map(|context| context.name.as_str())
                .collect();
            match several.as_slice() {
                [] => fail(
                    what,
                    format!(
                        "pass the context of {cluster} with --target; known contexts: {}",
                        known.join(", ")
                    ),
                ),
                several => fail(
                    format!(
                        "several contexts are of a cluster {cluster}: {}",
                        several.join(", ")
                    ),
                    "pass one of them with --target",
                ),
            }
        })
}

/// Linkerd's credentials, and when its destination controller started.
async fn destination(source: &SourceCluster) -> anyhow::Result<Known<Destination>> {
    let cluster = ClusterClient::new("source", &source.access, DEADLINE, &source.linkerd).await?;
    Ok(collect_full::destination(&cluster).await)
}

/// Restarts Linkerd's destination controller if one of the links needs it, and checks that no old Pod of it is left.
async fn restarted(
    args: &Rotate,
    source: &SourceCluster,
    written: &[Rotation<'_>],
) -> anyhow::Result<()> {
    if args.no_restart || !written.iter().any(Rotation::needs_restart) {
        return Ok(());
    }
    let clusters = names(written);
    // The clusters may have changed since they were read.
    let links = links(&source.cluster, &source.namespace).await?;
    restart::is_possible(source, &links, &clusters).await?;
    let waiting = format!("restarting {DESTINATION}");
    let restart = restart::restart(source, args.wait);
    Progress::new(&waiting).during(Box::pin(restart)).await?;
    let known = destination(source).await?;
    let known = known.map_err(|why| {
        fail(
            format!("cannot find out whether an old Pod of {DESTINATION} is left: {why}"),
            "repair the cause, then run this again; the old token still works",
        )
    })?;
    let mut clusters = clusters.iter();
    if let Some(cluster) = clusters.find(|cluster| known.is_outdated(cluster)) {
        return Err(fail(
            format!("a Pod of {DESTINATION} still has the old credentials for {cluster}"),
            format!(
                "see {}, then run this again; the old token still works",
                source
                    .cluster
                    .flags
                    .kubectl("-n {} get pods", &[&source.linkerd])
            ),
        ));
    }
    output::note(&format!("restarted {DESTINATION}"));
    Ok(())
}

/// The chosen Links, at least one. Of several Links to one cluster, those that the controller does not use are left out.
fn chosen<'l>(
    source: &SourceCluster,
    args: &Rotate,
    known: &'l [Link],
) -> anyhow::Result<Vec<&'l Link>> {
    let hint = known_clusters(
        known,
        "choose another namespace with --namespace, or another cluster with --source",
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
    let ready = link
        .status
        .as_ref()
        .and_then(|status| status.condition("Ready"));
    ready.is_some_and(|ready| ready.reason == DUPLICATE_CLUSTER)
}
