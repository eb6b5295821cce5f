//! What the user typed → calls into the layers below. The only place that prints.

mod args;
mod cluster;
mod install;
mod link_gen;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Links Kubernetes clusters: mirrors Services between them for Linkerd.
#[derive(Debug, Parser)]
#[command(name = "linkerd-mc", version, about, propagate_version = true)]
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
    }
    Ok(ExitCode::SUCCESS)
}
