//! Requests through real Linkerd proxies, between two clusters, while things happen to the mirrors.
//!
//! It runs as root on Linux, with Linkerd's programs in the folder that `LINKERD_BIN` names; otherwise it says in one
//! line what is missing, and passes. Arguments choose cases by a part of their names.
//!
//! - [`isolation`]: all of it runs in network, process and mount namespaces of its own, so nothing is left behind.
//! - [`rig`]: two clusters with Linkerd's controllers, Pods with proxies, a gateway, and our controller in the mesh.
//! - [`helper`]: what runs inside a Pod: this program, started again under another role.
//! - [`load`] and [`oracle`]: what clients see, and what their proxy takes for the endpoints of a Service.
//! - [`cases`]: what is done to the rig, and what must hold meanwhile.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what it found"
)]

mod cases;
mod helper;
mod isolation;
mod load;
mod oracle;
mod requests;
mod rig;
mod table;

use std::{env, process::ExitCode, sync::Arc};

use isolation::Outcome;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((role, rest)) = helper::role(&arguments) {
        return helper::run(role, rest);
    }
    // Options of Rust's own harness may come along, from `cargo test`.
    let (options, parts): (Vec<String>, Vec<String>) = arguments
        .into_iter()
        .partition(|argument| argument.starts_with('-'));
    let asked = |option: &str| options.iter().any(|given| given == option);
    if asked("--list") {
        cases::list();
        return ExitCode::SUCCESS;
    }
    if asked("--ignored") || !cases::any_is_chosen(&parts) {
        return ExitCode::SUCCESS;
    }
    match isolation::enter() {
        Outcome::Inside(place) => cases::run(&Arc::new(place), &parts),
        Outcome::Ended(code) => code,
        Outcome::NotRun(reason) => {
            println!("mesh: the data-plane suite was not run: {reason}");
            ExitCode::SUCCESS
        }
        Outcome::Failed(error) => {
            eprintln!("mesh: {error:#}");
            ExitCode::FAILURE
        }
    }
}
