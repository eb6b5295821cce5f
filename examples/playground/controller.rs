//! The controller: a child process. It ends when this process ends, even if this process is killed.

use std::{env, fs, io, path::PathBuf, process::Stdio, thread};

use anyhow::{Context as _, anyhow};
use tokio::process::{Child, ChildStdin};

use crate::{failover::HOLD_DOWN, tools::Tools};

/// If this variable is set, the child ends when its stdin is closed. Only this process has the writing end of that
/// pipe, so the pipe is closed when this process ends.
pub(crate) const TIED: &str = "LINKERD_MC_PLAYGROUND_CONTROLLER";
/// Number of lines of the log that an error shows.
const TAIL: usize = 10;

/// A running controller of `west`.
pub(crate) struct Controller {
    child: Child,
    // The writing end of the child's stdin. It is taken out of `child`, because `Child::wait` would close it.
    _tie: Option<ChildStdin>,
    log: PathBuf,
}

impl Controller {
    /// Starts a controller that probes all gateways at the address `gateway`.
    pub(crate) fn start(tools: &Tools, gateway: &str) -> anyhow::Result<Self> {
        let log = tools.controller_log();
        let file = fs::File::create(&log).context("failed to create the controller's log")?;
        let mut child = tools
            .linkerd_mc("west")
            .args(arguments(gateway))
            .env(TIED, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .context("failed to start the controller")?;
        Ok(Self {
            _tie: child.stdin.take(),
            child,
            log,
        })
    }

    /// Its process; `None` if it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the controller ends.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        let error = match self.child.wait().await {
            Ok(status) => anyhow!("the controller ended with {status}"),
            Err(error) => anyhow!("failed to wait for the controller: {error}"),
        };
        self.explain(&error)
    }

    /// The error with the end of the controller's log.
    pub(crate) fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        anyhow!("{error:#}\nthe controller's log ends with:\n{tail}")
    }
}

/// How the controller is started. The delay of joining gives Linkerd time to add a new cluster; no Linkerd runs here.
pub(crate) fn arguments(gateway: &str) -> Vec<&str> {
    let usual =
        "run-controller --admin-addr 127.0.0.1:0 --enable-routes --join-delay=0s --hold-down";
    let flags = usual.split(' ');
    flags
        .chain([HOLD_DOWN, "--probe-address", gateway])
        .collect()
}

/// For linkerd-mc as a child process: ends it when the parent has ended, if [`TIED`] is set.
pub(crate) fn end_with_parent() {
    if env::var_os(TIED).is_none() {
        return;
    }
    thread::spawn(|| {
        // An error ends the process too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        #[expect(clippy::exit, reason = "nobody is left to end it politely")]
        std::process::exit(1);
    });
}
