//! Which columns and lines a view has.

use crate::{
    cli::status::args::{StatusArgs, StatusFormat},
    clusters::cluster_client::KubeContext,
};

/// How much of a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::status) struct TableShape {
    /// Whether several clusters are asked.
    pub(in crate::cli::status) several: bool,
    /// Whether all columns are shown.
    pub(in crate::cli::status) wide: bool,
}

impl TableShape {
    pub(in crate::cli::status) fn of(args: &StatusArgs, contexts: &[KubeContext]) -> Self {
        Self {
            several: contexts.len() > 1,
            wide: args.output == StatusFormat::Wide,
        }
    }
}

#[cfg(test)]
pub(in crate::cli::status) mod tests {
    use super::*;
    use crate::{
        cli::common::table::Table,
        client::Identity,
        clusters::{
            leader::Leaders,
            link_summary::tests::{condition, link},
            snapshot::ClusterSnapshot,
            topology::Topology,
        },
        suggest::ClusterFlags,
    };
    use serde_json::json;

    pub(crate) const NOW: &str = "2026-01-01T00:05:00Z";

    pub(crate) fn one() -> Topology {
        let links = vec![
            link(
                "east",
                &json!({
                    "conditions": [condition("Ready", "True", "", 1), condition("Connected", "True", "", 1), condition("CredentialsValid", "True", "", 1)],
                    "gateway": {"alive": true, "latencyMs": 3, "addresses": ["192.0.2.1", "192.0.2.2"]},
                    "mirrored": 1200, "federated": 12, "unhealthy": 0,
                }),
            ),
            link(
                "a-cluster-far-away-in-the-west",
                &json!({
                    "conditions": [condition("Connected", "False", "connection refused", 59), condition("CredentialsValid", "True", "", 1)],
                    "gateway": {"alive": false, "since": "2026-01-01T00:00:30Z"},
                    "mirrored": 3, "federated": 0, "unhealthy": 2,
                }),
            ),
            link("new", &json!({})),
        ];
        Topology::of(&[ClusterSnapshot {
            name: "here".into(),
            flags: ClusterFlags::of_context("here"),
            identity: Identity::default(),
            uid: None,
            links: Ok(links),
            config: Err("refused".into()),
            leaders: Leaders::new(),
        }])
    }

    pub(crate) fn plain(table: &Table, width: Option<usize>) -> String {
        anstream::adapter::strip_str(&table.render(width)).to_string()
    }

    pub(crate) fn shape(several: bool, wide: bool) -> TableShape {
        TableShape { several, wide }
    }
}
