//! Where the binaries of a control plane come from: a folder that the user names, or a build that is kept.

use std::env;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::kept::{cache, kept};
use crate::release::Release;
use crate::{go, tell};

const SERVERS: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];
/// The multi-call binary with all servers.
const MULTI_CALL: &str = "servers";
const KUBECTL: &str = "kubectl";

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");
const SOURCES: [&str; 4] = [
    include_str!("../go/kubectl/main.go"),
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
        let folder = kept(
            &cache("control-plane")?,
            &format!("{version}-{}", go::fingerprint(made_of)),
            go::version("go", Path::new(MODULE), release.modules),
            |folder| build(folder, release, version, &flags),
        )?;
        Ok(Self { folder })
    }

    /// The path of one of the programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn given(folder: PathBuf) -> anyhow::Result<Self> {
        let missing: Vec<&str> = SERVERS
            .into_iter()
            .chain([KUBECTL])
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
}

fn build(folder: &Path, release: &Release, version: &str, flags: &str) -> anyhow::Result<()> {
    tell(&format!(
        "building etcd and Kubernetes {version} with Go, once; this takes 3 to 8 minutes on 2 cores"
    ));
    let start = Instant::now();
    for (package, program) in [(".", MULTI_CALL), ("./kubectl", KUBECTL)] {
        let program = folder.join(program);
        go::build(
            Path::new(MODULE),
            release.arguments,
            package,
            flags,
            &program,
        )?;
    }
    for name in SERVERS {
        symlink(MULTI_CALL, folder.join(name))
            .with_context(|| format!("failed to create {name}"))?;
    }
    tell(&format!(
        "built Kubernetes in {} s",
        start.elapsed().as_secs()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

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
}
