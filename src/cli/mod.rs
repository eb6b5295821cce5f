//! What the user typed → calls into the layers below. The only place that prints.

mod allow;
mod args;
mod cluster;
mod completions;
mod install;
mod inventory;
mod link_gen;
mod output;
mod run_controller;
mod uninstall;
mod unlink;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Links Kubernetes clusters: mirrors Services between them for Linkerd.
#[derive(Debug, Parser)]
#[command(name = "linkerd-mc", version = env!("LINKERD_MC_VERSION"), about, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: args::Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(install::Install),
    LinkGen(Box<link_gen::LinkGen>),
    RunController(Box<run_controller::RunController>),
    Allow(allow::Allow),
    Revoke(allow::Revoke),
    Unlink(unlink::Unlink),
    Uninstall(uninstall::Uninstall),
    Completions(completions::Completions),
    Man(completions::Man),
}

/// Runs the command line of this process. Exit codes: 0 done, 1 failed, 2 wrong usage.
///
/// This is the one entry point: the binary calls it, and so does the playground, which starts itself
/// again with the binary's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Install(args) => install::run(&cli.global, args)?,
        Command::LinkGen(args) => link_gen::run(&cli.global, args)?,
        Command::RunController(args) => run_controller::run(&cli.global, args)?,
        Command::Allow(args) => allow::allow(&cli.global, args)?,
        Command::Revoke(args) => allow::revoke(args)?,
        Command::Unlink(args) => unlink::run(&cli.global, args)?,
        Command::Uninstall(args) => uninstall::run(&cli.global, args)?,
        Command::Completions(args) => completions::completions(Cli::command(), args)?,
        Command::Man(args) => completions::man(Cli::command(), args)?,
    }
    Ok(ExitCode::SUCCESS)
}
