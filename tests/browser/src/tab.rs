//! A tab: what is shown in it, the keys that are pressed, and what it complains of.

use anyhow::{Context as _, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{PATIENCE, Socket};

/// A tab of a browser.
pub struct Tab {
    socket: Socket,
}

impl Tab {
    pub(crate) async fn of(mut socket: Socket) -> anyhow::Result<Self> {
        for domain in ["Page", "Runtime", "Log", "Network"] {
            socket.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(Self { socket })
    }

    /// Sends a command.
    pub async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.socket.call(method, params).await
    }

    /// Opens an address, and waits until all of it is there.
    pub async fn open(&mut self, url: &str) -> anyhow::Result<()> {
        self.complaints(url);
        self.call("Page.navigate", json!({ "url": url })).await?;
        self.socket.event("Page.loadEventFired").await
    }

    /// Runs this before the script of each page that is opened from now on.
    pub async fn before(&mut self, script: &str) -> anyhow::Result<()> {
        let script = json!({ "source": script });
        let added = self.call("Page.addScriptToEvaluateOnNewDocument", script);
        added.await.map(drop)
    }

    /// The value of an expression, or of the promise that it is.
    pub async fn value(&mut self, expression: &str) -> anyhow::Result<Value> {
        let asked = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let mut answer = self.call("Runtime.evaluate", asked).await?;
        if let Some(error) = answer.get("exceptionDetails") {
            bail!("{expression}: {error}");
        }
        Ok(answer["result"]["value"].take())
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, expression: &str) -> anyhow::Result<()> {
        let limit = PATIENCE.as_millis();
        let wait = format!(
            "new Promise((done, fail) => {{
                const start = performance.now();
                const look = () => {{
                    if ({expression}) done(true);
                    else if (performance.now() - start > {limit}) fail(document.body.innerText);
                    else setTimeout(look, 5);
                }};
                look();
            }})"
        );
        let waited = self.value(&wait).await;
        waited.with_context(|| format!("never: {expression}"))?;
        Ok(())
    }

    /// Gives the page this size.
    pub async fn resize(&mut self, width: u32, height: u32) -> anyhow::Result<()> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        let resized = self.call("Emulation.setDeviceMetricsOverride", size).await;
        resized.map(drop)
    }

    /// Gives the page what its user prefers, such as `("prefers-color-scheme", "dark")`.
    pub async fn prefer(&mut self, features: &[(&str, &str)]) -> anyhow::Result<()> {
        let features = features.iter();
        let features: Vec<Value> = features
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let media = json!({ "features": features });
        let preferred = self.call("Emulation.setEmulatedMedia", media).await;
        preferred.map(drop)
    }

    /// Presses a key, such as `Tab`, `Enter`, `Escape` or `/`.
    pub async fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "Escape" => (27, None),
            other => (0, Some(other)),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if let Some(text) = text
                && kind == "keyDown"
            {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// A picture of what is seen: `webp` or `png`.
    pub async fn picture(&mut self, format: &str) -> anyhow::Result<Vec<u8>> {
        let mut asked = json!({ "format": format });
        if format == "webp" {
            asked["quality"] = json!(66);
        }
        let answer = self.call("Page.captureScreenshot", asked).await?;
        let data = answer["data"].as_str().context("no picture")?;
        Ok(BASE64_STANDARD.decode(data)?)
    }

    /// What went wrong since this was asked last: errors, warnings and exceptions, and requests to others than `own`.
    pub fn complaints(&mut self, own: &str) -> Vec<String> {
        let complaint = |event: Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                    Some(params.to_string())
                }
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    let is_own = url.starts_with(own) || url.starts_with("data:");
                    (!is_own).then(|| format!("request to {url}"))
                }
                _ => None,
            }
        };
        let events = std::mem::take(&mut self.socket.events);
        events.into_iter().filter_map(complaint).collect()
    }
}
