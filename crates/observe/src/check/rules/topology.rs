//! Checks that compare several clusters. Linkerd's extension has neither of them.

use super::{
    rule::{CheckResult, Verdict, outcome, rule},
    topic::Topic,
};
use crate::{clusters::topology::Topology, finding::Level};
use hints::suggest::ClusterFlags;

/// Checks how clusters are linked to each other.
pub fn evaluate_topology(topology: &Topology) -> Vec<CheckResult> {
    let links = topology
        .links
        .iter()
        .map(|edge| format!("{} → {}", edge.source, edge.target));
    let mutual = match topology.one_way() {
        _ if topology.links.is_empty() => Verdict::Skip,
        problems if problems.is_empty() => Verdict::PassWith(links.collect()),
        problems => Verdict::of(problems),
    };
    let trust = match topology.distrust() {
        _ if topology.links.is_empty() => Verdict::Skip,
        problems => Verdict::of(problems),
    };
    [
        (
            "clusters are linked in both directions",
            Level::Warning,
            mutual,
        ),
        ("linked clusters share trust anchors", Level::Error, trust),
    ]
    .into_iter()
    // The verdicts are already known: these rules look at the topology, not at the snapshot of one cluster.
    .filter_map(|(description, severity, verdict)| {
        let rule = rule(Topic::Targets, description, "", severity, |_| Verdict::Skip);
        outcome(&rule, verdict, &ClusterFlags::default())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::rules::Level,
        clusters::{fixtures::snapshots, topology::Topology},
    };

    #[test]
    fn one_way_links_are_a_warning_and_different_trust_anchors_an_error() {
        let results = evaluate_topology(&Topology::of(&snapshots()));
        let levels: Vec<_> = results.iter().map(|r| (r.level, r.text())).collect();
        assert_eq!(
            levels,
            [
                (
                    Some(Level::Warning),
                    "west → north is one-way: north has no Link to west".to_owned()
                ),
                (
                    Some(Level::Error),
                    "north and west have different trust anchors".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn two_clusters_that_link_to_each_other_pass() {
        let mut snapshots = snapshots();
        snapshots.truncate(2);
        snapshots[1].links.as_mut().unwrap().truncate(1);
        let results = evaluate_topology(&Topology::of(&snapshots));
        assert_eq!(
            results[0].description,
            "clusters are linked in both directions\n\t* east → west\n\t* west → east"
        );
        assert_eq!((results[0].level, results[1].level), (None, None));
        assert_eq!(evaluate_topology(&Topology::of(&[])), []);
    }
}
