//! `canary`: what runs in the Pods of `verify`. Nobody types it, so it is hidden.

use std::{net::Ipv6Addr, time::Duration};

use anyhow::Context as _;
use clap::Args;
use observe::clusters::canaries::{POD_PORT, program::Canary};
use tokio::{net::TcpListener, time::timeout};

use super::common::{args::duration, output};

/// Answer requests, as the Pods of `verify` do
#[derive(Clone, Debug, Args)]
#[command(hide = true)]
pub struct CanaryArgs {
    /// Name of the run
    run: String,
    /// Time after which it ends
    #[arg(value_parser = duration)]
    lifetime: Duration,
    /// Hash of the key with which it is asked to send a request; one that only answers has none
    key_digest: Option<String>,
}

/// Runs the command, until its time is over.
pub async fn run(args: &CanaryArgs) -> anyhow::Result<()> {
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, POD_PORT)).await {
        Ok(both) => Ok(both),
        // A node without IPv6.
        Err(_) => TcpListener::bind(("0.0.0.0", POD_PORT)).await,
    };
    let listener = listener.with_context(|| format!("cannot listen on port {POD_PORT}"))?;
    output::note("ready");
    let canary = Canary {
        run: args.run.clone(),
        key_digest: args.key_digest.clone(),
    };
    // That the time is over is its proper end.
    let _ = timeout(args.lifetime, canary.serve(listener)).await;
    Ok(())
}
