//! Backups of etcd: they make a cluster that was restored from one.

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
    /// Copies the data of etcd, which is stopped meanwhile: for a moment, the API server is without it.
    pub async fn back_up(&self) -> anyhow::Result<Backup> {
        let mark = lock(&self.etcd).pid();
        let copy = self.folder().join(format!("{ETCD_DATA}-{mark}"));
        lock(&self.etcd).kill()?;
        copy_folder(&self.folder().join(ETCD_DATA), &copy)?;
        lock(&self.etcd).restart()?;
        self.wait_until_ready(Instant::now() + START_LIMIT).await?;
        Ok(Backup(copy))
    }

    /// Restores the data of etcd, restarts all servers, and waits until the API server is ready. The same resource versions
    /// are then given out a second time.
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
