//! What a drain of a cluster would do in one source cluster: what would move to other members, and who would go on to need
//! the cluster. Pure.

use std::collections::BTreeSet;

use hints::prose::counted;
use mirror_core::{
    api::{
        k8s::Service,
        labels,
        members::{local_member, remote_members},
        metadata::ResourceId,
        preference::LOCAL,
    },
    mirror::mirror_name,
};
use serde::Serialize;

use crate::{
    clusters::{shown_mode::ShownMode, snapshot::Known, traffic::TrafficServices},
    traffic::{Activity, ClientActivity, rows},
};

/// What is known of a source cluster.
#[derive(Debug)]
pub struct DrainFacts<'f> {
    /// The cluster to drain.
    pub cluster: &'f str,
    /// Other target clusters that are drained now.
    pub drained: &'f BTreeSet<String>,
    /// All mirrors and federated Services.
    pub mirrors: &'f [Service],
    /// The ready endpoints of their members.
    pub services: &'f Known<TrafficServices>,
    /// What clients did.
    pub clients: &'f Known<DrainClients>,
}

/// What the clients of a cluster did.
#[derive(Clone, Debug, Default)]
pub struct DrainClients {
    /// Number of running Pods in the mesh.
    pub meshed: usize,
    /// What those that were read did: since their proxies count, and now.
    pub read: Vec<(ResourceId, ClientActivity, ClientActivity)>,
    /// Why others could not be read: the first reason.
    pub unread: Option<String>,
}

/// What a drain would do. Its JSON is part of the documented output of `drain --dry-run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainForecast {
    /// Whether nothing would be lost without the cluster; `null` if that could not be seen.
    pub can_lose: Option<bool>,
    /// The federated Services of which it is a member.
    pub federated: Vec<FederatedForecast>,
    /// The mirrors of the cluster, which a drain does not change.
    pub mirrors: Vec<MirrorForecast>,
    /// What could not be seen, and why.
    pub unseen: Vec<String>,
}

/// What would become of a federated Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FederatedForecast {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub service: String,
    /// What would happen.
    pub outcome: DrainOutcome,
    /// Requests per second that the cluster serves now; `null` if unknown.
    pub requests_per_second: Option<f64>,
    /// The members that would be left.
    pub others: Vec<OtherMember>,
}

/// What would happen to a federated Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DrainOutcome {
    /// Its requests go to other members.
    Moves,
    /// The cluster stays, because there is no other member.
    Stays,
    /// The cluster leaves, and no other member has a ready endpoint.
    LosesEndpoints,
    /// It could not be seen whether another member has ready endpoints.
    Unknown,
}

/// A member that would be left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherMember {
    /// Its cluster; `local` is the source cluster.
    pub cluster: String,
    /// Its ready endpoints: Pods, or addresses of its gateway; `null` if unknown.
    pub ready_endpoints: Option<usize>,
    /// Requests per second that it serves now; `null` if unknown.
    pub requests_per_second: Option<f64>,
}

/// A mirror that goes on to lead to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MirrorForecast {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub service: String,
    /// How it gets to its endpoints.
    pub mode: ShownMode,
    /// Pods that have called it lately, as `NAMESPACE/NAME`: of those that could be read.
    pub callers: Vec<String>,
    /// Requests per second now; `null` if unknown.
    pub requests_per_second: Option<f64>,
}

impl FederatedForecast {
    /// Whether it would have no ready endpoint without the cluster.
    pub fn is_lost(&self) -> bool {
        [DrainOutcome::Stays, DrainOutcome::LosesEndpoints].contains(&self.outcome)
    }
}

impl DrainForecast {
    /// What is known, put together.
    pub fn of(facts: &DrainFacts<'_>) -> Self {
        let mut forecast = Self::default();
        let preferred: BTreeSet<ResourceId> = facts
            .mirrors
            .iter()
            .flat_map(|of| facts.preferred(of))
            .collect();
        for mirror in facts.mirrors {
            let id = mirror.metadata.resource_id();
            match ShownMode::of(mirror) {
                ShownMode::Federated => forecast.federated.extend(facts.federated(mirror)),
                // Routes of a federated Service lead to it. They change with the drain.
                _ if preferred.contains(&id) => {}
                mode if facts.is_of_cluster(mirror) => forecast.mirrors.push(MirrorForecast {
                    namespace: id.namespace.clone(),
                    service: id.name.clone(),
                    mode,
                    callers: facts.callers(&id),
                    requests_per_second: facts.per_second(&id, None),
                }),
                _ => {}
            }
        }
        forecast.note(facts);
        forecast.can_lose = forecast.judged(facts);
        forecast
    }

