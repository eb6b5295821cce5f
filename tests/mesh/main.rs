//! Sends requests through real Linkerd proxies, between two clusters, while mirrors and clusters change.
//!
//! It runs as root on Linux, with Linkerd's programs in the folder in `LINKERD_BIN`. Otherwise it prints one line with
//! the missing requirement, and fails. Arguments choose cases by a part of their names. `just mesh` runs it, and
//! `cargo test` does not.
//!
//! - [`isolation`]: everything runs in separate network, process and mount namespaces, so nothing is left behind.
//! - [`rig`]: two clusters with Linkerd's controllers, Pods with proxies, a gateway, and our controller in the mesh.
//! - [`helper`]: programs in a Pod: this program, started again with another role.
//! - [`impostor`]: a client that speaks TLS by itself, with a certificate made by hand.
//! - [`load`] and [`oracle`]: the results that clients get, and the endpoints that their proxy has for a Service.
//! - [`cases`]: changes of the rig, and what must hold meanwhile.
//! - [`second`]: the mirrors of Linkerd's own service mirror and of ours after the same histories.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what it found"
)]

mod cases;
mod changes;
mod helper;
mod impostor;
mod isolation;
mod load;
mod oracle;
mod requests;
mod rig;
mod second;
mod table;

use std::{env, process::ExitCode, sync::Arc};

use isolation::Outcome;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((role, rest)) = helper::role(&arguments) {
        return helper::run(role, rest);
    }
    // `cargo test` may pass options for Rust's own test harness.
    let (options, parts): (Vec<String>, Vec<String>) = arguments
        .into_iter()
        .partition(|argument| argument.starts_with('-'));
    let asked = |option: &str| options.iter().any(|given| given == option);
    if asked("--list") {
        cases::list();
        return ExitCode::SUCCESS;
    }
    let not_run = |reason: &str| {
        println!("mesh: the data-plane suite was not run: {reason}");
        ExitCode::FAILURE
    };
    if asked("--bench") {
        println!("mesh: the data-plane suite was not run: it is no benchmark");
        return ExitCode::SUCCESS;
    }
    if !cases::any_is_chosen(&parts) {
        return not_run(&format!("no case is named like {}", parts.join(", ")));
    }
    match isolation::enter() {
        Outcome::Inside(place) => cases::run(&Arc::new(place), &parts),
        Outcome::Ended(code) => code,
        Outcome::NotRun(reason) => not_run(&reason),
        Outcome::Failed(error) => {
            eprintln!("mesh: {error:#}");
            ExitCode::FAILURE
        }
    }
}
