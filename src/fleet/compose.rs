//! Writes the text of a file, for links that are known. The opposite of [`read`](super::read).

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Context as _;
use serde_json::Value;

use super::{
    grouping::{GroupKind, LinkGroup, group},
    keys::{CLUSTER, FileKey, KeyShape, SETTINGS},
    types::{ComposedSettings, LinkEnds},
};
use crate::manifests::{
    link::ClusterName,
    yaml::{to_flow, to_scalar},
};

/// Maximum width of a line with a list.
const WIDTH: usize = 100;

/// A cluster of the file.
#[derive(Debug)]
pub(crate) struct ComposedCluster {
    pub(crate) name: ClusterName,
    /// Its context, if that is not found by its name.
    pub(crate) context: Option<String>,
    pub(crate) settings: ComposedSettings,
}

/// What a file should say.
#[derive(Debug)]
pub(crate) struct ComposedFleet {
    pub(crate) name: String,
    /// The namespace of the Links, if it is not the default.
    pub(crate) namespace: Option<String>,
    pub(crate) clusters: Vec<ComposedCluster>,
    pub(crate) links: BTreeMap<LinkEnds, ComposedSettings>,
}

impl ComposedFleet {
    /// The text of the file. What several links have in common is said once.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        let mut text = format!("name: {}\n", to_scalar(&self.name)?);
        if let Some(namespace) = &self.namespace {
            writeln!(text, "namespace: {}", to_scalar(namespace)?)?;
        }
        text += if self.clusters.is_empty() {
            "clusters: []\n"
        } else {
            "clusters:\n"
        };
        for cluster in &self.clusters {
            writeln!(text, "- name: {}", to_scalar(&cluster.name.to_string())?)?;
            if let Some(context) = &cluster.context {
                writeln!(text, "  context: {}", to_scalar(context)?)?;
            }
            text += &settings(&cluster.settings, CLUSTER, "  ")?;
        }
        let (defaults, groups) = group(&self.links);
        if !defaults.is_empty() {
            write!(text, "defaults:\n{}", settings(&defaults, SETTINGS, "  ")?)?;
        }
        text += if groups.is_empty() {
            "links: []\n"
        } else {
            "links:\n"
        };
        for group in &groups {
            text += &self.entry(group)?;
        }
        Ok(text)
    }

    fn entry(&self, group: &LinkGroup<'_>) -> anyhow::Result<String> {
        let name = |name: &ClusterName| to_scalar(&name.to_string());
        let mut text = match &group.kind {
            GroupKind::Mesh(members) => {
                let is_all = members.len() == self.clusters.len();
                format!("- mesh: {}\n", clusters(members, is_all, 8)?)
            }
            GroupKind::Hub {
                hub,
                spokes,
                mutual,
            } => {
                let is_all = spokes.len() + 1 == self.clusters.len();
                let mutual = if *mutual { "  mutual: true\n" } else { "" };
                let spokes = clusters(spokes, is_all, 10)?;
                format!("- hub: {}\n  spokes: {spokes}\n{mutual}", name(hub)?)
            }
            GroupKind::Link(LinkEnds { source, target }) => {
                format!("- target: {}\n  source: {}\n", name(target)?, name(source)?)
            }
        };
        if !group.settings.is_empty() {
            text += "  settings:\n";
            text += &settings(&group.settings, SETTINGS, "    ")?;
        }
        Ok(text)
    }
}

/// Names of clusters, on as few lines as they need.
fn clusters(names: &[&ClusterName], is_all: bool, indent: usize) -> anyhow::Result<String> {
    if is_all {
        return Ok("all".to_owned());
    }
    let mut lines = String::from("[");
    let mut width = indent;
    for (at, name) in names.iter().enumerate() {
        let name = to_scalar(&name.to_string())?;
        width += name.len() + 2;
        if at > 0 {
            lines += ",";
            if width > WIDTH {
                width = 4 + name.len() + 2;
                lines += "\n    ";
            } else {
                lines += " ";
            }
        }
        lines += &name;
    }
    Ok(lines + "]")
}

/// Settings in the order of the table, each on a line.
fn settings(
    settings: &ComposedSettings,
    table: &'static [FileKey],
    indent: &str,
) -> anyhow::Result<String> {
    let flags = table
        .iter()
        .filter(|key| matches!(key.shape, KeyShape::Flag));
    let set = flags.filter_map(|key| Some((key.name, settings.get(key.name)?)));
    let lines = set.map(|(key, value)| Ok(format!("{indent}{key}: {}\n", shown(value)?)));
    lines
        .collect::<anyhow::Result<String>>()
        .context("cannot write the settings")
}

fn shown(value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => to_scalar(text),
        Value::Array(items) => {
            let items = items.iter().map(|item| {
                let text = item.as_str().unwrap_or_default();
                let scalar = to_scalar(text)?;
                // In a list on one line, these have a meaning.
                let is_plain = !scalar.contains([',', '[', ']', '{', '}']);
                if is_plain { Ok(scalar) } else { to_flow(&text) }
            });
            let items: Vec<String> = items.collect::<anyhow::Result<_>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        value => to_flow(value),
    }
}
