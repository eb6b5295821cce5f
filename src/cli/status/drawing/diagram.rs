//! The diagrams: Mermaid and Graphviz.

use std::collections::BTreeMap;

use mirror_core::api::text::one_line;
use observe::clusters::topology::{Edge, Topology};

use super::edges::{LinkHealth, MISSING, details, joined};

/// A Mermaid flowchart. A dotted line is a Link that does not work, a rounded box a cluster that was not contacted.
pub fn mermaid(topology: &Topology) -> String {
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
    for link in topology.missing.iter().flatten() {
        let (source, target) = (&ids[link.source.as_str()], &ids[link.target.as_str()]);
        lines.push(format!("  {source} -.->|\"{MISSING}\"| {target}"));
    }
    joined(&lines)
}

/// A Graphviz digraph. Colours are those of the text output. Dashed are Links that do not work, and clusters that were
/// not contacted.
pub fn dot(topology: &Topology) -> String {
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
    for link in topology.missing.iter().flatten() {
        let (source, target) = (&ids[link.source.as_str()], &ids[link.target.as_str()]);
        lines.push(format!(
            "  {source} -> {target} [label=\"{MISSING}\", color=red, style=dotted];"
        ));
    }
    lines.push("}".to_owned());
    joined(&lines)
}

/// The label of a Link in a diagram, with what the text output has as notes.
fn label(edge: &Edge) -> Vec<String> {
    let mut label = details(edge);
    if edge.lacks_link_back() {
        label.push("one-way".to_owned());
    }
    if edge.shares_trust_anchors == Some(false) {
        label.push("different trust anchors".to_owned());
    }
    label
}

/// An ID for each cluster that is valid in all diagram languages.
fn ids(topology: &Topology) -> BTreeMap<&str, String> {
    let clusters = topology.clusters.iter().enumerate();
    clusters
        .map(|(at, cluster)| (cluster.name.as_str(), format!("c{at}")))
        .collect()
}
