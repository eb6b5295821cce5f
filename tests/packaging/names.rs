//! The names under which the program is installed, as a plugin of kubectl and as an extension of Linkerd. What the kubectl
//! of the control planes makes of it is in `tests/it`.

use std::{os::unix::fs::symlink, process::Command};

use crate::{said, succeed};

/// The program under another name, in an empty environment.
fn named(name: &str, args: &[&str]) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    symlink(env!("CARGO_BIN_EXE_linkerd-mc"), &program).unwrap();
    let mut command = Command::new(program);
    command.args(args).env_clear();
    (folder, command)
}

fn help(name: &str, args: &[&str]) -> String {
    let (_folder, mut command) = named(name, &[args, &["--help"]].concat());
    succeed(&mut command)
}

#[test]
fn plugin_of_kubectl_shows_what_people_type() {
    let name = "kubectl-linkerd_mc";
    assert!(help(name, &[]).contains("Usage: kubectl linkerd-mc [OPTIONS] <COMMAND>"));
    let plan = help(name, &["plan"]);
    assert!(
        plan.contains("Usage: kubectl linkerd-mc plan [OPTIONS]"),
        "{plan}"
    );
    assert!(
        plan.contains("\n  kubectl linkerd-mc --context west plan east\n"),
        "{plan}"
    );
    assert!(
        plan.contains("\n    | kubectl linkerd-mc --context west plan --link-file -\n"),
        "{plan}"
    );

    let (_folder, mut command) = named(name, &["drain"]);
    let wrong = command.output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        said(&wrong).contains("Usage: kubectl linkerd-mc drain "),
        "{}",
        said(&wrong)
    );

    // A hint is a command to copy.
    let (folder, mut command) = named(name, &["status"]);
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, crate::NOBODY).unwrap();
    let failed = command.env("KUBECONFIG", &kubeconfig).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        said(&failed).contains("`kubectl linkerd-mc --context x check` shows details"),
        "{}",
        said(&failed)
    );
}

#[test]
fn version_manual_and_completions_are_those_of_the_program_under_each_name() {
    for args in [
        &["--version"] as &[&str],
        &["man"],
        &["completions", "bash"],
    ] {
        let (_folder, mut own) = named("linkerd-mc", args);
        let own = succeed(&mut own);
        assert!(own.contains("linkerd-mc"), "{own}");
        for name in ["kubectl-linkerd_mc", "linkerd-multicluster"] {
            let (_folder, mut other) = named(name, args);
            assert_eq!(succeed(&mut other), own, "{name} {args:?}");
        }
    }
}

#[test]
fn extension_of_linkerd_answers_with_its_name_and_shows_it() {
    let name = "linkerd-multicluster";
    let (_folder, mut command) = named(name, &["_extension-metadata"]);
    assert_eq!(succeed(&mut command), format!("{{\"name\":\"{name}\"}}\n"));
    assert!(help(name, &["check"]).contains("Usage: linkerd-multicluster check [OPTIONS]"));
}
