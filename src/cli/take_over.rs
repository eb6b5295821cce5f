//! `linkerd-mc take-over`: moves a cluster from Linkerd's service mirror to linkerd-mc without interrupting traffic.
//!
//! Two service mirrors must not serve the same Link. So linkerd-mc's controller is started while this command holds its
//! Lease: it gets ready and waits. Linkerd's programs are stopped only then, and the Lease is released when they are gone.
//! A command that is interrupted leaves a Lease that does not expire, so nothing starts by itself. The next run goes on
//! from what it finds.

mod execute;
mod found;
mod plan;
mod rest;

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use client::Cluster;
use mirror_core::api::labels as l;

use self::{
    execute::Execution,
    found::Found,
    plan::{question, refuse, shown, steps},
};
use super::common::{
    args::{self, Global},
    complete,
    interrupt::on_interrupt,
    mirroring::Parse,
    output,
    prompt::{canceled, confirmed},
};

const EXAMPLES: &str = "\
Examples:
  # Show what was found, what would be done, and which mirrors would go
  linkerd-mc take-over --dry-run

  # Install linkerd-mc without starting it, and take over
  linkerd-mc install --set controller.replicas=0 | kubectl apply -f -
  linkerd-mc take-over --yes

  # Delete what is left of Linkerd's service mirror
  linkerd-mc take-over --remove --yes";

/// Take over all mirrors from Linkerd's service mirror without interrupting traffic
///
/// Install linkerd-mc with `--set controller.replicas=0` first. The command starts its controller, which waits, and
/// stops Linkerd's Deployments when the controller is ready. When their Pods are gone, the controller takes over. The
/// command then waits until all Links are ready and linkerd-mc has adopted all mirrors, with their ClusterIPs. Links,
/// credentials and mirrors stay. `hand-back` is the way back. If the command is interrupted, run it again.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TakeOver {
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = l::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Delete what is left of Linkerd's service mirror, after linkerd-mc has taken over
    #[arg(long)]
    remove: bool,
    /// Show what was found and what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// How long each step may take
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = args::duration)]
    wait: Duration,
}

impl TakeOver {
    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        !self.dry_run
    }
}

/// Runs the command. `parse` reads the flags of the controller.
pub async fn run(global: &Global, args: &TakeOver, parse: Parse) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    let namespace = args.namespace.as_str();
    let found = Found::read(&cluster, namespace, &global.linkerd_namespace, parse);
    let found = Box::pin(found).await?;
    refuse(&found, &cluster.flags)?;
    let steps = steps(&found);
    if args.remove {
        let remove = rest::remove(&cluster, &found, &steps, args.dry_run, args.yes);
        return Box::pin(remove).await;
    }
    output::data(&shown(&found, &steps))?;
    if args.dry_run {
        return Ok(());
    }
    if !steps.is_empty() {
        let otherwise = "pass --yes to take over without confirmation";
        if !args.yes && !confirmed(&question(&found), otherwise)? {
            return Err(canceled());
        }
        on_interrupt(
            "linkerd-mc may have taken over in part",
            "run the same command again, which does the rest",
        );
        let execution = Execution::new(&cluster, namespace, args.wait);
        Box::pin(execution.run(&found, &steps)).await?;
    }
    let remove = cluster
        .flags
        .mc("take-over --remove --namespace {}", &[namespace]);
    output::note(&format!(
        "linkerd-mc mirrors for all Links of namespace {namespace:?}; delete what is left of Linkerd's service mirror \
         with {remove}"
    ));
    Ok(())
}

#[cfg(test)]
mod tests;
