//! One check: its verdict, severity and result. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::topic::Topic;
use crate::{
    api::{metadata::ResourceId, text::lines},
    clusters::snapshot::{FullSnapshot, LinkSnapshot},
};

/// Address of Linkerd's hints.
const HINT_BASE: &str = "https://linkerd.io/2/checks/#";
/// Maximum number of problems that a check lists; the others are counted.
const LISTED: usize = 10;
/// How to install the extension again. It is no command to paste: one that lacks the values of the installation would
/// reset them.
pub(super) const INSTALL_AGAIN: &str =
    "apply the output of `install` again, with your values (docs/upgrade.md)";
/// How a problem ends that is not known, because what it needs was refused.
pub(super) const NOT_CHECKED: &str = "not checked; see the check of its credentials";
/// The programs of commands that a text may name as a remedy.
const PROGRAMS: [&str; 3] = ["linkerd-mc ", "kubectl ", "linkerd "];

/// The result of one check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckResult {
    /// Its place among all checks of a cluster.
    pub rank: usize,
    /// What was checked; further lines are details.
    pub description: String,
    /// The level of the result.
    pub level: Level,
    /// The problems, one per line; empty on success.
    pub error: String,
    /// Where to read about it.
    pub hint: Option<String>,
    /// Commands that fix the problems, or show their causes.
    pub fixes: Vec<Fix>,
    /// Whether a retry may succeed.
    pub retry: bool,
}

/// A command that fixes a problem, or shows its cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fix {
    /// The target cluster in which it has to be run, if it is not the cluster of the Link.
    pub cluster: Option<String>,
    /// The command, without flags for the context.
    pub command: String,
}

/// The level of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No problem.
    Success,
    /// A possible or future problem.
    Warning,
    /// A problem.
    #[default]
    Error,
}

/// What a rule has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No problem.
    Pass,
    /// No problem, and this was checked.
    PassWith(Vec<String>),
    /// Nothing to check: no result.
    Skip,
    /// Unknown, or a problem that is only a warning.
    Warn(Vec<String>),
    /// Problems.
    Fail(Vec<String>),
    /// A problem that makes later checks meaningless.
    Stop(String),
}

impl Verdict {
    /// A failure if there are problems.
    pub(super) fn of(problems: Vec<String>) -> Self {
        if problems.is_empty() {
            Self::Pass
        } else {
            Self::Fail(problems)
        }
    }

    pub(super) fn fail(problem: impl Into<String>) -> Self {
        Self::Fail(vec![problem.into()])
    }

    pub(super) fn stop(problem: impl Into<String>) -> Self {
        Self::Stop(problem.into())
    }

    pub(super) fn warn(problem: impl Into<String>) -> Self {
        Self::Warn(vec![problem.into()])
    }

    /// The verdict on a status that no controller has updated since `time`.
    pub(super) fn of_old_status(self, time: Timestamp) -> Self {
        let time = time.strftime("%Y-%m-%d %H:%M:%S UTC");
        let old = format!("old: no controller has reported since {time}");
        match self {
            Self::Pass | Self::PassWith(_) => Self::Warn(vec![old]),
            Self::Warn(problems) => Self::Warn([problems, vec![old]].concat()),
            Self::Fail(problems) => Self::Fail([problems, vec![old]].concat()),
            Self::Skip | Self::Stop(_) => self,
        }
    }
}

/// The severity of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// A problem.
    Error,
    /// A possible problem.
    Warning,
}

/// One check.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) topic: Topic,
    pub(super) description: &'static str,
    /// Anchor in Linkerd's documentation; empty for our own checks.
    anchor: &'static str,
    severity: Severity,
    /// Whether a retry may succeed.
    retry: bool,
    /// Whether it judges what the controller has reported.
    pub(super) is_reported: bool,
    /// The remedy of problems that name none: a command, in which `{cluster}` stands for the target cluster. With
    /// `@{cluster} ` at its beginning, the command is for that cluster.
    fix: &'static str,
    /// A Service whose requests concern a problem, for `diagnose`.
    example: fn(&FullSnapshot) -> Option<ResourceId>,
    pub(super) judge: fn(&FullSnapshot) -> Verdict,
}

pub(super) const fn rule(
    topic: Topic,
    description: &'static str,
    anchor: &'static str,
    severity: Severity,
    judge: fn(&FullSnapshot) -> Verdict,
) -> Rule {
    Rule {
        topic,
        description,
        anchor,
        severity,
        retry: false,
        is_reported: false,
        fix: "",
        example: |_| None,
        judge,
    }
}

impl Rule {
    pub(super) const fn retried(self) -> Self {
        Self {
            retry: true,
            ..self
        }
    }

    pub(super) const fn reported(self) -> Self {
        Self {
            is_reported: true,
            ..self
        }
    }

    pub(super) const fn fixed_by(self, fix: &'static str) -> Self {
        Self { fix, ..self }
    }

    /// If the check fails, `diagnose` of this Service is among the remedies.
    pub(super) const fn diagnosed_by(
        self,
        example: fn(&FullSnapshot) -> Option<ResourceId>,
    ) -> Self {
        Self { example, ..self }
    }
}

/// The result of a check, if there is one.
pub(super) fn result(
    rank: usize,
    rule: &Rule,
    verdict: Verdict,
    snapshot: &FullSnapshot,
) -> Option<CheckResult> {
    let clusters = snapshot.links().iter().map(LinkSnapshot::cluster);
    let mut result = outcome(rule, verdict, &clusters.collect())?;
    result.rank = rank;
    if result.level != Level::Success
        && let Some(service) = (rule.example)(snapshot)
    {
        let ResourceId { namespace, name } = &service;
        result.fixes.push(Fix {
            cluster: None,
            command: format!("linkerd-mc diagnose {namespace}/{name}"),
        });
    }
    Some(result)
}

