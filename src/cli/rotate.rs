//! `linkerd-mc rotate`: replaces the credentials of links without interrupting traffic.
//!
//! Two processes read a link's credentials: our controller watches its Secret, and Linkerd's destination controller
//! reads its own once, at startup. The old token is revoked when both have the new one.

mod args;
mod credentials;
mod outcome;
mod restart;
mod rotation;
mod tokens;

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

pub(crate) use self::args::Rotate;
pub(super) use self::tokens::link_id;
use self::{
    args::Format,
    outcome::{Done, Ending, Outcome},
    rotation::{Rotation, Source, Step},
};
use super::{
    args::Global,
    cluster::{Cluster, block_on},
    linked::{known_clusters, links},
    output,
    progress::spin,
};
use crate::{api::link::Link, hint::fail};

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

/// Restarts Linkerd's destination controller. `false` if `--no-restart` is set.
async fn restarted(source: &Source, args: &Rotate) -> anyhow::Result<bool> {
    if args.no_restart {
        output::warning(&format!(
            "{0} still uses the old token, so nothing was revoked; run `kubectl -n {1} rollout restart deployment/{0}`, then \
             run this again",
            restart::DESTINATION,
            source.linkerd
        ));
        return Ok(false);
    }
    let waiting = format!("restarting {}", restart::DESTINATION);
    let restart = restart::restart(&source.cluster, &source.linkerd, args.wait);
    spin(&waiting, Box::pin(restart)).await?;
    output::note(&format!("restarted {}", restart::DESTINATION));
    Ok(true)
}

/// The chosen Links, at least one.
async fn chosen(source: &Source, args: &Rotate) -> anyhow::Result<Vec<Link>> {
    let known = links(&source.cluster, &source.namespace).await?;
    let hint = known_clusters(
        &known,
        "choose another namespace with --namespace, or another cluster with --to",
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
                "no Link to {what} found in namespace {:?}",
                source.namespace
            ),
            hint,
        ));
    }
    Ok(chosen)
}
