//! A fleet as text, Mermaid and Graphviz. Pure.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Color, Style};
use dialoguer::console::{measure_text_width, truncate_str};

use crate::{
    check::{
        printable,
        state::LinkState,
        topology::{Cluster, Edge, Fleet},
    },
    mirror::FederatedThrough,
};

/// The health of a Link, for its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Connected, and the gateway, if any, is alive.
    Good,
    /// Not known yet.
    Unknown,
    /// Not connected, or the gateway is dead.
    Bad,
}

impl Health {
    fn of(link: &LinkState) -> Self {
        let gateway = link
            .gateway
            .as_ref()
            .map_or(Some(true), |gateway| gateway.alive);
        match (link.connected, gateway) {
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
fn facts(edge: &Edge) -> Vec<String> {
    let link = &edge.link;
    let mut facts = vec![match link.connected {
        Some(true) => "connected".to_owned(),
        Some(false) => "not connected".to_owned(),
        None => "unknown".to_owned(),
    }];
    if let Some(gateway) = &link.gateway {
        facts.push(match (gateway.alive, gateway.latency_ms) {
            (Some(true), Some(ms)) => format!("gateway {ms}ms"),
            (Some(true), None) => "gateway alive".to_owned(),
            (Some(false), _) => "gateway dead".to_owned(),
            (None, _) => "gateway unknown".to_owned(),
        });
    }
    if link.drained.is_some() {
        facts.push("drained".to_owned());
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
            facts.push(format!("{count} {what}"));
        }
    }
    facts
}

/// The label of a Link in a diagram, with what the text output has as notes.
fn label(edge: &Edge) -> Vec<String> {
    let mut label = facts(edge);
    if edge.one_way == Some(true) {
        label.push("one-way".to_owned());
    }
    if edge.shares_trust_anchors == Some(false) {
        label.push("different trust anchors".to_owned());
    }
    label
}

/// A tree for each cluster that was contacted, then notes.
pub(super) fn text(fleet: &Fleet, width: Option<usize>) -> String {
    let mut lines = Vec::new();
    let targets = fleet
        .links
        .iter()
        .map(|edge| measure_text_width(&one_line(&edge.target)));
    let widest = targets.max().unwrap_or_default();
    for cluster in fleet
        .clusters
        .iter()
        .filter(|cluster| cluster.reachable.is_some())
    {
        lines.push(heading(cluster));
        let edges: Vec<_> = links_of(fleet, cluster).collect();
        if edges.is_empty() && cluster.error.is_none() {
            lines.push("└─ no Links".to_owned());
        }
        for (at, edge) in edges.iter().enumerate() {
            let branch = if at + 1 == edges.len() {
                "└─▶"
            } else {
                "├─▶"
            };
            let color = Style::new().fg_color(Some(Color::Ansi(Health::of(&edge.link).color())));
            let target = one_line(&edge.target);
            let gap = " ".repeat(widest - measure_text_width(&target));
            lines.push(format!(
                "{branch} {color}{target}{color:#}{gap}  {}",
                facts(edge).join(", ")
            ));
        }
    }
    let mut notes = fleet.one_way();
    notes.extend(fleet.distrust());
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes.iter().map(|note| one_line(note)));
    }
    if let Some(width) = width {
        for line in &mut lines {
            *line = truncate_str(line, width, "…").into_owned();
        }
    }
    joined(&lines)
}

