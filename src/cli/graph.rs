//! `graph`: clusters and the Links between them, as text, JSON or a diagram.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use anstyle::{AnsiColor, Color, Style};
use clap::{Args, ValueEnum};
use dialoguer::console::{measure_text_width, truncate_str};
use jiff::Timestamp;

use super::common::{
    args::{Global, timeout},
    contexts::{Contexts, refuse_silence},
    output,
    problems::{about, called, dead_gateway, silences},
    table::terminal_width,
    wait::spin,
};
use crate::{
    api::text::one_line,
    clusters::{
        collect::{Depth, snapshots_of},
        link_summary::LinkSummary,
        topology::{ClusterNode, Edge, Topology},
    },
    mirror::{ApiServerThrough, FederatedThrough},
    timing,
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
pub(crate) async fn run(global: &Global, args: &Graph) -> anyhow::Result<ExitCode> {
    let contexts = args.contexts.select(global, args.timeout).await?;
    // With several clusters, the credentials of a Link tell which of them it leads to.
    let depth = match contexts.as_slice() {
        [_] => Depth::Links,
        _ => Depth::Credentials,
    };
    let snapshots = spin("reading Links", snapshots_of(&contexts, depth)).await;
    refuse_silence(&snapshots)?;
    let topology = Topology::of(&snapshots);
    output::data(&match args.output {
        GraphFormat::Text => text(
            &topology,
            contexts.len() > 1,
            timing::now(),
            terminal_width(),
        ),
        GraphFormat::Mermaid => mermaid(&topology),
        GraphFormat::Dot => dot(&topology),
        GraphFormat::Json => output::json(&topology)?,
        GraphFormat::Yaml => output::yaml(&topology)?,
    })?;
    let silent = topology.has_silent_cluster();
    Ok(output::exit_code(silent))
}

/// The health of a Link, for its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkHealth {
    /// Connected, and the gateway, if any, is alive.
    Good,
    /// Not known yet.
    Unknown,
    /// Not connected, or the gateway is dead.
    Bad,
}

impl LinkHealth {
    fn of(link: &LinkSummary) -> Self {
        let gateway = link
            .gateway
            .as_ref()
            .map_or(Some(true), |gateway| gateway.alive);
        match (link.connected, gateway) {
            _ if link.is_old() => Self::Unknown,
            (Some(false), _) | (_, Some(false)) => Self::Bad,
            (Some(true), Some(true)) => Self::Good,
            _ => Self::Unknown,
        }
    }

    fn color(self) -> AnsiColor {
        match self {
            Self::Good => AnsiColor::Green,
            Self::Unknown => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
        }
    }
}

/// The description of a Link: liveness first, then counts that are not zero.
fn details(edge: &Edge) -> Vec<String> {
    let link = &edge.link;
    let mut details = vec![match (link.connected, link.api_server_through) {
        (Some(true), ApiServerThrough::Direct) => "connected".to_owned(),
        (Some(true), ApiServerThrough::Gateway) => "connected through the gateway".to_owned(),
        (Some(false), _) => "not connected".to_owned(),
        (None, _) => "unknown".to_owned(),
    }];
    if link.is_old() {
        details.insert(0, "old".to_owned());
    }
    if let Some(gateway) = &link.gateway {
        details.push(match (gateway.alive, gateway.latency_ms) {
            (Some(true), Some(ms)) => format!("gateway {ms}ms"),
            (Some(true), None) => "gateway alive".to_owned(),
            (Some(false), _) => "gateway dead".to_owned(),
            (None, _) => "gateway unknown".to_owned(),
        });
    }
    if link.drained.is_some() {
        details.push("drained".to_owned());
    }
    let federated = match link.federated_through {
        Some(FederatedThrough::Gateway) => "federated through the gateway",
        _ => "federated",
    };
    for (count, what) in [
        (link.mirrored, "mirrored"),
        (link.federated, federated),
        (link.unhealthy, "unhealthy"),
    ] {
        if count > 0 {
            details.push(format!("{count} {what}"));
        }
    }
    details
}

/// The label of a Link in a diagram, with what the text output has as notes.
fn label(edge: &Edge) -> Vec<String> {
    let mut label = details(edge);
    if edge.one_way == Some(true) {
        label.push("one-way".to_owned());
    }
    if edge.shares_trust_anchors == Some(false) {
        label.push("different trust anchors".to_owned());
    }
    label
}

