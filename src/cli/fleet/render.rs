//! `fleet render`: writes the files of a fleet for Git.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueHint};
use hints::hint::fail;
use links::fleet::{
    extension::{ExtensionFiles, extensions},
    folder::{FileChanges, FleetFolder},
    gather::{RenderFacts, read_for_render},
    layout::{FleetFiles, FleetLayout, KUSTOMIZATION, is_credentials},
    loaded::LoadedFleet,
};

use super::source::{FleetSource, exit_code};
use crate::cli::common::{
    args::{Global, object_name},
    output,
    terminal::Terminal,
    wait::spin,
};

/// Write the Links of the file into a folder for Git
///
/// The folder gets one for each cluster, with a kustomization.yaml: the Links of the cluster, the accounts of others in it,
/// and a note of which credentials it needs. No file has the content of a Secret. Gateways and domains are read from the
/// target clusters; of each, only linkerd-config and the Service of the gateway. The same clusters and the same file make
/// the same bytes.
///
/// With --extension, the folder of each cluster also has what `install --file` prints for it. For that, all clusters of the
/// file are read, as `install` does.
///
/// Files that are not needed any more are removed if their first line says that this fleet has written them. Other files
/// stay. If a cluster does not answer, its extension and the files about links to it stay as they are.
///
/// Exit codes: 0 all files are as they should be, 1 a cluster was not read, or a link or an extension has an obstacle, 2
/// with --dry-run, files would change (or invalid usage).
#[derive(Debug, Args)]
pub struct FleetRenderArgs {
    #[command(flatten)]
    source: FleetSource,
    /// Folder for the files; it is created if needed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: PathBuf,
    /// For each Secret with credentials, write an ExternalSecret that reads them from the `SecretStore` with this name in its
    /// namespace. If the folder has ExternalSecrets, this flag or --no-secret-store is needed
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    secret_store: Option<String>,
    /// Remove the ExternalSecrets that --secret-store has written
    #[arg(long, conflicts_with = "secret_store")]
    no_secret_store: bool,
    /// Write the extension of each cluster too, with the values of the file. Without this flag, its files stay as they are;
    /// --extension=false removes them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    extension: Option<bool>,
    /// Print which files would change, and change none
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub async fn run(global: &Global, args: &FleetRenderArgs) -> anyhow::Result<ExitCode> {
    let loaded = args.source.load(global).await?;
    refuse_name(&loaded)?;
    let folder = FleetFolder::read(&args.output_dir, &loaded.fleet.name)?;
    if args.secret_store.is_none() && !args.no_secret_store {
        refuse_loss(&folder.own)?;
    }
    let with_extension = args.extension == Some(true);
    let all = global.access();
    let reading = read_for_render(&all, &loaded, with_extension, args.source.request_timeout);
    let RenderFacts { targets, installs } = spin("reading the clusters", reading).await;
    let extension = match args.extension {
        None => ExtensionFiles::Kept,
        Some(false) => ExtensionFiles::Removed,
        Some(true) => ExtensionFiles::Written(extensions(&loaded, installs)),
    };
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
        extension: &extension,
        existing: &folder.own,
    };
    let rendered = layout.render()?;
    for (target, remark) in &rendered.remarks {
        remark.say_of(&Terminal, &target.to_string());
    }
    output::warnings(&extension.warnings());
    output::warnings(&rendered.warnings());
    let changes = folder.changes(&rendered.files)?;
    if !args.dry_run {
        folder.apply(&changes, &rendered.files)?;
    }
    output::data(&text(&changes, rendered.files.len()))?;
    let is_pending = args.dry_run && changes.count() > 0;
    Ok(exit_code(rendered.has_problems(), is_pending))
}

/// Fails if there are ExternalSecrets, which would go because a flag was forgotten. A tool that prunes would delete them in
/// the clusters, and their Secrets with them, so that Linkerd would lose the target clusters.
pub fn refuse_loss(own: &FleetFiles) -> anyhow::Result<()> {
    match own.keys().find(|path| is_credentials(path)) {
        Some(path) => Err(fail(
            format!("{path} has ExternalSecrets, which would be removed without --secret-store"),
            "pass --secret-store with the name of the SecretStores, or --no-secret-store to remove them",
        )),
        None => Ok(()),
    }
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
