//! The result of the rotation of each link.

use std::collections::BTreeSet;

use hints::prose::counted;
use serde::Serialize;

use crate::{fleet_file::LinkEnds, rotate::decision::DESTINATION};

/// The result of one link.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationOutcome {
    /// The name of its source cluster, if it is a link of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub cluster: String,
    pub result: Ending,
    /// Why it failed, or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(flatten)]
    pub done: RotationDetails,
}

/// The kind of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// New credentials are in use, and the old token is revoked or kept on purpose.
    Rotated,
    /// The Secrets have new credentials, but Linkerd uses the old ones until it restarts (`--no-restart`).
    RestartNeeded,
    /// The credentials are not old enough.
    Skipped,
    /// The source cluster uses the token that it was given, and the target cluster can revoke older ones.
    InUse,
    /// The target cluster has revoked the tokens before the one in use.
    Revoked,
    /// It would be rotated.
    Planned,
    /// Something failed; the message says which token works.
    Failed,
}

/// What was done for one link.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationDetails {
    /// Token Secret of the new credentials, with its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_secret: Option<String>,
    /// In a dry run: whether a token would be created.
    #[serde(skip)]
    pub creates: bool,
    /// In a dry run: whether Linkerd would be restarted.
    #[serde(skip)]
    pub restarts: bool,
    /// The start of the SHA-256 of the kubeconfig in use, as the Link's status has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_fingerprint: Option<String>,
    /// Token Secrets that were deleted.
    pub revoked: Vec<String>,
    /// Token Secrets that were kept, because other links or Linkerd may still use them.
    pub kept: Vec<String>,
    /// When the old token expires, if it does. Such a token has no Secret, and cannot be revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_token_expires: Option<String>,
}

impl RotationOutcome {
    /// The result of a link of a file.
    pub fn of(ends: &LinkEnds, result: Ending, reason: Option<String>) -> Self {
        Self {
            source: Some(ends.source.to_string()),
            cluster: ends.target.to_string(),
            result,
            reason,
            done: RotationDetails::default(),
        }
    }

    /// The result of a link of a file that nothing could be done for.
    pub fn failed(ends: &LinkEnds, error: &anyhow::Error) -> Self {
        Self::of(ends, Ending::Failed, Some(format!("{error:#}")))
    }
}

/// How many links ended in which way.
pub fn summary(done: &[RotationOutcome]) -> String {
    let endings = [
        (Ending::Rotated, "rotated"),
        (Ending::InUse, "in use"),
        (Ending::Revoked, "revoked"),
        (Ending::RestartNeeded, "to be restarted"),
        (Ending::Planned, "would be rotated"),
        (Ending::Skipped, "skipped"),
        (Ending::Failed, "failed"),
    ];
    let counts = endings.iter().filter_map(|(ending, what)| {
        let links = done.iter();
        let count = links.filter(|link| link.result == *ending).count();
        (count > 0).then(|| format!("{count} {what}"))
    });
    let counts: Vec<String> = counts.collect();
    format!("links: {}", counts.join(", "))
}

/// What a run would do in all, after a dry run. `None` if it would do nothing.
pub fn plan(done: &[RotationOutcome]) -> Option<String> {
    let details = || done.iter().map(|link| (link.source.as_deref(), &link.done));
    let mut steps = Vec::new();
    let tokens = details().filter(|(_, done)| done.creates).count();
    if tokens > 0 {
        steps.push(format!("create {}", counted(tokens, "token")));
    }
    let restarts = details().filter(|(_, done)| done.restarts);
    let restarts: BTreeSet<Option<&str>> = restarts.map(|(source, _)| source).collect();
    let names: Vec<&str> = restarts.iter().copied().flatten().collect();
    if !names.is_empty() {
        steps.push(format!(
            "restart {DESTINATION} in {}: {}",
            counted(names.len(), "cluster"),
            names.join(", ")
        ));
    } else if !restarts.is_empty() {
        steps.push(format!("restart {DESTINATION}"));
    }
    let is_planned = |link: &&RotationOutcome| link.result == Ending::Planned;
    let planned = done.iter().filter(is_planned).count();
    if steps.is_empty() && planned > 0 {
        steps.push(format!("finish {}", counted(planned, "link")));
    }
    (!steps.is_empty()).then(|| format!("in all: {}", steps.join(", and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: &str) -> LinkEnds {
        LinkEnds {
            source: source.parse().unwrap(),
            target: "east".parse().unwrap(),
        }
    }

    #[test]
    fn the_summary_counts_what_there_is() {
        let of = |result| RotationOutcome::of(&ends("west"), result, None);
        let done = [Ending::Failed, Ending::Rotated, Ending::Rotated].map(of);
        assert_eq!(summary(&done), "links: 2 rotated, 1 failed");
        assert_eq!(plan(&done), None);
    }

    #[test]
    fn a_dry_run_counts_tokens_and_names_where_linkerd_restarts() {
        let of = |(source, creates, restarts): (&str, bool, bool)| RotationOutcome {
            done: RotationDetails {
                creates,
                restarts,
                ..RotationDetails::default()
            },
            ..RotationOutcome::of(&ends(source), Ending::Planned, None)
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
