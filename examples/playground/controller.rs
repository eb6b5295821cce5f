//! The controller: a process of its own, which ends with this one even when this one is killed.

use std::{env, fs, io, path::PathBuf, process::Stdio, thread};

use anyhow::{Context as _, anyhow};
use tokio::process::{Child, ChildStdin};

use crate::{failover::HOLD_DOWN, tools::Tools};

/// Where this is set, the process ends when its stdin does: its writing end is in the parent alone.
const TIED: &str = "LINKERD_MC_PLAYGROUND_CONTROLLER";
/// Lines of the log that an error tells.
const TAIL: usize = 10;

/// A running controller of `west`.
pub(crate) struct Controller {
    child: Child,
    // Apart from the child: waiting for that would close it.
    _tie: Option<ChildStdin>,
    log: PathBuf,
}

impl Controller {
    /// Starts it. `gateway` is what its probes of gateways reach.
    pub(crate) fn start(tools: &Tools, gateway: &str) -> anyhow::Result<Self> {
        let log = tools.controller_log();
        let file = fs::File::create(&log).context("failed to create the controller's log")?;
        let mut child = tools
            .linkerd_mc("west")
            .args([
                "run-controller",
                "--leader-elect=false",
                "--admin-addr",
                "127.0.0.1:0",
            ])
            .args(["--probe-address", gateway])
            .args(["--enable-routes", "--hold-down", HOLD_DOWN])
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

    /// Waits for an end that nobody has asked for.
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

/// For linkerd-mc as a child: ends it when the parent is gone, if it is tied to it.
pub(crate) fn end_with_parent() {
    if env::var_os(TIED).is_none() {
        return;
    }
    thread::spawn(|| {
        // An error is an end too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        #[expect(clippy::exit, reason = "nobody is left to end it politely")]
        std::process::exit(1);
    });
}
