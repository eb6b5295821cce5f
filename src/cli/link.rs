//! `linkerd-mc link`: links two clusters of the kubeconfig, and waits until Services are mirrored.

mod apply;
mod taken;

use std::{collections::BTreeSet, io::IsTerminal as _, time::Duration};

use anyhow::Context as _;
use clap::Args;
use clap_complete::ArgValueCompleter;
use kube::{Api, ResourceExt as _, api::ListParams};

use self::apply::{Direction, Prepared, kubeconfig};
use super::{
    common::{
        args::{self, Global, ManifestOutput},
        cluster::Cluster,
        complete,
        interrupt::on_interrupt,
        output,
        wait::{POLL_INTERVAL, Progress, poll},
    },
    link_gen::{LinkArgs, generate},
    status::{self, StatusArgs},
};
use crate::{
    api::link,
    client::{Access, fingerprint},
    clusters::topology,
    hint::{HintExt as _, fail, misuse},
    manifests::link::ClusterName,
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Mirror Services of east into west
  linkerd-mc link --from east --to west

  # Mirror in both directions
  linkerd-mc link --from east --to west --mutual

  # Print what would be applied to west, including credentials
  linkerd-mc link --from east --to west --dry-run";

/// Link two clusters
///
/// Both clusters are contexts of the kubeconfig. Applies the output of `link-gen` for the target cluster to the source
/// cluster, waits until the Link is ready, and shows what is mirrored.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Link {
    /// Context of the target cluster, whose Services are mirrored
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    from: Option<String>,
    /// Context of the source cluster, where the mirrors are created
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    to: Option<String>,
    /// Name of the target cluster, and the suffix of its mirrors [default: the name of its context]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<ClusterName>,
    /// Move the name of a cluster that is linked already to this one. All mirrors of the other cluster are deleted
    #[arg(long)]
    replace: bool,
    /// Link the clusters in both directions
    #[arg(long, conflicts_with_all = ["api_server_address", "gateway_addresses", "gateway_port"])]
    mutual: bool,
    /// Print what would be applied, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// How long to wait until the Links are ready; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
    #[command(flatten)]
    generated: LinkArgs,
    #[command(flatten)]
    output: ManifestOutput,
}

/// Runs the command.
pub(crate) async fn run(global: &Global, args: &Link) -> anyhow::Result<()> {
    let access = global.access();
    if access.context.is_some() {
        return Err(misuse(
            "--context cannot be used with link",
            "pass --from and --to",
        ));
    }
    global.refuse_address()?;
    args.generated.agree(true)?;
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let (from, to) = contexts(&access, args, can_ask)?;
    let mut directions =
        vec![direction(global, args, &from, &to, args.cluster_name.clone()).await?];
    if args.mutual {
        directions.push(direction(global, args, &to, &from, None).await?);
    }
    if args.dry_run {
        for direction in &directions {
            output::data(&args.output.format(&direction.objects.manifest()?))?;
        }
        return Ok(());
    }
    let mut prepared = Vec::new();
    for direction in &directions {
        prepared.push(Prepared::read(direction, args.replace).await?);
    }
    for prepared in &prepared {
        Box::pin(establish(prepared, args)).await?;
    }
    if !args.wait.is_zero() {
        for direction in directions {
            let global = Global {
                context: Some(direction.context),
                ..global.clone()
            };
            let shown = StatusArgs::services_of(direction.name.to_string());
            Box::pin(status::run(&global, &shown)).await?;
        }
    }
    Ok(())
}

/// The two contexts. Prompts for missing ones if it `can_ask`.
fn contexts(access: &Access, args: &Link, can_ask: bool) -> anyhow::Result<(String, String)> {
    let known: Vec<String> = access
        .kubeconfig()?
        .contexts
        .into_iter()
        .map(|context| context.name)
        .collect();
    let choose = |given: &Option<String>, flag: &str, question: &str, other: Option<&str>| {
        if let Some(given) = given {
            return Ok(given.clone());
        }
        let choices: Vec<&String> = known
            .iter()
            .filter(|name| Some(name.as_str()) != other)
            .collect();
        if !can_ask {
            let names: Vec<&str> = choices.iter().map(|name| name.as_str()).collect();
            return Err(misuse(
                format!("missing {flag}"),
                format!(
                    "pass {flag} with a context of the kubeconfig: {}",
                    names.join(", ")
                ),
            ));
        }
        let chosen = dialoguer::Select::new()
            .with_prompt(question)
            .items(&choices)
            .interact();
        // Select hides the cursor, and does not show it again if it is interrupted.
        let _ = dialoguer::console::Term::stderr().show_cursor();
        Ok(choices[chosen.context("no context was chosen")?].clone())
    };
    let from = choose(
        &args.from,
        "--from",
        "Mirror Services from which cluster?",
        args.to.as_deref(),
    )?;
    let to = choose(&args.to, "--to", "Into which cluster?", Some(&from))?;
    if from == to {
        return Err(misuse(
            format!("--from and --to are both {from:?}"),
            "choose two different contexts",
        ));
    }
    Ok((from, to))
}

