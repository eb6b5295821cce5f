//! `cargo run --example playground`: builds etcd and Kubernetes with Go and the playground with Rust at the same time, and
//! then starts the playground, which is the example `clusters`. Go's build takes minutes, and so it does not wait for
//! Rust's, as it would have to if the playground began it.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use programs::{Assets, failed};

fn main() -> ExitCode {
    build_and_start().unwrap_or_else(|error| failed(&error))
}

/// Returns only if the playground could not be started.
fn build_and_start() -> anyhow::Result<ExitCode> {
    let mut rust = cargo("build")
        .spawn()
        .context("failed to start cargo build")?;
    if let Err(error) = Assets::locate() {
        let _ = rust.kill();
        rust.wait()?;
        return Err(error);
    }
    if !rust.wait()?.success() {
        return Ok(ExitCode::FAILURE); // cargo has said why
    }
    let error = cargo("run")
        .args(["--quiet", "--"])
        .args(env::args_os().skip(1))
        .exec();
    Err(error).context("failed to start cargo run")
}

/// This cargo command for the example `clusters`.
fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([command, "--example", "clusters"]);
    // Cargo has set these for this package. Passed on, they would make cargo rebuild crates that read them.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo
}
