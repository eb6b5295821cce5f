//! A server process that cannot outlive us.
//!
//! A small shell stands between: it holds the read end of a pipe whose write end only we have, so that the kernel tells
//! it when we are gone, `kill -9` included. Neither destructors (statics are never dropped) nor a parent-death signal
//! (it follows the thread that forked, and threads of tests end early) would do.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use anyhow::{Context as _, anyhow, bail};

const SUPERVISE: &str = include_str!("supervise.sh");
const TAIL_LINES: usize = 20;
/// Maximum number of looks whether a server has stopped. Each starts a process, which takes milliseconds.
const LOOKS: u32 = 1_000;

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// The folder of the control plane: where the log goes, and what is removed when we are gone.
    pub(crate) folder: PathBuf,
}

/// A running server, killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    spec: Spec,
    supervisor: Child,
    signals: Option<ChildStdin>,
    pid: u32,
}

impl Spec {
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    pub(crate) fn start(self) -> anyhow::Result<Server> {
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISE, "supervise.sh"])
            .args([self.folder.as_path(), &self.log(), &self.program])
            .args(&self.arguments)
            .current_dir(&self.folder)
            // Fewer garbage collections: tests have more memory than time.
            .env("GOGC", "400")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Out of reach of Ctrl-C, and of a kill of the test's process group after a timeout.
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to start {}", self.name))?;
        let signals = supervisor.stdin.take();
        let mut line = String::new();
        let said = supervisor
            .stdout
            .take()
            .map(|stdout| BufReader::new(stdout).read_line(&mut line));
        said.transpose()
            .context("failed to read from the supervisor")?;
        let pid = line
            .trim()
            .parse()
            .with_context(|| format!("{} did not start", self.name))?;
        Ok(Server {
            spec: self,
            supervisor,
            signals,
            pid,
        })
    }
}

impl Server {
    pub(crate) fn log(&self) -> PathBuf {
        self.spec.log()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal by its name, as `kill -s` takes it. Does not wait for what follows.
    pub(crate) fn signal(&mut self, signal: &str) -> anyhow::Result<()> {
        let pipe = self.signals.as_mut().context("the server was stopped")?;
        writeln!(pipe, "{signal}")
            .with_context(|| format!("failed to send a signal to {}", self.spec.name))
    }

    /// Stops the server as SIGSTOP does, and returns when it stands still.
    pub(crate) fn pause(&mut self) -> anyhow::Result<()> {
        self.signal("STOP")?;
        for _ in 0..LOOKS {
            if self.is_stopped()? {
                return Ok(());
            }
        }
        bail!("{} does not stop", self.spec.name)
    }

    /// Whether it stands still: `T` is the state of such a process.
    fn is_stopped(&self) -> anyhow::Result<bool> {
        let output = Command::new("ps")
            .args(["-o", "stat=", "-p", &self.pid.to_string()])
            .output()
            .context("failed to run ps")?;
        Ok(output.stdout.trim_ascii_start().starts_with(b"T"))
    }

    /// Kills the server and returns when it is gone; its folder stays.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        if self.exited()?.is_none() {
            // If the server ends by itself at this moment, its supervisor ends too. That is no failure.
            let _ = self.signal("KILL");
            self.supervisor
                .wait()
                .context("failed to wait for a supervisor")?;
        }
        Ok(())
    }

    /// How it ended, if it has.
    pub(crate) fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.supervisor
            .try_wait()
            .context("failed to look after a supervisor")
    }

    /// Starts it once more, just as before; what still runs is killed first.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        *self = self.spec.clone().start()?;
        Ok(())
    }

    /// Fails with the end of its log if the server has ended.
    pub(crate) fn require_running(&mut self) -> anyhow::Result<()> {
        match self.exited()? {
            Some(status) => {
                Err(self.explain(&format!("{} ended early with {status}", self.spec.name)))
            }
            None => Ok(()),
        }
    }

    /// An error of this text with the end of the server's log.
    pub(crate) fn explain(&self, message: &str) -> anyhow::Error {
        anyhow!("{message}; its log ends with:\n{}", tail(&self.spec.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.signals.take());
        let _ = self.supervisor.wait();
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
