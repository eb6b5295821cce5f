//! The flags of `status`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::{
    cli::common::{
        args::{cluster_name, duration, timeout},
        complete,
        contexts::Contexts,
    },
    clusters::link_summary::{LinkCondition, LinkSummary},
};

const EXAMPLES: &str = "\
Examples:
  # Show the Links of the current context's cluster
  linkerd-mc status

  # Show each mirror, its source and its endpoints
  linkerd-mc status --services

  # Show two clusters, and whether they link to each other
  linkerd-mc status --context east,west

  # Wait until all Links are ready, such as in a script
  linkerd-mc status --wait --for=Ready --timeout=2m";

/// Show the status of Links: connection, gateway, credentials, mirrored Services
///
/// Problems are listed below the table. For the credentials of a Link, this is the first problem that `check` finds: in
/// the controller's Secret, in Linkerd's Secret, or that Linkerd does not use its current one. Secrets that you may not
/// read are skipped.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(super) contexts: Contexts,
    /// Show only Links to this target cluster
    #[arg(long, value_name = "NAME", value_parser = cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    pub(super) cluster_name: Option<String>,
    /// Show each mirror and federated Service
    #[arg(long)]
    pub(super) services: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: StatusFormat,
    /// Update the output whenever something changes, until interrupted
    #[arg(short, long, conflicts_with = "wait")]
    pub(super) watch: bool,
    /// Wait until all Links meet the condition of --for, or fail after --timeout
    #[arg(long)]
    pub(super) wait: bool,
    /// Condition that --wait waits for
    #[arg(
        long = "for",
        value_name = "CONDITION",
        default_value = "Ready",
        ignore_case = true,
        requires = "wait"
    )]
    pub(super) goal: Goal,
    /// Timeout of --wait
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration, requires = "wait")]
    pub(super) timeout: Duration,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub(super) request_timeout: Duration,
}

impl StatusArgs {
    /// Those of `--services --cluster-name <cluster>`.
    pub(crate) fn services_of(cluster: String) -> Self {
        Self {
            contexts: Contexts::default(),
            cluster_name: Some(cluster),
            services: true,
            output: StatusFormat::Table,
            watch: false,
            wait: false,
            goal: Goal::Ready,
            timeout: Duration::from_secs(5 * 60),
            request_timeout: Duration::from_secs(10),
        }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.output, StatusFormat::Table | StatusFormat::Wide)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StatusFormat {
    /// One row per Link
    Table,
    /// A table with all columns
    Wide,
    /// A JSON object
    Json,
    /// A YAML document
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// Credentials valid, connected, and all mirrors written
    #[value(name = "Ready")]
    Ready,
    /// The target cluster's API server responds
    #[value(name = "Connected")]
    Connected,
    /// The credentials are usable
    #[value(name = "CredentialsValid")]
    CredentialsValid,
    /// The gateway answers probes (also met by a Link without a gateway)
    #[value(name = "GatewayAlive")]
    GatewayAlive,
}

impl Goal {
    /// Whether a Link meets it.
    pub(super) fn is_met(self, link: &LinkSummary) -> bool {
        let condition = match self {
            Self::Ready => LinkCondition::Ready,
            Self::Connected => LinkCondition::Connected,
            Self::CredentialsValid => LinkCondition::CredentialsValid,
            Self::GatewayAlive if link.gateway.is_none() => return true,
            Self::GatewayAlive => LinkCondition::GatewayAlive,
        };
        link.condition(condition) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;
    use crate::cli::common::args::Global;

    #[test]
    fn link_shows_what_the_command_shows() {
        let args = StatusArgs::services_of("east".into());
        assert_eq!(args.cluster_name.as_deref(), Some("east"));
        assert!(args.services && args.is_table() && !args.wait);
        let command = clap::Command::new("status").no_binary_name(true);
        let command = Global::augment_args(StatusArgs::augment_args(command));
        let typed = command.try_get_matches_from(["--services", "--cluster-name", "east"]);
        let typed = StatusArgs::from_arg_matches(&typed.unwrap()).unwrap();
        assert_eq!(format!("{args:?}"), format!("{typed:?}"));
    }
}
