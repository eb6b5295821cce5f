//! `dashboard`: a page that shows linked clusters, live, to a browser of this machine.

mod browser;
mod facts;
mod reader;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use dashboard::{hub::Hub, server::Server};
use hints::hint::HintExt as _;

use self::reader::PageReader;
use super::{
    common::{
        args::{Global, timeout},
        interrupt::StopSignals,
        output,
    },
    fleet::FleetContexts,
};

const EXAMPLES: &str = "\
Examples:
  # Show the clusters that the cluster of the current context is linked to
  linkerd-mc dashboard

  # Show two clusters, at an address with the same port each time
  linkerd-mc dashboard --context east,west --port 8084

  # Show all clusters of a file of `fleet`, and open no browser
  linkerd-mc dashboard --file fleet.yaml --no-browser";

/// Show linked clusters in a browser, live
///
/// Prints the address of a page, and opens it. The page shows what is wrong now, with the commands that fix it; a map of
/// clusters and Links; the Links; the federated Services, who serves them and how well; what happened; and versions. It is
/// updated while it is visible. It shows what `status`, `diagnose`, `traffic` and `version` print, with your own rights, and
/// changes nothing.
///
/// Only this machine can open it. The address has a random part: whoever knows it and can use this machine sees the page.
/// Ends with Ctrl-C. While no page is visible, no cluster is read.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct DashboardArgs {
    #[command(flatten)]
    contexts: FleetContexts,
    /// Port of the page on this machine [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// Open no browser
    #[arg(long)]
    no_browser: bool,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    request_timeout: Duration,
}

/// Runs the command until it is interrupted.
pub async fn run(global: &Global, args: &DashboardArgs) -> anyhow::Result<ExitCode> {
    let mut signals = StopSignals::listen()?;
    let selected = args.contexts.select(global, args.request_timeout).await?;
    let server = Server::bind(args.port).await.hint(
        || format!("cannot serve the page on port {}", args.port),
        || "choose another --port, or leave it out".into(),
    )?;
    let (hub, questions) = Hub::new();
    let url = server.url();
    output::data(&format!("{url}\n"))?;
    output::note("the page is there until Ctrl-C");
    if !args.no_browser && !browser::open(&url) {
        output::note("no browser could be opened: open the address yourself");
    }
    let reader = PageReader::new(global, selected, args.request_timeout);
    tokio::select! {
        () = server.serve(hub.clone()) => {}
        () = Box::pin(reader.show(&hub, questions)) => {}
        () = signals.asked() => {}
    }
    Ok(ExitCode::SUCCESS)
}
