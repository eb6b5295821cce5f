//! What the file has at its places: maps with known keys, lists, names and values. What is something else is an error that
//! names the line.

use std::collections::BTreeMap;

use hints::{hint::fail, suggest::closest};
use manifests::{
    link::ClusterName,
    located::{Located, YamlContent},
};

use crate::fleet_file::{
    flags::LinkFlags,
    keys::{self, CLUSTER, FILE, FileKey, KeyShape, LINKS, SETTINGS},
    types::{FlagValue, Place},
};

/// The keys of a map with their values.
pub type NodeFields<'n> = BTreeMap<&'static str, &'n Located>;

/// Reads the parts of a file.
pub struct FileReader<'r> {
    /// What messages call it.
    pub file: &'r str,
    pub flags: &'r LinkFlags,
}

impl FileReader<'_> {
    pub fn settings(&self, node: &Located, part: &'static str) -> anyhow::Result<Vec<FlagValue>> {
        let fields = self.fields(node, SETTINGS)?;
        self.values(&fields, SETTINGS, part)
    }

    /// The values of flags among these keys.
    pub fn values(
        &self,
        fields: &NodeFields<'_>,
        table: &'static [FileKey],
        part: &'static str,
    ) -> anyhow::Result<Vec<FlagValue>> {
        let flags = table
            .iter()
            .filter(|key| matches!(key.shape, KeyShape::Flag));
        let given = flags.filter_map(|key| Some((key.name, *fields.get(key.name)?)));
        let values = given.map(|(key, node)| {
            let text = self.flags.value(key, node);
            let text = text.map_err(|rule| self.invalid(node, key, &rule))?;
            let line = node.line;
            Ok(FlagValue {
                key,
                text,
                place: Place { part, line },
            })
        });
        values.collect()
    }

    /// The keys of a map. Fails if one is not known.
    pub fn fields<'n>(
        &self,
        node: &'n Located,
        table: &'static [FileKey],
    ) -> anyhow::Result<NodeFields<'n>> {
        let names = || {
            table
                .iter()
                .map(|key| key.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let YamlContent::Map(map) = &node.content else {
            return Err(fail(
                format!(
                    "line {} of {} must be a map, not {}",
                    node.line,
                    self.file,
                    node.shown()
                ),
                format!("use the keys {}", names()),
            ));
        };
        let mut fields = NodeFields::new();
        for (name, value) in map {
            let text = name.text().unwrap_or_default();
            let Some(key) = keys::find(table, text) else {
                let max = 2.max(text.len() / 4);
                let near = closest(text, table.iter().map(|key| (key.name, key.name)), max);
                return Err(fail(
                    format!(
                        "unknown key {} in {}, line {}",
                        name.text().unwrap_or("that is no text"),
                        self.file,
                        name.line
                    ),
                    match near {
                        Some(near) => format!("did you mean {near}?"),
                        None => format!("known keys: {}", names()),
                    },
                ));
            };
            fields.insert(key.name, value);
        }
        Ok(fields)
    }

    pub fn required<'n>(
        &self,
        node: &Located,
        fields: &NodeFields<'n>,
        key: &str,
        table: &'static [FileKey],
    ) -> anyhow::Result<&'n Located> {
        fields.get(key).copied().ok_or_else(|| {
            let doc = keys::find(table, key).map(|key| key.doc);
            fail(
                format!("missing {key} in {}, line {}", self.file, node.line),
                format!("{key}: {}", doc.unwrap_or_default()),
            )
        })
    }

    pub fn list<'n>(&self, node: &'n Located, key: &str) -> anyhow::Result<&'n [Located]> {
        match &node.content {
            YamlContent::List(list) => Ok(list),
            _ => Err(self.invalid(node, key, "must be a list")),
        }
    }

    pub fn name(&self, node: &Located, key: &str) -> anyhow::Result<ClusterName> {
        let Some(text) = node.text() else {
            return Err(self.invalid(node, key, "must be a text; quote a name that is a number"));
        };
        let name = text.parse::<ClusterName>();
        name.map_err(|error| self.invalid(node, key, &error.to_string()))
    }

    pub fn invalid(&self, node: &Located, key: &str, rule: &str) -> anyhow::Error {
        let got = LinkFlags::got(key, node);
        let what = format!(
            "invalid {key} in {}, line {}: {rule}{got}",
            self.file, node.line
        );
        let doc = self.flags.doc(key);
        let known = [FILE, CLUSTER, LINKS].into_iter();
        let known = known.filter_map(|table| keys::find(table, key));
        let own = known.map(|key| key.doc).find(|doc| !doc.is_empty());
        fail(what, format!("{key}: {}", own.unwrap_or(&doc)))
    }
}
