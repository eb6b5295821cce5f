//! `linkerd-mc rotate`: replaces the credentials of links without interrupting traffic.
//!
//! Two processes read a link's credentials: our controller watches its Secret, and Linkerd's destination controller
//! reads its own once, at startup. The old token is revoked when both have the new one.

mod args;
mod batch;
mod credentials;
mod decision;
mod gather;
mod outcome;
mod restart;
mod rotation;
mod tokens;

use std::process::ExitCode;

use serde_json::json;
use tokio::sync::Semaphore;

pub(crate) use self::args::Rotate;
use self::args::RotateFormat;
pub(super) use self::{
    args::RotationFlags,
    batch::{Batch, WantedRotation},
    credentials::{Credentials, TokenAccount},
    decision::{DESTINATION, RECENT},
    gather::{SourceCluster, TargetCluster, TokenSource},
    outcome::{Ending, RotationDetails, RotationOutcome},
    tokens::{TokenOwner, TokenSecret, Tokens, link_id},
};
use super::common::{
    args::Global,
    cluster::Cluster,
    cluster_name::context_of,
    interrupt::on_interrupt,
    linked::{KnownLinks, known_clusters},
    output,
};
use crate::{
    api::{conditions::ready::DUPLICATE_CLUSTER, link::Link},
    clusters::cluster_client::side_by_side,
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
    if args.writes() {
        say_if_interrupted();
    }
    let outcomes = Box::pin(rotate(global, args)).await?;
    if args.output == RotateFormat::Json {
        let document = serde_json::to_string_pretty(&json!({ "links": outcomes }))?;
        output::data(&format!("{document}\n"))?;
    }
    let failed = |outcome: &RotationOutcome| outcome.result == Ending::Failed;
    Ok(output::exit_code(outcomes.iter().any(failed)))
}

/// What an interrupted rotation says. It revokes a token only when nothing uses it.
pub(super) fn say_if_interrupted() {
    on_interrupt(
        "a part of this may be done, and all tokens that are in use are valid",
        "run the same command again, which does the rest",
    );
}

async fn rotate(global: &Global, args: &Rotate) -> anyhow::Result<Vec<RotationOutcome>> {
    let access = match &args.source {
        Some(context) => global.access().with_context(context),
        None => global.access(),
    };
    let source = SourceCluster {
        name: None,
        cluster: Cluster::connect(&access).await?,
        namespace: args.namespace.clone(),
        linkerd: global.linkerd_namespace.clone(),
    };
    let known = KnownLinks::read(&source.cluster, &source.namespace).await?;
    let chosen = chosen(&source, args, &known.links)?.into_iter().cloned();
    let wanted = chosen.map(async |link| {
        let target = target(global, args, &link.spec.target_cluster_name).await;
        WantedRotation {
            link,
            from: target.map(|target| TokenSource::Target(Box::new(target))),
        }
    });
    let wanted = side_by_side(wanted).await;
    let batch = Batch {
        flags: &args.flags,
        source: &source,
        limit: &Semaphore::new(1),
        prepares: false,
    };
    batch.rotate(&known, wanted).await
}

async fn target(global: &Global, args: &Rotate, name: &str) -> anyhow::Result<TargetCluster> {
    let context = target_context(global, args, name)?;
    let cluster = Cluster::connect(&global.access().with_context(&context)).await?;
    Ok(TargetCluster { cluster, context })
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
pub(super) fn is_duplicate(link: &Link) -> bool {
    let ready = link
        .status
        .as_ref()
        .and_then(|status| status.condition("Ready"));
    ready.is_some_and(|ready| ready.reason == DUPLICATE_CLUSTER)
}
