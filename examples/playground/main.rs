//! Starts three real Kubernetes control planes on this machine, links them, and mirrors Services, with one command:
//!
//! ```text
//!   cargo run --example playground            stays up, to be explored, until Ctrl-C
//!   cargo run --example playground -- --once  ends after the last step; fails if a step fails
//! ```
//!
//! `east` and `north` are linked to `west`, which mirrors their exported Services. All actions of linkerd-mc use its
//! own command line. Called as `linkerd-mc`, this program is that command line.
//!
//! `cargo run --example playground` first starts a smaller program, `tests/programs/examples/playground.rs`. That
//! program builds Kubernetes and this program at the same time.

mod clusters;
mod controller;
mod dashboard;
mod exports;
mod failover;
mod gateway;
mod progress;
mod report;
mod tools;
mod view;

use std::{
    env,
    ffi::OsString,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use tokio::signal::ctrl_c;

use crate::{
    clusters::Clusters,
    controller::Controller,
    dashboard::Dashboard,
    progress::{Progress, say},
    tools::{LINKERD_MC, Tools},
    view::View,
};

/// Time limit for all mirrors, from the first export on.
const LIMIT: Duration = Duration::from_secs(60);

/// Start three linked Kubernetes control planes and mirror Services between them
#[derive(Parser)]
#[command(name = "playground")]
struct Arguments {
    /// End after the last step, and fail if a step fails
    #[arg(long)]
    once: bool,
}

fn main() -> ExitCode {
    let called: Vec<OsString> = env::args_os().collect();
    let name = called.first().and_then(|path| Path::new(path).file_name());
    if name.is_some_and(|name| name == LINKERD_MC) {
        controller::end_with_parent();
        return linkerd_mc::cli::main(called);
    }
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let code = runtime.block_on(async {
        tokio::select! {
            ended = play(&arguments) => ended.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS),
            _ = ctrl_c() => {
                say("\nstopping");
                ExitCode::from(130)
            }
        }
    });
    // Otherwise the runtime would wait for a build of Kubernetes that Ctrl-C interrupted.
    runtime.shutdown_background();
    code
}

async fn play(arguments: &Arguments) -> anyhow::Result<()> {
    let progress = Progress::new();
    let started = Instant::now();
    let clusters = Clusters::start(&progress).await?;
    let tools = Tools::new(&clusters)?;
    clusters.prepare(&progress, &tools).await?;
    clusters.link(&progress, &tools).await?;
    let gateway = gateway::serve().await?;
    let mut controller = Controller::start(&tools, &gateway)?;
    let work = async {
        progress
            .step(
                "linkerd-mc run-controller, in west: both Links are Ready",
                clusters.linked(),
            )
            .await?;
        let view = View::watch(clusters.west().client());
        let rows = progress
            .step(
                "exported Services of east, north and west",
                exports::run(&clusters, view, LIMIT),
            )
            .await?;
        report::print(&rows)?;
        exports::require_all(&rows, LIMIT)?;
        say("");
        failover::show(&progress, clusters.west()).await?;
        say(&format!("\n{} s in all.", started.elapsed().as_secs()));
        Ok(())
    };
    tokio::select! {
        done = work => done.map_err(|error| controller.explain(&error))?,
        ended = controller.ended() => return Err(ended),
    }
    if arguments.once {
        return Ok(());
    }
    let east = clusters.named("east")?.pids().api_server;
    let pids = (controller.pid().unwrap_or_default(), east);
    let page = Dashboard::start(&tools).await?;
    say(&report::guide(&tools, pids, &gateway, &page.url));
    let ended = controller.ended().await;
    say(&format!(
        "\n{ended:#}\n\nThe mirrors stay, and so do the clusters, until Ctrl-C."
    ));
    // Whoever reads this can look at what a cluster without a controller says.
    std::future::pending().await
}

fn failed(error: &anyhow::Error) -> ExitCode {
    say(&format!("error: {error:#}"));
    ExitCode::FAILURE
}
