//! Where the binaries of a control plane come from: a folder that the user names, or a build that is kept.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::go::{self, GoVersion};
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
const SOURCES: [&str; 3] = [
    include_str!("../go/main.go"),
    include_str!("../go/controllers.go"),
    include_str!("../go/controllers_oldest.go"),
];

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
    /// Another Go makes another build. Without a Go that could make one, that of any Go will do.
    pub fn locate() -> anyhow::Result<Self> {
        if let Some(folder) = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty())
        {
            return Self::given(folder.into());
        }
        let release = Release::chosen()?;
        let (version, flags) = (release.version()?, release.linker_flags()?);
        let made_of = (
            release.modules,
            release.sums,
            SOURCES,
            release.arguments,
            &flags,
        );
        Self::kept(
            &cache()?.join("control-plane"),
            &format!("{version}-{}", go::fingerprint(made_of)),
            go::version("go", Path::new(MODULE), release.modules),
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

    /// The folder of `cache` for this key and this Go, filled by `build` if it is not there. If there is no `go` that
    /// could fill it, the one that the newest Go has filled. A folder by such a name is always complete: it is filled
    /// under another name first.
    pub(crate) fn kept(
        cache: &Path,
        key: &str,
        go: anyhow::Result<String>,
        build: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let folder = match go {
            Ok(go) => cache.join(folder_name(key, &go)),
            Err(error) => newest(cache, key).ok_or(error)?,
        };
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
    tell(&format!(
        "building etcd and Kubernetes {version} with Go, once; this takes 5 to 8 minutes on 2 cores"
    ));
    let start = Instant::now();
    let program = folder.join(MULTI_CALL);
    go::build(Path::new(MODULE), release.arguments, ".", flags, &program)?;
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

/// Removes what a build that was killed has left. Only for the holder of the lock.
fn remove_partial(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
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

    const GO: &str = "go1.26.8";

    /// A build that each Go made in turn.
    fn built_by(gos: &[&str]) -> tempfile::TempDir {
        let cache = tempfile::tempdir().unwrap();
        for go in gos {
            Assets::kept(cache.path(), "key", Ok((*go).into()), |folder| {
                fs::write(folder.join("etcd"), go).map_err(Into::into)
            })
            .unwrap();
        }
        cache
    }

    fn ask(cache: &Path, key: &str, go: anyhow::Result<String>) -> anyhow::Result<String> {
        let assets = Assets::kept(cache, key, go, |_| bail!("built"))?;
        Ok(fs::read_to_string(assets.program("etcd"))?)
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
            let assets = Assets::kept(cache.path(), "key", Ok(GO.into()), |folder| {
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
        let failed = Assets::kept(cache.path(), "key", Ok(GO.into()), |folder| {
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
