//! A headless Chromium, for tests of pages. It is driven by its debugging protocol, over the crate for web sockets that
//! clients of Kubernetes have anyway: a crate for the protocol would be generated from all of it, and takes minutes to
//! compile.

mod tab;

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

pub use tab::Tab;

/// Longer than anything takes on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);
/// What it says when it can be driven.
const LISTENS: &str = "DevTools listening on ws://";
/// Hosts that end with this are this machine, as after DNS rebinding. There are no others.
pub const REBOUND: &str = "rebound.example";

/// A browser. It ends when this is dropped.
pub struct Browser {
    socket: Socket,
    host: String,
    _process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium. Without one, says what is not run.
    #[track_caller]
    pub fn installed(not_run: &str) -> bool {
        requirements::has_program("chromium", not_run)
    }

    /// Starts it.
    pub async fn start() -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut process = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox", // root has none
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
                "--remote-debugging-port=0",
            ])
            .arg(format!(
                "--host-resolver-rules=MAP *.{REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
            ))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start chromium")?;
        let said = process.stderr.take().context("it has an output")?;
        let mut lines = BufReader::new(said).lines();
        let address = async {
            let mut all = String::new();
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = line.strip_prefix(LISTENS) {
                    return Ok(address.to_owned());
                }
                all.push_str(&line);
            }
            bail!("chromium ended: {all}")
        };
        let address = timeout(PATIENCE, address).await.context("no chromium")??;
        // Nobody reads the rest, but it has to go somewhere.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (host, path) = address.split_once('/').context("no path")?;
        Ok(Self {
            socket: Socket::connect(host, path).await?,
            host: host.to_owned(),
            _process: process,
            _profile: profile,
        })
    }

    /// A tab that shows nothing yet.
    pub async fn tab(&mut self) -> anyhow::Result<Tab> {
        let blank = json!({ "url": "about:blank" });
        let made = self.socket.call("Target.createTarget", blank).await?;
        let id = made["targetId"].as_str().context("no target")?;
        let path = format!("devtools/page/{id}");
        Tab::of(Socket::connect(&self.host, &path).await?).await
    }

    /// Lets pages of an origin use the clipboard.
    pub async fn permit_clipboard(&mut self, origin: &str) -> anyhow::Result<()> {
        let granted = json!({
            "origin": origin,
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
        });
        let granted = self.socket.call("Browser.grantPermissions", granted).await;
        granted.map(drop)
    }
}

/// A connection to the browser or to a tab.
struct Socket {
    stream: WebSocketStream<TcpStream>,
    last: u64,
    /// What happened, until somebody takes it.
    events: Vec<Value>,
}

impl Socket {
    async fn connect(host: &str, path: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(host).await?;
        let (stream, _) = client_async(format!("ws://{host}/{path}"), stream).await?;
        Ok(Self {
            stream,
            last: 0,
            events: Vec::new(),
        })
    }

    /// The next message.
    async fn next(&mut self) -> anyhow::Result<Value> {
        loop {
            let message = timeout(PATIENCE, self.stream.next()).await;
            let message = message.context("the browser does not answer")?;
            match message.context("the browser has ended")?? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Close(_) => bail!("the tab is closed"),
                _ => {}
            }
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last += 1;
        let call = json!({ "id": self.last, "method": method, "params": params });
        self.stream.send(Message::text(call.to_string())).await?;
        loop {
            let mut message = self.next().await?;
            if message["id"] == self.last {
                if let Some(error) = message.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(message["result"].take());
            }
            self.events.push(message);
        }
    }

    /// Waits until this happens, after what was taken before.
    async fn event(&mut self, method: &str) -> anyhow::Result<()> {
        while !self.events.iter().any(|event| event["method"] == method) {
            let event = self.next().await?;
            self.events.push(event);
        }
        Ok(())
    }
}
