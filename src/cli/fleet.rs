//! `linkerd-mc fleet`: links the clusters that a file names, as it says.

mod accounts;
mod change;
mod facts;
mod gather;
mod link_plan;
mod loaded;
mod plan;
mod removal;
#[cfg(test)]
mod tests;
mod view;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use self::{
    gather::{ReadClusters, read_all},
    loaded::{link_flags, load},
    plan::FleetPlan,
    removal::KnownClusters,
};
use super::common::{
    args::{self, Global},
    output,
    wait::spin,
};
use crate::{
    fleet::{LinkFlags, schema},
    hint::misuse,
    timing,
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Show what would be created, changed and deleted in which cluster
  linkerd-mc fleet plan --file fleet.yaml

  # The same as JSON
  linkerd-mc fleet plan --file fleet.yaml --output json

  # Write the JSON schema of the file, for an editor
  linkerd-mc fleet schema > fleet.schema.json

A file for three clusters that all link to each other, whose contexts have
the names of the clusters:

  name: example
  clusters:
  - name: east
  - name: west
  - name: north
  links:
  - mesh: all";

/// Exit code if there is something to do, as for `plan`.
const PENDING: u8 = 2;

/// Link many clusters, as one file says
///
/// The file names the clusters, which of them link to which, and the settings of the links: those of `link`, with the same
/// names in camelCase. `fleet schema` prints a JSON schema with all keys, which editors use.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    Plan(FleetPlanArgs),
    /// Print the JSON schema of the file, for editors
    Schema,
}

/// Show what would be created, changed and deleted in which cluster, and why
///
/// Reads all clusters side by side, and changes nothing. A cluster that does not answer is named, and the others are shown.
///
/// Exit codes: 0 nothing to do, 1 failed, or a cluster was not read, or something cannot be done, 2 changes (or invalid usage).
#[derive(Debug, Args)]
struct FleetPlanArgs {
    #[command(flatten)]
    source: FleetSource,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Text)]
    output: FleetFormat,
}

/// The file, and how its clusters are read.
#[derive(Debug, Args)]
struct FleetSource {
    /// File with the fleet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// How long to read each cluster
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = args::timeout)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FleetFormat {
    /// The objects of each cluster
    Text,
    /// One JSON document
    Json,
}

/// Runs the command.
pub(crate) async fn run(global: &Global, args: &FleetArgs) -> anyhow::Result<ExitCode> {
    if global.context.is_some() {
        return Err(misuse(
            "--context cannot be used with fleet",
            "set context for each cluster in the file",
        ));
    }
    global.refuse_address()?;
    match &args.command {
        FleetCommand::Plan(args) => plan(global, args).await,
        FleetCommand::Schema => {
            let flags = LinkFlags::new(link_flags());
            output::data(&output::json(&schema(&flags))?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn plan(global: &Global, args: &FleetPlanArgs) -> anyhow::Result<ExitCode> {
    let FleetSource { file, timeout } = &args.source;
    let loaded = load(file, &global.linkerd_namespace)?;
    let read = spin("reading the clusters", read_all(global, &loaded, *timeout)).await;
    let plan = FleetPlan::of(&loaded, &known(&read), timing::now());
    for (target, remark) in &plan.remarks {
        remark.say_of(&target.to_string());
    }
    output::data(&match args.output {
        FleetFormat::Text => view::text(&plan),
        FleetFormat::Json => output::json(&plan)?,
    })?;
    Ok(if plan.is_pending() {
        ExitCode::from(PENDING)
    } else {
        output::exit_code(plan.has_problems())
    })
}

/// What was read, without the clients.
fn known(read: &ReadClusters) -> KnownClusters<'_> {
    let known = read
        .iter()
        .map(|(name, read)| (name, read.as_ref().map_err(String::as_str)));
    known.collect()
}
