//! `linkerd-mc fleet`: links the clusters that a file names, as it says.

mod complete;
mod contexts;
mod credentials;
mod import;
mod losses;
mod plugins;
mod ready;
mod remove;
mod render;
mod source;
#[cfg(test)]
mod tests;
mod view;

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use client::timing;
use hints::hint::{fail, misuse};

use links::{
    fleet::{
        apply::write_links,
        gather::{ReadClusters, known, read_all},
        identity::tell_apart,
        loaded::{LoadedFleet, link_flags},
        plan::FleetPlan,
        remaining::text as remaining_text,
    },
    fleet_file::schema,
};

pub use self::{
    complete::{clusters, clusters_or_targets, rotated},
    contexts::{FleetContexts, FleetFile, FleetLinks, SelectedClusters},
};
use self::{
    losses::read_losses,
    ready::wait_until_ready,
    remove::remove_all,
    source::{FleetConsent, FleetOnly, FleetSource, exit_code},
};
use super::common::{
    args::{self, Global},
    format::OutputFormat,
    interrupt::on_interrupt,
    mirroring::Parse,
    output,
    prompt::{canceled, confirmed},
    terminal::Terminal,
    wait::{Progress, spin},
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Show what would be created, changed and deleted in which cluster
  linkerd-mc fleet plan --file fleet.yaml

  # Link the clusters
  linkerd-mc fleet apply --file fleet.yaml --yes

  # Also unlink what the file does not name any more
  linkerd-mc fleet apply --file fleet.yaml --prune --yes

  # With access to east alone: make the accounts of those who link to it,
  # and print what remains for them
  linkerd-mc fleet apply --file fleet.yaml --only east

  # The plan as JSON
  linkerd-mc fleet plan --file fleet.yaml --output json

  # Write the Links into a folder for Argo CD or Flux, with the extension
  linkerd-mc fleet render --file fleet.yaml --output-dir clusters --extension

  # Write the credentials with which others reach east, to hand them over
  linkerd-mc fleet credentials --file fleet.yaml --target east \\
    --output-dir secrets

  # Write a file for clusters that are linked already
  linkerd-mc fleet import --context 'east,we*' > imported.yaml

  # Write the JSON schema of the file, for an editor
  linkerd-mc fleet schema > fleet.schema.json

A file for three clusters that all link to each other, whose contexts have
the names of the clusters:

  name: example
  id: 3c9e41b7
  clusters:
  - name: east
  - name: west
  - name: north
  links:
  - mesh: all";

/// Link many clusters, as one file says
///
/// The file names the clusters, which of them link to which, and the settings of the links: those of `link`, with the same
/// names in camelCase. `fleet schema` prints a JSON schema with all keys, which editors use.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

impl FleetArgs {
    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        match &self.command {
            FleetCommand::Apply(_) | FleetCommand::Credentials(_) => true,
            FleetCommand::Plan(_)
            | FleetCommand::Render(_)
            | FleetCommand::Import(_)
            | FleetCommand::Schema => false,
        }
    }
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    Plan(FleetPlanArgs),
    Apply(FleetApplyArgs),
    Render(render::FleetRenderArgs),
    Credentials(credentials::FleetCredentialsArgs),
    Import(import::FleetImportArgs),
    /// Print the JSON schema of the file, for editors
    Schema,
}

