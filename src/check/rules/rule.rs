//! One check: its verdict, severity and result. Pure.

use crate::{api::text::lines, clusters::snapshot::FullSnapshot};

/// Address of Linkerd's hints.
const HINT_BASE: &str = "https://linkerd.io/2/checks/#";
/// Maximum number of problems that a check lists; the others are counted.
const LISTED: usize = 10;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckResult {
    /// What was checked; further lines are details.
    pub description: String,
    /// The level of the result.
    pub level: Level,
    /// The problems, one per line; empty on success.
    pub error: String,
    /// Where to read about it.
    pub hint: Option<String>,
    /// Whether a retry may succeed.
    pub retry: bool,
}

/// The level of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No problem.
    Success,
    /// A possible or future problem.
    Warning,
    /// A problem.
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
    pub(super) description: &'static str,
    /// Anchor in Linkerd's documentation; empty for our own checks.
    anchor: &'static str,
    severity: Severity,
    /// Whether a retry may succeed.
    retry: bool,
    pub(super) judge: fn(&FullSnapshot) -> Verdict,
}

pub(super) const fn rule(
    description: &'static str,
    anchor: &'static str,
    severity: Severity,
    judge: fn(&FullSnapshot) -> Verdict,
) -> Rule {
    Rule {
        description,
        anchor,
        severity,
        retry: false,
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
}

/// The result of a check, if there is one.
pub(super) fn result(rule: &Rule, verdict: Verdict) -> Option<CheckResult> {
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
    Some(CheckResult {
        description: lines(&description),
        level,
        error: lines(&bounded(problems).join("\n")),
        hint: (failed && !rule.anchor.is_empty()).then(|| format!("{HINT_BASE}{}", rule.anchor)),
        retry: rule.retry && level != Level::Success,
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
