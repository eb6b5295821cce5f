//! The flags of `link`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use links::link::flags::LinkArgs;
use manifests::link::ClusterName;

use crate::cli::common::{
    args::{self, ManifestFormat},
    complete,
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Mirror Services of east into west
  linkerd-mc link --target east --source west

  # Mirror in both directions
  linkerd-mc link --target east --source west --mutual

  # Show what would be done, and change nothing
  linkerd-mc link --target east --source west --dry-run

  # Change one setting of the Link, and keep all others
  linkerd-mc link --target east --source west --excluded-labels team --yes

  # Without access to east: take what its owner has handed over
  linkerd-mc link --from-file handed/west/east.yaml --source west";

/// Link two clusters
///
/// Both clusters are contexts of the kubeconfig. The source cluster gets mirrors of the Services of the target cluster.
/// Applies the output of `link-gen` for the target cluster to the source cluster, waits until the Link is ready, and
/// shows how much is mirrored.
///
/// If the clusters are linked already, what is set stays unless a flag names it. What would change is listed, and has
/// to be confirmed.
///
/// With --from-file, only the source cluster is used. The file has two Secrets and a Link, or the Secrets alone for a Link
/// that is there. Other objects, and kubeconfigs that would run programs or read files, are refused.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Link {
    /// Context of the target cluster, whose Services are mirrored
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub target: Option<String>,
    /// Context of the source cluster, where the mirrors are created
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub source: Option<String>,
    /// Take the link that the owner of the target cluster has written to this file with `fleet credentials` or `link-gen`; -
    /// for stdin. Everything that is not part of a link is refused, and all settings are shown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["target", "mutual"])]
    pub from_file: Option<PathBuf>,
    /// Name of the target cluster, and the suffix of its mirrors [default: from the name of its context]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<ClusterName>,
    /// Give this cluster the name of one that is already linked. All mirrors of the other cluster are deleted
    #[arg(long)]
    pub replace: bool,
    /// Link the clusters in both directions
    #[arg(long, conflicts_with_all = ["gateway_addresses", "gateway_port"])]
    pub mutual: bool,
    /// With --mutual, name of the source cluster [default: from the name of its context]
    #[arg(long, value_name = "NAME", requires = "mutual")]
    pub source_cluster_name: Option<ClusterName>,
    /// With --mutual, address of the source's API server that the target cluster can reach [default: the kubeconfig's]
    #[arg(long, value_name = "URL", requires = "mutual", value_parser = args::server_address)]
    pub source_api_server_address: Option<String>,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before settings of a Link are changed
    #[arg(long)]
    pub yes: bool,
    /// How long to wait until the Links are ready; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    pub wait: Duration,
    #[command(flatten)]
    pub generated: LinkArgs,
    /// With --dry-run, print the objects in this format, including credentials
    #[arg(short, long, value_name = "FORMAT", requires = "dry_run")]
    pub output: Option<ManifestFormat>,
}

impl Link {
    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        !self.dry_run
    }
}
