//! Tells the program which commit it was built from, for `--version` and the metric `linkerd_mc_build_info`.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Names the commit where the source comes without git, as in a container image's build.
const COMMIT: &str = "LINKERD_MC_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    for file in changes_with_the_commit(&folder) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let version = env!("CARGO_PKG_VERSION");
    let commit = commit(&folder, env::var(COMMIT).ok()).unwrap_or_default();
    let text = if commit.is_empty() {
        version.to_owned()
    } else {
        format!("{version} ({commit})")
    };
    println!("cargo::rustc-env=LINKERD_MC_VERSION={text}");
    println!("cargo::rustc-env=LINKERD_MC_BUILD_COMMIT={commit}");
}

/// The commit that the source in `folder` is of: what the build was told, else what git says of a clone or worktree
/// whose root `folder` is. `None` where neither knows.
pub(crate) fn commit(folder: &Path, told: Option<String>) -> Option<String> {
    let told = told.map(|text| text.trim().to_owned());
    if let Some(told) = told.filter(|text| !text.is_empty()) {
        return Some(told);
    }
    let root = PathBuf::from(git(folder, &["rev-parse", "--show-toplevel"])?);
    let same = root.canonicalize().ok()? == folder.canonicalize().ok()?;
    same.then(|| git(folder, &["rev-parse", "--short=12", "HEAD"]))?
}

/// Files of git of which one changes when HEAD does: HEAD itself, its log, the branch, and packed branches. In a
/// worktree they lie in two folders; git knows which.
fn changes_with_the_commit(folder: &Path) -> Vec<PathBuf> {
    let branch = git(folder, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    ["HEAD", "logs/HEAD", "packed-refs"]
        .map(str::to_owned)
        .into_iter()
        .chain(branch)
        .filter_map(|file| git(folder, &["rev-parse", "--git-path", &file]))
        .map(|path| folder.join(path))
        // A file that does not exist would have cargo run this script each time.
        .filter(|path| path.is_file())
        .collect()
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}
