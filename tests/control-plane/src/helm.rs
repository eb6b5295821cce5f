//! The real Helm, built once with Go and kept, like the programs of a control plane.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context as _, anyhow};
use tempfile::TempDir;

use crate::assets::{Assets, cache, tell};
use crate::go;
use crate::plane::ControlPlane;

const PROGRAM: &str = "helm";
const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";
/// Without these, it takes clusters for those of Kubernetes 1.20 as long as it does not ask one.
const LINKER_FLAGS: &str = "-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
                            -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36";
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/helm");
const GO_MOD: &str = include_str!("../helm/go.mod");
const GO_SUM: &str = include_str!("../helm/go.sum");

/// Helm, with a home of its own.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    home: TempDir,
}

impl Helm {
    /// The kept build, made now if there is none yet.
    ///
    /// A build takes minutes, so call this where blocking is fine.
    pub fn locate() -> anyhow::Result<Self> {
        let kept = Assets::kept(
            &cache()?.join(PROGRAM),
            &go::fingerprint((GO_MOD, GO_SUM, LINKER_FLAGS)),
            go::version("go", Path::new(MODULE), GO_MOD),
            build,
        )?;
        Ok(Self {
            program: kept.program(PROGRAM),
            home: TempDir::new().context("failed to create a home for Helm")?,
        })
    }

    /// What Helm prints for these arguments, without a cluster. If it fails, the error has all that it said.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> anyhow::Result<String> {
        self.ask(arguments, Path::new("/dev/null"))
    }

    /// The same, with the cluster of a control plane.
    pub fn run_in<A: AsRef<OsStr>>(
        &self,
        plane: &ControlPlane,
        arguments: &[A],
    ) -> anyhow::Result<String> {
        self.ask(arguments, plane.kubeconfig())
    }

    fn ask<A: AsRef<OsStr>>(&self, arguments: &[A], kubeconfig: &Path) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("HELM_") {
                command.env_remove(name);
            }
        }
        let output = command
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", self.home.path())
            .env("GOGC", "off")
            .stdin(Stdio::null())
            .output()
            .context("failed to start helm")?;
        let said = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        if output.status.success() {
            Ok(said(&output.stdout))
        } else {
            let given: Vec<_> = arguments
                .iter()
                .map(|a| a.as_ref().to_string_lossy())
                .collect();
            Err(anyhow!(
                "helm {} failed: {}{}",
                given.join(" "),
                said(&output.stdout),
                said(&output.stderr).trim()
            ))
        }
    }
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
