//! Programs that tests and the playground run, built once with Go and kept: those of a control plane ([`Assets`]) and
//! [`helm`]. Whatever else tests build with Go, [`go`] builds in the same way. [`gitops_crds`],
//! [`gateway_api_crds`] and [`axe()`] only download files.
//!
//! This crate has next to no dependencies, so that it is compiled in seconds: Go's build, which takes minutes, can run
//! while Rust compiles everything else. Its program makes all builds; `.ci/run` starts it first. Its example is what
//! `cargo run --example playground` starts.

mod assets;
mod axe;
mod crds;
pub mod go;
mod helm;
mod kept;
mod release;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

pub use assets::Assets;
pub use axe::axe;
pub use crds::{gateway_api_crds, gitops_crds};
pub use helm::helm;

/// What `main` returns when it has failed: says why, without a backtrace.
pub fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

/// A line for the person who waits. Written to the stream itself, because what goes through `eprintln!` is held back
/// until a test has ended.
fn tell(line: &str) {
    let mut stderr = io::stderr();
    // The line may begin where cargo shows its progress.
    let clear = if stderr.is_terminal() { "\x1b[K" } else { "" };
    let _ = writeln!(stderr, "{clear}control-plane: {line}");
}
