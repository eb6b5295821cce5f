//! `graph`: clusters and the Links between them, as text or as a drawing's source.

mod draw;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};

use super::{
    args::{Global, duration},
    cluster::block_on,
    fleet::{Contexts, survey_all},
    output,
    progress::spin,
    table::terminal_width,
};
use crate::{
    check::{survey::Depth, topology::fleet},
    hint::fail,
};

const EXAMPLES: &str = "\
Examples:
  # What the current context's cluster links to
  linkerd-mc graph

  # All clusters of the kubeconfig, as a Mermaid diagram for a README
  linkerd-mc graph --all-contexts -o mermaid

  # The same as an image, drawn by Graphviz
  linkerd-mc graph --all-contexts -o dot | dot -Tsvg > clusters.svg";

/// Show which cluster links to which
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Graph {
    #[command(flatten)]
    contexts: Contexts,
    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Time limit of a request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
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

/// Draws the clusters. Exit code 1 when one of several did not answer.
pub(crate) fn run(global: &Global, args: &Graph) -> anyhow::Result<ExitCode> {
    block_on(async {
        let members = args.contexts.members(global, args.timeout).await?;
        // Where there are several, their credentials say where their Links lead.
        let depth = match members.as_slice() {
            [_] => Depth::Links,
            _ => Depth::Credentials,
        };
        let surveys = spin("asking the clusters", survey_all(&members, depth)).await;
        if let [survey] = surveys.as_slice()
            && let Err(why) = &survey.links
        {
            return Err(fail(
                format!("cannot list the Links of {}: {why}", survey.name),
                "is the cluster up, and are you permitted to list Links? `linkerd-mc check` says more",
            ));
        }
        let fleet = fleet(&surveys);
        output::data(&match args.output {
            Format::Text => draw::text(&fleet, terminal_width()),
            Format::Mermaid => draw::mermaid(&fleet),
            Format::Dot => draw::dot(&fleet),
            Format::Json => serde_json::to_string_pretty(&fleet)? + "\n",
        })?;
        let silent = fleet.clusters.iter().any(|c| c.reachable == Some(false));
        Ok(if silent {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    })
}
