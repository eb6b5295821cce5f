//! Reads the file. Fails at the first thing that is invalid, and names its line.

use std::collections::BTreeMap;

use anyhow::Context as _;
use hints::hint::{HintExt as _, fail};
use manifests::{
    link::ClusterName,
    located::{Located, YamlContent, from_yaml_located},
    values::{UserValues, Values},
};

use crate::fleet_file::{
    entries::link_rule,
    expand::{LinkRule, expand},
    flags::LinkFlags,
    keys::{CLUSTER, FILE, PROFILES},
    reader::{FileReader, NodeFields},
    types::{Fleet, FleetCluster, FoundCluster, ProfileQuery},
};

/// Characters that a label has at most.
const LABEL: usize = 63;

/// Finds clusters that are not in the file by their names.
pub trait ClusterSources {
    /// Those of the contexts that a list of patterns names, in the kubeconfig at a path or in that of the command.
    fn contexts(
        &self,
        kubeconfig: Option<&str>,
        patterns: &str,
    ) -> anyhow::Result<Vec<FoundCluster>>;

    /// Those of ClusterProfiles.
    fn profiles(&self, query: &ProfileQuery) -> anyhow::Result<Vec<FoundCluster>>;
}

/// The ClusterProfiles that a file names. They have to be read before the file can be.
pub fn profile_queries(
    file: &str,
    text: &str,
    flags: &LinkFlags,
) -> anyhow::Result<Vec<ProfileQuery>> {
    let (reader, root) = (FileReader { file, flags }, root(file, text)?);
    let fields = reader.fields(&root, FILE)?;
    let Some(clusters) = fields.get("clusters") else {
        return Ok(Vec::new()); // `read` reports that they are missing
    };
    let mut queries = Vec::new();
    for node in reader.list(clusters, "clusters")? {
        let fields = reader.fields(node, CLUSTER)?;
        if let Some(profiles) = fields.get("clusterProfiles") {
            queries.push(query(&reader, &fields, profiles)?);
        }
    }
    Ok(queries)
}

fn query(
    reader: &FileReader<'_>,
    entry: &NodeFields<'_>,
    node: &Located,
) -> anyhow::Result<ProfileQuery> {
    let fields = reader.fields(node, PROFILES)?;
    for key in ["context", "namespace"] {
        reader.required(node, &fields, key, PROFILES)?;
    }
    let namespace = fields["namespace"];
    // A namespace is a DNS label, as the name of a cluster is.
    let is_label = |text: &&str| text.parse::<ClusterName>().is_ok();
    let Some(name) = namespace.text().filter(is_label) else {
        return Err(fail(
            format!(
                "invalid namespace in {}, line {}: must be a DNS label{}",
                reader.file,
                namespace.line,
                LinkFlags::got("namespace", namespace)
            ),
            "name the namespace of the ClusterProfiles",
        ));
    };
    Ok(ProfileQuery {
        line: node.line,
        kubeconfig: text(reader, entry, "kubeconfig")?,
        context: text(reader, &fields, "context")?.unwrap_or_default(),
        namespace: name.to_owned(),
        selector: text(reader, &fields, "selector")?,
    })
}

/// Reads the text of a file; messages call it `file`.
pub fn read(
    file: &str,
    text: &str,
    flags: &LinkFlags,
    sources: &impl ClusterSources,
) -> anyhow::Result<Fleet> {
    fleet(&FileReader { file, flags }, &root(file, text)?, sources)
}

fn root(file: &str, text: &str) -> anyhow::Result<Located> {
    from_yaml_located(text).hint(
        || format!("cannot read {file}"),
        || "it must be one YAML document".to_owned(),
    )
}

fn fleet(
    reader: &FileReader<'_>,
    root: &Located,
    sources: &impl ClusterSources,
) -> anyhow::Result<Fleet> {
    let fields = reader.fields(root, FILE)?;
    for key in ["name", "clusters", "links"] {
        reader.required(root, &fields, key, FILE)?;
    }
    let mut name = reader.name(fields["name"], "name")?.to_string();
    if let Some(node) = fields.get("id") {
        name = Fleet::identity(&name, &reader.name(node, "id")?.to_string());
        if name.len() > LABEL {
            let rule = format!("must have at most {LABEL} characters with the name and a dot");
            return Err(reader.invalid(node, "id", &rule));
        }
    }
    let linkerd = fields.get("linkerdNamespace").map(|node| {
        let name = reader.name(node, "linkerdNamespace")?;
        anyhow::Ok((name.to_string(), node.line))
    });
    let values = values(reader, &fields, &UserValues::default())?;
    let mut clusters = Vec::new();
    let mut by_context = None;
    for node in reader.list(fields["clusters"], "clusters")? {
        let fields = reader.fields(node, CLUSTER)?;
        let (contexts, profiles) = (fields.get("contexts"), fields.get("clusterProfiles"));
        if let Some(patterns) = contexts {
            by_context.get_or_insert(patterns.line);
            clusters.extend(of_contexts(reader, &fields, &values, patterns, sources)?);
        } else if let Some(profiles) = profiles {
            clusters.extend(of_profiles(reader, &fields, &values, profiles, sources)?);
        } else {
            clusters.push(cluster(reader, node, &fields, &values)?);
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
        linkerd: linkerd.transpose()?,
        links: expand(reader.file, &defaults, &rules)?,
        clusters,
        by_context,
    })
}

