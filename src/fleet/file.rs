//! Reads the file. Fails at the first thing that cannot be meant, and names its line.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{
    entries::link_rule,
    expand::{LinkRule, expand},
    flags::LinkFlags,
    keys::{CLUSTER, FILE},
    reader::{FileReader, NodeFields},
    types::{Fleet, FleetCluster, FoundCluster},
};
use crate::{
    hint::{HintExt as _, fail},
    manifests::located::{Located, from_yaml_located},
};

/// Finds the clusters of the contexts that a list of patterns names, in the kubeconfig at a path or in that of the command.
pub(crate) type FindContexts<'f> =
    dyn Fn(Option<&str>, &str) -> anyhow::Result<Vec<FoundCluster>> + 'f;

/// Reads the text of a file; messages call it `file`.
pub(crate) fn read(
    file: &str,
    text: &str,
    flags: &LinkFlags,
    contexts: &FindContexts<'_>,
) -> anyhow::Result<Fleet> {
    let root = from_yaml_located(text).hint(
        || format!("cannot read {file}"),
        || "it must be one YAML document".to_owned(),
    )?;
    fleet(&FileReader { file, flags }, &root, contexts)
}

fn fleet(
    reader: &FileReader<'_>,
    root: &Located,
    contexts: &FindContexts<'_>,
) -> anyhow::Result<Fleet> {
    let fields = reader.fields(root, FILE)?;
    for key in ["name", "clusters", "links"] {
        reader.required(root, &fields, key, FILE)?;
    }
    let name = reader.name(fields["name"], "name")?.to_string();
    let mut clusters = Vec::new();
    let mut by_context = None;
    for node in reader.list(fields["clusters"], "clusters")? {
        let fields = reader.fields(node, CLUSTER)?;
        if let Some(patterns) = fields.get("contexts") {
            by_context.get_or_insert(patterns.line);
            clusters.extend(clusters_of(reader, &fields, patterns, contexts)?);
        } else {
            clusters.push(cluster(reader, node, &fields)?);
        }
    }
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
        by_context,
    })
}

fn cluster(
    reader: &FileReader<'_>,
    node: &Located,
    fields: &NodeFields<'_>,
) -> anyhow::Result<FleetCluster> {
    let name = reader.required(node, fields, "name", CLUSTER)?;
    Ok(FleetCluster {
        line: name.line,
        name: reader.name(name, "name")?,
        context: text(reader, fields, "context")?,
        kubeconfig: text(reader, fields, "kubeconfig")?,
        flags: reader.values(fields, CLUSTER, "clusters")?,
    })
}

/// The clusters of an entry that names contexts, all with its settings.
fn clusters_of(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    patterns: &Located,
    contexts: &FindContexts<'_>,
) -> anyhow::Result<Vec<FleetCluster>> {
    for key in ["name", "context"] {
        if let Some(node) = fields.get(key) {
            return Err(fail(
                format!(
                    "{key} cannot be used with contexts (line {} of {})",
                    node.line, reader.file
                ),
                "remove one of them; contexts names each cluster after its context",
            ));
        }
    }
    let kubeconfig = text(reader, fields, "kubeconfig")?;
    let list = text(reader, fields, "contexts")?.unwrap_or_default();
    let found = contexts(kubeconfig.as_deref(), &list);
    let (file, line) = (reader.file, patterns.line);
    let found = found.with_context(|| format!("invalid contexts in {file}, line {line}"))?;
    let flags = reader.values(fields, CLUSTER, "clusters")?;
    let found = found.into_iter().map(|of| FleetCluster {
        line,
        name: of.name,
        context: Some(of.context),
        kubeconfig: kubeconfig.clone(),
        flags: flags.clone(),
    });
    Ok(found.collect())
}

/// The text of a key, if the key is there.
fn text(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    key: &'static str,
) -> anyhow::Result<Option<String>> {
    let text = |node: &Located| {
        let text = node.text().filter(|text| !text.is_empty());
        text.map(str::to_owned)
            .ok_or_else(|| reader.invalid(node, key, "must be a text"))
    };
    fields.get(key).map(|node| text(node)).transpose()
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
