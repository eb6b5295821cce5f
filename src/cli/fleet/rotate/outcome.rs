//! The results of `fleet rotate`.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    cli::{
        common::prose::counted,
        rotate::{DESTINATION, Ending, RotationDetails, RotationOutcome},
    },
    manifests::link::ClusterName,
};

/// The result of one link.
#[derive(Debug, Serialize)]
pub(super) struct LinkRotation {
    pub(super) source: String,
    #[serde(flatten)]
    pub(super) outcome: RotationOutcome,
}

/// The result of a link that nothing could be done for.
pub(super) fn failed(target: &ClusterName, error: &anyhow::Error) -> RotationOutcome {
    RotationOutcome {
        cluster: target.to_string(),
        result: Ending::Failed,
        reason: Some(format!("{error:#}")),
        done: RotationDetails::default(),
    }
}

/// How many links ended in which way.
pub(super) fn summary(done: &[LinkRotation]) -> String {
    let endings = [
        (Ending::Rotated, "rotated"),
        (Ending::HandedOver, "handed over"),
        (Ending::InUse, "in use"),
        (Ending::Revoked, "revoked"),
        (Ending::RestartNeeded, "to be restarted"),
        (Ending::Planned, "would be rotated"),
        (Ending::Skipped, "skipped"),
        (Ending::Failed, "failed"),
    ];
    let counts = endings.iter().filter_map(|(ending, what)| {
        let links = done.iter();
        let count = links.filter(|link| link.outcome.result == *ending).count();
        (count > 0).then(|| format!("{count} {what}"))
    });
    let counts: Vec<String> = counts.collect();
    format!("links: {}", counts.join(", "))
}

/// What a run would do in all, after a dry run. `None` if it would do nothing.
pub(super) fn plan(done: &[LinkRotation]) -> Option<String> {
    let details = || done.iter().map(|link| (&link.source, &link.outcome.done));
    let mut steps = Vec::new();
    let tokens = details().filter(|(_, done)| done.creates).count();
    if tokens > 0 {
        steps.push(format!("create {}", counted(tokens, "token")));
    }
    let restarts = details().filter(|(_, done)| done.restarts);
    let restarts: BTreeSet<&str> = restarts.map(|(source, _)| source.as_str()).collect();
    if !restarts.is_empty() {
        let names: Vec<&str> = restarts.iter().copied().collect();
        steps.push(format!(
            "restart {DESTINATION} in {}: {}",
            counted(names.len(), "cluster"),
            names.join(", ")
        ));
    }
    let is_planned = |link: &&LinkRotation| link.outcome.result == Ending::Planned;
    let planned = done.iter().filter(is_planned).count();
    if steps.is_empty() && planned > 0 {
        steps.push(format!("finish {}", counted(planned, "link")));
    }
    (!steps.is_empty()).then(|| format!("in all: {}", steps.join(", and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_there_is() {
        let of = |result| LinkRotation {
            source: "west".to_owned(),
            outcome: RotationOutcome {
                result,
                ..failed(&"east".parse().unwrap(), &anyhow::anyhow!("no"))
            },
        };
        let done = [Ending::Failed, Ending::Rotated, Ending::Rotated].map(of);
        assert_eq!(summary(&done), "links: 2 rotated, 1 failed");
        assert_eq!(plan(&done), None);
    }

    #[test]
    fn a_dry_run_counts_tokens_and_names_where_linkerd_restarts() {
        let of = |(source, creates, restarts): (&str, bool, bool)| LinkRotation {
            source: source.to_owned(),
            outcome: RotationOutcome {
                result: Ending::Planned,
                done: RotationDetails {
                    creates,
                    restarts,
                    ..RotationDetails::default()
                },
                ..failed(&"east".parse().unwrap(), &anyhow::anyhow!("no"))
            },
        };
        let text = |links: &[(&str, bool, bool)]| {
            let links: Vec<_> = links.iter().copied().map(of).collect();
            plan(&links).unwrap()
        };
        let [west, again, north] = [
            ("west", true, true),
            ("west", true, true),
            ("north", true, false),
        ];
        assert_eq!(
            text(&[west, again, north]),
            format!("in all: create 3 tokens, and restart {DESTINATION} in 1 cluster: west")
        );
        assert_eq!(text(&[north]), "in all: create 1 token");
        assert_eq!(text(&[("west", false, false)]), "in all: finish 1 link");
    }
}
