//! The folder of one control plane: certificates, data, logs. Removed with the control plane, by its supervisors when
//! this process was killed, and by a later start when they were killed too.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;

const PREFIX: &str = "linkerd-mc-control-plane-";
const LOCK: &str = "lock";
/// Age up to which a folder that nobody has locked is kept: its owner may be about to lock it.
const GRACE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Folder {
    path: TempDir,
    /// Held as long as this process lives: it tells a folder in use from one that was left behind.
    _lock: File,
}

impl Folder {
    pub(crate) fn create() -> anyhow::Result<Self> {
        sweep(&std::env::temp_dir());
        let path = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir()
            .context("failed to create a temporary folder")?;
        let lock = File::create(path.path().join(LOCK)).context("failed to create a lock file")?;
        lock.lock().context("failed to lock a temporary folder")?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.path.path()
    }
}

/// Removes what control planes have left behind whose processes were all killed. Never fails: it is only tidying up.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    let aged = |path: &Path| {
        let changed = fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok();
        changed
            .and_then(|changed| changed.elapsed().ok())
            .is_some_and(|age| age > GRACE)
    };
    match File::open(folder.join(LOCK)) {
        Ok(lock) => aged(&folder.join(LOCK)) && lock.try_lock().is_ok(),
        Err(_) => aged(folder),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn sweep_removes_old_folders_that_nobody_holds() {
        let parent = tempfile::tempdir().unwrap();
        let old = SystemTime::UNIX_EPOCH;
        let make = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            let lock = File::create(folder.join(LOCK)).unwrap();
            lock.set_modified(old).unwrap();
            lock
        };
        let held = make(&format!("{PREFIX}held"));
        held.lock().unwrap();
        drop(make(&format!("{PREFIX}left")));
        make(&format!("{PREFIX}new"))
            .set_modified(old + Duration::from_secs(1 << 34))
            .unwrap();
        drop(make("something-else"));
        sweep(parent.path());
        let mut names: Vec<_> = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                format!("{PREFIX}held"),
                format!("{PREFIX}new"),
                String::from("something-else")
            ]
            .map(Into::<std::ffi::OsString>::into)
        );
    }
}
