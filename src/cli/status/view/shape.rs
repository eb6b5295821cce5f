//! Which columns and lines a view has.

use observe::clusters::kube_context::KubeContext;

use crate::cli::status::args::{StatusArgs, StatusFormat};

/// How much of a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Whether several clusters are asked.
    pub several: bool,
    /// Whether all columns are shown.
    pub wide: bool,
}

impl TableShape {
    pub fn of(args: &StatusArgs, contexts: &[KubeContext]) -> Self {
        Self {
            several: contexts.len() > 1,
            wide: args.output == StatusFormat::Wide,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use client::Identity;
    use hints::suggest::ClusterFlags;
    use observe::clusters::{
        fixtures::{condition, link},
        leader::Leaders,
        snapshot::ClusterSnapshot,
        topology::Topology,
    };
    use serde_json::json;

    use super::*;
    use crate::cli::common::table::Table;

    pub const NOW: &str = "2026-01-01T00:05:00Z";

    pub fn one() -> Topology {
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

    pub fn plain(table: &Table, width: Option<usize>) -> String {
        anstream::adapter::strip_str(&table.render(width)).to_string()
    }

    pub fn shape(several: bool, wide: bool) -> TableShape {
        TableShape { several, wide }
    }
}
