//! The version of the running build, in the output of the program and in its metrics.

use std::{path::Path, process::Command};

use crate::support::{planes::hub, program::run};

#[expect(
    dead_code,
    clippy::print_stdout,
    reason = "its main is cargo's to call, and talks to it"
)]
#[path = "../../build.rs"]
mod build;

const SOURCE: &str = env!("CARGO_MANIFEST_DIR");

#[tokio::test(flavor = "multi_thread")]
async fn the_version_and_the_metrics_name_the_commit() {
    // The commit of this build; HEAD may have moved since.
    let commit = env!("LINKERD_MC_BUILD_COMMIT");
    let known = build::commit(Path::new(SOURCE), std::env::var("LINKERD_MC_COMMIT").ok());
    assert_eq!(commit.is_empty(), known.is_none());
    let version = env!("CARGO_PKG_VERSION");
    let expected = if commit.is_empty() {
        format!("linkerd-mc {version}\n")
    } else {
        format!("linkerd-mc {version} ({commit})\n")
    };
    let hub = hub().await;
    assert_eq!(run(hub.west.kubeconfig(), &["--version"]).data(), expected);
    let series = format!("linkerd_mc_build_info{{commit=\"{commit}\",version=\"{version}\"}}");
    assert_eq!(hub.controller.metric(&series).await.unwrap(), Some(1));
}

#[test]
fn the_commit_is_that_of_the_source_or_of_the_build_argument() {
    let folder = tempfile::tempdir().unwrap();
    let told = |text: &str| Some(text.to_owned());
    assert_eq!(build::commit(folder.path(), None), None);
    assert_eq!(build::commit(folder.path(), told(" ")), None);
    assert_eq!(build::commit(folder.path(), told("abc\n")), told("abc"));

    let git = |folder: &Path, args: &[&str]| {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
        let output = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(identity)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (clone, worktree) = (folder.path().join("clone"), folder.path().join("worktree"));
    std::fs::create_dir(&clone).unwrap();
    git(&clone, &["init", "--quiet"]);
    assert_eq!(build::commit(&clone, None), None);
    git(
        &clone,
        &["commit", "--quiet", "--allow-empty", "--message=one"],
    );
    let head = told(&git(&clone, &["rev-parse", "--short=12", "HEAD"]));
    assert_eq!(build::commit(&clone, None), head);
    assert_eq!(build::commit(&clone, told("abc")), told("abc"));
    // A worktree has a file instead of the folder .git.
    let path = worktree.to_str().unwrap();
    git(&clone, &["worktree", "add", "--quiet", path, "-b", "other"]);
    git(
        &worktree,
        &["commit", "--quiet", "--allow-empty", "--message=two"],
    );
    let other = told(&git(&worktree, &["rev-parse", "--short=12", "HEAD"]));
    assert_ne!(other, head);
    assert_eq!(build::commit(&worktree, None), other);
    // Source in a subfolder of another repository does not belong to that repository's commit.
    let inner = clone.join("vendor");
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(build::commit(&inner, None), None);
}
