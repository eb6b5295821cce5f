//! Builds that are kept: where, under which names, and that each is made once.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::go::GoVersion;
use crate::tell;

/// A build that is under way, or was killed.
const PARTIAL: &str = "partial";

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where builds of this name are kept: in `$LINKERD_MC_CACHE`, or in `.cache` of the workspace.
pub(crate) fn cache(name: &str) -> anyhow::Result<PathBuf> {
    if let Some(folder) = env::var_os("LINKERD_MC_CACHE").filter(|folder| !folder.is_empty()) {
        return Ok(Path::new(&folder).join(name));
    }
    let workspace = Path::new(WORKSPACE).canonicalize();
    let workspace = workspace.context("the workspace has moved")?;
    Ok(workspace.join(".cache").join(name))
}

/// The folder of `cache` for this key and this Go, filled by `build` if it is not there. If there is no `go` that could
/// fill it, the one that the newest Go has filled. A folder by such a name is always complete: it is filled under
/// another name first.
pub(crate) fn kept(
    cache: &Path,
    key: &str,
    go: anyhow::Result<String>,
    build: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let folder = match go {
        Ok(go) => cache.join(folder_name(key, &go)),
        Err(error) => newest(cache, key).ok_or(error)?,
    };
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(cache).with_context(|| format!("failed to create {}", cache.display()))?;
    let lock =
        File::create(cache.join("lock")).context("failed to create the lock file of the build")?;
    if lock.try_lock().is_err() {
        tell("waiting for another process that builds the same");
        lock.lock()
            .context("failed to wait for another process that builds the same")?;
    }
    if !folder.is_dir() {
        let partial = cache.join(PARTIAL);
        remove(&partial)?;
        fs::create_dir(&partial).context("failed to create a folder for the build")?;
        if let Err(error) = build(&partial) {
            remove(&partial)?;
            return Err(error);
        }
        fs::rename(partial, &folder).context("failed to put the build in its place")?;
    }
    Ok(folder)
}

/// Versions of Go may have spaces, such as `go1.26.1-custom X:nogreenteagc`.
fn folder_name(key: &str, go: &str) -> String {
    format!("{key}-{}", go.replace(['/', ' '], "_"))
}

/// The folder of this key that the newest Go has filled.
fn newest(cache: &Path, key: &str) -> Option<PathBuf> {
    let prefix = folder_name(key, "");
    let mut found = Vec::new();
    for entry in fs::read_dir(cache).ok()?.flatten() {
        if let Some(go) = entry.file_name().to_string_lossy().strip_prefix(&prefix) {
            found.push((GoVersion::parse(go), entry.path()));
        }
    }
    found.into_iter().max().map(|(_, folder)| folder)
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("failed to remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use anyhow::bail;

    use super::*;

    const GO: &str = "go1.26.8";

    /// A build that each Go made in turn.
    fn built_by(gos: &[&str]) -> tempfile::TempDir {
        let cache = tempfile::tempdir().unwrap();
        for go in gos {
            kept(cache.path(), "key", Ok((*go).into()), |folder| {
                fs::write(folder.join("etcd"), go).map_err(Into::into)
            })
            .unwrap();
        }
        cache
    }

    fn ask(cache: &Path, key: &str, go: anyhow::Result<String>) -> anyhow::Result<String> {
        let folder = kept(cache, key, go, |_| bail!("built"))?;
        Ok(fs::read_to_string(folder.join("etcd"))?)
    }

    #[test]
    fn each_go_has_a_build_of_its_own() {
        let cache = built_by(&["go1.26.8", "go1.27.0 X:custom"]);
        for go in ["go1.26.8", "go1.27.0 X:custom"] {
            assert_eq!(ask(cache.path(), "key", Ok(go.into())).unwrap(), go);
        }
        let error = ask(cache.path(), "key", Ok("go1.26.9".into())).unwrap_err();
        assert_eq!(error.to_string(), "built");
    }

    #[test]
    fn without_go_that_of_the_newest_is_used() {
        let missing = || Err(anyhow::anyhow!("Go is not installed"));
        let cache = built_by(&["go1.26.9", "go1.26.10", "go1.9.7"]);
        assert_eq!(ask(cache.path(), "key", missing()).unwrap(), "go1.26.10");
        for key in ["ke", "other"] {
            let error = ask(cache.path(), key, missing()).unwrap_err();
            assert_eq!(error.to_string(), "Go is not installed");
        }
    }

    #[test]
    fn builds_once_however_many_ask() {
        let cache = tempfile::tempdir().unwrap();
        let builds = AtomicU32::new(0);
        let ask = || {
            let folder = kept(cache.path(), "key", Ok(GO.into()), |folder| {
                builds.fetch_add(1, Ordering::SeqCst);
                fs::write(folder.join("etcd"), "x").map_err(Into::into)
            });
            assert!(folder.unwrap().join("etcd").is_file());
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(ask))));
        assert_eq!(builds.into_inner(), 1);
    }

    #[test]
    fn build_that_was_killed_is_made_again() {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir(cache.path().join(PARTIAL)).unwrap();
        fs::write(cache.path().join(PARTIAL).join("half"), "x").unwrap();
        let folder = kept(cache.path(), "key", Ok(GO.into()), |_| Ok(())).unwrap();
        assert!(fs::read_dir(folder).unwrap().next().is_none());
    }

    #[test]
    fn failed_build_leaves_no_files() {
        let cache = tempfile::tempdir().unwrap();
        let failed = kept(cache.path(), "key", Ok(GO.into()), |folder| {
            fs::write(folder.join("etcd"), "half")?;
            bail!("no space left")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no space left");
        let left: Vec<_> = fs::read_dir(cache.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["lock"]);
    }
}
