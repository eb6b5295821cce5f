//! What `drain` says: what happened in each source cluster.

use std::time::Duration;

use jiff::Timestamp;
use manifests::link::ClusterName;
use mirror_core::{
    api::{duration::rfc3339, text::one_line},
    mirror::target::drain::until,
};
use observe::drain::{DrainForecast, DrainOutcome};
use serde::Serialize;

use super::forecast::text;
use crate::cli::common::{output, table::terminal_width};

/// What happened, for all source clusters.
#[derive(Debug, Serialize)]
pub struct DrainReport<'r> {
    cluster: String,
    /// The end of the drain.
    until: Option<String>,
    sources: &'r [SourceDrain],
}

/// What happened in one source cluster.
#[derive(Debug, PartialEq, Serialize)]
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
    /// Whether it can lose the cluster, in words: of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What would move, and what would be lost: of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<DrainForecast>,
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
            answer: None,
            forecast: None,
            commands: Vec::new(),
        }
    }

    /// Answers whether it can lose a cluster, if that was looked at. `here` is what the cluster is called if it has no name
    /// in a file.
    pub fn answer_as(&mut self, here: &str, cluster: &ClusterName) {
        let source = self.source.as_deref().unwrap_or(here);
        let forecast = self.forecast.as_ref();
        self.answer = forecast.map(|forecast| forecast.answer(source, &cluster.to_string()));
    }

    /// Whether the cluster is, or would be, still in a federated Service.
    fn stays(&self) -> bool {
        let mut forecast = self.forecast.iter().flat_map(|of| &of.federated);
        self.result == DrainResult::LastMember
            || forecast.any(|of| of.outcome == DrainOutcome::Stays)
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

    /// Whether the cluster is, or would be, still somewhere where it should not be.
    pub fn is_incomplete(&self) -> bool {
        let is_left = |source: &SourceDrain| source.result == DrainResult::Failed || source.stays();
        self.sources.iter().any(is_left)
    }

    /// Says what happened in each source cluster. On stdout are the forecast and the commands of a dry run, and the
    /// federated Services in which the cluster stays.
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
                    let lines =
                        services.map(|service| one_line(&format!("{place}{service}")) + "\n");
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
                    if let (Some(answer), Some(forecast)) = (&source.answer, &source.forecast) {
                        let details = text(forecast, cluster, terminal_width());
                        output::data(&format!("{}\n{details}\n", one_line(answer)))?;
                    }
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
