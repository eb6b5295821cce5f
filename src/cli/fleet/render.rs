//! `fleet render`: writes the files of a fleet for Git.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueHint};

use super::{
    folder::{FileChanges, FleetFolder},
    gather::read_targets,
    layout::{FleetLayout, KUSTOMIZATION},
    loaded::LoadedFleet,
    source::{FleetSource, PENDING},
};
use crate::{
    cli::common::{
        args::{Global, object_name},
        output,
        wait::spin,
    },
    hint::fail,
};

/// Write the Links of the file into a folder for Git
///
/// The folder gets one for each cluster, with a kustomization.yaml: the Links of the cluster, the accounts of others in it,
/// and a note of which credentials it needs. No file has the content of a Secret. Gateways and domains are read from the
/// target clusters; of each, only linkerd-config and the Service of the gateway. The same clusters and the same file make
/// the same bytes.
///
/// Files that are not needed any more are removed if their first line says that this fleet has written them. Other files
/// stay. If a cluster does not answer, the files about links to it stay as they are.
///
/// Exit codes: 0 all files are as they should be, 1 a cluster was not read, or a link has an obstacle, 2 with --dry-run,
/// files would change (or invalid usage).
#[derive(Debug, Args)]
pub(super) struct FleetRenderArgs {
    #[command(flatten)]
    source: FleetSource,
    /// Folder for the files; it is created if needed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: PathBuf,
    /// Write an ExternalSecret for each of the credentials, which takes them from this ClusterSecretStore
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    secret_store: Option<String>,
    /// Print which files would change, and change none
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(super) async fn run(global: &Global, args: &FleetRenderArgs) -> anyhow::Result<ExitCode> {
    let loaded = args.source.load(global).await?;
    refuse_name(&loaded)?;
    let folder = FleetFolder::read(&args.output_dir, &loaded.fleet.name)?;
    let reading = read_targets(global, &loaded, args.source.timeout);
    let targets = spin("reading the clusters", reading).await;
    let name = args
        .source
        .file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let layout = FleetLayout {
        loaded: &loaded,
        file: &name,
        store: args.secret_store.as_deref(),
        targets: &targets,
        existing: &folder.own,
    };
    let rendered = layout.render()?;
    for (target, remark) in &rendered.remarks {
        remark.say_of(&target.to_string());
    }
    for (target, why) in &rendered.problems {
        output::warning(&format!(
            "{target}: {why}; the files about links to it stay as they are"
        ));
    }
    let changes = folder.changes(&rendered.files)?;
    if !args.dry_run {
        folder.apply(&changes, &rendered.files)?;
    }
    output::data(&text(&changes, rendered.files.len()))?;
    Ok(if args.dry_run && changes.count() > 0 {
        ExitCode::from(PENDING)
    } else {
        output::exit_code(!rendered.problems.is_empty())
    })
}

/// A file of each folder has the name of a cluster.
fn refuse_name(loaded: &LoadedFleet) -> anyhow::Result<()> {
    let mut clusters = loaded.fleet.clusters.iter();
    match clusters.find(|cluster| format!("{}.yaml", cluster.name) == KUSTOMIZATION) {
        Some(cluster) => Err(fail(
            format!("a cluster cannot be called {} here", cluster.name),
            format!(
                "{KUSTOMIZATION} names the other files of a folder; call the cluster something else"
            ),
        )),
        None => Ok(()),
    }
}

/// The files that change, one line each, and a summary.
fn text(changes: &FileChanges, all: usize) -> String {
    let FileChanges {
        added,
        changed,
        removed,
    } = changes;
    let lines = |mark: &str, names: &std::collections::BTreeSet<String>| {
        let lines = names.iter().map(|name| format!("{mark} {name}\n"));
        lines.collect::<String>()
    };
    let same = all - added.len() - changed.len();
    format!(
        "{}{}{}{} added, {} changed, {} removed, {same} as they were.\n",
        lines("+", added),
        lines("~", changed),
        lines("-", removed),
        added.len(),
        changed.len(),
        removed.len()
    )
}
