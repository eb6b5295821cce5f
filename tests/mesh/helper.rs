//! Programs that run in the network namespace of a Pod: this program with another role, named by its first arguments.

mod app;
mod client;
pub(crate) mod forward;

use std::process::ExitCode;

pub(crate) use app::PORT as APP_PORT;
pub(crate) use client::{Answer, Ask};

/// The first argument of a helper, and its file name in the folder that every user can read.
pub(crate) const NAME: &str = "mesh-helper";

/// The role in these arguments, and the arguments of the role.
pub(crate) fn role(arguments: &[String]) -> Option<(&str, &[String])> {
    match arguments {
        [name, role, rest @ ..] if name == NAME => Some((role, rest)),
        _ => None,
    }
}

/// Runs a role until the process is killed.
pub(crate) fn run(role: &str, arguments: &[String]) -> ExitCode {
    let played = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| {
            runtime.block_on(async {
                match (role, arguments) {
                    ("app", [pod, resolver]) => app::run(pod, resolver).await,
                    ("client", []) => client::run().await,
                    ("forward", ways) => forward::run(ways).await,
                    _ => anyhow::bail!("unknown role {role} with {arguments:?}"),
                }
            })
        });
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
