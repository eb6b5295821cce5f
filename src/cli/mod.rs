//! The command line: parses it and calls the layers below. The only module that prints.

mod allow;
mod attack;
mod canary;
mod check;
mod common;
mod completions;
mod dashboard;
mod diagnose;
#[cfg(test)]
mod documents;
mod drain;
mod fleet;
mod gateways;
mod gather;
mod groups;
mod hand_back;
mod install;
mod link;
mod link_gen;
#[cfg(unix)]
mod open_files;
#[cfg(test)]
mod parity;
mod plan;
mod rotate;
mod run_controller;
mod status;
#[cfg(test)]
mod suggestions;
mod take_over;
mod traffic;
mod trust;
mod uninstall;
mod unlink;
mod verify;
mod version;
#[cfg(test)]
mod vocabulary;

use std::{ffi::OsString, process::ExitCode};

use clap::{
    ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, parser::ValueSource,
};
use hints::hint::is_misuse;
use observe::clusters::workloads::ControllerSettings;

use self::common::{args, cluster::block_on, complete, mirroring, output, plugin, service_mirror};

/// Exit code for wrong usage, as clap has it.
const USAGE: u8 = 2;

/// Links Kubernetes clusters and mirrors Services between them for Linkerd
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
    Link(Box<link::Link>),
    LinkGen(Box<link_gen::LinkGen>),
    Fleet(fleet::FleetArgs),
    Plan(Box<plan::PlanArgs>),
    #[command(alias = service_mirror::COMMAND)]
    RunController(Box<run_controller::RunController>),
    Allow(allow::Allow),
    Attack(attack::AttackArgs),
    Trust(trust::TrustArgs),
    Rotate(Box<rotate::Rotate>),
    Drain(drain::DrainArgs),
    Unlink(unlink::Unlink),
    Uninstall(uninstall::Uninstall),
    TakeOver(take_over::TakeOver),
    HandBack(hand_back::HandBack),
    Completions(completions::Completions),
    Man(completions::Man),
    Check(check::Check),
    Diagnose(diagnose::Diagnose),
    Gateways(gateways::Gateways),
    Status(status::StatusArgs),
    Dashboard(dashboard::DashboardArgs),
    Traffic(traffic::TrafficArgs),
    Gather(gather::GatherArgs),
    Verify(Box<verify::VerifyArgs>),
    Canary(canary::CanaryArgs),
    Version(version::VersionArgs),
}

