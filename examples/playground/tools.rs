//! The two programs that the playground uses: the real kubectl, and linkerd-mc, which is this program under another
//! name.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Output, Stdio},
};

use anyhow::{Context as _, bail};
use control_plane::{Assets, ControlPlane};
use tokio::{process::Command, try_join};

use crate::clusters::Clusters;

/// If this program is called by this name, it behaves like linkerd-mc.
pub(crate) const LINKERD_MC: &str = "linkerd-mc";
const KUBECTL: &str = "kubectl";

/// A folder with the programs and with a kubeconfig, which has a context for each cluster. It is removed together with
/// the control plane of `west`.
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Fills the folder.
    pub(crate) fn new(clusters: &Clusters) -> anyhow::Result<Self> {
        let tools = Self {
            folder: clusters.west().folder().join("playground"),
        };
        let write = || -> anyhow::Result<()> {
            fs::create_dir_all(tools.programs())?;
            symlink(Assets::locate()?.program(KUBECTL), tools.program(KUBECTL))?;
            symlink(env::current_exe()?, tools.program(LINKERD_MC))?;
            ControlPlane::merged_kubeconfig(&clusters.all(), &tools.kubeconfig())
        };
        write().context("failed to fill the playground's folder")?;
        Ok(tools)
    }

    /// The kubeconfig, with the contexts `west` (the current one), `east` and `north`.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The folder to put on the `PATH`.
    pub(crate) fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    pub(crate) fn controller_log(&self) -> PathBuf {
        self.folder.join("controller.log")
    }

    /// `linkerd-mc --context CONTEXT ARGUMENTS | kubectl --context TO apply -f -`
    pub(crate) async fn apply(
        &self,
        context: &str,
        arguments: &[&str],
        to: &str,
    ) -> anyhow::Result<()> {
        let mut printing = self
            .linkerd_mc(context)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start linkerd-mc")?;
        let pipe = printing.stdout.take().context("linkerd-mc has no stdout")?;
        let applying = self.kubectl_apply(to, pipe.try_into()?)?;
        let (printed, applied) =
            try_join!(printing.wait_with_output(), applying.wait_with_output())?;
        require(
            &format!("linkerd-mc --context {context} {}", arguments.join(" ")),
            &printed,
        )?;
        require(&format!("kubectl --context {to} apply -f -"), &applied)
    }

    /// `kubectl --context TO apply -f - <FILE`, where FILE is put into the folder first.
    pub(crate) async fn apply_text(&self, to: &str, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
        let applying = self.kubectl_apply(to, fs::File::open(path)?.into())?;
        require(
            &format!("kubectl --context {to} apply -f {file}"),
            &applying.wait_with_output().await?,
        )
    }

    /// linkerd-mc, with the flags and the environment that all its commands need.
    pub(crate) fn linkerd_mc(&self, context: &str) -> Command {
        self.command(LINKERD_MC, context)
    }

    fn kubectl_apply(&self, context: &str, input: Stdio) -> anyhow::Result<tokio::process::Child> {
        self.command(KUBECTL, context)
            .args(["apply", "-f", "-"])
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start kubectl")
    }

    fn command(&self, program: &str, context: &str) -> Command {
        let mut command = Command::new(self.program(program));
        command
            .args(["--context", context])
            .env("KUBECONFIG", self.kubeconfig())
            // A cache of its own, because the clusters exist only for minutes.
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .kill_on_drop(true);
        // The API servers listen on loopback, which an HTTP proxy cannot reach.
        for proxy in [
            "HTTPS_PROXY",
            "https_proxy",
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
            "all_proxy",
        ] {
            command.env_remove(proxy);
        }
        command
    }

    fn program(&self, name: &str) -> PathBuf {
        self.programs().join(name)
    }
}

fn require(command: &str, output: &Output) -> anyhow::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("`{command}` failed: {}", said.trim())
}
