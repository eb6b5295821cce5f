//! The flags of `status`.

use std::time::Duration;

use clap::{Args, FromArgMatches as _, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::view::Shape;
use crate::{
    check::state::{Condition, LinkState},
    cli::{
        args::{Global, duration},
        complete,
        fleet::{Contexts, Member},
    },
};

const EXAMPLES: &str = "\
Examples:
  # The Links of the current context's cluster
  linkerd-mc status

  # Each mirror, where it comes from and whether it has endpoints
  linkerd-mc status --services

  # Two clusters at once, and whether they link to one another
  linkerd-mc status --context east,west

  # In a script: wait until all Links are ready
  linkerd-mc status --wait --for=Ready --timeout=2m";

/// Show how Links are: connected, gateway, credentials, what is mirrored
///
/// Below the table stands what is wrong. Of the credentials of a Link that is the first thing that `check` finds: in the
/// Secret of the controller, in that of Linkerd, or that Linkerd does not use the one it has. Nothing is said of Secrets
/// that you may not read.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(super) contexts: Contexts,
    /// Only Links to this target cluster
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::clusters))]
    pub(super) cluster_name: Option<String>,
    /// Show each mirror and federated Service
    #[arg(long)]
    pub(super) services: bool,
    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
    /// Show again whenever something changes, until interrupted
    #[arg(short, long, conflicts_with = "wait")]
    pub(super) watch: bool,
    /// Wait until all Links meet --for, and fail when they do not within --timeout
    #[arg(long)]
    pub(super) wait: bool,
    /// Condition that --wait waits for
    #[arg(
        long = "for",
        value_name = "CONDITION",
        default_value = "Ready",
        ignore_case = true
    )]
    pub(super) goal: Goal,
    /// Time limit of --wait
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    pub(super) timeout: Duration,
    /// Time limit of a request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(super) request_timeout: Duration,
}

impl StatusArgs {
    /// The arguments of a command line, without the names of the program and the command.
    pub(crate) fn parsed(args: &[&str]) -> Result<Self, clap::Error> {
        let command = clap::Command::new("status").no_binary_name(true);
        let command = Global::augment_args(Self::augment_args(command));
        Self::from_arg_matches(&command.try_get_matches_from(args)?)
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.output, Format::Table | Format::Wide)
    }

    pub(super) fn shape(&self, members: &[Member]) -> Shape {
        Shape {
            fleet: members.len() > 1,
            wide: self.output == Format::Wide,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A row a Link
    Table,
    /// All columns
    Wide,
    /// A JSON object
    Json,
    /// A YAML document
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// Credentials valid, connected, and everything written that can be
    #[value(name = "Ready")]
    Ready,
    /// The target cluster's API server answers
    #[value(name = "Connected")]
    Connected,
    /// The credentials can be used
    #[value(name = "CredentialsValid")]
    CredentialsValid,
    /// The gateway answers probes (a Link without one meets it)
    #[value(name = "GatewayAlive")]
    GatewayAlive,
}

impl Goal {
    /// Whether a Link meets it.
    pub(super) fn is_met(self, link: &LinkState) -> bool {
        let condition = match self {
            Self::Ready => Condition::Ready,
            Self::Connected => Condition::Connected,
            Self::CredentialsValid => Condition::CredentialsValid,
            Self::GatewayAlive if link.gateway.is_none() => return true,
            Self::GatewayAlive => Condition::GatewayAlive,
        };
        link.condition(condition) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_without_the_names_of_program_and_command() {
        let args = StatusArgs::parsed(&["--services", "--cluster-name", "east"]).unwrap();
        assert_eq!(args.cluster_name.as_deref(), Some("east"));
        assert!(args.services && args.is_table() && !args.wait);
        assert!(StatusArgs::parsed(&["status"]).is_err());
    }
}
