//! The results of `fleet rotate`.

use serde::Serialize;

use crate::{
    cli::rotate::{Ending, RotationDetails, RotationOutcome},
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
    }
}
