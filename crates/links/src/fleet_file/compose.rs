//! Writes the text of a file, for links that are known. The opposite of [`read`](crate::fleet_file::read).

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Context as _;
use manifests::{
    link::ClusterName,
    yaml::{to_flow, to_scalar},
};
use serde_json::Value;

use crate::fleet_file::{
    keys::{CLUSTER, FileKey, KeyShape, SETTINGS},
    types::{ComposedSettings, LinkEnds},
};

/// A cluster of the file.
#[derive(Debug)]
pub struct ComposedCluster {
    pub name: ClusterName,
    /// Its context, if that is not found by its name.
    pub context: Option<String>,
    pub settings: ComposedSettings,
}

/// What a file should say.
#[derive(Debug)]
pub struct ComposedFleet {
    pub name: String,
    pub id: String,
    /// The namespace of the Links, if it is not the default.
    pub namespace: Option<String>,
    /// The namespace of the accounts, if it is another one.
    pub accounts: Option<String>,
    /// The namespace of Linkerd's control planes, if it is not the default.
    pub linkerd: Option<String>,
    pub clusters: Vec<ComposedCluster>,
    pub links: BTreeMap<LinkEnds, ComposedSettings>,
}

impl ComposedFleet {
    /// The text of the file: one entry for each link. What all links have in common is said once.
    pub fn text(&self) -> anyhow::Result<String> {
        let [name, id] = [&self.name, &self.id].map(|text| to_scalar(text));
        let mut text = format!("name: {}\nid: {}\n", name?, id?);
        let namespaces = [
            ("namespace", &self.namespace),
            ("serviceAccountNamespace", &self.accounts),
            ("linkerdNamespace", &self.linkerd),
        ];
        for (key, namespace) in namespaces {
            if let Some(namespace) = namespace {
                writeln!(text, "{key}: {}", to_scalar(namespace)?)?;
            }
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
        let defaults = self.defaults();
        if !defaults.is_empty() {
            write!(text, "defaults:\n{}", settings(&defaults, SETTINGS, "  ")?)?;
        }
        text += if self.links.is_empty() {
            "links: []\n"
        } else {
            "links:\n"
        };
        for (LinkEnds { source, target }, own) in &self.links {
            let [target, source] = [target, source].map(|name| to_scalar(&name.to_string()));
            writeln!(text, "- target: {}\n  source: {}", target?, source?)?;
            let mut own = own.clone();
            own.retain(|key, _| !defaults.contains_key(key));
            if !own.is_empty() {
                write!(text, "  settings:\n{}", settings(&own, SETTINGS, "    ")?)?;
            }
        }
        Ok(text)
    }

    /// The settings that all links have; none if there is only one link.
    fn defaults(&self) -> ComposedSettings {
        let mut all = self.links.values();
        let mut common = all.next().cloned().unwrap_or_default();
        if self.links.len() < 2 {
            common.clear();
        }
        for settings in all {
            common.retain(|key, value| settings.get(key) == Some(value));
        }
        common
    }
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
