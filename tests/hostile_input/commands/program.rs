//! Runs the program, and says what is wrong with what it did.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::process::Command;

/// What each secret in the tests contains.
pub(super) const SECRET: &str = "s3cret";
/// Commands that print to stdout even if they fail, because what they print is the answer.
const ANSWERS: [&str; 4] = ["check", "rotate", "status", "version"];

/// A folder with a kubeconfig, and an empty one to run in.
pub(super) struct Place {
    folder: TempDir,
}

impl Place {
    pub(super) fn with(kubeconfig: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder }
    }

    /// Writes a file beside the kubeconfig.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Whether there is such a file beside the kubeconfig.
    pub(super) fn has(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a command line. Returns what is wrong with its result, one line each.
    pub(super) async fn run(&self, args: &[impl AsRef<str>], limits: &Limits) -> Vec<String> {
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        let found = match self.outcome(&args, limits.ends_within).await {
            Some(outcome) => outcome.breaches(&args, limits, &self.work()),
            None => vec![format!("it does not end within {:?}", limits.ends_within)],
        };
        let line = args.join(" ");
        let line: String = line.escape_debug().take(200).collect();
        found
            .into_iter()
            .map(|what| format!("{line}: {what}"))
            .collect()
    }

    async fn outcome(&self, args: &[&str], limit: Duration) -> Option<Outcome> {
        let began = Instant::now();
        let run = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(limit, run).await.ok()?.unwrap();
        Some(Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took: began.elapsed(),
        })
    }
}

/// What a run has to comply with.
pub(super) struct Limits {
    /// The exit codes that it may have.
    pub(super) codes: &'static [i32],
    /// Maximum duration.
    pub(super) ends_within: Duration,
}

#[derive(Debug)]
struct Outcome {
    /// None after a signal.
    code: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
}

impl Outcome {
    fn breaches(&self, args: &[&str], limits: &Limits, work: &Path) -> Vec<String> {
        let Self { stdout, stderr, .. } = self;
        let mut found = Vec::new();
        let mut holds = |holds: bool, what: String| {
            if !holds {
                found.push(what);
            }
        };
        let code = self.code.unwrap_or(-1);
        holds(
            limits.codes.contains(&code),
            format!("exit code {code}: {stderr} {stdout}"),
        );
        holds(!stderr.contains("panicked at"), format!("panic: {stderr}"));
        let secret = [stdout, stderr].iter().any(|text| text.contains(SECRET));
        holds(!secret, format!("prints a secret: {stdout} {stderr}"));
        let odd = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
        holds(!odd(stdout), format!("control characters: {stdout:?}"));
        holds(!odd(stderr), format!("control characters: {stderr:?}"));
        holds(
            self.took <= limits.ends_within,
            format!("took {:?}", self.took),
        );
        let files: Vec<_> = std::fs::read_dir(work).unwrap().collect();
        holds(files.is_empty(), format!("wrote {files:?}"));
        if code == 0 {
            return found;
        }
        let answers = args.iter().any(|arg| ANSWERS.contains(arg));
        let said = stderr.lines().any(|line| line.starts_with("error: "));
        holds(
            said || answers && !stdout.is_empty(),
            format!("no error: {stderr}"),
        );
        holds(
            stdout.is_empty() || answers && stdout.ends_with('\n'),
            format!("half of its data: {stdout}"),
        );
        found
    }
}

/// Fails with all that was found.
pub(super) fn nothing(found: &[String]) {
    assert!(
        found.is_empty(),
        "{} of them:\n{}",
        found.len(),
        found.join("\n")
    );
}
