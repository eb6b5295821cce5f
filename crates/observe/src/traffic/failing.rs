//! Which Services fail now, how, and for whom: what clients did, by Service, and the Services by cluster and kind of failure.

use std::collections::{BTreeMap, BTreeSet};

use mirror_core::api::metadata::ResourceId;
use serde::{Serialize, Serializer};

use super::increase::{Activity, ClientActivity};
use crate::clusters::traffic::{TrafficKey, TrafficServices};

/// What becomes of requests that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestFailure {
    /// The client's proxy has no endpoint for them.
    NoEndpoint,
    /// The connection breaks, or no answer comes in time.
    NoAnswer,
    /// They are answered with an error.
    ErrorAnswer,
}

impl RequestFailure {
    const ALL: [Self; 3] = [Self::NoEndpoint, Self::NoAnswer, Self::ErrorAnswer];

    /// In words, about requests.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoEndpoint => "the clients' proxies have no endpoint",
            Self::NoAnswer => "they break off, or get no answer",
            Self::ErrorAnswer => "the answers are errors",
        }
    }
}

/// A Service of which requests fail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingService {
    /// The mirror or federated Service that clients use.
    #[serde(flatten)]
    pub service: FailingName,
    /// Requests that failed.
    pub failed: f64,
    /// All requests.
    pub requests: f64,
    /// Pods whose requests failed, the one with the most first. In JSON as `NAMESPACE/NAME`.
    #[serde(serialize_with = "as_paths")]
    pub clients: Vec<ResourceId>,
}

fn as_paths<S: Serializer>(pods: &[ResourceId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pods.iter().map(ToString::to_string))
}

/// The name of such a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FailingName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    #[serde(rename = "service")]
    pub name: String,
}

/// Services of one cluster that fail in one way, the worst first. Its JSON is part of the documented output of `diagnose`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingGroup {
    /// The cluster of the mirrors; `null` for federated Services, and where nothing says which.
    pub cluster: Option<String>,
    /// What becomes of most of the requests that fail.
    pub kind: RequestFailure,
    /// Whether none of the requests succeeds.
    pub all_fail: bool,
    /// The Services.
    pub services: Vec<FailingService>,
}

impl FailingGroup {
    /// Requests that failed.
    pub fn failed(&self) -> f64 {
        self.services.iter().map(|service| service.failed).sum()
    }

    /// All requests.
    pub fn requests(&self) -> f64 {
        self.services.iter().map(|service| service.requests).sum()
    }

    /// How many Pods have requests that fail.
    pub fn clients(&self) -> usize {
        let all = self.services.iter().flat_map(|service| &service.clients);
        all.collect::<BTreeSet<_>>().len()
    }
}

/// What happened to the requests to one Service.
#[derive(Default)]
struct Sum<'p> {
    requests: f64,
    failed: BTreeMap<RequestFailure, f64>,
    clients: BTreeMap<&'p ResourceId, f64>,
}

impl Sum<'_> {
    fn failed(&self) -> f64 {
        self.failed.values().sum()
    }

    /// The kind of most failures.
    fn kind(&self) -> RequestFailure {
        let of = |kind: &RequestFailure| self.failed.get(kind).copied().unwrap_or_default();
        let kinds = RequestFailure::ALL.into_iter();
        let first = RequestFailure::NoEndpoint;
        kinds.fold(
            first,
            |most, kind| {
                if of(&kind) > of(&most) { kind } else { most }
            },
        )
    }
}

/// The Services of which requests fail: each once, with the group of the most failures first.
pub fn failing(
    services: &TrafficServices,
    clients: &[(ResourceId, ClientActivity)],
) -> Vec<FailingGroup> {
    let mut sums: BTreeMap<&ResourceId, Sum<'_>> = BTreeMap::new();
    for (pod, client) in clients {
        for (key, activity) in &client.by_key {
            if services.get(&key.service).is_none() {
                continue;
            }
            let sum = sums.entry(&key.service).or_default();
            let (requests, failed) = judged(key, activity);
            sum.requests += requests;
            for (kind, count) in failed.into_iter().filter(|(_, count)| *count > 0.0) {
                *sum.failed.entry(kind).or_default() += count;
                *sum.clients.entry(pod).or_default() += count;
            }
        }
    }
    let mut groups: BTreeMap<_, Vec<FailingService>> = BTreeMap::new();
    for (id, sum) in sums {
        let failed = sum.failed();
        if failed <= 0.0 {
            continue;
        }
        let cluster = services.get(id).and_then(|service| service.cluster.clone());
        let all_fail = failed >= sum.requests;
        let place = (cluster, sum.kind(), all_fail);
        let mut by_count: Vec<(&ResourceId, f64)> = sum.clients.into_iter().collect();
        by_count.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        groups.entry(place).or_default().push(FailingService {
            service: FailingName {
                namespace: id.namespace.clone(),
                name: id.name.clone(),
            },
            failed,
            requests: sum.requests,
            clients: by_count.into_iter().map(|(pod, _)| pod.clone()).collect(),
        });
    }
    let groups = groups.into_iter();
    let groups = groups.map(|((cluster, kind, all_fail), mut services)| {
        services.sort_by(|a, b| b.failed.total_cmp(&a.failed));
        FailingGroup {
            cluster,
            kind,
            all_fail,
            services,
        }
    });
    let mut groups: Vec<FailingGroup> = groups.collect();
    groups.sort_by(|a, b| {
        let order = b.all_fail.cmp(&a.all_fail);
        order.then(b.failed().total_cmp(&a.failed()))
    });
    groups
}