/// A tree for each cluster that was contacted, then notes.
fn text(topology: &Topology, several: bool, now: Timestamp, width: Option<usize>) -> String {
    let mut lines = Vec::new();
    let targets = topology
        .links
        .iter()
        .map(|edge| measure_text_width(&name_of(edge, &topology.links)));
    let widest = targets.max().unwrap_or_default();
    for cluster in topology
        .clusters
        .iter()
        .filter(|cluster| cluster.reachable.is_some())
    {
        lines.push(heading(cluster));
        let edges: Vec<_> = links_of(topology, cluster).collect();
        if edges.is_empty() && cluster.error.is_none() {
            lines.push("└─ no Links".to_owned());
        }
        for (at, edge) in edges.iter().enumerate() {
            let branch = if at + 1 == edges.len() {
                "└─▶"
            } else {
                "├─▶"
            };
            let color =
                Style::new().fg_color(Some(Color::Ansi(LinkHealth::of(&edge.link).color())));
            let target = name_of(edge, &topology.links);
            let gap = " ".repeat(widest - measure_text_width(&target));
            lines.push(format!(
                "{branch} {color}{target}{color:#}{gap}  {}",
                details(edge).join(", ")
            ));
        }
    }
    if let Some(width) = width {
        for line in &mut lines {
            *line = truncate_str(line, width, "…").into_owned();
        }
    }
    let mut notes = silences(topology, several, now);
    for edge in &topology.links {
        let dead = dead_gateway(edge, now);
        notes.extend(dead.map(|dead| about(edge, &topology.links, several) + &dead));
    }
    notes.extend(topology.notes());
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes.iter().map(|note| one_line(note)));
    }
    joined(&lines)
}

/// The target of a Link, and what commands call it if that differs.
fn name_of(edge: &Edge, links: &[Edge]) -> String {
    let name = called(edge, links);
    if name == edge.target {
        one_line(&name)
    } else {
        one_line(&format!("{} as {name}", edge.target))
    }
}

fn joined(lines: &[String]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

fn heading(cluster: &ClusterNode) -> String {
    let bold = Style::new().bold();
    let name = one_line(&cluster.name);
    match &cluster.error {
        Some(error) => format!(
            "{bold}{name}{bold:#}  cannot list Links: {}",
            one_line(error)
        ),
        None => format!("{bold}{name}{bold:#}"),
    }
}

fn links_of<'a>(
    topology: &'a Topology,
    cluster: &'a ClusterNode,
) -> impl Iterator<Item = &'a Edge> {
    topology
        .links
        .iter()
        .filter(move |edge| edge.source == cluster.name)
}

/// An ID for each cluster that is valid in all diagram languages.
fn ids(topology: &Topology) -> BTreeMap<&str, String> {
    let clusters = topology.clusters.iter().enumerate();
    clusters
        .map(|(at, cluster)| (cluster.name.as_str(), format!("c{at}")))
        .collect()
}

/// A Mermaid flowchart. A dotted line is a Link that does not work, a rounded box a cluster that was not contacted.
fn mermaid(topology: &Topology) -> String {
    let ids = ids(topology);
    let escape = |text: &str| one_line(text).replace('"', "#quot;").replace('<', "#lt;");
    let mut lines = vec!["flowchart LR".to_owned()];
    for cluster in &topology.clusters {
        let (id, name) = (&ids[cluster.name.as_str()], escape(&cluster.name));
        lines.push(match cluster.reachable {
            Some(true) => format!("  {id}[\"{name}\"]"),
            Some(false) => format!("  {id}[\"{name} (unreachable)\"]"),
            None => format!("  {id}(\"{name}\")"),
        });
    }
    for edge in &topology.links {
        let (source, target) = (&ids[edge.source.as_str()], &ids[edge.target.as_str()]);
        let arrow = match LinkHealth::of(&edge.link) {
            LinkHealth::Bad => "-.->",
            _ => "-->",
        };
        let label: Vec<_> = label(edge).iter().map(|fact| escape(fact)).collect();
        lines.push(format!(
            "  {source} {arrow}|\"{}\"| {target}",
            label.join("<br/>")
        ));
    }
    joined(&lines)
}