    /// Notes what could not be seen and matters.
    fn note(&mut self, facts: &DrainFacts<'_>) {
        match facts.services {
            Err(why) => self.unseen.push(format!("endpoints of members: {why}")),
            Ok(services) => self.unseen.extend(services.notes.iter().cloned()),
        }
        match facts.clients {
            Err(why) => self.unseen.push(format!("what Pods call: {why}")),
            Ok(clients) if clients.read.len() < clients.meshed => {
                let why = clients.unread.as_deref();
                let why = why.unwrap_or("no more are read");
                let (read, meshed) = (clients.read.len(), clients.meshed);
                let what =
                    format!("what Pods call: {read} of {meshed} Pods in the mesh were read; {why}");
                self.unseen.push(what);
            }
            Ok(_) => {}
        }
    }

    fn judged(&self, facts: &DrainFacts<'_>) -> Option<bool> {
        let is_called = self.mirrors.iter().any(|mirror| !mirror.callers.is_empty());
        if is_called || self.federated.iter().any(FederatedForecast::is_lost) {
            return Some(false);
        }
        let clients = facts.clients.as_ref();
        let all_read = clients.is_ok_and(|clients| clients.read.len() >= clients.meshed);
        let is_unknown = |of: &FederatedForecast| of.outcome == DrainOutcome::Unknown;
        let is_known = self.mirrors.is_empty() || all_read;
        (is_known && !self.federated.iter().any(is_unknown)).then_some(true)
    }

    /// The answer, in a line.
    pub fn answer(&self, source: &str, cluster: &str) -> String {
        let (federated, mirrors) = (self.federated.len(), self.mirrors.len());
        let lost = self.federated.iter().filter(|of| of.is_lost()).count();
        let called = self.mirrors.iter().filter(|of| !of.callers.is_empty());
        let called = called.count();
        let (answer, reasons) = match self.can_lose {
            Some(true) => (
                format!("{source} can lose {cluster}"),
                [
                    (
                        federated,
                        format!(
                            "requests to {} move to other members",
                            counted(federated, "federated Service")
                        ),
                    ),
                    (
                        mirrors,
                        format!("no Pod calls its {}", counted(mirrors, "mirror")),
                    ),
                ],
            ),
            Some(false) => (
                format!("{source} cannot lose {cluster}"),
                [
                    (
                        lost,
                        format!(
                            "{} would have no ready endpoint",
                            counted(lost, "federated Service")
                        ),
                    ),
                    (
                        called,
                        format!(
                            "Pods call {}, which a drain does not move",
                            counted(called, "mirror")
                        ),
                    ),
                ],
            ),
            None => (
                format!("it could not be seen whether {source} can lose {cluster}"),
                [(1, "see what was not seen".to_owned()), (0, String::new())],
            ),
        };
        let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<String> = reasons.map(|(_, reason)| reason).collect();
        if reasons.is_empty() {
            format!("{answer}: nothing here leads to it")
        } else {
            format!("{answer}: {}", reasons.join(", and "))
        }
    }
}

