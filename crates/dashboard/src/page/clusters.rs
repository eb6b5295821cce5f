//! The table of clusters, and the versions. Pure.

use std::collections::BTreeMap;

use hints::prose::counted;
use mirror_core::api::preference::LOCAL;
use observe::clusters::{service_rows::ServiceRow, topology::ClusterNode};
use serde_json::{Value, json};

use super::{federated::member, shown::PageTone};
use crate::facts::PageFacts;

/// Commands that say what a drain of a cluster would do.
const DRAINS: usize = 8;
/// Services that are named of those that have a cluster alone.
const NAMED: usize = 3;

/// The section.
pub fn view(facts: &PageFacts) -> Value {
    let clusters = facts.topology.clusters.iter();
    let alone = alone(facts);
    let clusters = clusters.map(|cluster| row(facts, cluster, alone.get(cluster.name.as_str())));
    let clusters: Vec<Value> = clusters.collect();
    json!({
        "twin": facts.flags.mc("version -o json", &[]).line(),
        "clusters": clusters,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The Services of other clusters that only this cluster can serve now, by the cluster. What has failed over may have
/// other members, which cannot.
fn alone(facts: &PageFacts) -> BTreeMap<&str, Vec<&ServiceRow>> {
    let links = facts.topology.links.iter();
    let targets: BTreeMap<(&str, &str), &str> = links
        .map(|edge| {
            let link = (edge.source.as_str(), edge.link.cluster.as_str());
            (link, edge.target.as_str())
        })
        .collect();
    let mut alone: BTreeMap<&str, Vec<&ServiceRow>> = BTreeMap::new();
    for row in &facts.services {
        let away = &row.preferred.failed_over;
        let is_away = |cluster: &str| away.iter().any(|away| away.cluster == cluster);
        let served = row.from.iter().map(|from| member(from).1);
        let mut served = served.filter(|cluster| !is_away(cluster));
        let (Some(first), Some(_)) = (served.next(), &row.service) else {
            continue;
        };
        if first != LOCAL
            && served.all(|cluster| cluster == first)
            && let Some(target) = targets.get(&(row.context.as_str(), first))
        {
            alone.entry(target).or_default().push(row);
        }
    }
    alone
}

fn row(facts: &PageFacts, cluster: &ClusterNode, alone: Option<&Vec<&ServiceRow>>) -> Value {
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
    let alone = alone.map(Vec::as_slice).unwrap_or_default();
    let such = alone.iter().take(NAMED).map(|row| {
        let name = row.service.as_deref().unwrap_or_default();
        format!("{}/{name} in {}", row.namespace, row.context)
    });
    let mut such: Vec<String> = such.collect();
    if alone.len() > NAMED {
        such.push("…".to_owned());
    }
    json!({
        "alone": (!alone.is_empty()).then(|| counted(alone.len(), "Service")),
        "isOne": alone.len() == 1,
        "isKnown": facts.unseen.is_empty() && facts.unanswered.is_empty(),
        "such": such.join(", "),
        "anchors": cluster.trust_anchors,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn member_that_has_failed_over_is_no_other_cluster() {
        let mut facts = fixtures::few();
        let alone_with_east = |facts: &PageFacts| {
            let of = alone(facts).remove("east").unwrap_or_default();
            let names = of.iter().map(|row| row.service.clone().unwrap_or_default());
            names.collect::<Vec<_>>()
        };
        assert_eq!(alone_with_east(&facts), ["web-federated", "db-east"]);
        facts.services[0].preferred.failed_over.clear();
        assert_eq!(alone_with_east(&facts), ["db-east"]);
    }
}
