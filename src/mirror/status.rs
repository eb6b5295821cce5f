//! A Link's status: what is said about its Services, its gateway and itself.

mod conditions;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use self::conditions::conditions;
use super::{
    drain::Drain,
    key::Key,
    limit::{LeftOut, Limits},
    networks::Refused,
    outcome::{Reason, Report, Reported},
    tls::InsecureTls,
    world::{GatewayState, Liveness, Remote},
};
use crate::{
    api::link::{
        CONTROLLER, GatewayStatus, LinkStatus, MIRRORED, ServiceCondition, ServiceRef,
        ServiceStatus,
    },
    hint::in_brief,
};

/// Up to so many Services are listed one by one.
pub const LISTED: usize = 500;
/// Type of the condition of a Link whose gateway has addresses that are not used.
pub const GATEWAY_REFUSED: &str = "GatewayAddressRefused";
/// Reason of that condition where no address is left.
pub const ALL_REFUSED: &str = "AllRefused";
/// Beyond [`LISTED`] only Services with problems are, and so many at most.
pub const LISTED_PROBLEMS: usize = 100;

/// What was last said about each Service of a Link, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    mirrors: BTreeMap<(String, String), Report>,
    federated: BTreeMap<(String, String), Report>,
}

/// What something that was said changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// Nothing: it was said before.
    None,
    /// It is the same in other words.
    Words,
    /// It is something else.
    Change,
}

impl Ledger {
    /// Takes down what a plan said. Returns whether that is news.
    pub fn record(&mut self, said: &Reported) -> News {
        let list = if said.federated {
            &mut self.federated
        } else {
            &mut self.mirrors
        };
        let key = (said.remote.namespace.clone(), said.remote.service.clone());
        match &said.report {
            Report::Unknown => News::None,
            Report::Absent => match list.remove(&key) {
                Some(_) => News::Change,
                None => News::None,
            },
            report => match list.insert(key, report.clone()) {
                Some(before) if before == *report => News::None,
                Some(before) if is_reworded(&before, report) => News::Words,
                _ => News::Change,
            },
        }
    }

    /// Keys of all that was said something about. Once a target cluster has been listed anew, these are to be
    /// worked on too: what vanished unseen, and has nothing that stands for it, is named nowhere else.
    pub fn keys(&self, cluster: &str) -> Vec<Key> {
        let mirrors = self.mirrors.keys();
        let federated = self.federated.keys();
        mirrors
            .map(|(namespace, service)| Key::mirror(cluster, namespace, service))
            .chain(federated.map(|(namespace, service)| Key::federated(namespace, service)))
            .collect()
    }

    /// Number of Services that wait for a `ClusterIP`.
    fn without_cluster_ip(&self) -> usize {
        let lists = self.mirrors.values().chain(self.federated.values());
        let waits = |report: &&Report| matches!(report, Report::Failed(problem) if problem.reason == Reason::NoClusterIp);
        lists.filter(waits).count()
    }

    /// Number of Services that are mirrored, that are members, and that should be either and are not. Those that are not
    /// because the cluster is drained are as they should be.
    pub fn counts(&self) -> (usize, usize, usize) {
        let good = |list: &BTreeMap<_, Report>| {
            list.values()
                .filter(|report| matches!(report, Report::Mirrored { .. }))
                .count()
        };
        let (mirrored, federated) = (good(&self.mirrors), good(&self.federated));
        let drained = self.federated.values().filter(|report| is_drained(report));
        let all = self.mirrors.len() + self.federated.len() - drained.count();
        (mirrored, federated, all - mirrored - federated)
    }
}

/// Whether a Service is left out because the cluster is drained.
fn is_drained(report: &Report) -> bool {
    matches!(report, Report::Failed(problem) if problem.reason == Reason::Drained)
}

/// Whether two reports that differ do so only in the words of a problem.
fn is_reworded(before: &Report, now: &Report) -> bool {
    match (before, now) {
        (Report::Failed(before), Report::Failed(now)) => before.reason == now.reason,
        (
            Report::Mirrored {
                local: before,
                note: Some(was),
            },
            Report::Mirrored {
                local: now,
                note: Some(is),
            },
        ) => (before, was.reason) == (now, is.reason),
        _ => false,
    }
}

