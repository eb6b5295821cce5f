//! Where the binaries of a control plane come from: a folder that the user names, or a build that is kept.

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::go;
use crate::release::Release;

const PROGRAMS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
];
const MULTI_CALL: &str = "multi-call";
const PARTIAL: &str = "partial-";

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const MAIN_GO: &str = include_str!("../go/main.go");

/// A folder that holds `etcd`, `kube-apiserver`, `kube-controller-manager` and `kubectl`.
#[derive(Clone, Debug)]
pub struct Assets {
    folder: PathBuf,
}

impl Assets {
    /// The folder that `KUBEBUILDER_ASSETS` names; else the kept build of the release that `LINKERD_MC_KUBERNETES`
    /// names (`oldest` or `newest`, the default), made now if there is none yet.
    ///
    /// A build takes minutes, so call this where blocking is fine. It is kept in `.cache/control-plane` of the
    /// workspace, or in `$LINKERD_MC_CACHE/control-plane`; processes that need it at the same time wait for one build.
    pub fn locate() -> anyhow::Result<Self> {
        if let Some(folder) = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty())
        {
            return Self::given(folder.into());
        }
        let release = Release::chosen()?;
        let (version, flags) = (release.version()?, release.linker_flags()?);
        Self::kept(
            &cache()?.join("control-plane"),
            &format!("{version}-{:016x}", fingerprint(release, &flags)),
            |folder| build(folder, release, version, &flags),
        )
    }

    /// The path of one of the programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn given(folder: PathBuf) -> anyhow::Result<Self> {
        let missing: Vec<&str> = PROGRAMS
            .into_iter()
            .filter(|name| !folder.join(name).is_file())
            .collect();
        if !missing.is_empty() {
            bail!(
                "KUBEBUILDER_ASSETS is {}, which has no {}",
                folder.display(),
                missing.join(", no ")
            );
        }
        Ok(Self { folder })
    }

    /// `cache/key`, filled by `build` if it is not there. A folder by that name is always complete: it is filled under
    /// another name first.
    pub(crate) fn kept(
        cache: &Path,
        key: &str,
        build: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let folder = cache.join(key);
        if folder.is_dir() {
            return Ok(Self { folder });
        }
        fs::create_dir_all(cache)
            .with_context(|| format!("failed to create {}", cache.display()))?;
        let lock = File::create(cache.join("lock"))
            .context("failed to create the lock file of the build")?;
        if lock.try_lock().is_err() {
            tell("waiting for another process that builds the same");
            lock.lock()
                .context("failed to wait for another process that builds the same")?;
        }
        if !folder.is_dir() {
            remove_partial(cache);
            let partial = tempfile::Builder::new().prefix(PARTIAL).tempdir_in(cache)?;
            build(partial.path())?;
            fs::rename(partial.keep(), &folder).context("failed to put the build in its place")?;
        }
        Ok(Self { folder })
    }
}

/// Where builds are kept: `$LINKERD_MC_CACHE`, or `.cache` of the workspace.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    if let Some(folder) = env::var_os("LINKERD_MC_CACHE").filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let workspace = Path::new(WORKSPACE).canonicalize();
    Ok(workspace.context("the workspace has moved")?.join(".cache"))
}

fn build(folder: &Path, release: &Release, version: &str, flags: &str) -> anyhow::Result<()> {
    let module = Path::new(MODULE);
    go::require("go", module, release.modules)?;
    tell(&format!(
        "building etcd and Kubernetes {version} with Go, once; this takes 5 to 8 minutes on 2 cores"
    ));
    let start = Instant::now();
    let program = folder.join(MULTI_CALL);
    go::build(module, release.arguments, ".", flags, &program)?;
    for name in PROGRAMS {
        symlink(MULTI_CALL, folder.join(name))
            .with_context(|| format!("failed to create {name}"))?;
    }
    tell(&format!(
        "built Kubernetes in {} s",
        start.elapsed().as_secs()
    ));
    Ok(())
}

/// Removes what a build that was killed has left. Only for the holder of the lock.
fn remove_partial(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Changes with whatever the build is made of.
fn fingerprint(release: &Release, linker_flags: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        release.modules,
        release.sums,
        MAIN_GO,
        linker_flags,
        env::consts::OS,
        env::consts::ARCH,
    )
        .hash(&mut hasher);
    hasher.finish()
}

/// A line for the person who waits. Written to the stream itself, because what goes through `eprintln!` is held back
/// until a test has ended.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "control-plane: {line}");
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn names_what_a_given_folder_lacks() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etcd", "kubectl"] {
            File::create(folder.path().join(name)).unwrap();
        }
        let error = Assets::given(folder.path().into()).unwrap_err().to_string();
        assert!(
            error.ends_with("which has no kube-apiserver, no kube-controller-manager"),
            "{error}"
        );
    }

    #[test]
    fn builds_once_however_many_ask() {
        let cache = tempfile::tempdir().unwrap();
        let builds = AtomicU32::new(0);
        let ask = || {
            let assets = Assets::kept(cache.path(), "key", |folder| {
                builds.fetch_add(1, Ordering::SeqCst);
                fs::write(folder.join("etcd"), "x").map_err(Into::into)
            });
            assert!(assets.unwrap().program("etcd").is_file());
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(ask))));
        assert_eq!(builds.into_inner(), 1);
    }

    #[test]
    fn failed_build_leaves_no_files() {
        let cache = tempfile::tempdir().unwrap();
        let failed = Assets::kept(cache.path(), "key", |folder| {
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
