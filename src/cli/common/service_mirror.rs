//! Accepts the command line of Linkerd's service mirror: Go's flag syntax, and flags that have no effect here.
//!
//! A Deployment or a values file for Linkerd's service mirror also starts this controller. It logs a warning for each
//! ignored flag at startup, with its replacement.

use std::{ffi::OsString, net::SocketAddr};

use clap::{ArgAction, Args, Command};

/// Name of the command in the image of Linkerd's service mirror.
pub const COMMAND: &str = "service-mirror";

/// Flags and arguments of Linkerd's service mirror that have no effect here, or another name.
#[derive(Debug, Default, Args)]
pub struct ServiceMirrorFlags {
    #[arg(long, value_name = "ADDRESS", hide = true)]
    metrics_addr: Option<String>,
    #[arg(long, value_name = "N", hide = true, allow_negative_numbers = true)]
    event_requeue_limit: Option<String>,
    #[arg(long, value_name = "DURATION", hide = true)]
    endpoint_refresh_period: Option<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    probe_service: Option<String>,
    #[arg(long, value_name = "BOOL", hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_pprof: Option<String>,
    #[arg(long, value_name = "BOOL", hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    local_mirror: Option<String>,
    #[arg(value_name = "LINK", hide = true)]
    link: Option<String>,
}

impl ServiceMirrorFlags {
    /// The address in `--metrics-addr`, if it is `IP:PORT`, or `:PORT` for all addresses.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        let text = self.metrics_addr.as_deref()?;
        match text.strip_prefix(':') {
            Some(port) => Some(([0, 0, 0, 0], port.parse().ok()?).into()),
            None => text.parse().ok(),
        }
    }

    /// A warning for each flag and argument that is given, with its replacement.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(address) = &self.metrics_addr {
            warnings.push(match self.admin_addr() {
                Some(_) => "--metrics-addr is deprecated: use --admin-addr".to_owned(),
                None => format!(
                    "--metrics-addr {address:?} is ignored: it must be IP:PORT or :PORT; use --admin-addr"
                ),
            });
        }
        for (given, text) in [
            (
                self.event_requeue_limit.is_some(),
                "--event-requeue-limit is ignored: failures are retried until they succeed, with backoff of up to a minute",
            ),
            (
                self.endpoint_refresh_period.is_some(),
                "--endpoint-refresh-period is ignored: endpoints are updated when a gateway's address or state changes",
            ),
            (
                self.probe_service.is_some(),
                "--probe-service is ignored: the controller creates the probe Service of each Link, probe-<link>",
            ),
            (
                self.enable_pprof.is_some(),
                "--enable-pprof is ignored: profiling is not supported; see /metrics for CPU time, memory and durations",
            ),
            (
                self.local_mirror.is_some(),
                "--local-mirror is ignored: this controller handles local members too; turn that off with --no-local-federation",
            ),
        ] {
            if given {
                warnings.push(text.to_owned());
            }
        }
        if let Some(link) = &self.link {
            warnings.push(format!(
                "the argument {link:?} is ignored: one controller serves all Links of its namespace"
            ));
        }
        warnings
    }
}

/// Gives the long flags of `run-controller` two dashes, because Go accepts one as well: `-namespace=ns`. Command lines
/// of other commands stay as they are.
pub fn with_two_dashes(args: Vec<OsString>, command: fn() -> Command) -> Vec<OsString> {
    let is_controller = |arg: &OsString| arg == "run-controller" || arg == COMMAND;
    let Some(at) = args.iter().position(is_controller) else {
        return args;
    };
    let mut command = command();
    command.build();
    let known: Vec<&str> = command
        .find_subcommand("run-controller")
        .into_iter()
        .flat_map(Command::get_arguments)
        .flat_map(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long().into_iter().chain(aliases)
        })
        .collect();
    let with_two_dashes = |arg: OsString| {
        let name = arg
            .to_str()
            .and_then(|text| text.strip_prefix('-'))
            .and_then(|text| text.split('=').next());
        if name.is_some_and(|name| known.contains(&name)) {
            let mut long = OsString::from("-");
            long.push(arg);
            long
        } else {
            arg
        }
    };
    args.into_iter()
        .enumerate()
        .map(|(index, arg)| {
            if index > at {
                with_two_dashes(arg)
            } else {
                arg
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn warnings(flags: &[&str]) -> Vec<String> {
        let args = [&["run-controller"], flags].concat();
        let controller = crate::cli::controller(args.iter().map(|arg| (*arg).to_owned()));
        controller.unwrap().service_mirror.warnings()
    }

    #[test]
    fn flags_of_linkerds_service_mirror_are_accepted_with_a_warning() {
        for (flags, replaced) in [
            (&["-metrics-addr=:9999"][..], "--admin-addr"),
            (&["--metrics-addr", "localhost:9999"], "--admin-addr"),
            (&["-event-requeue-limit=3"], "retried until they succeed"),
            (
                &["-event-requeue-limit", "-1"],
                "retried until they succeed",
            ),
            (
                &["--event-requeue-limit", "3"],
                "retried until they succeed",
            ),
            (&["-endpoint-refresh-period", "1m0s"], "changes"),
            (&["--probe-service=probe-east"], "probe-<link>"),
            (&["-enable-pprof"], "/metrics"),
            (&["-enable-pprof=false"], "/metrics"),
            (&["-local-mirror"], "--no-local-federation"),
            (&["east"], "all Links"),
        ] {
            let said = warnings(flags);
            assert_eq!(said.len(), 1, "{flags:?}: {said:?}");
            assert!(said[0].contains(replaced), "{flags:?}: {said:?}");
        }
        for flags in [
            &["-namespace=ns", "-log-level", "info", "-log-format=plain"][..],
            &[
                "-enable-headless-services",
                "-enable-namespace-creation=true",
            ],
            &["-excluded-labels=", "-excluded-annotations=a,b"],
            &["-kubeconfig=/nowhere", "-admin-addr=127.0.0.1:1"],
        ] {
            assert_eq!(warnings(flags), [""; 0], "{flags:?}");
        }
    }

    #[test]
    fn metrics_addr_of_linkerds_service_mirror_is_used() {
        for (text, address) in [
            (":9990", Some("0.0.0.0:9990")),
            ("127.0.0.1:1", Some("127.0.0.1:1")),
            ("[::]:9999", Some("[::]:9999")),
            ("localhost:9999", None),
            (":http", None),
            ("9999", None),
            ("", None),
        ] {
            let flags = ServiceMirrorFlags {
                metrics_addr: Some(text.to_owned()),
                ..ServiceMirrorFlags::default()
            };
            assert_eq!(
                flags.admin_addr(),
                address.map(|address| address.parse().unwrap()),
                "{text}"
            );
        }
    }

    #[test]
    fn only_long_flags_of_the_controller_get_a_second_dash() {
        let translated = |args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            let words = with_two_dashes(args, Cli::command).into_iter();
            words
                .map(|word| word.into_string().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (given, expected) in [
            (
                "mc service-mirror -namespace=a -probe-service b c",
                "mc service-mirror --namespace=a --probe-service b c",
            ),
            (
                "mc run-controller -L linkerd -context=west -exclude-labels=a",
                "mc run-controller -L linkerd --context=west --exclude-labels=a",
            ),
            (
                "mc run-controller -Lns -h -nonsense",
                "mc run-controller -Lns -h -nonsense",
            ),
            ("mc check -namespace=a", "mc check -namespace=a"),
        ] {
            let given: Vec<&str> = given.split(' ').collect();
            assert_eq!(translated(&given), expected);
        }
    }
}
