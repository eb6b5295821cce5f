//! The page that shows the clusters: a child process, which ends when this process ends.

use std::process::Stdio;

use anyhow::Context as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdin},
};

use crate::{controller::TIED, tools::Tools};

/// A running page.
pub(crate) struct Dashboard {
    /// Its address.
    pub(crate) url: String,
    _child: Child,
    _tie: Option<ChildStdin>,
}

impl Dashboard {
    /// Starts it, and waits for its address.
    pub(crate) async fn start(tools: &Tools) -> anyhow::Result<Self> {
        let mut child = tools
            .linkerd_mc("west,east,north")
            .args(["dashboard", "--no-browser"])
            .env(TIED, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start the page")?;
        let tie = child.stdin.take();
        let output = child.stdout.take().context("the page has no stdout")?;
        let first = BufReader::new(output).lines().next_line().await;
        let url = first.ok().flatten().context("the page has no address")?;
        Ok(Self {
            url,
            _child: child,
            _tie: tie,
        })
    }
}