async fn direction(
    global: &Global,
    args: &Link,
    from: &str,
    to: &str,
    name: Option<ClusterName>,
) -> anyhow::Result<Direction> {
    let name = match name {
        Some(name) => name,
        None => from.parse().hint(
            || format!("the name of the context {from:?} is not a valid cluster name"),
            || "pass another name with --cluster-name (without --mutual)".into(),
        )?,
    };
    let access = global.access();
    let from_access = access.with_context(from);
    let objects = generate(
        &from_access,
        &global.linkerd_namespace,
        &name,
        &args.generated,
    )
    .await
    .with_context(|| format!("cannot generate the link to {from}"))?;
    Ok(Direction {
        from: from_access,
        access: access.with_context(to),
        context: to.to_owned(),
        name,
        objects,
    })
}

/// Succeeds if a Link is ready as it was applied last, with the credentials of this fingerprint. `Err` is what its
/// status says instead, if anything.
fn is_ready(live: &link::Link, credentials: &str) -> Result<(), Option<String>> {
    let status = live.status.clone().unwrap_or_default();
    // A status of an older generation is not about what was just applied.
    let current = status.observed_generation == live.metadata.generation;
    let Some(ready) = status.condition("Ready").filter(|_| current) else {
        return Err(None);
    };
    let (about, what) = if ready.status != "True" {
        (Some(ready), ready.reason.as_str())
    } else if status.credentials_fingerprint.as_deref() == Some(credentials) {
        return Ok(());
    } else {
        // Ready with the old credentials, while the controller tries the new ones.
        (
            status.condition("CredentialsValid"),
            "the new credentials are not in use",
        )
    };
    Err(Some(match about.map(|about| about.message.as_str()) {
        Some(message) if !message.is_empty() => format!("{what}: {message}"),
        _ => what.to_owned(),
    }))
}

/// Warns of a name that means another cluster elsewhere, and of clusters of other Links whose mirrors may have the same
/// names. If these Links cannot be read, there is no warning about them: other requests say why.
async fn warn_of_names(cluster: &Cluster, links: &Api<link::Link>, name: &ClusterName) {
    let name = name.to_string();
    if let Some(warning) = topology::reserved_name(&name) {
        output::warning(&warning);
    }
    let all = ListParams::default();
    let list = links.list(&all);
    let Ok(known) = cluster.request("list the Links", list).await else {
        return;
    };
    let others = known.items.iter();
    let others: BTreeSet<&str> = others
        .map(|link| link.spec.target_cluster_name.as_str())
        .collect();
    for warning in others
        .into_iter()
        .filter_map(|other| topology::equal_mirror_names(&name, other))
    {
        output::warning(&warning);
    }
}

/// Applies one direction, and waits until its Link is ready.
async fn establish(prepared: &Prepared<'_>, args: &Link) -> anyhow::Result<()> {
    let Direction {
        context,
        name,
        objects,
        ..
    } = prepared.direction;
    let namespace = objects.link.namespace().unwrap_or_default();
    let links = prepared.cluster.api::<link::Link>(&namespace);
    warn_of_names(&prepared.cluster, &links, name).await;
    let progress = Progress::new(&format!("linking {context} to {name}"));
    on_interrupt(
        &format!("objects of the Link {name} may be written in {context}"),
        "run the same command again",
    );
    progress.during(Box::pin(prepared.apply())).await?;
    on_interrupt(
        &format!("the Link {name} is written in {context}, but not ready"),
        &format!("run `linkerd-mc --context {context} check`"),
    );
    if prepared.replaces_linkerds() {
        let linkerd = objects
            .control_plane_credentials
            .metadata
            .namespace
            .as_deref();
        output::warning(&format!(
            "linkerd-destination in {context} still uses the old credentials for {name}, because it ignores changes of \
             its Secret; restart it with `kubectl --context {context} -n {} rollout restart \
             deployment/linkerd-destination`",
            linkerd.unwrap_or_default()
        ));
    }
    if args.wait.is_zero() {
        return Ok(());
    }
    let ready = wait_until_ready(prepared, &links, args.wait, &progress);
    progress.during(ready).await?;
    output::note(&format!("{context} is linked to {name}"));
    Ok(())
}

/// Fails if the Link is not ready within this time.
async fn wait_until_ready(
    prepared: &Prepared<'_>,
    links: &Api<link::Link>,
    wait: Duration,
    progress: &Progress,
) -> anyhow::Result<()> {
    let Direction {
        context,
        name,
        objects,
        ..
    } = prepared.direction;
    let credentials = kubeconfig(&objects.credentials).map(|kubeconfig| fingerprint(&kubeconfig.0));
    let credentials = credentials.unwrap_or_default();
    let link = name.to_string();
    let attempt = async || {
        let read = links.get(&link);
        let live = prepared.cluster.request("read the Link", read).await?;
        anyhow::Ok(is_ready(&live, &credentials))
    };
    let waits = |why: &Option<String>| {
        let why = why.as_ref().map(|why| format!(" ({why})"));
        progress.say(&format!(
            "waiting for the Link {name} to become ready{}",
            why.unwrap_or_default()
        ));
    };
    poll(POLL_INTERVAL, wait, attempt, waits).await?.map_err(|why| {
        fail(
            format!(
                "the Link {name} in {context} is not ready after {wait:?}: {}",
                why.as_deref().unwrap_or("no status reported yet")
            ),
            format!(
                "run `linkerd-mc --context {context} check` for details, or pass a longer --wait"
            ),
        )
    })
}

#[cfg(test)]
mod tests;
