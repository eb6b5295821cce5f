//! `graph`: clusters and the Links between them, as text, JSON or a diagram.

mod draw;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};

use super::{
    args::{Global, timeout},
    cluster::block_on,
    contexts::Contexts,
    output,
    progress::spin,
    table::terminal_width,
};
use crate::{
    clusters::{
        collect::{Depth, snapshots_of},
        topology::Topology,
    },
    hint::fail,
};

const EXAMPLES: &str = "\
Examples:
  # Show what the current context's cluster links to
  linkerd-mc graph

  # Print all clusters of the kubeconfig as a Mermaid diagram
  linkerd-mc graph --all-contexts -o mermaid

  # Draw the same with Graphviz
  linkerd-mc graph --all-contexts -o dot | dot -Tsvg > clusters.svg";

/// Show which cluster links to which
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Graph {
    #[command(flatten)]
    contexts: Contexts,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree for each cluster
    Text,
    /// A Mermaid flowchart
    Mermaid,
    /// A Graphviz digraph
    Dot,
    /// A JSON object
    Json,
}

/// Runs the command. Exit code 1 if one of several clusters did not respond.
pub(crate) fn run(global: &Global, args: &Graph) -> anyhow::Result<ExitCode> {
    block_on(async {
        let contexts = args.contexts.select(global, args.timeout).await?;
        // With several clusters, the credentials of a Link tell which of them it leads to.
        let depth = match contexts.as_slice() {
            [_] => Depth::Links,
            _ => Depth::Credentials,
        };
        let snapshots = spin("reading Links", snapshots_of(&contexts, depth)).await;
        if let [snapshot] = snapshots.as_slice()
            && let Err(why) = &snapshot.links
        {
            return Err(fail(
                format!("cannot list the Links of {}: {why}", snapshot.name),
                "check that the cluster is up and that you may list Links; `linkerd-mc check` shows details",
            ));
        }
        let topology = Topology::of(&snapshots);
        output::data(&match args.output {
            Format::Text => draw::text(&topology, terminal_width()),
            Format::Mermaid => draw::mermaid(&topology),
            Format::Dot => draw::dot(&topology),
            Format::Json => serde_json::to_string_pretty(&topology)? + "\n",
        })?;
        let silent = topology.clusters.iter().any(|c| c.reachable == Some(false));
        Ok(if silent {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    })
}
