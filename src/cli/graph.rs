//! `graph`: clusters and the Links between them, as text, JSON or a diagram.

mod diagram;
mod edges;
#[cfg(test)]
mod tests;
mod tree;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use observe::clusters::{
    collect::{Depth, snapshots_of},
    topology::Topology,
};

use super::{
    common::{
        args::{Global, timeout},
        contexts::refuse_silence,
        output,
        table::terminal_width,
        wait::spin,
    },
    fleet::FleetContexts,
};

const EXAMPLES: &str = "\
Examples:
  # Show what the current context's cluster links to
  linkerd-mc graph

  # Print all clusters of the kubeconfig as a Mermaid diagram
  linkerd-mc graph --all-contexts -o mermaid

  # Draw the same with Graphviz
  linkerd-mc graph --all-contexts -o dot | dot -Tsvg > clusters.svg

  # Compare the clusters of a fleet with its file
  linkerd-mc graph --file fleet.yaml";

/// Show which cluster links to which
///
/// With --file, the clusters are those of a fleet, under their names in the file. Links of the file that are missing are
/// drawn too, and Links that are not in the file are marked.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Graph {
    #[command(flatten)]
    contexts: FleetContexts,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: GraphFormat,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// A tree for each cluster
    Text,
    /// A Mermaid flowchart
    Mermaid,
    /// A Graphviz digraph
    Dot,
    /// A JSON object
    Json,
    /// The same as YAML
    Yaml,
}

/// Runs the command. Exit code 1 if one of several clusters did not respond.
pub async fn run(global: &Global, args: &Graph) -> anyhow::Result<ExitCode> {
    let selected = args.contexts.select(global, args.timeout).await?;
    let contexts = &selected.contexts;
    // With several clusters, the credentials of a Link tell which of them it leads to.
    let depth = match contexts.as_slice() {
        [_] => Depth::Links,
        _ => Depth::Credentials,
    };
    let snapshots = spin("reading Links", snapshots_of(contexts, depth)).await;
    refuse_silence(&snapshots)?;
    let mut topology = Topology::of(&snapshots);
    if let Some(fleet) = &selected.fleet {
        topology.compare(&fleet.links, &fleet.namespace);
    }
    output::data(&match args.output {
        GraphFormat::Text => tree::text(&topology, contexts.len() > 1, terminal_width()),
        GraphFormat::Mermaid => diagram::mermaid(&topology),
        GraphFormat::Dot => diagram::dot(&topology),
        GraphFormat::Json => output::json(&topology)?,
        GraphFormat::Yaml => output::yaml(&topology)?,
    })?;
    let silent = topology.has_silent_cluster();
    Ok(output::exit_code(silent))
}
