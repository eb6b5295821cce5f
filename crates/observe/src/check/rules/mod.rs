//! The checks: snapshot → results. Pure. Order, descriptions and hint anchors are `linkerd multicluster check`'s.
//!
//! Checks without a hint anchor are ours. Their advice is in the text, because `linkerd check` prints a hint as "see
//! <hint> for hints".

mod authorities;
mod certificates;
mod controllers;
mod examples;
mod gateway;
mod identities;
mod links;
mod networks;
mod preferences;
mod proxies;
mod rule;
mod services;
mod targets;
mod topic;
mod topology;

use jiff::Timestamp;

pub use self::{rule::CheckResult, topic::Topic, topology::evaluate_topology};
use self::{
    rule::{Rule, Verdict, result, rule},
    topic::Topic::{
        Controller, Credentials, Gateways, Installation, Links, Proxies, Services, Targets,
    },
};
use crate::{
    clusters::snapshot::{FullSnapshot, ReadError},
    finding::Level::{self, Error, Warning},
};

#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule(Installation, "multicluster extension Namespace exists", "", Error, links::extension_installed),
    rule(Installation, "Link CRD exists", "l5d-multicluster-link-crd-exists", Error, links::crd_exists),
    rule(Installation, "Link CRD is up to date", "", Warning, links::crd_up_to_date),
    rule(Installation, "Link resources are valid", "l5d-multicluster-links-are-valid", Error, links::valid),
    rule(Installation, "cluster names keep mirrors apart", "", Warning, links::names),
    rule(Installation, "Link and CLI versions match", "l5d-multicluster-links-version", Warning, links::versions).fixed_by("linkerd-mc version"),
    rule(Installation, "this machine's clock agrees with that of the API server", "", Warning, links::clock),
    rule(Targets, "remote cluster access credentials are valid", "l5d-smc-target-clusters-access", Error, targets::access).fixed_in_target_by("kubectl get --raw /readyz"),
    rule(Credentials, "remote cluster access credentials are not about to expire", "", Warning, targets::expiry),
    rule(Credentials, "remote cluster access credentials expire some day", "", Warning, targets::endless),
    rule(Credentials, "connections to remote clusters are encrypted and verified", "", Error, targets::tls),
    rule(Credentials, "API servers behind gateways have CAs of their own", "", Warning, authorities::apart),
    rule(Targets, "remote cluster access credentials permit only what is needed", "", Warning, targets::excess),
    rule(Credentials, "Linkerd has the credentials of each Link", "", Error, targets::destination),
    rule(Credentials, "Linkerd's credentials lead to the API server of each Link", "", Warning, targets::destination_way),
    rule(Credentials, "Linkerd uses its current credentials", "", Warning, targets::destination_is_current),
    rule(Credentials, "Linkerd's destination controller can be restarted", "", Warning, controllers::destination_restart),
    rule(Targets, "clusters share trust anchors", "l5d-multicluster-clusters-share-anchors", Error, targets::trust_anchors).fixed_in_target_by("kubectl get configmaps --all-namespaces --field-selector metadata.name=linkerd-identity-trust-roots --output yaml"),
    rule(Targets, "trust anchors are not about to end", "", Error, certificates::anchors).fixed_by("linkerd check"),
    rule(Credentials, "Linkerd's issuer certificate is not about to end", "", Error, certificates::issuer).fixed_by("linkerd check"),
    rule(Credentials, "Linkerd's issuer signs only names of this cluster", "", Error, identities::issuer_names),
    rule(Targets, "trust domains of linked clusters are known", "", Warning, identities::trust_domains),
    rule(Proxies, "proxies renew their certificates", "", Error, certificates::of_proxies).fixed_by("kubectl get pods --all-namespaces --selector linkerd.io/control-plane-component=identity"),
    rule(Targets, "clocks of clusters agree", "", Warning, certificates::clocks),
    rule(Targets, "Pod networks do not overlap", "", Error, networks::pod_networks),
    rule(Targets, "domains of target clusters are right", "", Error, targets::domains),
    rule(Controller, "service mirror controller has required permissions", "l5d-multicluster-source-rbac-correct", Error, controllers::permissions),
    rule(Controller, "service mirror controller is restricted by admission policies", "", Warning, controllers::confined),
    rule(Controller, "service mirror controllers are running", "l5d-multicluster-service-mirror-running", Error, controllers::running).retried().fixed_by("kubectl get pods --all-namespaces --selector linkerd.io/extension=multicluster"),
    rule(Controller, "service mirror controller is reporting", "", Error, controllers::reporting).retried(),
    rule(Controller, "extension is managing controllers", "l5d-multicluster-managed-controllers", Warning, controllers::managed),
    rule(Controller, "no other service mirror is running for a Link", "", Error, controllers::no_second),
    rule(Controller, "controller and CLI versions match", "", Warning, controllers::versions),
    rule(Links, "Links are ready", "", Error, services::ready).retried().reported().fixed_by("linkerd-mc status --cluster-name {}"),
    rule(Gateways, "gateway addresses are accepted", "", Error, services::gateway_addresses).reported().fixed_by("linkerd-mc gateways"),
    rule(Gateways, "probe services able to communicate with all gateway mirrors", "l5d-multicluster-gateways-endpoints", Error, services::gateways).retried().reported().fixed_in_target_by("kubectl get pods,services --all-namespaces --selector app=linkerd-gateway").diagnosed_by(examples::behind_gateways),
    rule(Proxies, "service mirror controller reaches gateways through its proxy", "", Error, proxies::way_to_gateways),
    rule(Proxies, "gateway forwards to what it should", "", Warning, gateway::forwards).retried(),
    rule(Installation, "Linkerd reads EndpointSlices", "", Error, proxies::endpoint_slices),
    rule(Services, "all mirror services have endpoints", "l5d-multicluster-services-endpoints", Error, services::endpoints).fixed_by("linkerd-mc status --services").diagnosed_by(examples::without_endpoints),
    rule(Services, "mirror services have no foreign endpoints", "", Error, services::foreign_endpoints).retried(),
    rule(Services, "all mirror services are part of a Link", "l5d-multicluster-orphaned-services", Warning, services::orphans),
    rule(Services, "mirror service names do not conflict", "", Warning, services::name_conflicts).reported().fixed_by(LIST),
    rule(Services, "all exported services are mirrored", "", Error, services::unhealthy).reported().fixed_by(LIST).diagnosed_by(examples::not_mirrored),
    rule(Targets, "labels for export select something", "", Warning, targets::export_labels),
    rule(Services, "Service range has room for exported services", "", Warning, services::service_range).fixed_by("kubectl get servicecidrs"),
    rule(Links, "drained clusters have left federated services", "", Warning, services::drains).retried().reported(),
    rule(Services, "members of federated services have equal ports", "", Warning, services::federated_ports).reported().fixed_by(LIST),
    rule(Services, "preferences of federated services are applied", "", Warning, preferences::applied),
    rule(Services, "preferred clusters receive the requests to federated services", "", Warning, preferences::taken).retried(),
    rule(Proxies, "multicluster extension proxies are healthy", "l5d-multicluster-proxy-healthy", Warning, proxies::healthy).fixed_by("kubectl get pods --all-namespaces --selector linkerd.io/extension=multicluster"),
    rule(Proxies, "multicluster extension proxies are up-to-date", "l5d-multicluster-proxy-cp-version", Warning, proxies::up_to_date),
];

