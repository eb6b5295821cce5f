//! Holds what is shipped: packages that install and run, templates that a release fills in, workflows that call what there
//! is, and the exit codes that pipelines rely on. No cluster is needed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

// The Helm chart renders what `install` prints.
mod chart;
// What the completion script of bash completes.
mod completions;
// The exit codes in docs/ci.md are those of the program.
mod exit_codes;
// Linkerd's programs for `just mesh`, taken out of images.
mod linkerd_programs;
// The program under other names, as a plugin and as an extension.
mod names;
// The archive and the Debian package: the same each time, and what is in them runs.
mod packages;
// Benchmarks compile our crates as they are shipped.
mod profiles;
// Images and charts in a registry, and the digests to sign.
mod publish;
// The Homebrew formula and the krew manifest, with the values of a release.
mod templates;
// Steps of workflows are recipes that exist.
mod workflows;

use std::{
    path::Path,
    process::{Command, Output},
};

/// A kubeconfig of an API server that is not there: nobody listens on this port, so each request is refused at once.
const NOBODY: &str = "\
apiVersion: v1
kind: Config
current-context: x
clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: x, context: {cluster: x, user: x}}]
users: [{name: x, user: {}}]
";

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// Whether the programs are installed that a test runs.
fn installed(programs: &[&str], test: &str) -> bool {
    programs
        .iter()
        .all(|program| requirements::has_program(program, test))
}

/// The output of a command that must succeed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The commands that a help text explains: two spaces, the name, and after some more spaces what it does.
fn explained(help: &str) -> Vec<String> {
    let names = help.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("  ")?.split_once("  ")?;
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains(' ');
        is_name.then(|| name.to_owned())
    });
    names.collect()
}
