//! The flags of `status`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use hints::hint::misuse;
use observe::clusters::{
    link_summary::{LinkCondition, LinkSummary},
    service_rows::ServiceFilter,
};

use crate::cli::{
    common::{
        args::{cluster_name, namespace, timeout},
        complete,
        service_name::{ServiceName, service_name},
    },
    fleet::FleetContexts,
};

const EXAMPLES: &str = "\
Examples:
  # Show the Links of the current context's cluster
  linkerd-mc status

  # Show each mirror, its source and its endpoints
  linkerd-mc status --services

  # Show those of one Service, by its name here or in the target cluster
  linkerd-mc status default/web

  # Show two clusters, and whether they link to each other
  linkerd-mc status --context east,west

  # Show how all links of a file of `fleet` are doing, on one screen
  linkerd-mc status --file fleet.yaml

  # Draw which cluster links to which, as text or with Graphviz
  linkerd-mc status --all-contexts -o tree
  linkerd-mc status --all-contexts -o dot | dot -Tsvg > clusters.svg

  # Wait until all Links are ready, such as in a script
  linkerd-mc status --wait 2m --for=Ready";

/// Show the status of Links: connection, gateway, credentials, mirrored Services
///
/// Problems are listed below the table: gateways that fail their probes, Services that are not mirrored, credentials
/// that expire or that Linkerd does not use, labels and selectors that look misspelled, and a controller that does not
/// run or report, whose values are marked as old. Of the problems with the credentials of a Link, only the first is listed; `check` has all. Secrets that you may not read
/// are skipped.
///
/// With --file, a row for each source cluster of the file has a sign for each target cluster. Below it are the problems,
/// worst first, and a summary that explains the signs. `-o wide` and flags that choose a target cluster or Services show
/// the usual tables, for all clusters of the file.
///
/// `-o tree`, `mermaid` and `dot` draw which cluster links to which. With --file, Links of the file that are missing are
/// drawn too, and Links that are not in the file are marked.
///
/// Exit codes: 0 all clusters were read, and with --file all links are ready; 1 otherwise, or --wait has timed out.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    pub contexts: FleetContexts,
    /// Show only Links to this target cluster
    #[arg(long, value_name = "NAME", value_parser = cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    pub cluster_name: Option<String>,
    /// Show each mirror and federated Service
    #[arg(long)]
    pub services: bool,
    /// Show only this Service: a mirror or federated Service, or the Service that is mirrored
    #[arg(value_name = "[NAMESPACE/]SERVICE", value_parser = service_name)]
    pub service: Option<ServiceName>,
    /// Show the Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub namespace: Option<String>,
    /// Show the Services of all namespaces, as --services does
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: StatusFormat,
    /// Update the output whenever something changes, until interrupted
    #[arg(short, long, conflicts_with_all = ["wait", "file"])]
    pub watch: bool,
    /// Wait until all Links meet the condition of --for, at most for this time
    #[arg(long, value_name = "DURATION", value_parser = timeout, conflicts_with = "file")]
    pub wait: Option<Duration>,
    /// Condition that --wait waits for
    #[arg(
        long = "for",
        value_name = "CONDITION",
        default_value = "Ready",
        ignore_case = true,
        requires = "wait"
    )]
    pub goal: Goal,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub request_timeout: Duration,
}

impl StatusArgs {
    /// Whether the links of a file are shown on one screen, if there is a file.
    pub fn shows_fleet(&self) -> bool {
        let is_usual = self.output != StatusFormat::Wide && !self.is_drawing();
        !self.shows_services() && self.cluster_name.is_none() && is_usual
    }

    /// Whether Services are shown.
    pub fn shows_services(&self) -> bool {
        let is_one_wanted = self.service.is_some() || self.namespace.is_some();
        self.services || self.all_namespaces || is_one_wanted
    }

    /// The Services that are shown.
    pub fn filter(&self) -> ServiceFilter {
        let service = self.service.clone();
        let (of_name, name) = service.map(|s| (s.namespace, s.name)).unzip();
        ServiceFilter {
            cluster: self.cluster_name.clone(),
            namespace: of_name.flatten().or_else(|| self.namespace.clone()),
            name,
        }
    }

    pub fn is_table(&self) -> bool {
        matches!(self.output, StatusFormat::Table | StatusFormat::Wide)
    }

    /// Whether clusters and Links are drawn.
    pub fn is_drawing(&self) -> bool {
        use StatusFormat::{Dot, Mermaid, Tree};
        matches!(self.output, Tree | Mermaid | Dot)
    }

    /// Fails if flags cannot be meant together.
    pub fn refuse_contradictions(&self) -> anyhow::Result<()> {
        let is_part = self.shows_services() || self.cluster_name.is_some();
        if self.is_drawing() && (self.watch || is_part) {
            return Err(misuse(
                "a drawing shows all Links, once",
                "remove -o, or --watch and the flags that choose a cluster or Services",
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// One row per Link
    Table,
    /// A table with all columns
    Wide,
    /// A tree for each cluster
    Tree,
    /// A Mermaid flowchart
    Mermaid,
    /// A Graphviz digraph
    Dot,
    /// A JSON object
    Json,
    /// A YAML document
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
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
    /// Whether a Link meets it now: what an old status says is not known.
    pub fn is_met(self, link: &LinkSummary) -> bool {
        let condition = match self {
            Self::Ready => LinkCondition::Ready,
            Self::Connected => LinkCondition::Connected,
            Self::CredentialsValid => LinkCondition::CredentialsValid,
            Self::GatewayAlive if link.gateway.is_none() => return true,
            Self::GatewayAlive => LinkCondition::GatewayAlive,
        };
        link.condition(condition) == Some(true) && link.outdated().is_none()
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;
    use crate::cli::common::args::Global;

    fn parsed(line: &str) -> Result<StatusArgs, clap::Error> {
        let command = clap::Command::new("status").no_binary_name(true);
        let command = Global::augment_args(StatusArgs::augment_args(command));
        let matches = command.try_get_matches_from(line.split(' '))?;
        Ok(StatusArgs::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn services_are_named_as_for_kubectl() {
        for (line, namespace, name) in [
            ("shop/web", Some("shop"), Some("web")),
            ("web", None, Some("web")),
            ("web -n shop", Some("shop"), Some("web")),
            ("-n shop", Some("shop"), None),
            ("-A", None, None),
            ("--services", None, None),
        ] {
            let args = parsed(line).unwrap();
            let filter = args.filter();
            assert!(args.shows_services(), "{line}");
            let found = (filter.namespace.as_deref(), filter.name.as_deref());
            assert_eq!(found, (namespace, name), "{line}");
        }
        for line in ["shop/", "/web", "a/b/c", "Web", "-A -n shop"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
