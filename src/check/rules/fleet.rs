//! Checks that compare several clusters. Both are ours.

use super::rule::{CheckResult, Severity, Verdict, result, rule};
use crate::check::topology::Fleet;

/// Checks how clusters are linked to each other.
pub fn evaluate_fleet(fleet: &Fleet) -> Vec<CheckResult> {
    let links = fleet
        .links
        .iter()
        .map(|edge| format!("{} → {}", edge.source, edge.target));
    let mutual = match fleet.one_way() {
        _ if fleet.links.is_empty() => Verdict::Skip,
        problems if problems.is_empty() => Verdict::PassWith(links.collect()),
        problems => Verdict::Fail(problems),
    };
    let trust = match fleet.distrust() {
        _ if fleet.links.is_empty() => Verdict::Skip,
        problems => Verdict::of(problems),
    };
    [
        (
            "clusters are linked in both directions",
            Severity::Warning,
            mutual,
        ),
        (
            "linked clusters share trust anchors",
            Severity::Error,
            trust,
        ),
    ]
    .into_iter()
    // The verdicts exist already: these rules use the fleet, not the facts of one cluster.
    .filter_map(|(description, severity, verdict)| {
        result(&rule(description, "", severity, |_| Verdict::Skip), verdict)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{
        rules::Level,
        topology::{fleet, tests::surveys},
    };

    #[test]
    fn one_way_links_are_warned_of_and_distrust_is_an_error() {
        let results = evaluate_fleet(&fleet(&surveys()));
        let levels: Vec<_> = results
            .iter()
            .map(|r| (r.level, r.error.as_str()))
            .collect();
        assert_eq!(
            levels,
            [
                (
                    Level::Warning,
                    "west → north is one-way: north has no Link to west"
                ),
                (Level::Error, "north and west have different trust anchors"),
            ]
        );
    }

    #[test]
    fn two_clusters_that_link_to_each_other_are_well() {
        let mut surveys = surveys();
        surveys.truncate(2);
        surveys[1].links.as_mut().unwrap().truncate(1);
        let results = evaluate_fleet(&fleet(&surveys));
        assert_eq!(
            results[0].description,
            "clusters are linked in both directions\n\t* east → west\n\t* west → east"
        );
        assert_eq!(
            (results[0].level, results[1].level),
            (Level::Success, Level::Success)
        );
        assert_eq!(evaluate_fleet(&fleet(&[])), []);
    }
}