/// A Graphviz digraph. Colours are those of the text output. Dashed are Links that do not work, and clusters that were
/// not contacted.
fn dot(topology: &Topology) -> String {
    let ids = ids(topology);
    let escape = |text: &str| one_line(text).replace('\\', "\\\\").replace('"', "\\\"");
    let mut lines = ["digraph clusters {", "  rankdir=LR;", "  node [shape=box];"]
        .map(str::to_owned)
        .to_vec();
    for cluster in &topology.clusters {
        let style = match cluster.reachable {
            Some(true) => "solid",
            Some(false) | None => "dashed",
        };
        let (id, name) = (&ids[cluster.name.as_str()], escape(&cluster.name));
        lines.push(format!("  {id} [label=\"{name}\", style={style}];"));
    }
    for edge in &topology.links {
        let (color, style) = match LinkHealth::of(&edge.link) {
            LinkHealth::Good => ("darkgreen", "solid"),
            LinkHealth::Unknown => ("orange", "solid"),
            LinkHealth::Bad => ("red", "dashed"),
        };
        let label: Vec<_> = label(edge).iter().map(|fact| escape(fact)).collect();
        lines.push(format!(
            "  {} -> {} [label=\"{}\", color={color}, style={style}];",
            ids[edge.source.as_str()],
            ids[edge.target.as_str()],
            label.join("\\n")
        ));
    }
    lines.push("}".to_owned());
    joined(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::{leader::tests::silent, topology::tests::snapshots};

    fn drawn() -> Topology {
        let mut topology = Topology::of(&snapshots());
        topology.links[1].link.connected = Some(false);
        topology.links[2].link.gateway = None;
        topology.links[3].link.api_server_through = ApiServerThrough::Gateway;
        topology.links[3].link.gateway.as_mut().unwrap().alive = None;
        topology.links[0].link.federated_through = Some(FederatedThrough::Gateway);
        topology
    }

    #[test]
    fn the_text_is_a_tree_for_each_cluster() {
        let now = Timestamp::UNIX_EPOCH;
        let text = anstream::adapter::strip_str(&text(&drawn(), true, now, Some(80))).to_string();
        insta::assert_snapshot!(text, @r"
        east
        └─▶ west as w   connected, gateway 3ms, 12 mirrored, 2 federated through the ga…
        west
        ├─▶ east        not connected, gateway 3ms, 12 mirrored, 2 federated, 1 unhealt…
        └─▶ north as n  connected, 12 mirrored, 2 federated, 1 unhealthy
        north
        └─▶ moon        connected through the gateway, gateway unknown, 12 mirrored, 2 …
        south  cannot list Links: no answer

        west → north is one-way: north has no Link to west
        north and west have different trust anchors
        ");
        assert!(text.lines().all(|line| measure_text_width(line) <= 80));
    }

    #[test]
    fn a_link_is_coloured_by_its_health() {
        let mut old = drawn();
        old.links[2].link.controller = Some(silent("2026-11-21T12:00:00Z"));
        let text = text(&old, true, "2026-11-21T12:00:00Z".parse().unwrap(), None);
        assert!(text.contains("  old, connected, "), "{text:?}");
        assert!(
            text.contains("\nwest: no controller is active: "),
            "{text:?}"
        );
        for (color, target) in [
            (32, "west as w"),
            (31, "east"),
            (33, "north as n"),
            (33, "moon"),
        ] {
            assert!(
                text.contains(&format!("▶ \u{1b}[{color}m{target}\u{1b}[0m")),
                "{text:?}"
            );
        }
    }

    #[test]
    fn mermaid_and_graphviz_draw_the_same() {
        insta::assert_snapshot!(mermaid(&drawn()), @r#"
        flowchart LR
          c0["east"]
          c1["west"]
          c2["north"]
          c3["south (unreachable)"]
          c4("moon")
          c0 -->|"connected<br/>gateway 3ms<br/>12 mirrored<br/>2 federated through the gateway<br/>1 unhealthy"| c1
          c1 -.->|"not connected<br/>gateway 3ms<br/>12 mirrored<br/>2 federated<br/>1 unhealthy"| c0
          c1 -->|"connected<br/>12 mirrored<br/>2 federated<br/>1 unhealthy<br/>one-way<br/>different trust anchors"| c2
          c2 -->|"connected through the gateway<br/>gateway unknown<br/>12 mirrored<br/>2 federated<br/>1 unhealthy"| c4
        "#);
        insta::assert_snapshot!(dot(&drawn()), @r#"
        digraph clusters {
          rankdir=LR;
          node [shape=box];
          c0 [label="east", style=solid];
          c1 [label="west", style=solid];
          c2 [label="north", style=solid];
          c3 [label="south", style=dashed];
          c4 [label="moon", style=dashed];
          c0 -> c1 [label="connected\ngateway 3ms\n12 mirrored\n2 federated through the gateway\n1 unhealthy", color=darkgreen, style=solid];
          c1 -> c0 [label="not connected\ngateway 3ms\n12 mirrored\n2 federated\n1 unhealthy", color=red, style=dashed];
          c1 -> c2 [label="connected\n12 mirrored\n2 federated\n1 unhealthy\none-way\ndifferent trust anchors", color=darkgreen, style=solid];
          c2 -> c4 [label="connected through the gateway\ngateway unknown\n12 mirrored\n2 federated\n1 unhealthy", color=orange, style=solid];
        }
        "#);
    }

    #[test]
    fn hostile_names_are_escaped() {
        let mut topology = drawn();
        let name = "x\"]\n  click \u{1b}[2J";
        topology.clusters.push(ClusterNode {
            name: name.into(),
            ..ClusterNode::default()
        });
        topology.links[3].target = name.into();
        assert!(
            mermaid(&topology).contains("  c5(\"x#quot;]"),
            "{}",
            mermaid(&topology)
        );
        assert!(
            dot(&topology).contains("c5 [label=\"x\\\"]"),
            "{}",
            dot(&topology)
        );
        let text = text(&topology, true, Timestamp::UNIX_EPOCH, None);
        for drawing in [mermaid(&topology), dot(&topology), text] {
            assert!(!drawing.contains("\u{1b}[2J"));
            assert!(!drawing.contains("\n  click"), "{drawing}");
        }
    }
}