/// What is known of a Link itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Generation of the Link that is worked with.
    pub generation: Option<i64>,
    /// What is wrong with the Link's fields.
    pub invalid: Option<String>,
    /// Name of the older Link that has the target cluster.
    pub duplicate_of: Option<String>,
    /// Whether the credentials can be used; `None` before they were looked at. `Err`: reason and message.
    pub credentials: Option<Result<(), (&'static str, String)>>,
    /// Whether the target cluster answers; `None` before it was asked. `Err`: what it said.
    pub connected: Option<Result<(), String>>,
    /// Which credentials are in use; `None` before any are.
    pub credentials_in_use: Option<String>,
    /// When the token of the Link expires, if ever.
    pub expiry: Option<Expiry>,
    /// Why the connection in use is not safe, if it is not.
    pub insecure: Option<InsecureTls>,
    /// The target cluster that was listed last.
    pub listed: Option<String>,
    /// Whether all that the target cluster exports was listed and written.
    pub settled: bool,
    /// What is left out because of the limit, if anything is.
    pub exceeded: Option<Exceeded>,
    /// The gateway, if the Link has one.
    pub gateway: Option<GatewayFacts>,
    /// The drain of the target cluster, while there is one.
    pub drain: Option<Drain>,
}

/// The end of a Link's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When that is.
    pub at: Timestamp,
    /// The target cluster.
    pub cluster: String,
}

/// What a Link's limits leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What is taken in at most.
    pub limits: Limits,
    /// Whether the bytes are the cause.
    pub heavy: bool,
    /// Whether the hosts of headless Services are the cause.
    pub hosts: bool,
    /// Services that are left out.
    pub services: usize,
    /// Services whose slices are not all looked at.
    pub cut: usize,
}

impl Exceeded {
    /// What limits leave out of a target cluster; `None` for nothing.
    pub fn of(remote: &Remote, limits: Limits) -> Option<Self> {
        let (services, cut) = (count(&remote.left_out), count(&remote.cut));
        let all = || remote.left_out.iter().chain(&remote.cut);
        (services > 0 || cut > 0).then_some(Self {
            limits,
            heavy: all().any(LeftOut::is_heavy),
            hosts: all().any(LeftOut::has_hosts),
            services,
            cut,
        })
    }
}

/// How many Services are named, each once, and those whose names are not known.
fn count(left: &[LeftOut]) -> usize {
    let named: BTreeSet<_> = left.iter().flat_map(LeftOut::services).collect();
    named.len() + left.iter().map(LeftOut::unnamed).sum::<usize>()
}

/// What is known of a Link's gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayFacts {
    /// Addresses and liveness.
    pub state: GatewayState,
    /// Latency to tell, milliseconds.
    pub latency_ms: Option<i64>,
    /// Why it is not probed.
    pub unprobed: Option<String>,
    /// Why its address is not known.
    pub unresolved: Option<String>,
    /// Addresses that are not used.
    pub refused: Vec<Refused>,
}

/// The status to write. Times are those of `previous` where nothing has changed since.
pub fn status(previous: &LinkStatus, facts: &Facts, ledger: &Ledger, now: Timestamp) -> LinkStatus {
    let (mirrored, federated, unhealthy) = ledger.counts();
    let total = ledger.mirrors.len() + ledger.federated.len();
    let count = |n: usize| Some(i64::try_from(n).unwrap_or(i64::MAX));
    LinkStatus {
        mirror_services: entries(&previous.mirror_services, &ledger.mirrors, total, now),
        federated_services: entries(&previous.federated_services, &ledger.federated, total, now),
        conditions: conditions(
            &previous.conditions,
            facts,
            ledger.without_cluster_ip(),
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
    reports: &BTreeMap<(String, String), Report>,
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
    let is_usual = |report: &Report| {
        matches!(report, Report::Mirrored { note: None, .. }) || is_drained(report)
    };
    let shown = |report: &Report| all || !is_usual(report);
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
    report: &Report,
    now: Timestamp,
) -> Option<ServiceCondition> {
    let (status, reason, message, local) = match report {
        Report::Mirrored { local, note: None } => ("True", Reason::Mirrored, "", Some(local)),
        Report::Mirrored {
            local,
            note: Some(note),
        } => ("True", note.reason, note.message.as_str(), Some(local)),
        Report::Failed(problem) => ("False", problem.reason, problem.message.as_str(), None),
        Report::Absent | Report::Unknown => return None,
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
    facts: &GatewayFacts,
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
