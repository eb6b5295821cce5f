//! Makes all builds that are not there yet: `cargo run --package programs`.

use std::process::ExitCode;

use programs::{Assets, axe, failed, gateway_api_crds, gitops_crds, helm};

fn main() -> ExitCode {
    match Assets::locate()
        .and_then(|_| helm())
        .and_then(|_| gitops_crds())
        .and_then(|_| gateway_api_crds())
        .and_then(|_| axe())
    {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}