/// Lists the Services of a target cluster, with reasons.
const LIST: &str = "linkerd-mc status --services --cluster-name {}";

/// The description of the first check of a topic.
pub fn first_check(topic: Topic) -> &'static str {
    let mut rules = RULES.iter().filter(|rule| rule.topic == topic);
    rules.next().map_or("", |rule| rule.description)
}

/// The results of some checks.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The results, in order.
    pub results: Vec<CheckResult>,
    /// Whether one of them makes all other checks meaningless.
    pub is_end: bool,
}

/// Runs the checks of these topics, up to one whose failure makes later ones meaningless.
pub fn evaluate(snapshot: &FullSnapshot, is_wanted: impl Fn(Topic) -> bool) -> Evaluated {
    let mut evaluated = Evaluated::default();
    for (rank, rule) in RULES.iter().enumerate() {
        if !is_wanted(rule.topic) {
            continue;
        }
        let verdict = (rule.judge)(snapshot);
        evaluated.is_end = matches!(verdict, Verdict::Stop(_));
        let verdict = match last_report(snapshot).filter(|_| rule.is_reported) {
            Some(time) => verdict.of_old_status(time),
            None => verdict,
        };
        evaluated
            .results
            .extend(result(rank, rule, verdict, snapshot));
        if evaluated.is_end {
            break;
        }
    }
    evaluated
}

/// When a controller that is not active any more reported last; of several, the one that has been silent for longest.
fn last_report(snapshot: &FullSnapshot) -> Option<Timestamp> {
    let leaders = snapshot.cluster.leaders.values();
    let known = leaders.filter_map(|leader| leader.as_ref().ok()?.as_ref());
    let silent = known.filter(|leader| !leader.active);
    silent.filter_map(|leader| leader.renewed).min()
}

/// The result of a cluster without a client.
pub fn unreachable(why: &ReadError) -> CheckResult {
    CheckResult {
        description: RULES[0].description.to_owned(),
        level: Some(Level::Error),
        findings: vec![why.text().into()],
        ..CheckResult::default()
    }
}

#[cfg(test)]
mod tests;
