//! A Link's status: the reports about its Services, its gateway and the Link itself.

mod conditions;
pub mod expiry;
mod loss;

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use self::conditions::conditions;
pub use self::{
    conditions::{Exceeded, Expiry, GatewayInputs, StatusInputs},
    loss::{ConnectionLoss, LossCause},
};
use super::{
    key::Key,
    outcome::{Outcome, Reason, ServiceOutcome},
    state::remote::Liveness,
};
use crate::api::{
    link::{
        CONTROLLER, GatewayStatus, LinkStatus, MIRRORED, ServiceCondition, ServiceRef,
        ServiceStatus,
    },
    text::in_brief,
};

/// Up to this number of Services, all are listed.
pub const LISTED: usize = 500;
/// Beyond [`LISTED`], only Services with problems are listed, and at most this number.
pub const LISTED_PROBLEMS: usize = 100;

/// The last report about each Service of a Link, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcomes {
    mirrors: BTreeMap<(String, String), Outcome>,
    federated: BTreeMap<(String, String), Outcome>,
}

/// What a new report changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusChange {
    /// Nothing: the report is the same as before.
    None,
    /// Only the message of a problem.
    Words,
    /// The outcome.
    Change,
}

impl Outcomes {
    /// Records a report of a plan. Returns what it changes.
    pub fn record(&mut self, said: &ServiceOutcome) -> StatusChange {
        let list = if said.federated {
            &mut self.federated
        } else {
            &mut self.mirrors
        };
        let key = (said.remote.namespace.clone(), said.remote.service.clone());
        match &said.report {
            Outcome::Unknown => StatusChange::None,
            Outcome::Absent => match list.remove(&key) {
                Some(_) => StatusChange::Change,
                None => StatusChange::None,
            },
            report => match list.insert(key, report.clone()) {
                Some(before) if before == *report => StatusChange::None,
                Some(before) if is_reworded(&before, report) => StatusChange::Words,
                _ => StatusChange::Change,
            },
        }
    }

    /// The keys of the Services of this cluster that have a report.
    pub fn keys(&self, cluster: &str) -> Vec<Key> {
        let mirrors = self.mirrors.keys();
        let mirrors = mirrors.map(|(namespace, name)| Key::mirror(cluster, namespace, name));
        let federated = self.federated.keys();
        let federated = federated.map(|(namespace, name)| Key::federated(namespace, name));
        mirrors.chain(federated).collect()
    }

    /// Number of Services that wait for a `ClusterIP`.
    fn without_cluster_ip(&self) -> usize {
        let lists = self.mirrors.values().chain(self.federated.values());
        let waits = |report: &&Outcome| matches!(report, Outcome::Failed(problem) if problem.reason == Reason::NoClusterIp);
        lists.filter(waits).count()
    }

    /// Numbers of Services: mirrored ones, members of federated Services, and those that should be either but are not. Services
    /// that are omitted on purpose do not count as the latter.
    pub fn counts(&self) -> (usize, usize, usize) {
        let good = |list: &BTreeMap<_, Outcome>| {
            list.values()
                .filter(|report| matches!(report, Outcome::Mirrored { .. }))
                .count()
        };
        let (mirrored, federated) = (good(&self.mirrors), good(&self.federated));
        let lists = || self.mirrors.values().chain(self.federated.values());
        let all = lists().filter(|report| !is_intended(report)).count();
        (mirrored, federated, all - mirrored - federated)
    }
}

/// Whether a Service is omitted on purpose.
fn is_intended(report: &Outcome) -> bool {
    matches!(report, Outcome::Failed(problem) if Reason::INTENDED.contains(&problem.reason))
}

/// Whether two reports that differ do so only in the words of a problem.
fn is_reworded(before: &Outcome, now: &Outcome) -> bool {
    match (before, now) {
        (Outcome::Failed(before), Outcome::Failed(now)) => before.reason == now.reason,
        (
            Outcome::Mirrored {
                local: before,
                note: Some(was),
            },
            Outcome::Mirrored {
                local: now,
                note: Some(is),
            },
        ) => (before, was.reason) == (now, is.reason),
        _ => false,
    }
}

