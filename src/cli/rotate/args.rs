//! The flags of `rotate`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::{
    api::labels,
    cli::{args, complete},
    manifests::link::ClusterName,
};

const EXAMPLES: &str = "\
Examples:
  # New credentials for the link from west to east; both are contexts
  linkerd-mc rotate --cluster-name east --to west

  # What would be done
  linkerd-mc rotate --cluster-name east --to west --dry-run

  # All links whose credentials are older than 30 days, for a CronJob
  linkerd-mc rotate --all --to west --older-than 30d -o json

Exit codes: 0 done, or nothing to do; 1 a link failed: its old token works.";

/// Give links new credentials without losing a request, and revoke the old ones
///
/// For each link: mints a token Secret of its own in the target cluster, writes it into the Secret of the controller,
/// and waits until the Link says that it is in use; writes it into the Secret of Linkerd, and restarts Linkerd's
/// destination controller, which reads credentials only when it starts; then deletes the old token. Whatever ends it on
/// the way, run it again: it goes on with what it has minted.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Rotate {
    /// Name of the target cluster
    #[arg(long, value_name = "NAME", required_unless_present = "all", conflicts_with = "all", add = ArgValueCompleter::new(complete::clusters))]
    pub(super) cluster_name: Option<ClusterName>,
    /// All links of the namespace
    #[arg(long)]
    pub(super) all: bool,
    /// Context of the target cluster [default: the one that is called like the cluster]
    #[arg(long, value_name = "CONTEXT", conflicts_with = "all", add = ArgValueCompleter::new(complete::contexts))]
    pub(super) from: Option<String>,
    /// Context of the source cluster [default: --context, or the current one]
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub(super) to: Option<String>,
    /// Only credentials that are older than this, or end within this time; 30d is 30 days
    #[arg(long, value_name = "DURATION", value_parser = args::days_or_duration)]
    pub(super) older_than: Option<Duration>,
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(super) namespace: String,
    /// Do not restart Linkerd's destination controller, and revoke nothing: until it is restarted it has the old token
    #[arg(long)]
    pub(super) no_restart: bool,
    /// Also revoke a token that was not minted for this link alone, such as that of `install`: other links may use it
    #[arg(long)]
    pub(super) revoke_shared: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Wait this long for the controller, and for the restart
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = args::duration)]
    pub(super) wait: Duration,
    /// How to print what was done
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A line for each step, on standard error
    Text,
    /// One JSON document
    Json,
}