/// The result of a check, without its rank. Problems may begin with the names of `clusters`. `topology` uses it for
/// checks of several snapshots.
pub(super) fn outcome(
    rule: &Rule,
    verdict: Verdict,
    clusters: &BTreeSet<&str>,
) -> Option<CheckResult> {
    let (level, details, problems) = match verdict {
        Verdict::Skip => return None,
        Verdict::Pass => (Level::Success, vec![], vec![]),
        Verdict::PassWith(details) => (Level::Success, details, vec![]),
        Verdict::Warn(problems) => (Level::Warning, vec![], problems),
        Verdict::Fail(problems) if rule.severity == Severity::Warning => {
            (Level::Warning, vec![], problems)
        }
        Verdict::Fail(problems) => (Level::Error, vec![], problems),
        Verdict::Stop(problem) => (Level::Error, vec![], vec![problem]),
    };
    let mut description = rule.description.to_owned();
    for detail in bounded(details) {
        description.push_str("\n\t* ");
        description.push_str(&detail);
    }
    let failed = level != Level::Success;
    // The mirror and the federated Service of one Service may have the same problem.
    let mut seen = BTreeSet::new();
    let mut problems = problems;
    problems.retain(|problem| seen.insert(problem.clone()));
    let fixes = fixes(rule.fix, &problems, clusters);
    Some(CheckResult {
        rank: 0,
        description: lines(&description),
        level,
        error: lines(&bounded(problems).join("\n")),
        hint: (failed && !rule.anchor.is_empty()).then(|| format!("{HINT_BASE}{}", rule.anchor)),
        fixes,
        retry: rule.retry && failed,
    })
}

/// The remedies of problems, each once: the commands that they name, or else that of the check. What was not checked has
/// none.
fn fixes(usual: &str, problems: &[String], clusters: &BTreeSet<&str>) -> Vec<Fix> {
    let mut fixes = Vec::new();
    let checked = |problem: &&String| !problem.ends_with(NOT_CHECKED);
    for problem in problems.iter().take(LISTED).filter(checked) {
        let mut named = named(problem).peekable();
        if named.peek().is_none() && !usual.is_empty() {
            fixes.extend(usual_fix(usual, problem, clusters));
        }
        fixes.extend(named);
    }
    let mut seen = BTreeSet::new();
    fixes.retain(|fix| seen.insert(fix.clone()));
    fixes
}

/// The commands between backticks in a problem.
fn named(problem: &str) -> impl Iterator<Item = Fix> {
    let quoted = problem.split('`').skip(1).step_by(2);
    let commands = quoted.filter(|text| PROGRAMS.iter().any(|program| text.starts_with(program)));
    commands.map(|command| Fix {
        cluster: None,
        command: command.to_owned(),
    })
}

/// The usual remedy of a check. A problem of a target cluster begins with its name.
fn usual_fix(usual: &str, problem: &str, clusters: &BTreeSet<&str>) -> Option<Fix> {
    let named = problem.split_once(": ").map(|(name, _)| name);
    let cluster = named.filter(|name| clusters.contains(name));
    if usual.contains("{cluster}") && cluster.is_none() {
        return None;
    }
    let command = usual.replace("{cluster}", cluster.unwrap_or_default());
    Some(
        match command
            .strip_prefix('@')
            .and_then(|rest| rest.split_once(' '))
        {
            Some((cluster, command)) => Fix {
                cluster: Some(cluster.to_owned()),
                command: command.to_owned(),
            },
            None => Fix {
                cluster: None,
                command,
            },
        },
    )
}

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LISTED {
        let more = lines.len() - LISTED;
        lines.truncate(LISTED);
        lines.push(format!("… and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_is_the_command_of_the_problem_or_that_of_the_check() {
        let clusters = BTreeSet::from(["east", "north"]);
        for (usual, problems, expected) in [
            ("", &["east: broken"][..], &[][..]),
            (
                "kubectl get x",
                &["broken", "broken too"],
                &["kubectl get x"],
            ),
            (
                "kubectl get x",
                &["east: run `linkerd-mc rotate --cluster-name east`, not `me`"],
                &["linkerd-mc rotate --cluster-name east"],
            ),
            (
                "linkerd-mc status --cluster-name {cluster}",
                &["east: a", "east: b", "north: c", "Service x: d"],
                &[
                    "linkerd-mc status --cluster-name east",
                    "linkerd-mc status --cluster-name north",
                ],
            ),
            (
                "@{cluster} kubectl get y",
                &["east: a", &format!("north: {NOT_CHECKED}")],
                &["in east: kubectl get y"],
            ),
        ] {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let found = fixes(usual, &problems, &clusters).into_iter();
            let found = found.map(|fix| match fix.cluster {
                Some(cluster) => format!("in {cluster}: {}", fix.command),
                None => fix.command,
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{problems:?}");
        }
    }

    #[test]
    fn problem_of_a_mirror_and_of_a_federated_service_is_listed_once() {
        let rule = rule(Topic::Services, "all is well", "", Severity::Error, |_| {
            Verdict::Pass
        });
        let problems = [
            "east: shop/web: no",
            "east: shop/api: no",
            "east: shop/web: no",
        ];
        let verdict = Verdict::Fail(problems.map(str::to_owned).to_vec());
        let result = outcome(&rule, verdict, &BTreeSet::new()).unwrap();
        assert_eq!(
            result.error,
            lines("east: shop/web: no\neast: shop/api: no")
        );
    }
}
