//! One check: what it finds, what that means, and what is told of it. Pure.

use crate::check::{facts::Facts, printable};

/// Where the original's hints are.
const HINT_BASE: &str = "https://linkerd.io/2/checks/#";
/// Problems that one check lists; the others are counted.
const LISTED: usize = 10;

/// What became of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// What was checked; further lines are details.
    pub description: String,
    /// How it went.
    pub level: Level,
    /// What is wrong, lines; empty on success.
    pub error: String,
    /// Where to read about it.
    pub hint: Option<String>,
    /// Whether it may get better by waiting.
    pub retry: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is well.
    Success,
    /// Something will or may go wrong.
    Warning,
    /// Something is wrong.
    Error,
}

/// What a rule finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All is well.
    Pass,
    /// All is well, and this is what was looked at.
    PassWith(Vec<String>),
    /// There is nothing to look at: no result.
    Skip,
    /// It cannot be told whether all is well, or it is and yet should be otherwise.
    Warn(Vec<String>),
    /// These things are wrong.
    Fail(Vec<String>),
    /// This is wrong, and no later check makes sense.
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

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Something is wrong.
    Error,
    /// Something may go wrong.
    Warning,
}

/// One check.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) description: &'static str,
    /// Place in the original's documentation; empty on checks of ours.
    anchor: &'static str,
    severity: Severity,
    /// Whether waiting may help.
    retry: bool,
    pub(super) judge: fn(&Facts) -> Verdict,
}

pub(super) const fn rule(
    description: &'static str,
    anchor: &'static str,
    severity: Severity,
    judge: fn(&Facts) -> Verdict,
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

/// What became of a check, if there is a result.
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
        description: printable(&description),
        level,
        error: printable(&bounded(problems).join("\n")),
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