fn joined(lines: &[String]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

fn heading(cluster: &Cluster) -> String {
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

fn links_of<'a>(fleet: &'a Fleet, cluster: &'a Cluster) -> impl Iterator<Item = &'a Edge> {
    fleet
        .links
        .iter()
        .filter(move |edge| edge.source == cluster.name)
}

/// The text on one line, without control characters.
fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// An ID for each cluster that is valid in all diagram languages.
fn ids(fleet: &Fleet) -> BTreeMap<&str, String> {
    let clusters = fleet.clusters.iter().enumerate();
    clusters
        .map(|(at, cluster)| (cluster.name.as_str(), format!("c{at}")))
        .collect()
}

/// A Mermaid flowchart. A dotted line is a Link that does not work, a rounded box a cluster that was not contacted.
pub(super) fn mermaid(fleet: &Fleet) -> String {
    let ids = ids(fleet);
    let escape = |text: &str| one_line(text).replace('"', "#quot;").replace('<', "#lt;");
    let mut lines = vec!["flowchart LR".to_owned()];
    for cluster in &fleet.clusters {
        let (id, name) = (&ids[cluster.name.as_str()], escape(&cluster.name));
        lines.push(match cluster.reachable {
            Some(true) => format!("  {id}[\"{name}\"]"),
            Some(false) => format!("  {id}[\"{name} (unreachable)\"]"),
            None => format!("  {id}(\"{name}\")"),
        });
    }
    for edge in &fleet.links {
        let (source, target) = (&ids[edge.source.as_str()], &ids[edge.target.as_str()]);
        let arrow = match Health::of(&edge.link) {
            Health::Bad => "-.->",
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

/// A Graphviz digraph. Colors are those of the text; Links that do not work and clusters that were not contacted are
/// dashed.
pub(super) fn dot(fleet: &Fleet) -> String {
    let ids = ids(fleet);
    let escape = |text: &str| one_line(text).replace('\\', "\\\\").replace('"', "\\\"");
    let mut lines = ["digraph clusters {", "  rankdir=LR;", "  node [shape=box];"]
        .map(str::to_owned)
        .to_vec();
    for cluster in &fleet.clusters {
        let style = match cluster.reachable {
            Some(true) => "solid",
            Some(false) | None => "dashed",
        };
        let (id, name) = (&ids[cluster.name.as_str()], escape(&cluster.name));
        lines.push(format!("  {id} [label=\"{name}\", style={style}];"));
    }
    for edge in &fleet.links {
        let (color, style) = match Health::of(&edge.link) {
            Health::Good => ("darkgreen", "solid"),
            Health::Unknown => ("orange", "solid"),
            Health::Bad => ("red", "dashed"),
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
    use crate::check::topology::{fleet, tests::surveys};

    fn drawn() -> Fleet {
        let mut fleet = fleet(&surveys());
        fleet.links[1].link.connected = Some(false);
        fleet.links[2].link.gateway = None;
        fleet.links[3].link.gateway.as_mut().unwrap().alive = None;
        fleet.links[0].link.federated_through = Some(FederatedThrough::Gateway);
        fleet
    }

    #[test]
    fn the_text_is_a_tree_for_each_cluster() {
        let text = anstream::adapter::strip_str(&text(&drawn(), Some(80))).to_string();
        insta::assert_snapshot!(text, @r"
        east
        └─▶ west   connected, gateway 3ms, 12 mirrored, 2 federated through the gateway…
        west
        ├─▶ east   not connected, gateway 3ms, 12 mirrored, 2 federated, 1 unhealthy
        └─▶ north  connected, 12 mirrored, 2 federated, 1 unhealthy
        north
        └─▶ moon   connected, gateway unknown, 12 mirrored, 2 federated, 1 unhealthy
        south  cannot list Links: no answer

        west → north is one-way: north has no Link to west
        north and west have different trust anchors
        ");
        assert!(text.lines().all(|line| measure_text_width(line) <= 80));
    }

    #[test]
    fn a_link_is_coloured_by_its_health() {
        let text = text(&drawn(), None);
        for (color, target) in [(32, "west"), (31, "east"), (33, "moon")] {
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
          c2 -->|"connected<br/>gateway unknown<br/>12 mirrored<br/>2 federated<br/>1 unhealthy"| c4
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
          c2 -> c4 [label="connected\ngateway unknown\n12 mirrored\n2 federated\n1 unhealthy", color=orange, style=solid];
        }
        "#);
    }

    #[test]
    fn a_hostile_name_stays_a_name() {
        let mut fleet = drawn();
        let name = "x\"]\n  click \u{1b}[2J";
        fleet.clusters.push(Cluster {
            name: name.into(),
            ..Cluster::default()
        });
        fleet.links[3].target = name.into();
        assert!(
            mermaid(&fleet).contains("  c5(\"x#quot;]"),
            "{}",
            mermaid(&fleet)
        );
        assert!(
            dot(&fleet).contains("c5 [label=\"x\\\"]"),
            "{}",
            dot(&fleet)
        );
        for drawing in [mermaid(&fleet), dot(&fleet), text(&fleet, None)] {
            assert!(!drawing.contains("\u{1b}[2J"));
            assert!(!drawing.contains("\n  click"), "{drawing}");
        }
    }
}