impl DrainFacts<'_> {
    /// The federated Services whose ready endpoints are all of the cluster, as far as that is known.
    pub fn only_here(&self) -> Vec<ResourceId> {
        let federated = self.mirrors.iter().filter(|mirror| {
            let forecast = self.federated(mirror);
            let loses = forecast.is_some_and(|of| of.outcome == DrainOutcome::LosesEndpoints);
            // Without ready endpoints of its own, there is nothing to lose.
            loses && self.ready(&mirror.metadata.resource_id(), self.cluster) != Some(0)
        });
        federated.map(|of| of.metadata.resource_id()).collect()
    }

    /// The forecast for a federated Service, if the cluster is a member of it.
    fn federated(&self, service: &Service) -> Option<FederatedForecast> {
        let id = service.metadata.resource_id();
        let annotation = |key: &str| service.metadata.annotations.get(key);
        let clusters: BTreeSet<&str> = remote_members(annotation).map(|(_, of)| of).collect();
        if !clusters.contains(self.cluster) {
            return None;
        }
        let local = local_member(annotation).map(|_| LOCAL);
        let remote = clusters.into_iter();
        let remote = remote.filter(|of| *of != self.cluster && !self.drained.contains(*of));
        let others = local.into_iter().chain(remote);
        let others: Vec<OtherMember> = others
            .map(|cluster| OtherMember {
                cluster: cluster.to_owned(),
                ready_endpoints: self.ready(&id, cluster),
                requests_per_second: self.per_second(&id, Some(cluster)),
            })
            .collect();
        let is_ready = |other: &OtherMember| other.ready_endpoints.map(|ready| ready > 0);
        let outcome = if others.is_empty() {
            DrainOutcome::Stays
        } else if others.iter().any(|other| is_ready(other) == Some(true)) {
            DrainOutcome::Moves
        } else if others.iter().any(|other| is_ready(other).is_none()) {
            DrainOutcome::Unknown
        } else {
            DrainOutcome::LosesEndpoints
        };
        let by_routes = self.preferred(service).into_iter();
        let by_routes = by_routes.filter_map(|mirror| self.per_second(&mirror, None));
        let own = self.per_second(&id, Some(self.cluster));
        Some(FederatedForecast {
            namespace: id.namespace,
            service: id.name,
            outcome,
            requests_per_second: own.map(|own| own + by_routes.sum::<f64>().abs()),
            others,
        })
    }

    /// The mirrors of the cluster to which routes of a federated Service with a preference may lead.
    fn preferred(&self, service: &Service) -> Vec<ResourceId> {
        let annotation = |key: &str| service.metadata.annotations.get(key);
        if annotation(labels::PREFER).is_none() {
            return Vec::new();
        }
        let namespace = &service.metadata.resource_id().namespace;
        let members = remote_members(annotation).filter(|(_, of)| *of == self.cluster);
        let mirrors =
            members.map(|(name, of)| ResourceId::new(&**namespace, mirror_name(name, of)));
        mirrors.collect()
    }

    fn is_of_cluster(&self, mirror: &Service) -> bool {
        let is = |key: &str| mirror.metadata.label(key) == self.cluster;
        is(labels::CLUSTER_NAME) || is(labels::REMOTE_DISCOVERY)
    }

    /// The number of ready endpoints that a member has, if that is known.
    fn ready(&self, service: &ResourceId, cluster: &str) -> Option<usize> {
        let services = self.services.as_ref().ok()?;
        let is_read = !services.get(service)?.unread.contains(cluster);
        is_read.then(|| services.ready_endpoints(service, cluster))
    }

    /// The Pods that have called a Service.
    fn callers(&self, service: &ResourceId) -> Vec<String> {
        let clients = self.clients.iter().flat_map(|clients| &clients.read);
        let has_called = |client: &ClientActivity| {
            let mut known = client.by_key.iter();
            known.any(|(key, activity)| key.service == *service && is_active(activity))
        };
        let callers = clients.filter(|(_, ever, _)| has_called(ever));
        callers.map(|(pod, ..)| pod.to_string()).collect()
    }

    /// The requests per second to a Service now, of those that this cluster serves; `None` is all.
    fn per_second(&self, service: &ResourceId, cluster: Option<&str>) -> Option<f64> {
        let (Ok(services), Ok(clients)) = (self.services, self.clients) else {
            return None;
        };
        if clients.read.is_empty() && clients.meshed > 0 {
            return None;
        }
        let now: Vec<ClientActivity> = clients.read.iter().map(|(.., now)| now.clone()).collect();
        let all = rows("", services, &now).into_iter();
        let of_service = all.filter(|row| {
            (&row.namespace, &row.service) == (&service.namespace, &service.name)
                && cluster.is_none_or(|cluster| row.served.cluster.as_deref() == Some(cluster))
        });
        let sum: f64 = of_service.map(|row| row.requests_per_second).sum();
        // The sum of nothing is -0.
        Some(sum.abs())
    }
}

/// Whether a client has sent requests, or has connections.
fn is_active(activity: &Activity) -> bool {
    activity.requests() + activity.sent + activity.open > 0.0
}

#[cfg(test)]
mod tests;
