//! Shell scripts, as users type them, while the rig does what Kubernetes does about the objects that they change.

use std::{path::Path, process::Command, time::Duration};

use anyhow::Context as _;
use control_plane::ControlPlane;
use tokio::{task::spawn_blocking, time::interval};

use super::{Rig, process::pipe};

/// A shell script with the contexts `west` and `east`.
pub(super) struct Script {
    command: Command,
    text: String,
}

impl Script {
    /// A script, which does not run yet.
    pub(super) fn new(rig: &Rig, text: &str) -> anyhow::Result<Self> {
        Ok(Self {
            command: shell(rig, text)?,
            text: text.to_owned(),
        })
    }

    /// Runs it, and returns its output. Meanwhile it calls `follow` again and again.
    pub(super) async fn run_while(
        self,
        period: Duration,
        mut follow: impl AsyncFnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        let Self { mut command, text } = self;
        let mut done = spawn_blocking(move || pipe(&mut command, ""));
        let mut looks = interval(period);
        loop {
            tokio::select! {
                output = &mut done => return output?.with_context(|| format!("failed to run:\n{text}")),
                _ = looks.tick() => follow().await?,
            }
        }
    }
}

/// A shell with kubectl, `linkerd` and `linkerd-mc`.
fn shell(rig: &Rig, script: &str) -> anyhow::Result<Command> {
    let place = &rig.west.place;
    let kubeconfig = place.home.join("contexts");
    ControlPlane::merged_kubeconfig(&[&rig.west.plane, &rig.east.plane], &kubeconfig)?;
    let kubectl = rig.west.plane.kubectl_program();
    let ours = Path::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    let system = std::env::var_os("PATH").unwrap_or_default();
    let folders = [kubectl.parent(), ours.parent(), Some(&place.programs)]
        .into_iter()
        .flatten()
        .map(Path::to_path_buf)
        .chain(std::env::split_paths(&system));
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", script])
        .env("PATH", std::env::join_paths(folders)?)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", &place.home)
        .current_dir(&place.home);
    Ok(command)
}