/// The status to write. Times are those of `previous` where nothing has changed since.
pub fn status(
    previous: &LinkStatus,
    facts: &StatusInputs,
    outcomes: &Outcomes,
    now: Timestamp,
) -> LinkStatus {
    let (mirrored, federated, unhealthy) = outcomes.counts();
    let total = outcomes.mirrors.len() + outcomes.federated.len();
    let count = |n: usize| Some(i64::try_from(n).unwrap_or(i64::MAX));
    LinkStatus {
        mirror_services: entries(&previous.mirror_services, &outcomes.mirrors, total, now),
        federated_services: entries(
            &previous.federated_services,
            &outcomes.federated,
            total,
            now,
        ),
        conditions: conditions(
            &previous.conditions,
            facts,
            outcomes.without_cluster_ip(),
            now,
        ),
        gateway: facts
            .gateway
            .as_ref()
            .map(|g| gateway(previous.gateway.as_ref(), g, now)),
        mirrored: count(mirrored),
        federated: count(federated),
        unhealthy: count(unhealthy),
        target_cluster_name: facts.listed.clone(),
        credentials_fingerprint: facts.credentials_in_use.clone(),
        observed_generation: facts.generation,
    }
}

fn entries(
    previous: &[ServiceStatus],
    reports: &BTreeMap<(String, String), Outcome>,
    total: usize,
    now: Timestamp,
) -> Vec<ServiceStatus> {
    let before: BTreeMap<(&str, &str), &ServiceCondition> = previous
        .iter()
        .filter_map(|entry| {
            let id = (
                entry.remote_ref.namespace.as_str(),
                entry.remote_ref.name.as_str(),
            );
            Some((id, entry.conditions.first()?))
        })
        .collect();
    let all = total <= LISTED;
    let is_usual = |report: &Outcome| {
        matches!(report, Outcome::Mirrored { note: None, .. }) || is_intended(report)
    };
    let shown = |report: &Outcome| all || !is_usual(report);
    reports
        .iter()
        .filter(|(_, report)| shown(report))
        .take(if all { LISTED } else { LISTED_PROBLEMS })
        .filter_map(|((namespace, name), report)| {
            let before = before.get(&(namespace.as_str(), name.as_str())).copied();
            Some(ServiceStatus {
                controller_name: CONTROLLER.to_owned(),
                remote_ref: service_ref(namespace, name),
                conditions: vec![service_condition(before, namespace, report, now)?],
            })
        })
        .collect()
}

fn service_ref(namespace: &str, name: &str) -> ServiceRef {
    ServiceRef {
        group: "core".to_owned(),
        kind: "Service".to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    }
}

fn service_condition(
    before: Option<&ServiceCondition>,
    namespace: &str,
    report: &Outcome,
    now: Timestamp,
) -> Option<ServiceCondition> {
    let (status, reason, message, local) = match report {
        Outcome::Mirrored { local, note: None } => ("True", Reason::Mirrored, "", Some(local)),
        Outcome::Mirrored {
            local,
            note: Some(note),
        } => ("True", note.reason, note.message.as_str(), Some(local)),
        Outcome::Failed(problem) => ("False", problem.reason, problem.message.as_str(), None),
        Outcome::Absent | Outcome::Unknown => return None,
    };
    Some(ServiceCondition {
        type_: MIRRORED.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message: in_brief(message),
        last_transition_time: before
            .filter(|before| before.status == status)
            .map_or(Time(now), |before| before.last_transition_time.clone()),
        local_ref: local.map(|local| service_ref(namespace, local)),
    })
}

fn gateway(
    previous: Option<&GatewayStatus>,
    facts: &GatewayInputs,
    now: Timestamp,
) -> GatewayStatus {
    let alive = match facts.state.liveness {
        Liveness::Unknown => None,
        Liveness::Alive => Some(true),
        Liveness::Dead => Some(false),
    };
    let since = match previous {
        Some(previous) if previous.alive == alive => previous.since.clone(),
        _ => alive.map(|_| Time(now)),
    };
    GatewayStatus {
        alive,
        since,
        latency_ms: facts.latency_ms,
        addresses: facts
            .state
            .addresses
            .iter()
            .flatten()
            .filter(|address| !facts.refused.iter().any(|r| r.address == **address))
            .map(ToString::to_string)
            .collect(),
    }
}

#[cfg(test)]
mod tests;
