//! The real Helm.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;

use crate::kept::{cache, kept};
use crate::{go, tell};

const PROGRAM: &str = "helm";
const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";
/// Without these, Helm assumes Kubernetes 1.20 unless it asks a cluster.
const LINKER_FLAGS: &str = "-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
                            -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36";
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/helm");
const GO_MOD: &str = include_str!("../helm/go.mod");
const GO_SUM: &str = include_str!("../helm/go.sum");

/// The path of the kept build, made now if there is none yet.
///
/// A build takes minutes, so call this where blocking is fine.
pub fn helm() -> anyhow::Result<PathBuf> {
    let folder = kept(
        &cache(PROGRAM)?,
        &go::fingerprint((GO_MOD, GO_SUM, LINKER_FLAGS)),
        go::version("go", Path::new(MODULE), GO_MOD),
        build,
    )?;
    Ok(folder.join(PROGRAM))
}

fn build(folder: &Path) -> anyhow::Result<()> {
    tell("building Helm with Go, once; this takes about a minute if Kubernetes has been built");
    let start = Instant::now();
    let program = folder.join(PROGRAM);
    go::build(Path::new(MODULE), &[], PACKAGE, LINKER_FLAGS, &program)?;
    fs::metadata(program).context("go build has made no helm")?;
    tell(&format!("built Helm in {} s", start.elapsed().as_secs()));
    Ok(())
}
