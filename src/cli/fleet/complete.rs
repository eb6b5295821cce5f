//! Offers the clusters and links of the file for completion, if a file is typed already and can be read.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap_complete::CompletionCandidate;
use links::fleet::loaded::{LoadedFleet, load_offline};
use mirror_core::api::labels::LINKERD_NAMESPACE;

use crate::cli::common::{
    args::Global,
    complete::{self, offer, typed_value},
};

/// The file of a fleet, if none is named.
pub const FLEET_FILE: &str = "fleet.yaml";

/// Offers the clusters of the file, or without one the target clusters of Links.
pub fn clusters_or_targets(current: &OsStr) -> Vec<CompletionCandidate> {
    match typed_value(&["--file", "-f"]) {
        Some(_) => clusters(current),
        None => complete::clusters(current),
    }
}

/// Offers the clusters of the file.
pub fn clusters(current: &OsStr) -> Vec<CompletionCandidate> {
    let names = |loaded: LoadedFleet| {
        let clusters = loaded.fleet.clusters.iter();
        clusters.map(|cluster| cluster.name.to_string()).collect()
    };
    offer(current, typed().map(names).unwrap_or_default())
}

/// Offers what `rotate` takes: clusters, and links of the file as `SOURCE/TARGET`.
pub fn rotated(current: &OsStr) -> Vec<CompletionCandidate> {
    let links = |loaded: LoadedFleet| {
        let links = loaded.fleet.links.keys();
        let links = links.map(|ends| format!("{}/{}", ends.source, ends.target));
        links.collect()
    };
    let mut offered = clusters_or_targets(current);
    offered.extend(offer(current, typed().map(links).unwrap_or_default()));
    offered
}

/// The file of the words typed so far.
fn typed() -> Option<LoadedFleet> {
    let file = typed_value(&["--file", "-f"]).unwrap_or_else(|| FLEET_FILE.to_owned());
    let global = Global {
        kubeconfig: typed_value(&["--kubeconfig"]).map(PathBuf::from),
        linkerd_namespace: LINKERD_NAMESPACE.to_owned(),
        ..Global::default()
    };
    load_offline(&global.access(), global.linkerd_flag(), Path::new(&file)).ok()
}
