//! The checks: snapshot → results. Pure. Order, descriptions and hint anchors are `linkerd multicluster check`'s.
//!
//! Checks without a hint anchor are ours. Their advice is in the text, because `linkerd check` prints a hint as "see
//! <hint> for hints".

mod controllers;
mod links;
mod preferences;
mod proxies;
mod rule;
mod services;
mod targets;
mod topology;

use self::rule::{
    Rule,
    Severity::{Error, Warning},
    Verdict, result, rule,
};
pub(crate) use self::{
    rule::{CheckResult, Level},
    topology::evaluate_topology,
};
use crate::{api::text::lines, clusters::snapshot::FullSnapshot};

#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule("multicluster extension Namespace exists", "", Error, links::extension_installed),
    rule("Link CRD exists", "l5d-multicluster-link-crd-exists", Error, links::crd_exists),
    rule("Link CRD is up to date", "", Warning, links::crd_up_to_date),
    rule("Link resources are valid", "l5d-multicluster-links-are-valid", Error, links::valid),
    rule("cluster names keep mirrors apart", "", Warning, links::names),
    rule("Link and CLI versions match", "l5d-multicluster-links-version", Warning, links::versions),
    rule("remote cluster access credentials are valid", "l5d-smc-target-clusters-access", Error, targets::access),
    rule("remote cluster access credentials are not about to expire", "", Warning, targets::expiry),
    rule("connections to remote clusters are encrypted and verified", "", Error, targets::tls),
    rule("remote cluster access credentials permit only what is needed", "", Warning, targets::excess),
    rule("Linkerd has the credentials of each Link", "", Error, targets::destination),
    rule("Linkerd uses its current credentials", "", Warning, targets::destination_is_current),
    rule("clusters share trust anchors", "l5d-multicluster-clusters-share-anchors", Error, targets::trust_anchors),
    rule("service mirror controller has required permissions", "l5d-multicluster-source-rbac-correct", Error, controllers::permissions),
    rule("service mirror controller is restricted by admission policies", "", Warning, controllers::confined),
    rule("service mirror controllers are running", "l5d-multicluster-service-mirror-running", Error, controllers::running).retried(),
    rule("extension is managing controllers", "l5d-multicluster-managed-controllers", Warning, controllers::managed),
    rule("no other service mirror is running for a Link", "", Error, controllers::no_second),
    rule("controller and CLI versions match", "", Warning, controllers::versions),
    rule("Links are ready", "", Error, services::ready).retried(),
    rule("gateway addresses are accepted", "", Error, services::gateway_addresses),
    rule("probe services able to communicate with all gateway mirrors", "l5d-multicluster-gateways-endpoints", Error, services::gateways).retried(),
    rule("Linkerd reads EndpointSlices", "", Error, proxies::endpoint_slices),
    rule("all mirror services have endpoints", "l5d-multicluster-services-endpoints", Error, services::endpoints),
    rule("mirror services have no foreign endpoints", "", Error, services::foreign_endpoints).retried(),
    rule("all mirror services are part of a Link", "l5d-multicluster-orphaned-services", Warning, services::orphans),
    rule("mirror service names do not conflict", "", Warning, services::name_conflicts),
    rule("all exported services are mirrored", "", Warning, services::unhealthy),
    rule("Service range has room for exported services", "", Warning, services::service_range),
    rule("drained clusters have left federated services", "", Warning, services::drains).retried(),
    rule("members of federated services have equal ports", "", Warning, services::federated_ports),
    rule("preferences of federated services are applied", "", Warning, preferences::applied),
    rule("preferred clusters receive the requests to federated services", "", Warning, preferences::taken).retried(),
    rule("multicluster extension proxies are healthy", "l5d-multicluster-proxy-healthy", Warning, proxies::healthy),
    rule("multicluster extension proxies are up-to-date", "l5d-multicluster-proxy-cp-version", Warning, proxies::up_to_date),
];

/// Runs the checks, up to one whose failure makes later ones meaningless.
pub(crate) fn evaluate(snapshot: &FullSnapshot) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for rule in RULES {
        let verdict = (rule.judge)(snapshot);
        let is_last = matches!(verdict, Verdict::Stop(_));
        results.extend(result(rule, verdict));
        if is_last {
            break;
        }
    }
    results
}

/// The result of a cluster without a client.
pub(crate) fn unreachable(why: &str) -> CheckResult {
    CheckResult {
        description: RULES[0].description.to_owned(),
        level: Level::Error,
        error: lines(why),
        hint: None,
        retry: false,
    }
}

#[cfg(test)]
mod tests;
