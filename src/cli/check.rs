//! `check`: finds problems of linked clusters. `linkerd check` runs it too.

use std::{convert::Infallible, ffi::OsString, path::Path, process::ExitCode, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use futures::future::join_all;

use super::common::{
    args::{Global, duration, timeout},
    contexts::Contexts,
    output,
    wait::{Progress, poll},
};
use crate::{
    check::{
        report::{self, CATEGORY, Category},
        rules::{self, CheckResult, Level, evaluate, evaluate_topology},
    },
    clusters::{
        cluster_client::KubeContext, collect_full, snapshot::ClusterSnapshot, topology::Topology,
        workloads::ParseArgs,
    },
    timing,
};

/// Interval of retries.
const RETRY: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  # Check the current context's cluster, and the clusters that it links to
  linkerd-mc check

  # Show only problems, without waiting
  linkerd-mc check --output short --wait 0s

  # Check all clusters of the kubeconfig, and write a report for CI
  linkerd-mc check --all-contexts --output junit > check.xml";

/// Check linked clusters for problems
///
/// Exits with 0 if there are no errors, and with 1 otherwise; warnings are not errors. If it is installed on PATH as
/// `linkerd-multicluster`, `linkerd check` runs it too.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    contexts: Contexts,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: CheckFormat,
    /// How long to retry checks that may pass later, such as for a controller that is starting
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    wait: Duration,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
    // `linkerd check` passes the next two flags to every extension; `linkerd multicluster check` ignores them too.
    #[arg(
        long, hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true"
    )]
    proxy: bool,
    #[arg(short, long, hide = true, default_value = "")]
    namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// All checks
    Table,
    /// Same as table
    Basic,
    /// Only checks that fail
    Short,
    /// JSON in the format of `linkerd check -o json`
    Json,
    /// An XML report for CI
    Junit,
}

/// Runs the command. Exit code 1 if there are errors.
pub(crate) async fn run(
    global: &Global,
    args: &Check,
    parse: ParseArgs,
) -> anyhow::Result<ExitCode> {
    // These flags mean nothing to this extension.
    let Check {
        proxy: _,
        namespace: _,
        ..
    } = args;
    let contexts = args.contexts.select(global, args.timeout).await?;
    let checked = check_all(&contexts, args.wait, parse).await;
    let categories = categories(checked);
    output::data(&match args.output {
        CheckFormat::Table | CheckFormat::Basic => report::table(&categories),
        CheckFormat::Short => report::short(&categories),
        CheckFormat::Json => report::json(&categories)?,
        CheckFormat::Junit => report::junit(&categories),
    })?;
    let worst = report::worst(&categories);
    Ok(output::exit_code(worst == Level::Error))
}

/// A cluster, and the results of its checks.
struct Checked {
    snapshot: ClusterSnapshot,
    results: Vec<CheckResult>,
}

/// Checks all clusters concurrently. Repeats the checks of a cluster while they may still pass.
async fn check_all(contexts: &[KubeContext], wait: Duration, parse: ParseArgs) -> Vec<Checked> {
    let progress = Progress::new("checking");
    let all = join_all(contexts.iter().map(async |context| {
        let attempt = async || {
            let checked = Box::pin(check(context, parse)).await;
            Ok::<_, Infallible>(match awaited(&checked.results).map(str::to_owned) {
                Some(awaited) => Err((checked, awaited)),
                None => Ok(checked),
            })
        };
        let waits = |(_, awaited): &(_, String)| progress.say(&format!("waiting: {awaited}"));
        let Ok(Ok(checked) | Err((checked, _))) = poll(RETRY, wait, attempt, waits).await;
        checked
    }));
    progress.during(all).await
}

/// The first error that may go away. `None` if there is another error that will not.
fn awaited(results: &[CheckResult]) -> Option<&str> {
    if results
        .iter()
        .any(|result| result.level == Level::Error && !result.retry)
    {
        return None;
    }
    // A warning does not change the outcome.
    let first = results
        .iter()
        .find(|result| result.retry && result.level == Level::Error)?;
    Some(first.error.lines().next().unwrap_or_default())
}

async fn check(context: &KubeContext, parse: ParseArgs) -> Checked {
    match &context.client {
        Err(why) => Checked {
            snapshot: ClusterSnapshot::unreachable(&context.name, why),
            results: vec![rules::unreachable(why)],
        },
        Ok(cluster) => {
            let version = env!("CARGO_PKG_VERSION");
            let snapshot = collect_full::full_snapshot_of(cluster, timing::now(), version, parse);
            let snapshot = Box::pin(snapshot).await;
            let results = evaluate(&snapshot);
            Checked {
                snapshot: snapshot.cluster,
                results,
            }
        }
    }
}

/// One category if there is one cluster, as in `linkerd multicluster check`. With several clusters one for each, and
/// one for the Links between them.
fn categories(checked: Vec<Checked>) -> Vec<Category> {
    let many = checked.len() > 1;
    let mut snapshots = Vec::new();
    let mut categories: Vec<_> = checked
        .into_iter()
        .map(|Checked { snapshot, results }| {
            let name = if many {
                format!("{CATEGORY}: {}", snapshot.name)
            } else {
                CATEGORY.to_owned()
            };
            snapshots.push(snapshot);
            Category { name, results }
        })
        .collect();
    if many {
        let results = evaluate_topology(&Topology::of(&snapshots));
        if !results.is_empty() {
            let name = format!("{CATEGORY}: between clusters");
            categories.push(Category { name, results });
        }
    }
    categories
}

/// The answer to `linkerd check`, which runs every executable named `linkerd-…` on PATH with `_extension-metadata`.
/// `None` if `args`, which start with the program's name, are different ones.
///
/// This is not a clap command, so neither help nor completions show it. Extensions that answer `"checks": "always"` run
/// against every cluster. We do not: like `linkerd multicluster` we run if a namespace has the extension's label, and
/// do not fail on clusters that do not use the extension.
pub(crate) fn extension_metadata(args: &[OsString]) -> Option<String> {
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
    use super::*;
    use crate::clusters::topology::tests::snapshots;

    fn result(level: Level) -> CheckResult {
        CheckResult {
            level,
            ..rules::unreachable("x")
        }
    }

    #[test]
    fn several_clusters_have_a_category_each_and_one_together() {
        let checked = |count: usize| {
            let snapshots = snapshots().into_iter().take(count);
            snapshots
                .map(|snapshot| Checked {
                    snapshot,
                    results: vec![result(Level::Success)],
                })
                .collect()
        };
        let names = |count| -> Vec<String> {
            categories(checked(count))
                .into_iter()
                .map(|category| category.name)
                .collect()
        };
        assert_eq!(names(1), ["linkerd-multicluster"]);
        assert_eq!(
            names(2),
            [
                "linkerd-multicluster: east",
                "linkerd-multicluster: west",
                "linkerd-multicluster: between clusters"
            ]
        );
    }

    #[test]
    fn only_what_decides_the_outcome_is_waited_for() {
        let of = |level, retry, error: &str| CheckResult {
            level,
            retry,
            error: error.into(),
            ..rules::unreachable("")
        };
        let (well, starting) = (
            of(Level::Success, false, ""),
            of(Level::Error, true, "0/1\nmore"),
        );
        let (unmeshed, broken) = (
            of(Level::Warning, true, "no proxy"),
            of(Level::Error, false, "no"),
        );
        for (results, expected) in [
            (vec![well.clone()], None),
            (vec![well.clone(), starting.clone()], Some("0/1")),
            (vec![well, unmeshed], None),
            (vec![starting, broken], None),
        ] {
            assert_eq!(awaited(&results), expected);
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
