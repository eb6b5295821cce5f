//! What the commands of a fleet share.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use hints::hint::{fail, misuse};
use links::{
    cluster_name::context_of,
    fleet::{
        loaded::{Consent, LoadedFleet},
        part::UsedClusters,
    },
};
use manifests::link::ClusterName;

use super::{complete, plugins::PluginFlags};
use crate::cli::common::{
    args::{self, Global},
    output,
};

/// Exit code if there is something to do, as for `plan`.
const PENDING: u8 = 2;

/// The exit code of what only shows what would be done. If something is not known or cannot be done, that is said first.
pub fn exit_code(has_problems: bool, is_pending: bool) -> ExitCode {
    if is_pending && !has_problems {
        ExitCode::from(PENDING)
    } else {
        output::exit_code(has_problems)
    }
}

/// The file, and how its clusters are read.
#[derive(Debug, Args)]
pub struct FleetSource {
    /// File with the fleet
    #[arg(short, long, value_name = "FILE", default_value = complete::FLEET_FILE, value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// How long to read each cluster
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = args::timeout)]
    pub request_timeout: Duration,
    #[command(flatten)]
    pub plugins: PluginFlags,
}

impl FleetSource {
    /// Reads the file, and what it does not name itself.
    pub async fn load(&self, global: &Global) -> anyhow::Result<LoadedFleet> {
        self.plugins.load(global, &self.file).await
    }

    /// What is read of one cluster, which may take as long as the flag says.
    pub async fn in_time<T>(
        &self,
        cluster: &ClusterName,
        reading: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let timeout = self.request_timeout;
        let read = tokio::time::timeout(timeout, reading).await;
        read.with_context(|| format!("{cluster} was not read within {timeout:?}"))?
    }
}

/// The clusters that may be used.
#[derive(Debug, Args)]
pub struct FleetOnly {
    /// Use only this cluster of the file, or this context. What remains for others is printed as commands. Can be repeated
    #[arg(long, value_name = "CLUSTER", add = ArgValueCompleter::new(complete::clusters))]
    pub only: Vec<String>,
    /// Use also this cluster, which is not in the file any more, by the context of its name: what the fleet has made there
    /// can be deleted too. Can be repeated
    #[arg(long, value_name = "CLUSTER", conflicts_with = "only", add = ArgValueCompleter::new(crate::cli::common::complete::contexts))]
    pub also: Vec<ClusterName>,
}

/// What is only done if the user says so.
#[derive(Debug, Args)]
pub struct FleetConsent {
    /// Delete what the fleet has made and the file does not name any more, with its mirrors. Refuses to delete more Links
    /// than this number
    #[arg(long, value_name = "LINKS", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    prune: Option<usize>,
    /// Give Links that others have made the settings of the file. Without it, only those that are as the file says are
    /// taken over
    #[arg(long)]
    take_over: bool,
    /// Accept that this cluster was built again, so that it is not the one that was linked under its name. Mirrors of
    /// Services that it does not export any more are deleted. Can be repeated
    #[arg(long, value_name = "CLUSTER", add = ArgValueCompleter::new(complete::clusters))]
    replace: Vec<ClusterName>,
}

/// An ID that no other file has.
pub fn new_id() -> String {
    format!("{:08x}", fastrand::u32(..))
}

impl FleetConsent {
    /// What the flags allow for this file.
    pub fn of(&self, loaded: &LoadedFleet) -> anyhow::Result<Consent> {
        for name in &self.replace {
            loaded.cluster(name)?;
        }
        if self.prune.is_some() && !loaded.fleet.has_id() {
            let (name, file) = (&loaded.fleet.name, &loaded.name);
            return Err(fail(
                format!(
                    "{file} has no id: --prune could delete links of another file with the name {name}"
                ),
                format!(
                    "add the line `id: {}`, and apply it with --take-over first",
                    new_id()
                ),
            ));
        }
        Ok(Consent {
            replaced: self.replace.iter().cloned().collect(),
            takes_over: self.take_over,
            prunes: self.prune,
        })
    }
}

impl FleetOnly {
    /// The clusters. One that has left the file is known by its context.
    pub fn used(&self, global: &Global, loaded: &LoadedFleet) -> anyhow::Result<UsedClusters> {
        if let (false, Some(line)) = (self.only.is_empty(), loaded.fleet.by_context) {
            let file = &loaded.name;
            return Err(misuse(
                format!("--only cannot be used with contexts (line {line} of {file})"),
                "which clusters they are depends on your kubeconfig, so give each an entry with name and context",
            ));
        }
        let contexts = global.access().kubeconfig();
        let contexts = contexts.map(|all| all.contexts).unwrap_or_default();
        let contexts = contexts.iter().map(|context| context.name.as_str());
        let has_context = |name: &ClusterName| context_of(&name.to_string(), contexts.clone());
        for name in &self.also {
            if has_context(name).is_err() {
                return Err(misuse(
                    format!("the kubeconfig has no context for {name}"),
                    "a context with the name of a cluster leads to it after it has left the file; rename one",
                ));
            }
        }
        let used = UsedClusters::named(loaded, &self.only, |name| has_context(name).is_ok())?;
        Ok(used.also(self.also.iter().cloned()))
    }
}