/// Runs a command line; the first argument is the program's name. Exit codes: 0 done, 1 failed, 2 wrong usage. For
/// `plan`, 2 also means that there are changes. Wrong usage, `--help` and `--version` end the process.
///
/// This is the one entry point: the binary calls it, and so does the playground, which starts itself
/// again as the binary.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    #[cfg(unix)]
    open_files::allow_many();
    let (result, writes) = match (
        check::extension_metadata(&args),
        complete::answered(command, &args),
    ) {
        (Some(answer), _) => (output::data(&answer).map(|()| ExitCode::SUCCESS), false),
        (None, Ok(true)) => (Ok(ExitCode::SUCCESS), false),
        (None, Ok(false)) => {
            let (cli, matches) = parse(args);
            let done = run(&cli, &matches);
            if cli.command.writes() {
                (output::all_read(done), true)
            } else {
                (done, false)
            }
        }
        (None, Err(error)) => (Err(error), false),
    };
    match result {
        Ok(code) => code,
        Err(error) if output::is_unread(&error) && !writes => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            if is_misuse(&error) {
                ExitCode::from(USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

impl Command {
    /// Whether it changes clusters. Such a command fails if its reader stops before it is done: what it was asked for may
    /// not have happened. With the others, the reader has what it wanted.
    fn writes(&self) -> bool {
        match self {
            Self::Link(args) => args.writes(),
            Self::Fleet(args) => args.writes(),
            Self::Rotate(args) => args.writes(),
            Self::Drain(args) => args.writes(),
            Self::Unlink(args) => args.writes(),
            Self::TakeOver(args) => args.writes(),
            Self::HandBack(args) => args.writes(),
            Self::RunController(_) | Self::Verify(_) => true,
            Self::Install(_)
            | Self::LinkGen(_)
            | Self::Plan(_)
            | Self::Allow(_)
            | Self::Attack(_)
            | Self::Trust(_)
            | Self::Uninstall(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Check(_)
            | Self::Diagnose(_)
            | Self::Gateways(_)
            | Self::Status(_)
            | Self::Dashboard(_)
            | Self::Traffic(_)
            | Self::Gather(_)
            | Self::Canary(_)
            | Self::Version(_) => false,
        }
    }
}

/// The definition of all commands and flags.
pub fn command() -> clap::Command {
    let command = groups::grouped(groups::without_idle_flags(Cli::command()));
    let command = ["link", "link-gen"]
        .into_iter()
        .fold(command, |command, name| {
            command.mut_subcommand(name, complete::with_namespaces)
        });
    // In `install`, -f is --values.
    ["status", "check", "dashboard", "drain", "rotate"]
        .into_iter()
        .fold(command, |command, name| {
            command.mut_subcommand(name, |sub| sub.mut_arg("file", |file| file.short('f')))
        })
}

/// Ends the process on wrong usage, `--help` and `--version`.
fn parse(args: Vec<OsString>) -> (Cli, ArgMatches) {
    let mut named = plugin::named(command(), &args);
    let args = service_mirror::with_two_dashes(args, command);
    named
        .try_get_matches_from_mut(args)
        .and_then(|matches| {
            let mut cli = Cli::from_arg_matches(&matches)?;
            let linkerd = matches.value_source("linkerd_namespace");
            cli.global.names_linkerd = linkerd == Some(ValueSource::CommandLine);
            Ok((cli, matches))
        })
        .unwrap_or_else(|error| error.format(&mut named).exit())
}

/// The arguments of a container that runs the controller, as its own process parses them. Fails on wrong usage, and
/// on arguments of another command.
fn controller(
    args: impl IntoIterator<Item = String>,
) -> anyhow::Result<run_controller::RunController> {
    let program = std::iter::once("linkerd-mc".to_owned());
    let args = program.chain(args).map(OsString::from).collect();
    match Cli::try_parse_from(service_mirror::with_two_dashes(args, command))?.command {
        Command::RunController(controller) => Ok(*controller),
        _ => anyhow::bail!("these are not the arguments of run-controller"),
    }
}

/// The mirroring flags of such a container; `None` if it runs something else.
fn mirroring_of(args: Vec<String>) -> Option<mirroring::Mirroring> {
    Some(controller(args).ok()?.mirroring)
}

/// The flags of such a container as settings, for `check`.
fn settings_of(args: Vec<String>) -> Option<ControllerSettings> {
    let args = controller(args).ok()?;
    Some(ControllerSettings {
        export_gateway: args.export_gateway,
        permits_exports: args.permit_exports,
        ..args.mirroring.settings()
    })
}

/// Runs a command; `matches` is what `cli` was made of.
fn run(cli: &Cli, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    output::set_color(cli.global.color);
    if cli.global.quiet {
        output::be_quiet();
    }
    // The controller has log flags of its own.
    if cli.global.verbose && !matches!(cli.command, Command::RunController(_)) {
        output::log_requests();
    }
    let given = matches.subcommand().map_or(matches, |(_, given)| given);
    match &cli.command {
        Command::Install(args) => install::run(&cli.global, args, given)?,
        Command::Link(args) => block_on(link::run(&cli.global, args, given, mirroring_of))?,
        Command::LinkGen(args) => block_on(link_gen::run(&cli.global, args, given))?,
        Command::Fleet(args) => return block_on(fleet::run(&cli.global, args, mirroring_of)),
        Command::Plan(args) => {
            return block_on(plan::run(&cli.global, args, given, mirroring_of));
        }
        Command::RunController(args) => run_controller::run(&cli.global, args)?,
        Command::Allow(args) => allow::run(&cli.global, args)?,
        Command::Attack(args) => return block_on(attack::run(&cli.global, args)),
        Command::Trust(args) => trust::run(&cli.global, args)?,
        Command::Rotate(args) => return block_on(rotate::run(&cli.global, args)),
        Command::Drain(args) => return block_on(drain::run(&cli.global, args)),
        Command::Unlink(args) => block_on(unlink::run(&cli.global, args))?,
        Command::Uninstall(args) => block_on(uninstall::run(&cli.global, args))?,
        Command::TakeOver(args) => block_on(take_over::run(&cli.global, args, mirroring_of))?,
        Command::HandBack(args) => block_on(hand_back::run(&cli.global, args))?,
        Command::Completions(args) => completions::completions(&command(), args)?,
        Command::Man(args) => completions::man(command(), args)?,
        Command::Check(args) => return block_on(check::run(&cli.global, args, settings_of)),
        Command::Diagnose(args) => return block_on(diagnose::run(&cli.global, args)),
        Command::Gateways(args) => return block_on(gateways::run(&cli.global, args)),
        Command::Status(args) => return block_on(status::run(&cli.global, args)),
        Command::Dashboard(args) => return block_on(dashboard::run(&cli.global, args)),
        Command::Gather(args) => {
            return block_on(gather::run(&cli.global, args, settings_of));
        }
        Command::Traffic(args) => return block_on(traffic::run(&cli.global, args)),
        Command::Verify(args) => return block_on(verify::run(&cli.global, args, settings_of)),
        Command::Canary(args) => block_on(canary::run(args))?,
        Command::Version(args) => return block_on(version::run(&cli.global, args)),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn clap_accepts_the_definition_of_all_flags() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_linkerd_check_passes_is_understood() {
        let args = [
            "linkerd-multicluster",
            "check",
            "--api-addr=127.0.0.1:6443",
            "--context=east",
            "--as=somebody",
            "--as-group=[]",
            "--kubeconfig=/tmp/config",
            "--linkerd-namespace=linkerd",
            "--verbose=false",
            "--namespace=linkerd-multicluster",
            "--proxy=false",
            "--wait=5m0s",
            "--output=json",
        ];
        let cli = Cli::try_parse_from(args).unwrap();
        assert!(matches!(cli.command, Command::Check(_)));
        assert!(!cli.global.verbose);
        let access = cli.global.access();
        assert_eq!(access.context.as_deref(), Some("east"));
        assert_eq!(access.as_user.as_deref(), Some("somebody"));
        assert_eq!(access.api_addr.as_deref(), Some("127.0.0.1:6443"));
        assert_eq!(access.as_groups, [""; 0]);

        let args = [
            "linkerd-mc",
            "check",
            "--verbose",
            "--proxy",
            "--as-group=[a b]",
            "--as-group=c",
        ];
        let cli = Cli::try_parse_from(args).unwrap();
        assert!(cli.global.verbose);
        assert_eq!(cli.global.access().as_groups, ["a", "b", "c"]);
        // A value must follow `=`, so that the next argument is not taken as a value.
        let cli = Cli::try_parse_from(["linkerd-mc", "--verbose", "check"]).unwrap();
        assert!(cli.global.verbose);
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused_where_they_are_parsed() {
        let is_accepted = |line: &&str| {
            let args = std::iter::once("linkerd-mc").chain(line.split(' '));
            Cli::try_parse_from(args).is_ok()
        };
        let refused = [
            "allow --service-account-name cluster-admin",
            "allow --service-account-name west,view",
            "allow --service-account-name default",
            "allow --delete --service-account-name cluster-admin",
            "allow --delete --service-account-name edit",
            "allow --delete --service-account-name linkerd-multicluster-controller",
            "allow --delete --mode gateway --service-account-name x",
            "status --wait",
            "status shop/web/x",
            "status -A -n shop",
            "plan x --diff -o json",
            "traffic shop/web/x",
            "traffic -A -n shop",
            "traffic --interval 0s",
            "traffic --max-clients 0",
            "version --request-timeout 0s",
            "status --for GatewayAlive",
            "status --wait 0s",
            "plan x --federated-service-selector a,,",
            "run-controller --federated-service-selector a,,",
            "install --print-values -o json",
            "install --registry https://registry.example",
            "install --registry registry.example/\u{1b}",
            "link-gen --cluster-name x --api-server-address ftp://east",
            "link-gen --cluster-name x --api-server-address https://east:0",
            "link-gen --cluster-name x --api-server-address https://east:99999",
            "link-gen --cluster-name x --api-server-address https://east:-1",
            "link-gen --cluster-name x --api-server-address east:",
            "link-gen --cluster-name x --api-server-address https://east/?a=b",
            "link-gen --cluster-name x --api-server-address https://me:pw@east",
            "link-gen --cluster-name x --gateway-addresses 192.0.2.10:4143",
            "link-gen --cluster-name x --gateway-addresses 999.1.1.1",
            "link-gen --cluster-name x --gateway-addresses gw.example.com:4143",
            "link-gen --cluster-name x --gateway-addresses -gw.example.com",
            "link-gen --cluster-name x --service-account-name a/b",
            "link-gen --cluster-name x --gateway-name A",
            "link-gen --cluster-name x --exclude-labels a,b*",
            "link-gen --cluster-name x --exclude-annotations é",
            "status -L Linkerd",
            "status --api-addr ftp://x",
            "status --cluster-name East",
            "status --request-timeout 0",
            "gateways --wait 0s",
            "gateways --cluster-name East",
            "check --timeout 0s",
            "plan a/b",
            "plan x --link-file f",
            "plan x --request-timeout 0s",
        ];
        let wrong: Vec<_> = refused.into_iter().filter(is_accepted).collect();
        assert_eq!(wrong, [""; 0], "accepted");
        let accepted = [
            "allow --service-account-name west,viewer",
            "status --wait 1m --for GatewayAlive",
            "plan x --federated-service-selector a,b=c",
            "plan x --federated-service-selector=",
            "install --print-values",
            "install -o json",
            "install --registry registry.example:5000/linkerd",
            "install --registry=",
            "link-gen --cluster-name x --api-server-address https://[2001:db8::1]:6443/prefix",
            "link-gen --cluster-name x --gateway-addresses 192.0.2.1,2001:db8::1,gw.example.com,GW.example.com.",
            "link-gen --cluster-name x --gateway --gateway-addresses 192.0.2.1",
            "link-gen --cluster-name x --exclude-labels a,example.com/*,example.com/b",
            "link-gen --cluster-name x --exclude-labels=",
            "status --api-addr 127.0.0.1:6443 --cluster-name east",
            "check --wait 0s",
            "status shop/web",
            "traffic shop/web --watch --cluster-name local",
            "traffic -n shop --interval 1s -o yaml",
            "status -n shop --color never --quiet",
            "plan x --diff",
            "version --client",
        ];
        let wrong: Vec<_> = accepted
            .into_iter()
            .filter(|line| !is_accepted(line))
            .collect();
        assert_eq!(wrong, [""; 0], "refused");
    }

    #[test]
    fn namespace_of_linkerd_that_was_given_is_known() {
        for (line, is_given) in [
            ("fleet plan --file f", false),
            ("fleet plan --file f -L linkerd", true),
            ("-L mesh fleet plan --file f", true),
        ] {
            let args = std::iter::once("linkerd-mc").chain(line.split(' '));
            let (cli, _) = parse(args.map(OsString::from).collect());
            assert_eq!(cli.global.names_linkerd, is_given, "{line}");
        }
    }

    #[test]
    fn commands_that_change_clusters_are_known() {
        let writes = |line: &&str| {
            let args = std::iter::once("linkerd-mc").chain(line.split(' '));
            Cli::try_parse_from(args).unwrap().command.writes()
        };
        let all = [
            "link --target a --source b",
            "fleet apply --file f",
            "fleet credentials --file f --target a",
            "rotate --file f",
            "drain --file f a",
            "rotate a",
            "drain a",
            "drain a --end",
            "unlink a --apply",
            "take-over",
            "take-over --remove",
            "hand-back",
            "verify --target a --source b",
        ];
        let wrong: Vec<_> = all.iter().filter(|line| !writes(line)).collect();
        assert_eq!(wrong, [&""; 0], "counted as printing");
        let printing = [
            "link --target a --source b --dry-run",
            "fleet plan --file f",
            "rotate --file f --dry-run",
            "drain --file f a --dry-run",
            "rotate a --dry-run",
            "drain a --dry-run",
            "unlink a",
            "unlink a --apply --dry-run",
            "take-over --dry-run",
            "hand-back --dry-run",
            "install",
            "install --file f a",
            "status --file f",
            "check",
            "status --wait 1m",
        ];
        let wrong: Vec<_> = printing.iter().filter(|line| writes(line)).collect();
        assert_eq!(wrong, [&""; 0], "counted as writing");
    }

    #[test]
    fn combinations_that_cannot_work_are_refused() {
        for line in [
            "install --ignore-cluster --namespace linkerd",
            "install --ignore-cluster --namespace mesh -L mesh",
            "install --ignore-cluster --namespace mesh --set linkerdNamespace=mesh",
            "install --ignore-cluster --gateway-port 4191",
            "install --ignore-cluster --set gateway.probe.port=4143",
            "allow --ignore-cluster --service-account-name x -L linkerd-multicluster",
        ] {
            let args = std::iter::once("linkerd-mc").chain(line.split(' '));
            let cli = Cli::try_parse_from(args).unwrap();
            assert!(
                run(&cli, &ArgMatches::default()).is_err(),
                "accepted: {line}"
            );
        }
    }
}