/// The requests that one client sent to one place, and those that failed. What was sent and has not ended counts only if
/// nothing ended: otherwise, it may be under way.
fn judged(key: &TrafficKey, activity: &Activity) -> (f64, [(RequestFailure, f64); 3]) {
    let answered = (activity.failure - activity.error).max(0.0);
    let (no_endpoint, error_answer) = match key.address {
        None => (answered, 0.0),
        Some(_) => (0.0, answered),
    };
    let hanging = if activity.requests() > 0.0 {
        0.0
    } else {
        activity.unanswered()
    };
    let failed = [
        (RequestFailure::NoEndpoint, no_endpoint),
        (RequestFailure::NoAnswer, activity.error + hanging),
        (RequestFailure::ErrorAnswer, error_answer),
    ];
    (activity.requests() + hanging, failed)
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use super::*;
    use crate::clusters::{shown_mode::ShownMode, traffic::TrafficService};

    fn services() -> TrafficServices {
        let mut services = TrafficServices::default();
        for (name, cluster) in [
            ("web-east", Some("east")),
            ("db-east", Some("east")),
            ("web-north", Some("north")),
            ("web-federated", None),
        ] {
            let service = TrafficService {
                mode: Some(ShownMode::Gateway),
                cluster: cluster.map(str::to_owned),
                ..TrafficService::default()
            };
            let id = ResourceId::new("shop", name);
            services.services.insert(id, service);
        }
        services
    }

    /// What a Pod did: the Service, whether at an endpoint, and successes, failures, errors among these, and sent.
    fn client(pod: &str, did: &[(&str, bool, [u8; 4])]) -> (ResourceId, ClientActivity) {
        let mut client = ClientActivity::default();
        for (service, at_endpoint, [success, failure, error, sent]) in did {
            let key = TrafficKey {
                service: ResourceId::new("shop", *service),
                address: at_endpoint.then(|| IpAddr::from([10, 0, 0, 1])),
                target_cluster: None,
            };
            let activity = Activity {
                success: f64::from(*success),
                failure: f64::from(*failure),
                error: f64::from(*error),
                sent: f64::from(*sent),
                ..Activity::default()
            };
            client.by_key.insert(Arc::new(key), activity);
        }
        (ResourceId::new("shop", pod), client)
    }

    /// The groups in a line each.
    fn shown(clients: &[(ResourceId, ClientActivity)]) -> Vec<String> {
        let groups = failing(&services(), clients);
        let groups = groups.iter().map(|group| {
            let services = group.services.iter();
            let services: Vec<_> = services
                .map(|of| format!("{} {}/{}", of.service.name, of.failed, of.requests))
                .collect();
            let (kind, all, clients) = (group.kind, group.all_fail, group.clients());
            let cluster = group.cluster.as_deref().unwrap_or("-");
            format!(
                "{cluster} {kind:?} {all} {clients}: {}",
                services.join(", ")
            )
        });
        groups.collect()
    }

    #[test]
    fn services_that_fail_are_grouped_by_cluster_and_kind_and_the_worst_is_first() {
        let clients = [
            client(
                "a",
                &[
                    ("web-east", false, [0, 5, 0, 0]),
                    ("db-east", false, [0, 2, 0, 0]),
                    ("web-north", true, [9, 1, 0, 10]),
                ],
            ),
            client("b", &[("web-east", false, [0, 7, 0, 0])]),
            client("c", &[("web-federated", true, [5, 9, 9, 14])]),
        ];
        assert_eq!(
            shown(&clients),
            [
                "east NoEndpoint true 2: web-east 12/12, db-east 2/2",
                "- NoAnswer false 1: web-federated 9/14",
                "north ErrorAnswer false 1: web-north 1/10",
            ]
        );
        let groups = failing(&services(), &clients);
        let first = serde_json::to_value(&groups[0].services[0]).unwrap();
        assert_eq!(first["clients"], serde_json::json!(["shop/b", "shop/a"]));
    }

    #[test]
    fn requests_that_hang_fail_and_those_under_way_do_not() {
        let hanging = client("a", &[("web-east", true, [0, 0, 0, 4])]);
        assert_eq!(shown(&[hanging]), ["east NoAnswer true 1: web-east 4/4"]);
        let busy = client("a", &[("web-east", true, [20, 0, 0, 24])]);
        assert_eq!(shown(&[busy]), [""; 0]);
        let idle = client("a", &[("web-east", true, [0, 0, 0, 0])]);
        assert_eq!(shown(&[idle]), [""; 0]);
        let of_others = client("a", &[("other", true, [0, 9, 0, 9])]);
        assert_eq!(shown(&[of_others]), [""; 0]);
    }
}
