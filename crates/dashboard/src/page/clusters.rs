//! The table of clusters, and the versions. Pure.

use observe::clusters::topology::ClusterNode;
use serde_json::{Value, json};

use super::shown::PageTone;
use crate::facts::PageFacts;

/// Commands that say what a drain of a cluster would do.
const DRAINS: usize = 8;

/// The section.
pub fn view(facts: &PageFacts) -> Value {
    let clusters = facts.topology.clusters.iter();
    let clusters: Vec<Value> = clusters.map(|cluster| row(facts, cluster)).collect();
    json!({
        "twin": facts.flags.mc("version -o json", &[]).line(),
        "clusters": clusters,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

fn row(facts: &PageFacts, cluster: &ClusterNode) -> Value {
    let name = &cluster.name;
    let links = || facts.topology.links.iter();
    let into: Vec<_> = links().filter(|edge| edge.target == *name).collect();
    let out = links().filter(|edge| edge.source == *name).count();
    let (state, tone) = state(cluster);
    let controllers = facts.controllers.iter();
    let controllers = controllers.filter(|controller| controller.cluster == *name);
    let controllers: Vec<&str> = controllers
        .map(
            |controller| match (&controller.version, &controller.error) {
                (Some(version), _) => version.as_str(),
                (None, Some(error)) => error.as_str(),
                (None, None) if controller.namespace.is_some() => "unknown",
                (None, None) => "none",
            },
        )
        .collect();
    let drains = into.iter().take(DRAINS).map(|edge| {
        let flags = facts.topology.flags_of(edge);
        let drain = flags.mc("drain {} --dry-run", &[&edge.link.cluster]);
        drain.line().to_owned()
    });
    json!({
        "name": name,
        "state": state,
        "tone": tone,
        "error": cluster.error,
        "isOld": facts.unanswered.contains_key(name),
        "read": facts.unanswered.get(name).copied().flatten(),
        "controller": if controllers.is_empty() { "-".to_owned() } else { controllers.join(", ") },
        "out": out,
        "into": into.len(),
        "drains": drains.collect::<Vec<_>>(),
    })
}

/// Whether a cluster answers.
pub fn state(cluster: &ClusterNode) -> (&'static str, PageTone) {
    match cluster.reachable {
        Some(true) => ("answers", PageTone::Good),
        Some(false) => ("not read", PageTone::Bad),
        None => ("no context", PageTone::Old),
    }
}
