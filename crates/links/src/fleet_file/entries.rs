//! The entries of `links`: which links each of them names.

use std::collections::BTreeSet;

use hints::{hint::fail, suggest::closest};
use manifests::{
    link::ClusterName,
    located::{Located, YamlContent},
};

use crate::fleet_file::{
    expand::{LinkRule, SettingLevel},
    keys::{KINDS, LINKS},
    reader::{FileReader, NodeFields},
    types::{FleetCluster, LinkEnds, Place},
};

/// Reads an entry of `links`.
pub fn link_rule(
    reader: &FileReader<'_>,
    node: &Located,
    clusters: &[FleetCluster],
) -> anyhow::Result<LinkRule> {
    let entry = EntryReader { reader, clusters };
    let fields = reader.fields(node, LINKS)?;
    let part = entry.kind(node, &fields)?;
    let mut ends = entry.ends(part, &fields)?;
    if entry.is_mutual(&fields)? {
        let back: Vec<LinkEnds> = ends.iter().map(|it| link(&it.target, &it.source)).collect();
        ends.extend(back);
    }
    let settings = match fields.get("settings") {
        Some(node) => reader.settings(node, part)?,
        None => Vec::new(),
    };
    let line = node.line;
    Ok(LinkRule {
        place: Place { part, line },
        level: if part == "link" {
            SettingLevel::Single
        } else {
            SettingLevel::Several
        },
        ends,
        settings,
    })
}

/// Reads entries that name these clusters.
struct EntryReader<'e> {
    reader: &'e FileReader<'e>,
    clusters: &'e [FleetCluster],
}

impl EntryReader<'_> {
    /// What the entry is, as messages name it. Fails if it has keys of several kinds, or not those of its own.
    fn kind(&self, node: &Located, fields: &NodeFields<'_>) -> anyhow::Result<&'static str> {
        let reader = self.reader;
        let kinds: Vec<_> = KINDS
            .iter()
            .filter(|kind| kind.required.iter().any(|key| fields.contains_key(key)))
            .collect();
        let [kind] = kinds.as_slice() else {
            return Err(fail(
                format!(
                    "the links at line {} of {} are of no kind, or of several",
                    node.line, reader.file
                ),
                "use mesh, or hub with spokes, or groups, or target with source, each in an entry of its own",
            ));
        };
        for key in kind.required {
            reader.required(node, fields, key, LINKS)?;
        }
        let allowed = |key: &&str| kind.required.contains(key) || kind.optional.contains(key);
        if let Some((key, value)) = fields.iter().find(|(key, _)| !allowed(key)) {
            let rule = format!("it says nothing about {}", kind.required[0]);
            return Err(reader.invalid(value, key, &rule));
        }
        Ok(match kind.required[0] {
            "target" => "link",
            part => part,
        })
    }

    fn is_mutual(&self, fields: &NodeFields<'_>) -> anyhow::Result<bool> {
        match fields.get("mutual") {
            Some(node) => match node.content {
                YamlContent::Bool(is) => Ok(is),
                _ => Err(self.reader.invalid(node, "mutual", "must be true or false")),
            },
            None => Ok(false),
        }
    }

    /// The links that an entry names, in one direction.
    fn ends(&self, part: &str, fields: &NodeFields<'_>) -> anyhow::Result<Vec<LinkEnds>> {
        match part {
            "mesh" => Ok(mesh(&self.members(fields["mesh"], "mesh")?)),
            "hub" => {
                let hub = self.member(fields["hub"], "hub")?;
                let spokes = self.spokes(fields["spokes"], &hub)?;
                Ok(spokes.iter().map(|spoke| link(spoke, &hub)).collect())
            }
            "groups" => {
                let all = self.groups(fields["groups"])?;
                Ok(all.iter().flat_map(|members| mesh(members)).collect())
            }
            _ => {
                let target = self.member(fields["target"], "target")?;
                let source = self.member(fields["source"], "source")?;
                if source == target {
                    let rule =
                        format!("a cluster cannot be linked to itself: {target} is the target");
                    return Err(self.reader.invalid(fields["source"], "source", &rule));
                }
                Ok(vec![link(&source, &target)])
            }
        }
    }

    fn spokes(&self, node: &Located, hub: &ClusterName) -> anyhow::Result<Vec<ClusterName>> {
        let mut spokes = self.members(node, "spokes")?;
        if node.text() == Some("all") {
            spokes.retain(|spoke| spoke != hub);
        } else if spokes.contains(hub) {
            let rule = format!("{hub} is the hub");
            return Err(self.reader.invalid(node, "spokes", &rule));
        }
        Ok(spokes)
    }

    fn groups(&self, node: &Located) -> anyhow::Result<Vec<Vec<ClusterName>>> {
        let YamlContent::Map(groups) = &node.content else {
            let rule = "must be a map of names, each with a list of clusters";
            return Err(self.reader.invalid(node, "groups", rule));
        };
        let groups = groups.iter();
        groups
            .map(|(_, members)| self.members(members, "groups"))
            .collect()
    }

    /// Clusters of the file, each once; `all` of them if the file says so.
    fn members(&self, node: &Located, key: &str) -> anyhow::Result<Vec<ClusterName>> {
        if node.text() == Some("all") {
            let names = self.clusters.iter().map(|cluster| cluster.name.clone());
            return Ok(names.collect());
        }
        let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
        for item in self.reader.list(node, key)? {
            let member = self.member(item, key)?;
            if !seen.insert(member.clone()) {
                let rule = format!("{member} occurs twice");
                return Err(self.reader.invalid(item, key, &rule));
            }
            members.push(member);
        }
        Ok(members)
    }

    /// A cluster of the file.
    fn member(&self, node: &Located, key: &str) -> anyhow::Result<ClusterName> {
        let name = self.reader.name(node, key)?;
        let mut clusters = self.clusters.iter();
        if clusters.any(|cluster| cluster.name == name) {
            return Ok(name);
        }
        let known = self.clusters.iter().map(|cluster| cluster.name.to_string());
        let known: Vec<String> = known.collect();
        let name = name.to_string();
        let near = closest(&name, known.iter().map(|known| (known.as_str(), known)), 2);
        Err(fail(
            format!(
                "unknown cluster {name} in {}, line {}",
                self.reader.file, node.line
            ),
            match near {
                Some(near) => format!("did you mean {near}? Otherwise, add it to clusters"),
                None => "add it to clusters".to_owned(),
            },
        ))
    }
}

fn link(source: &ClusterName, target: &ClusterName) -> LinkEnds {
    LinkEnds {
        source: source.clone(),
        target: target.clone(),
    }
}

/// The links of a full mesh: from each cluster to each other one.
fn mesh(members: &[ClusterName]) -> Vec<LinkEnds> {
    let pairs = members
        .iter()
        .flat_map(|source| members.iter().map(move |target| (source, target)));
    let pairs = pairs.filter(|(source, target)| source != target);
    pairs.map(|(source, target)| link(source, target)).collect()
}
