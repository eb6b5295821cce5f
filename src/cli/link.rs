//! `linkerd-mc link`: links two clusters of the kubeconfig, and waits until Services are mirrored.

mod apply;
mod args;
mod contexts;
mod undo;

use std::{collections::BTreeSet, iter, time::Duration};

use clap::ArgMatches;
use client::{Cluster, fingerprint, kubeconfig_in};
use hints::hint::{fail, misuse};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt, api::ListParams};
use links::{
    cluster_name::context_of,
    given::Given,
    link::{
        direction::{Direction, LinkedTarget},
        summary::summary,
    },
    link_credentials::KubeconfigTarget,
    poll::{POLL_INTERVAL, poll},
    rotate::tokens::Lifetime,
};
use manifests::link::ClusterName;
use mirror_core::api::{duration::format_go_duration, link, text::one_line};
use observe::clusters::{
    controller_start::not_running,
    misspelled::{misspelled, service_labels},
    topology,
};

use self::apply::Prepared;
pub use self::args::Link;
use super::common::{
    args::Global,
    interrupt::on_interrupt,
    mirroring::Parse,
    output,
    prompt::{canceled, confirmed},
    terminal::Terminal,
    wait::Progress,
};

/// Runs the command. `given` are its flags as clap has them, and `parse` reads those of the running controller.
pub async fn run(
    global: &Global,
    args: &Link,
    given: &ArgMatches,
    parse: Parse,
) -> anyhow::Result<()> {
    if global.context.is_some() {
        return Err(misuse(
            "--context cannot be used with link",
            "pass --target and --source",
        ));
    }
    global.refuse_address()?;
    args.generated.agree(true, &Terminal)?;
    let given = Given::of(given);
    let directions = match &args.from_file {
        Some(file) => {
            refuse_flags(&given)?;
            vec![(contexts::handed(global, args, file)?, given)]
        }
        None => contexts::directions(global, args, &given).await?,
    };
    let (directions, given): (Vec<Direction>, Vec<Given>) = directions.into_iter().unzip();
    let linkerd = &global.linkerd_namespace;
    let read = async |directions: Vec<Direction>, is_dry: bool| {
        let mut all = Vec::new();
        for (direction, given) in directions.into_iter().zip(&given) {
            let read = Prepared::read(direction, linkerd, given, (args, is_dry), parse);
            all.push(Box::pin(read).await?);
        }
        anyhow::Ok(all)
    };
    // A token that is requested before the answer may be for nothing.
    let mut prepared = Box::pin(read(directions, true)).await?;
    prepared
        .iter()
        .flat_map(|of| &of.remarks)
        .for_each(|remark| remark.say(&Terminal));
    let warnings: Vec<String> = prepared.iter().filter_map(Prepared::is_of_fleet).collect();
    output::warnings(&warnings);
    if args.dry_run {
        return show(&prepared, args);
    }
    loop {
        let was_asked = confirm(&prepared, args.yes)?;
        if !was_asked && !prepared.iter().any(Prepared::lacks_token) {
            break;
        }
        // Much may have happened while the question stood.
        let directions = prepared.iter().map(|of| of.direction.clone()).collect();
        let again = Box::pin(read(directions, false)).await?;
        let is_same = again
            .iter()
            .zip(&prepared)
            .all(|(now, then)| now.is_like(then));
        prepared = again;
        if is_same {
            break;
        }
        output::note("something has changed meanwhile; this is what would be done now");
    }
    for prepared in &prepared {
        Box::pin(write(prepared)).await?;
    }
    if args.wait.is_zero() {
        return Ok(());
    }
    // A direction that does not become ready says nothing about the other one.
    let mut failed = None;
    for prepared in &prepared {
        if let Err(error) = Box::pin(become_ready(prepared, args.wait)).await
            && let Some(second) = failed.replace(error)
        {
            output::warning(&format!("{second:#}"));
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let mut warnings = Vec::new();
    for prepared in &prepared {
        warnings.extend(summarize(prepared).await?);
    }
    output::warnings(&warnings);
    Ok(())
}

/// Fails if there are flags that decide what the file decides.
fn refuse_flags(given: &Given) -> anyhow::Result<()> {
    const OWN: [&str; 15] = [
        "from_file",
        "source",
        "namespace",
        "replace",
        "dry_run",
        "yes",
        "wait",
        "output",
        "kubeconfig",
        "as_user",
        "as_groups",
        "linkerd_namespace",
        "verbose",
        "quiet",
        "color",
    ];
    // Groups of flags have the names of types.
    let mut flags = given
        .flags()
        .filter(|flag| flag.starts_with(char::is_lowercase));
    match flags.find(|flag| !OWN.contains(flag)) {
        None => Ok(()),
        Some(flag) => Err(misuse(
            format!(
                "--{} cannot be used with --from-file",
                flag.replace('_', "-")
            ),
            "the file has all settings; ask its owner for another one, or change them with `link` or kubectl afterwards",
        )),
    }
}

/// Shows what would be done.
fn show(prepared: &[Prepared], args: &Link) -> anyhow::Result<()> {
    for prepared in prepared {
        if let Some(format) = args.output {
            if prepared.lacks_token() {
                return Err(misuse(
                    "--output cannot be used for a link that needs a new token, because a dry run requests none",
                    "use link-gen, which requests one, or leave --output out",
                ));
            }
            output::data(&format.text(&prepared.objects.manifest()?)?)?;
            continue;
        }
        let Direction { context, name, .. } = &prepared.direction;
        let link = format!("the Link {name} in {context}");
        let mut lines = match (&prepared.source.link, prepared.changes.as_slice()) {
            (None, _) => vec![format!("would create {link}")],
            (Some(_), []) => vec![format!("would keep all settings of {link}")],
            (Some(_), _) => vec![format!("would change {link}:")],
        };
        if prepared.lacks_token() {
            let lifetime = prepared.direction.args.token_duration;
            let lifetime = lifetime.unwrap_or(Lifetime::Usual).asked();
            lines.push(match lifetime {
                Some(asked) => format!(
                    "  a token is requested that expires after {}",
                    format_go_duration(asked)
                ),
                None => "  a token is created that does not expire".to_owned(),
            });
        }
        lines.extend(prepared.lines().map(|line| format!("  {line}")));
        lines.push(String::new());
        output::data(&lines.join("\n"))?;
    }
    Ok(())
}

/// Lists the settings that would change, and asks whether they may. Fails if they may not. Returns whether somebody was
/// asked.
fn confirm(prepared: &[Prepared], yes: bool) -> anyhow::Result<bool> {
    let changes =
        |link: &&Prepared| !link.changes.is_empty() || link.losses.is_some() || link.is_handed();
    let mut changed = prepared.iter().filter(changes);
    let Some(first) = changed.next() else {
        return Ok(false);
    };
    for prepared in std::iter::once(first).chain(changed) {
        let Direction { context, name, .. } = &prepared.direction;
        let will = if yes {
            "this changes"
        } else {
            "this would change"
        };
        output::line(&match prepared.source.link {
            Some(_) => format!("{context} is linked to {name} already; {will} the Link:"),
            None => format!("this links {context} to {name}, as the file says:"),
        });
        for line in prepared.lines() {
            output::line(&format!("- {line}"));
        }
    }
    let otherwise = "pass --yes to change these settings; a flag with the old value keeps it";
    if yes || confirmed("Change these settings?", otherwise)? {
        return Ok(!yes);
    }
    Err(canceled())
}

/// Succeeds if a Link is ready as it was applied last, with the credentials of this fingerprint. `Err` is what its
/// status says instead, if anything.
pub fn is_ready(live: &link::Link, credentials: &str) -> Result<(), Option<String>> {
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

/// Warnings about a name that means another cluster elsewhere, and about clusters of other Links whose mirrors may have the
/// same names. If these Links cannot be read, there is no warning about them: other requests say why.
async fn warnings_of_names(
    cluster: &Cluster,
    links: &Api<link::Link>,
    name: &ClusterName,
) -> Vec<String> {
    let name = name.to_string();
    let mut warnings: Vec<String> = topology::reserved_name(&name).into_iter().collect();
    let all = ListParams::default();
    let list = links.list(&all);
    let Ok(known) = cluster.request("list the Links", list).await else {
        return warnings;
    };
    let others = known.items.iter();
    let others: BTreeSet<&str> = others
        .map(|link| link.spec.target_cluster_name.as_str())
        .collect();
    let equal = |other| topology::equal_mirror_names(&name, other);
    warnings.extend(others.into_iter().filter_map(equal));
    warnings
}

/// Applies one direction.
async fn write(prepared: &Prepared) -> anyhow::Result<()> {
    let Prepared {
        direction, source, ..
    } = prepared;
    let Direction { context, name, .. } = direction;
    let links = prepared.links();
    let mut warnings = warnings_of_names(&source.cluster, &links, name).await;
    // Before anything is written, because the answer may be an error.
    let left = prepared.leaves_linkerds().await?;
    let progress = Progress::new(&format!("linking {context} to {name}"));
    on_interrupt(
        &format!("objects of the Link {name} may be written in {context}"),
        "run the same command again",
    );
    let stored = progress.during(Box::pin(prepared.apply())).await?;
    // Now, because what follows may fail or be interrupted, and the next run finds the new credentials in place.
    warnings.extend(warnings_of_credentials(prepared, left));
    output::warnings(&warnings);
    prepared.check(stored.as_ref())
}

/// Waits until the Link of one direction is ready.
async fn become_ready(prepared: &Prepared, wait: Duration) -> anyhow::Result<()> {
    let Prepared {
        direction, source, ..
    } = prepared;
    let Direction { context, name, .. } = direction;
    let links = prepared.links();
    on_interrupt(
        &format!("the Link {name} is written in {context}, but not ready"),
        &format!("run {}", source.cluster.flags.mc("check", &[])),
    );
    let progress = Progress::new(&format!("waiting for the Link {name} in {context}"));
    let ready = wait_until_ready(prepared, &links, wait, &progress);
    progress.during(ready).await?;
    output::note(&format!("{context} is linked to {name}"));
    let credentials = KubeconfigTarget::of_secret(prepared.stored_credentials());
    let account = credentials.and_then(|credentials| credentials.account);
    if let Some(at) = account.and_then(|account| account.expires) {
        let (namespace, name) = (prepared.namespace(), name.to_string());
        let flags = &source.cluster.flags;
        // `rotate` finds a context of this name itself.
        let target = match &direction.target {
            LinkedTarget::Context(target) => context_of(&name, iter::once(&*target.context))
                .is_err()
                .then_some(&target.context),
            LinkedTarget::Handed(_) => None,
        };
        let rotate = match target {
            Some(context) => flags.mc(
                "rotate --namespace {} --target {} {}",
                &[&namespace, context, &name],
            ),
            None => flags.mc("rotate --namespace {} {}", &[&namespace, &name]),
        };
        output::note(&format!(
            "its token expires on {}; before then, run {rotate}, best every month by a CronJob",
            at.strftime("%Y-%m-%d")
        ));
    }
    Ok(())
}

/// Warnings about what Linkerd has after the credentials were applied. `left` is a Secret that it does not need any more.
fn warnings_of_credentials(prepared: &Prepared, left: Option<&Secret>) -> Vec<String> {
    let Prepared {
        direction, source, ..
    } = prepared;
    let Direction { context, name, .. } = direction;
    let mut warnings = Vec::new();
    if let Some(left) = left {
        let (namespace, secret) = (left.namespace().unwrap_or_default(), left.name_any());
        let delete = source
            .cluster
            .flags
            .kubectl("-n {} delete secret {}", &[&namespace, &secret]);
        warnings.push(format!(
            "Linkerd in {context} does not need its credentials for {name} any more; delete them with {delete}"
        ));
    }
    if let Some(outdated) = prepared.outdated_at_linkerd() {
        warnings.push(format!(
            "linkerd-destination in {context} still uses the old {outdated} for {name}, because it ignores changes of \
             its Secret; restart it with {}",
            prepared.restart()
        ));
    }
    warnings
}

/// Prints how much is mirrored. Returns warnings about Services that look as if they should be, and are not.
async fn summarize(prepared: &Prepared) -> anyhow::Result<Vec<String>> {
    let Direction { context, name, .. } = &prepared.direction;
    let (cluster, link) = (&prepared.source.cluster, name.to_string());
    let links = prepared.links();
    let live = cluster.request("read the Link", links.get(&link)).await?;
    output::data(&(one_line(&summary(&link, context, &live)) + "\n"))?;
    let LinkedTarget::Context(target) = &prepared.direction.target else {
        return Ok(Vec::new());
    };
    // Users who may link need not be able to list all Services.
    let Ok(labels) = service_labels(&target.cluster.client).await else {
        return Ok(Vec::new());
    };
    let warnings = misspelled(&live, &labels);
    Ok(warnings.iter().map(ToString::to_string).collect())
}

/// Fails if the Link is not ready within this time.
async fn wait_until_ready(
    prepared: &Prepared,
    links: &Api<link::Link>,
    wait: Duration,
    progress: &Progress,
) -> anyhow::Result<()> {
    let Direction { context, name, .. } = &prepared.direction;
    let cluster = &prepared.source.cluster;
    let credentials = kubeconfig_in(prepared.stored_credentials());
    let credentials = credentials.map(|kubeconfig| fingerprint(&kubeconfig.0));
    let credentials = credentials.unwrap_or_default();
    let link = name.to_string();
    let attempt = async || {
        let read = links.get(&link);
        let live = cluster.request("read the Link", read).await?;
        let ready = is_ready(&live, &credentials);
        if !matches!(ready, Err(None)) {
            return anyhow::Ok(ready);
        }
        let namespace = live.namespace().unwrap_or_default();
        let why = not_running(cluster, &namespace).await;
        if let Some(why) = why.as_ref().filter(|why| why.stays) {
            return Err(fail(
                format!(
                    "the Link {name} is written in {context}, but {}",
                    why.finding.line()
                ),
                why.finding.remedy().map_or_else(String::new, |command| {
                    format!("run {command}; then the Link becomes ready by itself")
                }),
            ));
        }
        anyhow::Ok(Err(why.map(|why| why.finding.told())))
    };
    let waits = |why: &Option<String>| {
        let why = why
            .as_ref()
            .map(|why| format!(" ({})", cluster.flags.inserted(why)));
        progress.say(&format!(
            "waiting for the Link {name} to become ready{}",
            why.unwrap_or_default()
        ));
    };
    poll(POLL_INTERVAL, wait, attempt, waits)
        .await?
        .map_err(|why| {
            fail(
                format!(
                    "the Link {name} in {context} is not ready after {wait:?}: {}",
                    why.as_ref().map_or_else(
                        || "no status reported yet".to_owned(),
                        |why| cluster.flags.inserted(why)
                    )
                ),
                format!(
                    "run {} for details, or pass a longer --wait",
                    cluster.flags.mc("check", &[])
                ),
            )
        })
}

#[cfg(test)]
mod tests;
