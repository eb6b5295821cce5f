//! What etcd holds, kept and brought back: what a cluster is like that was restored from a backup.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use tokio::time::Instant;

use super::{ControlPlane, START_LIMIT, lock};
use crate::servers::ETCD_DATA;

/// What the etcd of a control plane held at one time. Removed with the control plane.
#[derive(Debug)]
pub struct Backup(PathBuf);

impl ControlPlane {
    /// Keeps what etcd holds now. Meanwhile the API server is without it, for a moment; then it goes on.
    pub async fn back_up(&self) -> anyhow::Result<Backup> {
        let mark = lock(&self.etcd).pid();
        let copy = self.folder().join(format!("{ETCD_DATA}-{mark}"));
        lock(&self.etcd).kill()?;
        copy_folder(&self.folder().join(ETCD_DATA), &copy)?;
        lock(&self.etcd).restart()?;
        self.wait_until_ready(Instant::now() + START_LIMIT).await?;
        Ok(Backup(copy))
    }

    /// Puts etcd back to what it held then, starts all servers anew, and waits until the API server is ready. Versions of
    /// objects are given out a second time.
    pub async fn restore(&self, backup: &Backup) -> anyhow::Result<()> {
        lock(&self.controller_manager).kill()?;
        lock(&self.api_server).kill()?;
        lock(&self.etcd).kill()?;
        let data = self.folder().join(ETCD_DATA);
        std::fs::remove_dir_all(&data).context("failed to remove the data of etcd")?;
        copy_folder(&backup.0, &data)?;
        lock(&self.etcd).restart()?;
        self.restart_api_server().await?;
        lock(&self.controller_manager).restart()
    }
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").arg("-R").args([from, to]).status();
    let status = copied.context("failed to run cp")?;
    ensure!(status.success(), "failed to copy the data of etcd");
    Ok(())
}
