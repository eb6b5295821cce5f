//! `check`: what is wrong with linked clusters, also as `linkerd check` asks it.

use std::{ffi::OsString, path::Path, process::ExitCode, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use futures::future::join_all;
use tokio::time::Instant;

use super::{
    args::{Global, duration},
    cluster::block_on,
    fleet::{Contexts, Member, silent},
    output,
    progress::Progress,
};
use crate::{
    check::{
        facts::Survey,
        gather,
        report::{self, CATEGORY, Category},
        rules::{self, CheckResult, Level, evaluate, evaluate_fleet},
        topology::fleet,
    },
    controller::clock,
};

/// Time between attempts of checks that waiting may help.
const RETRY: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  # The current context's cluster, and the clusters that it links to
  linkerd-mc check

  # Only what is wrong, without waiting for anything
  linkerd-mc check --output short --wait 0s

  # All clusters of the kubeconfig, with a report for CI
  linkerd-mc check --all-contexts --output junit > check.xml";

/// Check that linked clusters work, and say what is wrong
///
/// Exit code 0 when all is well or there are only warnings, else 1. Installed as `linkerd-multicluster` on PATH,
/// `linkerd check` runs it too.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    contexts: Contexts,
    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// How long to wait for what may still become well, such as a controller that starts
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    wait: Duration,
    /// Time limit for each cluster to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    // The next two are what `linkerd check` passes to every extension; the original ignores them too.
    #[arg(
        long, hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true"
    )]
    proxy: bool,
    #[arg(short, long, hide = true, default_value = "")]
    namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// All checks
    Table,
    /// As table
    Basic,
    /// Only checks that fail
    Short,
    /// A JSON object, as `linkerd check -o json` has it
    Json,
    /// An XML report for CI
    Junit,
}

/// Checks. Exit code 1 when something is wrong.
pub(crate) fn run(global: &Global, args: &Check) -> anyhow::Result<ExitCode> {
    // What these say about a namespace or the data plane is nothing to this extension.
    let Check {
        proxy: _,
        namespace: _,
        ..
    } = args;
    block_on(async {
        let members = args.contexts.members(global, args.timeout).await?;
        let checked = check_all(&members, args.wait).await;
        let categories = categories(checked);
        output::data(&match args.output {
            Format::Table | Format::Basic => report::table(&categories),
            Format::Short => report::short(&categories),
            Format::Json => report::json(&categories)?,
            Format::Junit => report::junit(&categories),
        })?;
        Ok(match report::worst(&categories) {
            Level::Error => ExitCode::FAILURE,
            Level::Success | Level::Warning => ExitCode::SUCCESS,
        })
    })
}

/// A cluster, and what is wrong with it.
struct Checked {
    survey: Survey,
    results: Vec<CheckResult>,
}

/// Checks all clusters at the same time, again and again while waiting may help one of them.
async fn check_all(members: &[Member], wait: Duration) -> Vec<Checked> {
    let end = Instant::now() + wait;
    let progress = Progress::new("checking");
    let all = join_all(members.iter().map(async |member| {
        loop {
            let checked = Box::pin(check(member)).await;
            let Some(awaited) = awaited(&checked.results) else {
                return checked;
            };
            if Instant::now() + RETRY > end {
                return checked;
            }
            progress.say(&format!("waiting: {awaited}"));
            tokio::time::sleep(RETRY).await;
        }
    }));
    progress.during(all).await
}

/// What is worth waiting for: the first problem that may go away. Nothing where another error stays anyway.
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

async fn check(member: &Member) -> Checked {
    match &member.source {
        Err(why) => Checked {
            survey: silent(&member.name, why),
            results: vec![rules::unreachable(why)],
        },
        Ok(source) => {
            let facts = gather::facts(source, clock::now(), env!("CARGO_PKG_VERSION"));
            let facts = Box::pin(facts).await;
            let results = evaluate(&facts);
            Checked {
                survey: facts.survey,
                results,
            }
        }
    }
}

/// One category for one cluster, as the original has it; for several one each, and one for what they say of
/// one another.
fn categories(checked: Vec<Checked>) -> Vec<Category> {
    let many = checked.len() > 1;
    let mut surveys = Vec::new();
    let mut categories: Vec<_> = checked
        .into_iter()
        .map(|Checked { survey, results }| {
            let name = if many {
                format!("{CATEGORY}: {}", survey.name)
            } else {
                CATEGORY.to_owned()
            };
            surveys.push(survey);
            Category { name, results }
        })
        .collect();
    if many {
        let results = evaluate_fleet(&fleet(&surveys));
        if !results.is_empty() {
            let name = format!("{CATEGORY}: between clusters");
            categories.push(Category { name, results });
        }
    }
    categories
}

/// The answer to `linkerd check`, which asks every executable named `linkerd-…` on PATH who it is; `None` when
/// these arguments, the program's name first, do not ask that.
///
/// It is no command, so that neither help nor completions offer it. Those that answer `"checks": "always"` are run
/// against every cluster. We do not: like the original's extension we are run where a namespace carries the
/// extension's label, and do not fail a cluster that has no need of us.
pub(crate) fn extension_metadata(args: &[OsString]) -> Option<String> {
    let [program, question] = args else {
        return None;
    };
    if question != "_extension-metadata" {
        return None;
    }
    // The answer counts only if the name is that of the executable file.
    let name = Path::new(program).file_name().unwrap_or_default();
    Some(format!(
        "{}\n",
        serde_json::json!({ "name": name.to_string_lossy() })
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::topology::tests::surveys;

    fn result(level: Level) -> CheckResult {
        CheckResult {
            level,
            ..rules::unreachable("x")
        }
    }

    #[test]
    fn several_clusters_have_a_category_each_and_one_together() {
        let checked = |count: usize| {
            let surveys = surveys().into_iter().take(count);
            surveys
                .map(|survey| Checked {
                    survey,
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
