//! `check`: finds problems of linked clusters. `linkerd check` runs it too.

mod progress;
mod report;

use std::{cell::RefCell, ffi::OsString, path::Path, process::ExitCode, time::Duration};

use clap::{ArgAction, Args};
use futures::future::join_all;
use observe::clusters::workloads::ParseArgs;
use tokio::sync::mpsc::unbounded_channel;

use self::{
    progress::Checks,
    report::{CheckFormat, Report},
};
use super::{
    common::{
        args::{Global, duration, timeout},
        wait::Progress,
    },
    fleet::FleetContexts,
};

/// How long `linkerd check` lets an extension wait.
const EXTENSION_WAIT: Duration = Duration::from_secs(5 * 60);

const EXAMPLES: &str = "\
Examples:
  # Check the current context's cluster, and the clusters that it links to
  linkerd-mc check

  # Show only problems
  linkerd-mc check --output short

  # Wait until the controller has started, such as after an upgrade
  linkerd-mc check --wait 2m

  # Check all clusters of the kubeconfig, and write a report for CI
  linkerd-mc check --all-contexts --output junit > check.xml

  # Check all clusters of a fleet that have links
  linkerd-mc check --file fleet.yaml --output short";

/// Check linked clusters for problems
///
/// Each check is printed as soon as its result is known, and problems again at the end, with commands that fix them or
/// show their causes. Exits with 0 if there are no errors, and with 1 otherwise; warnings are not errors. If it is
/// installed on PATH as `linkerd-multicluster`, `linkerd check` runs it too.
///
/// With --file, all clusters are checked that the file links to others, and the links between them.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Check {
    #[command(flatten)]
    contexts: FleetContexts,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: CheckFormat,
    /// How long to retry checks that may pass later, such as for a controller that is starting [default: 0s, or 5m0s for
    /// `linkerd check`]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
    // `linkerd check` passes the next two flags to every extension; `linkerd multicluster check` ignores them too.
    #[arg(
        long, hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    proxy: Option<bool>,
    #[arg(short, long, hide = true)]
    namespace: Option<String>,
}

impl Check {
    /// How long to retry. `--proxy` says that `linkerd check` runs this, which has a longer default.
    fn wait(&self) -> Duration {
        // This flag means nothing to this extension.
        let Self { namespace: _, .. } = self;
        let usual = match self.proxy {
            Some(_) => EXTENSION_WAIT,
            None => Duration::ZERO,
        };
        self.wait.unwrap_or(usual)
    }
}

/// Runs the command. Exit code 1 if there are errors.
pub async fn run(global: &Global, args: &Check, parse: ParseArgs) -> anyhow::Result<ExitCode> {
    let selected = args.contexts.select(global, args.timeout).await?;
    let selected = selected.sources();
    let contexts = &selected.contexts;
    let mut report = Report::new(args.output, &selected);
    let progress = if report.is_streamed() {
        Progress::new("checking")
    } else {
        Progress::silent("checking")
    };
    let checks = Checks {
        parse,
        wait: args.wait(),
        progress: &progress,
        running: RefCell::new(vec![String::new(); contexts.len()]),
    };
    let (send, mut found) = unbounded_channel();
    let checking = async {
        let all = contexts.iter().enumerate();
        let all = all.map(|(at, context)| checks.run(at, context, send.clone()));
        let snapshots = join_all(all).await;
        drop(send);
        anyhow::Ok(snapshots)
    };
    let printing = async {
        while let Some(found) = found.recv().await {
            progress.above(|| report.take(found))?;
        }
        anyhow::Ok(())
    };
    // If nobody reads any more, there is no point in the rest.
    let both = async { futures::try_join!(checking, printing) };
    let (snapshots, ()) = progress.during(both).await?;
    report.end(&snapshots)
}

/// The answer to `linkerd check`, which runs every executable named `linkerd-…` on PATH with `_extension-metadata`.
/// `None` if `args`, which start with the program's name, are different ones.
///
/// This is not a clap command, so neither help nor completions show it. Extensions that answer `"checks": "always"` run
/// against every cluster. We do not: like `linkerd multicluster` we run if a namespace has the extension's label, and
/// do not fail on clusters that do not use the extension.
pub fn extension_metadata(args: &[OsString]) -> Option<String> {
    let [program, question] = args else {
        return None;
    };
    if question != "_extension-metadata" {
        return None;
    }
    // Linkerd accepts the answer only if the name is that of the executable file.
    let name = Path::new(program).file_name().unwrap_or_default();
    Some(format!(
        "{}\n",
        serde_json::json!({ "name": name.to_string_lossy() })
    ))
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn check_waits_only_if_asked_or_for_linkerd_check() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (line, expected) in [
            ("", minutes(0)),
            ("--wait=2m", minutes(2)),
            ("--proxy=false --namespace=x", minutes(5)),
            ("--proxy", minutes(5)),
            ("--proxy=false --wait=0s", minutes(0)),
        ] {
            let command = clap::Command::new("check").no_binary_name(true);
            let command = Global::augment_args(Check::augment_args(command));
            let line = line.split(' ').filter(|word| !word.is_empty());
            let args = command.try_get_matches_from(line).unwrap();
            assert_eq!(Check::from_arg_matches(&args).unwrap().wait(), expected);
        }
    }

    #[test]
    fn the_metadata_names_the_executable() {
        let answer = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(Into::into).collect();
            extension_metadata(&args)
        };
        assert_eq!(
            answer(&["/usr/local/bin/linkerd-multicluster", "_extension-metadata"]).as_deref(),
            Some("{\"name\":\"linkerd-multicluster\"}\n")
        );
        assert_eq!(answer(&["linkerd-mc"]), None);
        assert_eq!(answer(&["linkerd-mc", "check"]), None);
        assert_eq!(answer(&["linkerd-mc", "_extension-metadata", "x"]), None);
    }
}
