//! A tree for each cluster.

use anstyle::{Color, Style};
use dialoguer::console::{measure_text_width, truncate_str};
use mirror_core::api::text::one_line;
use observe::{
    clusters::topology::{ClusterNode, Edge, Topology},
    finding::Level,
};

use super::edges::{LinkHealth, MISSING, details, joined};
use crate::cli::common::problems::{self, called};

/// A tree for each cluster that was contacted, then notes.
pub fn text(topology: &Topology, several: bool, width: Option<usize>) -> String {
    let mut lines = Vec::new();
    let contacted = topology.clusters.iter();
    let contacted = contacted.filter(|cluster| cluster.reachable.is_some());
    let trees: Vec<_> = contacted.map(|it| (it, branches(topology, it))).collect();
    let all = trees.iter().flat_map(|(_, branches)| branches);
    let widest = all.map(|branch| measure_text_width(&branch.target)).max();
    let widest = widest.unwrap_or_default();
    for (cluster, branches) in &trees {
        lines.push(heading(cluster));
        if branches.is_empty() && cluster.error.is_none() {
            lines.push("└─ no Links".to_owned());
        }
        for (at, branch) in branches.iter().enumerate() {
            let sign = if at + 1 == branches.len() {
                "└─▶"
            } else {
                "├─▶"
            };
            let TreeBranch {
                target,
                health,
                details,
            } = branch;
            let color = Style::new().fg_color(Some(Color::Ansi(health.color())));
            let gap = " ".repeat(widest - measure_text_width(target));
            lines.push(format!("{sign} {color}{target}{color:#}{gap}  {details}"));
        }
    }
    if let Some(width) = width {
        for line in &mut lines {
            *line = truncate_str(line, width, "…").into_owned();
        }
    }
    let mut notes = problems::notes(topology, several, |_, finding| {
        finding.level == Level::Error
    });
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

/// A line of a tree: a Link, or one that is missing.
struct TreeBranch {
    target: String,
    health: LinkHealth,
    details: String,
}

fn branches(topology: &Topology, cluster: &ClusterNode) -> Vec<TreeBranch> {
    let edges = topology.links.iter();
    let edges = edges.filter(|edge| edge.source == cluster.name);
    let edges = edges.map(|edge| TreeBranch {
        target: name_of(edge, &topology.links),
        health: LinkHealth::of(&edge.link),
        details: details(edge).join(", "),
    });
    let missing = topology.missing.iter().flatten();
    let missing = missing.filter(|link| link.source == cluster.name);
    let missing = missing.map(|link| TreeBranch {
        target: one_line(&link.target),
        health: LinkHealth::Bad,
        details: MISSING.to_owned(),
    });
    edges.chain(missing).collect()
}
