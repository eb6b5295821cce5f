//! Runs programs: short ones to their end, others in the background with their output in a log.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, ensure};

/// Number of log lines in an error.
const TAIL: usize = 15;

/// Runs a program to its end. Fails if the program fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    pipe(Command::new(program).args(arguments), "").map(|_| ())
}

/// Runs a program to its end with this standard input, and returns its output.
pub(crate) fn pipe(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {what}"))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // The program may not read its input.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
    .with_context(|| format!("failed to run {what}"))?;
    ensure!(
        output.status.success(),
        "{what} failed: {}{}",
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// A program to run in the background, and how to start it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its arguments, the program first.
    pub(crate) arguments: Vec<String>,
    /// Additional environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// The file to which its output is appended.
    pub(crate) log: PathBuf,
}

impl Program {
    /// A program with these arguments.
    pub(crate) fn new(program: &Path, arguments: &[&str], log: PathBuf) -> Self {
        let program = program.display().to_string();
        Self {
            arguments: std::iter::once(program.as_str())
                .chain(arguments.iter().copied())
                .map(str::to_owned)
                .collect(),
            environment: Vec::new(),
            log,
        }
    }

    /// The same, started by another program, such as one that enters a namespace first.
    pub(crate) fn through(mut self, prefix: &[String]) -> Self {
        self.arguments.splice(0..0, prefix.iter().cloned());
        self
    }

    /// The same, but it sees this folder in place of another one.
    pub(crate) fn with_folder(self, folder: &Path, instead_of: &str) -> Self {
        let script = format!(
            "mount --bind {} {instead_of} && exec \"$@\"",
            folder.display()
        );
        let own = ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned);
        self.through(&own)
    }

    /// The same, with this environment variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> anyhow::Result<Process> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("failed to open {}", self.log.display()))?;
        let child = self
            .command()
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start {:?}", self.arguments))?;
        Ok(Process {
            program: self,
            child,
        })
    }

    /// The command, for callers that use its standard input and output.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.arguments[0]);
        command
            .args(&self.arguments[1..])
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A running program. Dropping it kills the program.
#[derive(Debug)]
pub(crate) struct Process {
    program: Program,
    child: Child,
}

impl Process {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The program, to start another one like it.
    pub(crate) fn program(&self) -> Program {
        self.program.clone()
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Path {
        &self.program.log
    }

    /// Kills it and returns when it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM and returns when it has ended.
    pub(crate) fn terminate(&mut self) -> anyhow::Result<()> {
        run("kill", &["-s", "TERM", &self.pid().to_string()])?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills it if it runs, and starts it again.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        *self = self.program.clone().start()?;
        Ok(())
    }

    /// Whether it is still running.
    pub(crate) fn runs(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Fails with the end of its log if it has ended.
    pub(crate) fn require_running(&mut self) -> anyhow::Result<()> {
        ensure!(
            self.runs()?,
            "{} has ended; its log ends with:\n{}",
            self.program.arguments.join(" "),
            tail(self.log())
        );
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The end of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
