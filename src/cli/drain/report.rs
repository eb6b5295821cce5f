//! What `drain` says: what happened in each source cluster.

use std::time::Duration;

use jiff::Timestamp;
use manifests::link::ClusterName;
use mirror_core::{api::duration::rfc3339, mirror::target::drain::until};
use serde::Serialize;

use crate::cli::common::output;

/// What happened, for all source clusters.
#[derive(Debug, Serialize)]
pub struct DrainReport<'r> {
    cluster: String,
    /// The end of the drain.
    until: Option<String>,
    sources: &'r [SourceDrain],
}

/// What happened in one source cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SourceDrain {
    /// Its name in the file; `None` if it is that of the context.
    pub source: Option<String>,
    pub result: DrainResult,
    /// The end of the drain.
    #[serde(skip)]
    pub end: Option<Timestamp>,
    /// The federated Services in which the cluster stays, because they have no other member.
    pub services: Vec<String>,
    /// Why it failed.
    pub reason: Option<String>,
    /// The commands that would do it.
    pub commands: Vec<String>,
}

/// How it went in one source cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DrainResult {
    /// It has left all federated Services, or nothing was waited for.
    Drained,
    /// It has left those that have another member.
    LastMember,
    /// It takes part again.
    Ended,
    /// There was nothing to do.
    NotDrained,
    /// It would be done.
    Planned,
    Failed,
}

impl SourceDrain {
    pub fn of(source: Option<&ClusterName>, result: DrainResult) -> Self {
        Self {
            source: source.map(ToString::to_string),
            result,
            end: None,
            services: Vec::new(),
            reason: None,
            commands: Vec::new(),
        }
    }
}

impl<'r> DrainReport<'r> {
    pub fn of(cluster: &ClusterName, sources: &'r [SourceDrain]) -> Self {
        Self {
            cluster: cluster.to_string(),
            until: sources.iter().find_map(|source| source.end).map(rfc3339),
            sources,
        }
    }

    /// Whether the cluster is still somewhere where it should not be.
    pub fn is_incomplete(&self) -> bool {
        let is_left = |source: &SourceDrain| {
            matches!(source.result, DrainResult::Failed | DrainResult::LastMember)
        };
        self.sources.iter().any(is_left)
    }

    /// Says what happened in each source cluster. On stdout are the commands of a dry run, and the federated Services in
    /// which the cluster stays.
    pub fn say(&self, wait: Duration) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        for source in self.sources {
            let place = source.source.as_ref();
            let place = place.map_or_else(String::new, |name| format!("{name}: "));
            let until = source.end.map(until).unwrap_or_default();
            match source.result {
                DrainResult::Drained => {
                    let has_left = match wait {
                        Duration::ZERO => "",
                        _ => ": it has left all federated Services",
                    };
                    output::note(&format!("{place}{cluster} is drained {until}{has_left}"));
                }
                DrainResult::LastMember => {
                    let services = source.services.iter();
                    let lines = services.map(|service| format!("{place}{service}\n"));
                    output::data(&lines.collect::<String>())?;
                    output::warning(&format!(
                        "{place}{cluster} is drained {until}, but stays in federated Services that have no other member: {}",
                        source.services.len()
                    ));
                }
                DrainResult::Ended => {
                    output::note(&format!("{place}{cluster} is no longer drained"));
                }
                DrainResult::NotDrained => {
                    output::note(&format!("{place}{cluster} is not drained"));
                }
                DrainResult::Planned => {
                    output::note(&match source.end {
                        Some(_) => format!("{place}would drain {cluster} {until}, as with"),
                        None => format!("{place}would end the drain of {cluster}, as with"),
                    });
                    let commands = source.commands.iter();
                    let lines = commands.map(|command| format!("{command}\n"));
                    output::data(&lines.collect::<String>())?;
                }
                DrainResult::Failed => {
                    let reason = source.reason.as_deref().unwrap_or_default();
                    output::warning(&format!("{place}{reason}"));
                }
            }
        }
        Ok(())
    }
}
