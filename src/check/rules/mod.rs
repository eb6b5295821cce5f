//! The checks: facts → results. Pure, in the original's order, with its descriptions and hint anchors.
//!
//! Checks without a hint anchor are ours. What they advise stands in their text, because `linkerd check`
//! prints a hint as "see <hint> for hints".

mod controllers;
mod fleet;
mod links;
mod preferences;
mod proxies;
mod remote;
mod services;

pub use self::fleet::evaluate_fleet;
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
enum Verdict {
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
    fn of(problems: Vec<String>) -> Self {
        if problems.is_empty() {
            Self::Pass
        } else {
            Self::Fail(problems)
        }
    }

    fn fail(problem: impl Into<String>) -> Self {
        Self::Fail(vec![problem.into()])
    }

    fn stop(problem: impl Into<String>) -> Self {
        Self::Stop(problem.into())
    }

    fn warn(problem: impl Into<String>) -> Self {
        Self::Warn(vec![problem.into()])
    }
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// Something is wrong.
    Error,
    /// Something may go wrong.
    Warning,
}

/// One check.
#[derive(Clone, Copy)]
struct Rule {
    description: &'static str,
    /// Place in the original's documentation; empty on checks of ours.
    anchor: &'static str,
    severity: Severity,
    /// Whether waiting may help.
    retry: bool,
    judge: fn(&Facts) -> Verdict,
}

const fn rule(
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
    const fn retried(self) -> Self {
        Self {
            retry: true,
            ..self
        }
    }
}

use Severity::{Error, Warning};

#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule("multicluster extension Namespace exists", "", Error, links::extension_installed),
    rule("Link CRD exists", "l5d-multicluster-link-crd-exists", Error, links::crd_exists),
    rule("Link CRD is up to date", "", Warning, links::crd_up_to_date),
    rule("Link resources are valid", "l5d-multicluster-links-are-valid", Error, links::valid),
    rule("Link and CLI versions match", "l5d-multicluster-links-version", Warning, links::versions),
    rule("remote cluster access credentials are valid", "l5d-smc-target-clusters-access", Error, remote::access),
    rule("remote cluster access credentials are not about to expire", "", Warning, remote::expiry),
    rule("connections to remote clusters are encrypted and verified", "", Error, remote::tls),
    rule("remote cluster access credentials permit only what is needed", "", Warning, remote::excess),
    rule("Linkerd has the credentials of each Link", "", Error, remote::destination),
    rule("Linkerd uses the credentials that it has", "", Warning, remote::destination_is_current),
    rule("clusters share trust anchors", "l5d-multicluster-clusters-share-anchors", Error, remote::trust_anchors),
    rule("service mirror controller has required permissions", "l5d-multicluster-source-rbac-correct", Error, controllers::permissions),
    rule("service mirror controller is held to what it does", "", Warning, controllers::confined),
    rule("service mirror controllers are running", "l5d-multicluster-service-mirror-running", Error, controllers::running).retried(),
    rule("extension is managing controllers", "l5d-multicluster-managed-controllers", Warning, controllers::managed),
    rule("no second service mirror is running for a Link", "", Error, controllers::no_second),
    rule("controller and CLI versions match", "", Warning, controllers::versions),
    rule("Links are ready", "", Error, services::ready).retried(),
    rule("addresses of gateways are used", "", Error, services::gateway_addresses),
    rule("probe services able to communicate with all gateway mirrors", "l5d-multicluster-gateways-endpoints", Error, services::gateways).retried(),
    rule("Linkerd reads EndpointSlices", "", Error, proxies::endpoint_slices),
    rule("all mirror services have endpoints", "l5d-multicluster-services-endpoints", Error, services::endpoints),
    rule("no mirror service has endpoints of others", "", Error, services::foreign_endpoints).retried(),
    rule("all mirror services are part of a Link", "l5d-multicluster-orphaned-services", Warning, services::orphans),
    rule("no mirror service's name is taken", "", Warning, services::name_conflicts),
    rule("all exported services are mirrored", "", Warning, services::unhealthy),
    rule("exported services fit the Service range", "", Warning, services::service_range),
    rule("clusters that are drained have left federated services", "", Warning, services::drains).retried(),
    rule("members of federated services have equal ports", "", Warning, services::federated_ports),
    rule("preferences of federated services are heeded", "", Warning, preferences::heeded),
    rule("preferred clusters take the requests to federated services", "", Warning, preferences::taken).retried(),
    rule("multicluster extension proxies are healthy", "l5d-multicluster-proxy-healthy", Warning, proxies::healthy),
    rule("multicluster extension proxies are up-to-date", "l5d-multicluster-proxy-cp-version", Warning, proxies::up_to_date),
];

/// Runs the checks, up to one after which no later one makes sense.
pub fn evaluate(facts: &Facts) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for rule in RULES {
        let verdict = (rule.judge)(facts);
        let is_last = matches!(verdict, Verdict::Stop(_));
        results.extend(result(rule, verdict));
        if is_last {
            break;
        }
    }
    results
}

/// The result of a cluster for which there is not even a client.
pub fn unreachable(why: &str) -> CheckResult {
    CheckResult {
        description: RULES[0].description.to_owned(),
        level: Level::Error,
        error: printable(why),
        hint: None,
        retry: false,
    }
}

fn result(rule: &Rule, verdict: Verdict) -> Option<CheckResult> {
    let (level, details, problems) = match verdict {
        Verdict::Skip => return None,
        Verdict::Pass => (Level::Success, vec![], vec![]),
        Verdict::PassWith(details) => (Level::Success, details, vec![]),
        Verdict::Warn(problems) => (Level::Warning, vec![], problems),
        Verdict::Fail(problems) if rule.severity == Warning => (Level::Warning, vec![], problems),
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

#[cfg(test)]
mod tests;
