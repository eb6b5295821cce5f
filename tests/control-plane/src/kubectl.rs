//! The real kubectl, run against a control plane and nothing else.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::plane::ControlPlane;

const KUBECTL_LIMIT: Duration = Duration::from_secs(180);

impl ControlPlane {
    /// Where kubectl is, for scripts that run it by themselves.
    pub fn kubectl_program(&self) -> PathBuf {
        self.assets.program("kubectl")
    }

    /// What kubectl prints for these arguments. If it fails, the error has what it said on its standard error.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl_stdin(arguments, "").await
    }

    /// Applies objects, as YAML or JSON; what kubectl prints.
    pub async fn apply(&self, objects: &str) -> anyhow::Result<String> {
        self.kubectl_stdin(&["apply", "-f", "-"], objects).await
    }

    /// Like [`Self::kubectl`], with `input` on its standard input: `kubectl_stdin(&["delete", "-f", "-"], yaml)`.
    pub async fn kubectl_stdin(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = Command::new(self.assets.program("kubectl"))
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.folder())
            .env("GOGC", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("failed to start kubectl")?;
        let stdin = child.stdin.take();
        let feed = async {
            // kubectl may end without reading it.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ended = timeout(KUBECTL_LIMIT, async {
            tokio::join!(feed, child.wait_with_output()).1
        })
        .await;
        let command = || format!("kubectl {}", arguments.join(" "));
        let output = ended
            .with_context(|| format!("{} did not end within {KUBECTL_LIMIT:?}", command()))??;
        if output.status.success() {
            Ok(String::from_utf8(output.stdout)?)
        } else {
            Err(anyhow!(
                "{} failed: {}",
                command(),
                String::from_utf8_lossy(&output.stderr).trim()
            ))
        }
    }
}
