//! Reads the file. Fails at the first thing that cannot be meant, and names its line.

use std::collections::BTreeMap;

use super::{
    entries::link_rule,
    expand::{LinkRule, expand},
    flags::LinkFlags,
    keys::{CLUSTER, FILE},
    reader::FileReader,
    types::{Fleet, FleetCluster},
};
use crate::{
    hint::{HintExt as _, fail},
    manifests::located::{Located, from_yaml_located},
};

/// Reads the text of a file; messages call it `file`.
pub(crate) fn read(file: &str, text: &str, flags: &LinkFlags) -> anyhow::Result<Fleet> {
    let root = from_yaml_located(text).hint(
        || format!("cannot read {file}"),
        || "it must be one YAML document".to_owned(),
    )?;
    fleet(&FileReader { file, flags }, &root)
}

fn fleet(reader: &FileReader<'_>, root: &Located) -> anyhow::Result<Fleet> {
    let fields = reader.fields(root, FILE)?;
    for key in ["name", "clusters", "links"] {
        reader.required(root, &fields, key, FILE)?;
    }
    let name = reader.name(fields["name"], "name")?.to_string();
    let clusters = reader.list(fields["clusters"], "clusters")?.iter();
    let clusters: Vec<FleetCluster> = clusters
        .map(|node| cluster(reader, node))
        .collect::<Result<_, _>>()?;
    refuse_doubles(reader.file, &clusters)?;
    let defaults = match fields.get("defaults") {
        Some(node) => reader.settings(node, "defaults")?,
        None => Vec::new(),
    };
    let rules = reader.list(fields["links"], "links")?.iter();
    let rules: Vec<LinkRule> = rules
        .map(|node| link_rule(reader, node, &clusters))
        .collect::<Result<_, _>>()?;
    Ok(Fleet {
        name,
        flags: reader.values(&fields, FILE, "namespace")?,
        links: expand(reader.file, &defaults, &rules)?,
        clusters,
    })
}

fn cluster(reader: &FileReader<'_>, node: &Located) -> anyhow::Result<FleetCluster> {
    let fields = reader.fields(node, CLUSTER)?;
    let name = reader.required(node, &fields, "name", CLUSTER)?;
    let text = |key| {
        let text = |node: &Located| {
            let text = node.text().filter(|text| !text.is_empty());
            text.map(str::to_owned)
                .ok_or_else(|| reader.invalid(node, key, "must be a text"))
        };
        fields.get(key).map(|node| text(node)).transpose()
    };
    Ok(FleetCluster {
        line: name.line,
        name: reader.name(name, "name")?,
        context: text("context")?,
        kubeconfig: text("kubeconfig")?,
        flags: reader.values(&fields, CLUSTER, "clusters")?,
    })
}

/// Fails if two clusters have one name or one context.
fn refuse_doubles(file: &str, clusters: &[FleetCluster]) -> anyhow::Result<()> {
    let (mut names, mut contexts) = (BTreeMap::new(), BTreeMap::new());
    for cluster in clusters {
        let (name, line) = (&cluster.name, cluster.line);
        if let Some(first) = names.insert(name, line) {
            return Err(fail(
                format!(
                    "two clusters of {file} are called {name}: at line {first} and at line {line}"
                ),
                "give each cluster a name of its own",
            ));
        }
        let own = name.to_string();
        let context = cluster.context.clone().unwrap_or(own);
        let context = (cluster.kubeconfig.clone(), context);
        if let Some(first) = contexts.insert(context, name) {
            return Err(fail(
                format!(
                    "the clusters {first} and {name} of {file} have the same context (line {line})"
                ),
                "choose a context for each cluster with context",
            ));
        }
    }
    Ok(())
}
