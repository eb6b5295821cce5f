//! The flags of `rotate`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::{
    api::labels,
    cli::common::{args, complete},
    manifests::link::ClusterName,
};

const EXAMPLES: &str = "\
Examples:
  # Rotate the credentials with which west accesses east; both are contexts
  linkerd-mc rotate --cluster-name east --source west

  # Show what would be done, and change nothing
  linkerd-mc rotate --cluster-name east --source west --dry-run

  # Rotate all credentials that are older than 30 days, such as in a CronJob
  linkerd-mc rotate --all --source west --older-than 30d -o json

Exit codes: 0 done, or nothing to do; 1 a link failed (see its message).";

/// Replace the credentials of links without interrupting traffic
///
/// For each link, the command creates a token Secret in the target cluster. It writes the token into the controller's
/// Secret, and waits until the Link's status shows that it is in use. Then it writes the token into Linkerd's Secret,
/// restarts Linkerd's destination controller, which reads credentials only at startup, and deletes the old token. If
/// the controller cannot use the token, everything is restored. If the command is interrupted, run it again: it
/// continues with the token that it created, and does what is left to do.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Rotate {
    /// Name of the target cluster
    #[arg(long, value_name = "NAME", required_unless_present = "all", conflicts_with = "all", add = ArgValueCompleter::new(complete::clusters))]
    pub(super) cluster_name: Option<ClusterName>,
    /// All links of the namespace
    #[arg(long)]
    pub(super) all: bool,
    /// Context of the target cluster [default: the context with the name of the cluster, or that a tool made for it]
    #[arg(long, alias = "from", value_name = "CONTEXT", conflicts_with = "all", add = ArgValueCompleter::new(complete::contexts))]
    pub(super) target: Option<String>,
    /// Context of the source cluster [default: --context, or the current one]
    #[arg(long, alias = "to", value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub(super) source: Option<String>,
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(super) namespace: String,
    #[command(flatten)]
    pub(super) flags: RotationFlags,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = RotateFormat::Text)]
    pub(super) output: RotateFormat,
}

impl Rotate {
    /// Whether it changes clusters.
    pub(crate) fn writes(&self) -> bool {
        !self.flags.dry_run
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RotateFormat {
    /// One line per step, on stderr
    Text,
    /// One JSON document
    Json,
}

/// How links are rotated, also by `fleet rotate`.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct RotationFlags {
    /// Rotate only credentials that are older than this, or expire within this time, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = args::days_or_duration)]
    pub(in crate::cli) older_than: Option<Duration>,
    /// Do not restart Linkerd's destination controller, and revoke nothing, because it uses the old token until it
    /// restarts. Run the command again after the restart, which then revokes it
    #[arg(long)]
    pub(in crate::cli) no_restart: bool,
    /// Also revoke the tokens of the ServiceAccount that other links may use, such as that of `install`, unless a Secret
    /// of the source cluster still has them. Links in other clusters cannot be seen
    #[arg(long)]
    pub(in crate::cli) revoke_shared: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// How long to wait for the controller, and for the restart
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = args::duration)]
    pub(in crate::cli) wait: Duration,
}
