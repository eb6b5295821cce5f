//! The real Helm, with a home of its own, against control planes.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use tempfile::TempDir;

use crate::plane::ControlPlane;

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
        Ok(Self {
            program: programs::helm()?,
            home: TempDir::new().context("failed to create a home for Helm")?,
        })
    }

    /// What Helm prints for these arguments, without a cluster. If it fails, the error has all that it said.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> anyhow::Result<String> {
        self.ask(arguments, Path::new("/dev/null"))
    }

    /// Like [`Self::run`], with the cluster of a control plane.
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
