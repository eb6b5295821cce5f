//! Runs the program under test as people run it.

use std::path::Path;

use assert_cmd::Command;

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit code.
    pub(crate) code: i32,
    /// The data on stdout.
    pub(crate) stdout: String,
    /// Everything else, on stderr.
    pub(crate) stderr: String,
}

impl Outcome {
    /// The data of a run that must have succeeded without messages.
    pub(crate) fn data(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        assert_eq!(self.stderr, "");
        self.stdout
    }

    /// The messages of a run that must have failed, and printed no data.
    pub(crate) fn failure(self) -> String {
        assert_eq!(self.code, 1, "{}", self.stderr);
        assert_eq!(self.stdout, "");
        self.stderr
    }

    /// The messages of a run whose command line must have been refused, and which printed no data.
    pub(crate) fn misuse(self) -> String {
        assert_eq!(self.code, 2, "{}", self.stderr);
        assert_eq!(self.stdout, "");
        self.stderr
    }
}

/// Runs the program with a kubeconfig, and without those variables of this process' environment that could affect it.
pub(crate) fn run(kubeconfig: &Path, args: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .env("KUBECONFIG", kubeconfig)
        .env_remove("LINKERD_DOCKER_REGISTRY")
        .env_remove("HTTPS_PROXY")
        .args(args)
        .output()
        .unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The help of a command; of the program if `command` is empty.
pub(crate) fn help(command: &str) -> String {
    let args: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(args)
        .arg("--help")
        .env("COLUMNS", "100")
        .env_remove("LINKERD_DOCKER_REGISTRY")
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