/// Show what would be created, changed and deleted in which cluster, and why
///
/// Reads all clusters side by side, and changes nothing. A cluster that does not answer is named, and the others are shown.
/// With --only, what can be done in the named clusters is shown, and what remains for the owners of others, as commands.
///
/// Exit codes: 0 nothing to do, 1 failed, or a cluster was not read, or something cannot be done, 2 everything was read, and
/// there are changes, objects that the file does not name any more, or steps that remain for others (or invalid usage).
#[derive(Debug, Args)]
struct FleetPlanArgs {
    #[command(flatten)]
    source: FleetSource,
    #[command(flatten)]
    only: FleetOnly,
    #[command(flatten)]
    consent: FleetConsent,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

/// Link the clusters as the file says
///
/// Shows what `fleet plan` shows, and does it, side by side. A cluster that does not answer is named, and delays no other.
/// What is done already is not written again, so the command can be run again at any time, also after it was stopped.
///
/// Each source cluster gets an account of its own in each of its target clusters. All that is made has a label with the
/// name of the fleet. Links that exist and are as the file says are taken over: they get the label. With --prune, objects
/// with the label that the file does not name any more are deleted: first the Link, then, when its mirrors are gone, its
/// Secrets, and then the account in the target cluster.
///
/// If nobody has access to all clusters, pass --only with those that you have. The accounts in them are made for others,
/// and Links get the settings of the file. Nothing is concluded about other clusters: what only they know, such as
/// credentials and the gateway, stays as it is, and what remains for their owners is printed as commands.
///
/// Exit codes: 0 all is as the file says, except for what --prune would delete and what --only leaves to others, 1 something
/// is not (or was not read), 2 invalid usage.
#[derive(Debug, Args)]
struct FleetApplyArgs {
    #[command(flatten)]
    source: FleetSource,
    #[command(flatten)]
    only: FleetOnly,
    #[command(flatten)]
    consent: FleetConsent,
    /// Do not ask before settings are changed and objects are deleted
    #[arg(long)]
    yes: bool,
    /// How long to wait until the Links are ready, and until mirrors are removed; 0s does not wait for the Links
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

/// Runs the command. `parse` reads the flags of running controllers.
pub async fn run(global: &Global, args: &FleetArgs, parse: Parse) -> anyhow::Result<ExitCode> {
    let names_contexts = matches!(args.command, FleetCommand::Import(_));
    if global.context.is_some() && !names_contexts {
        return Err(misuse(
            "--context cannot be used with fleet",
            "set context for each cluster in the file",
        ));
    }
    global.refuse_address()?;
    match &args.command {
        FleetCommand::Plan(args) => plan(global, args, parse).await,
        FleetCommand::Apply(args) => apply(global, args, parse).await,
        FleetCommand::Render(args) => render::run(global, args).await,
        FleetCommand::Credentials(args) => credentials::run(global, args).await,
        FleetCommand::Import(args) => Box::pin(import::run(global, args)).await,
        FleetCommand::Schema => {
            let flags = link_flags();
            output::data(&output::json(&schema(&flags))?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A plan, and what it was made of.
struct PlannedFleet {
    loaded: LoadedFleet,
    read: ReadClusters,
    plan: FleetPlan,
}

/// Reads the file and its clusters, and plans.
async fn planned(
    global: &Global,
    source: &FleetSource,
    (only, consent): (&FleetOnly, &FleetConsent),
    parse: Parse,
) -> anyhow::Result<PlannedFleet> {
    let mut loaded = source.load(global).await?;
    loaded.consent = consent.of(&loaded)?;
    let used = only.used(global, &loaded)?;
    let all = global.access();
    let reading = read_all(&all, &loaded, &used, source.request_timeout);
    let mut read = spin("reading the clusters", reading).await;
    tell_apart(&loaded, &mut read)?;
    let mut plan = FleetPlan::of(&loaded, &known(&read), &used, timing::now());
    let reading = read_losses(&loaded, &read, &mut plan, parse);
    spin("reading the mirrors", Box::pin(reading)).await;
    Ok(PlannedFleet { loaded, read, plan })
}

async fn plan(global: &Global, args: &FleetPlanArgs, parse: Parse) -> anyhow::Result<ExitCode> {
    let flags = (&args.only, &args.consent);
    let PlannedFleet { plan, .. } = planned(global, &args.source, flags, parse).await?;
    plan.say_remarks(&Terminal);
    let text = || view::text(&plan) + &remaining_text(&plan.remaining);
    output::data(&args.output.of(&plan, text)?)?;
    let is_pending = plan.is_pending() || plan.stays() > 0 || !plan.remaining.is_empty();
    Ok(exit_code(plan.has_problems(), is_pending))
}

async fn apply(global: &Global, args: &FleetApplyArgs, parse: Parse) -> anyhow::Result<ExitCode> {
    let flags = (&args.only, &args.consent);
    let mut planned = planned(global, &args.source, flags, parse).await?;
    planned.plan.say_remarks(&Terminal);
    output::data(&view::text(&planned.plan))?;
    refuse_too_many(&planned)?;
    let otherwise = "pass --yes to change and delete without confirmation";
    while planned.plan.is_destructive() && !args.yes {
        if !confirmed("Do this?", otherwise)? {
            return Err(canceled());
        }
        // Much may have happened while the question stood.
        let again = Box::pin(self::planned(global, &args.source, flags, parse)).await?;
        let is_same = output::json(&planned.plan)? == output::json(&again.plan)?;
        planned = again;
        if is_same {
            break;
        }
        output::note("something has changed meanwhile; this is what would be done now");
        output::data(&view::text(&planned.plan))?;
        refuse_too_many(&planned)?;
    }
    let plan = &planned.plan;
    let mut is_incomplete = plan.has_problems();
    if plan.is_pending() {
        on_interrupt(
            "a part of this may be done",
            "run the same command again, which does the rest",
        );
        is_incomplete |= Box::pin(write(&planned, args.wait)).await;
    }
    output::data(&remaining_text(&plan.remaining))?;
    Ok(output::exit_code(is_incomplete))
}

/// Fails if more Links would be deleted than the user has allowed: a file that was cut off names few.
fn refuse_too_many(planned: &PlannedFleet) -> anyhow::Result<()> {
    let (unlinks, allowed) = (planned.plan.unlinks(), planned.loaded.consent.prunes);
    match allowed.filter(|allowed| unlinks > *allowed) {
        None => Ok(()),
        Some(allowed) => Err(fail(
            format!("{unlinks} Links would be deleted, more than {allowed}; nothing was changed"),
            format!("pass --prune={unlinks} if that is meant"),
        )),
    }
}

/// Does what is planned. Returns whether something failed.
async fn write(planned: &PlannedFleet, wait: Duration) -> bool {
    let PlannedFleet { loaded, read, plan } = planned;
    let writing = Box::pin(write_links(loaded, read, plan, &Terminal));
    let mut outcome = Progress::silent("writing").during(writing).await;
    let successors = plan.successors();
    let waiting = if wait.is_zero() {
        successors.clone()
    } else {
        outcome.links.union(&successors).cloned().collect()
    };
    let unready = Box::pin(wait_until_ready(loaded, read, &waiting, wait)).await;
    let removing = remove_all(loaded, read, plan, wait, &unready, &mut outcome);
    Box::pin(removing).await;
    outcome.failed.extend(unready.into_values());
    for failed in &outcome.failed {
        output::warning(failed);
    }
    warn_of_restarts(loaded, read, plan);
    output::note(&format!(
        "{} objects written or deleted in all",
        outcome.written
    ));
    !outcome.failed.is_empty()
}

/// Says where Linkerd has to be restarted, as `link` does.
fn warn_of_restarts(loaded: &LoadedFleet, read: &ReadClusters, plan: &FleetPlan) {
    let outdated = plan.outdates_linkerd(&loaded.linkerd);
    for (name, read) in read {
        let name = name.to_string();
        let Ok(read) = read else { continue };
        if !outdated.contains(&name.as_str()) {
            continue;
        }
        let restart = read.cluster.flags.restart_destination(&loaded.linkerd);
        output::warning(&format!(
            "linkerd-destination in {name} still uses old credentials or domains, because it ignores changes of its \
             Secrets; restart it with {restart}"
        ));
    }
}
