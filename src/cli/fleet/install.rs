//! `fleet install`: the objects of the extension for a cluster of the file.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::{complete, loaded::named, source::FleetSource};
use crate::{
    cli::{
        common::{
            args::{Global, ManifestOutput},
            output,
        },
        install::{InstallFacts, install_with},
    },
    manifests::link::ClusterName,
};

/// Print the manifests of the extension for a cluster, with the values of the file
///
/// The values are those of `install` at the top of the file, and over them those of the cluster. Pipe the output into
/// `kubectl apply -f -`. The command reads from the cluster what `install` reads, and changes nothing itself.
#[derive(Debug, Args)]
pub(super) struct FleetInstallArgs {
    #[command(flatten)]
    source: FleetSource,
    /// The cluster
    #[arg(value_name = "CLUSTER", add = ArgValueCompleter::new(complete::clusters))]
    cluster: ClusterName,
    /// Do not contact the cluster
    #[arg(long)]
    ignore_cluster: bool,
    #[command(flatten)]
    output: ManifestOutput,
}

/// Runs the command.
pub(super) async fn run(global: &Global, args: &FleetInstallArgs) -> anyhow::Result<ExitCode> {
    let loaded = args.source.load(global).await?;
    let cluster = loaded.cluster(&args.cluster)?;
    let facts = if args.ignore_cluster {
        None
    } else {
        let access = named(&loaded.access(&global.access(), cluster), &args.cluster)?;
        let read = Box::pin(InstallFacts::of(&access, &loaded.linkerd, Duration::ZERO));
        Some(args.source.in_time(&args.cluster, read).await?)
    };
    let made = install_with(
        &loaded.linkerd,
        &loaded.namespace,
        &cluster.install,
        facts.as_ref(),
    )?;
    output::warnings(&made.warnings);
    output::data(&args.output.format(&made.manifest)?)?;
    Ok(ExitCode::SUCCESS)
}