fn cluster(
    reader: &FileReader<'_>,
    node: &Located,
    fields: &NodeFields<'_>,
    of_all: &UserValues,
) -> anyhow::Result<FleetCluster> {
    let name = reader.required(node, fields, "name", CLUSTER)?;
    Ok(FleetCluster {
        line: name.line,
        name: reader.name(name, "name")?,
        context: text(reader, fields, "context")?,
        kubeconfig: text(reader, fields, "kubeconfig")?,
        profiles: None,
        flags: reader.values(fields, CLUSTER, "clusters")?,
        install: values(reader, fields, of_all)?,
    })
}

/// The clusters of an entry that names contexts.
fn of_contexts(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    of_all: &UserValues,
    patterns: &Located,
    sources: &impl ClusterSources,
) -> anyhow::Result<Vec<FleetCluster>> {
    refuse_with(
        reader,
        fields,
        "contexts",
        &["name", "context", "clusterProfiles"],
    )?;
    let kubeconfig = text(reader, fields, "kubeconfig")?;
    let list = text(reader, fields, "contexts")?.unwrap_or_default();
    let found = sources.contexts(kubeconfig.as_deref(), &list);
    let (file, line) = (reader.file, patterns.line);
    let found = found.with_context(|| format!("invalid contexts in {file}, line {line}"))?;
    let all = clusters_of(reader, fields, of_all, line, found)?;
    let with_path = all.into_iter().map(|of| FleetCluster {
        kubeconfig: kubeconfig.clone(),
        ..of
    });
    Ok(with_path.collect())
}

/// The clusters of an entry that names ClusterProfiles.
fn of_profiles(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    of_all: &UserValues,
    node: &Located,
    sources: &impl ClusterSources,
) -> anyhow::Result<Vec<FleetCluster>> {
    refuse_with(reader, fields, "clusterProfiles", &["name", "context"])?;
    let found = sources.profiles(&query(reader, fields, node)?)?;
    let all = clusters_of(reader, fields, of_all, node.line, found)?;
    let of_hub = all.into_iter().map(|of| FleetCluster {
        profiles: Some(node.line),
        ..of
    });
    Ok(of_hub.collect())
}

/// Fails if an entry has one of these keys too.
fn refuse_with(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    key: &str,
    others: &[&str],
) -> anyhow::Result<()> {
    let found = others
        .iter()
        .find_map(|other| Some((other, fields.get(other)?)));
    let Some((other, node)) = found else {
        return Ok(());
    };
    Err(fail(
        format!(
            "{other} cannot be used with {key} (line {} of {})",
            node.line, reader.file
        ),
        format!("remove one of them; {key} names the clusters itself"),
    ))
}

/// Clusters that were found for an entry, all with its settings.
fn clusters_of(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    of_all: &UserValues,
    line: u64,
    found: Vec<FoundCluster>,
) -> anyhow::Result<Vec<FleetCluster>> {
    let flags = reader.values(fields, CLUSTER, "clusters")?;
    let install = values(reader, fields, of_all)?;
    let found = found.into_iter().map(|of| FleetCluster {
        line,
        name: of.name,
        context: Some(of.context),
        kubeconfig: None,
        profiles: None,
        flags: flags.clone(),
        install: install.clone(),
    });
    Ok(found.collect())
}

/// The values of `install` in a map, over those of all clusters.
fn values(
    reader: &FileReader<'_>,
    fields: &NodeFields<'_>,
    of_all: &UserValues,
) -> anyhow::Result<UserValues> {
    let mut values = of_all.clone();
    if let Some(node) = fields.get("install") {
        if !matches!(node.content, YamlContent::Map(_)) {
            return Err(reader.invalid(node, "install", "must be a map of values"));
        }
        values.add_located(reader.file, node);
        // Fails for what is not known or not valid.
        values.clone().over(&Values::default())?;
    }
    Ok(values)
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
        let context = (cluster.kubeconfig.clone(), cluster.profiles, context);
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
