//! Adds up what clients did, by Service and serving cluster.

use std::collections::{BTreeMap, BTreeSet};

use mirror_core::api::metadata::ResourceId;
use serde::Serialize;

use super::increase::{Activity, ClientActivity};
use crate::clusters::{
    shown_mode::ShownMode,
    traffic::{TrafficKey, TrafficService, TrafficServices},
};

/// The cluster in which the clients are, as in preferences.
const LOCAL: &str = "local";

/// What one cluster does with the requests to one Service. Its JSON is part of the documented output of `traffic`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficRow {
    /// The cluster of the clients.
    pub context: String,
    /// Namespace.
    pub namespace: String,
    /// The mirror or federated Service that clients use.
    pub service: String,
    /// How it gets to its endpoints; `null` for a local member, to which a route of a federated Service leads.
    pub mode: Option<ShownMode>,
    /// Who serves the requests.
    #[serde(flatten)]
    pub served: ServedBy,
    /// Requests that ended in the interval.
    pub requests: f64,
    /// Requests that were sent in the interval, and did not end: they are under way, or their caller has given up.
    pub unanswered: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Part of the requests that succeeded, from 0 to 1; `null` without requests.
    pub success_rate: Option<f64>,
    /// Latency in milliseconds that half of the requests did not exceed; `null` if unknown.
    pub p50_ms: Option<f64>,
    /// The same for 99 % of the requests.
    pub p99_ms: Option<f64>,
    /// Connections of the clients' proxies to the endpoints.
    pub open_connections: f64,
    /// Clients that sent requests.
    pub clients: usize,
}

/// Who serves requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedBy {
    /// The cluster; `local` is that of the clients. `null` if nobody got the requests, or nothing says who.
    pub cluster: Option<String>,
    /// Whether the requests failed in the client's proxy: no endpoint was available, or none has counted them.
    pub without_endpoint: bool,
}

/// The rows of one cluster, by namespace, Service and serving cluster.
pub fn rows(
    context: &str,
    services: &TrafficServices,
    clients: &[ClientActivity],
) -> Vec<TrafficRow> {
    let mut sums: BTreeMap<(&ResourceId, ServedBy), RowSum> = BTreeMap::new();
    for client in clients {
        let mut active = BTreeSet::new();
        for (key, activity) in &client.by_key {
            let Some(service) = services.get(&key.service) else {
                continue;
            };
            let place = (&key.service, served_by(key, service, services));
            let sum = sums.entry(place.clone()).or_default();
            sum.all.add(activity);
            if !client.lasted.is_zero() {
                sum.per_second += activity.requests() / client.lasted.as_secs_f64();
            }
            if activity.requests() > 0.0 && active.insert(place) {
                sum.clients += 1;
            }
        }
    }
    let rows = sums.into_iter().filter_map(|((id, served), sum)| {
        let service = services.get(id)?;
        (sum.all.requests() + sum.all.unanswered() > 0.0 || sum.all.open > 0.0)
            .then(|| sum.row(context, id, service, served))
    });
    rows.collect()
}

/// The sum of what clients did.
#[derive(Default)]
struct RowSum {
    all: Activity,
    per_second: f64,
    clients: usize,
}

impl RowSum {
    fn row(
        self,
        context: &str,
        id: &ResourceId,
        service: &TrafficService,
        served: ServedBy,
    ) -> TrafficRow {
        let requests = self.all.requests();
        TrafficRow {
            context: context.to_owned(),
            namespace: id.namespace.clone(),
            service: id.name.clone(),
            mode: service.mode,
            served,
            requests,
            unanswered: self.all.unanswered(),
            requests_per_second: self.per_second,
            success_rate: (requests > 0.0).then(|| self.all.success / requests),
            p50_ms: self.all.latency.quantile(0.5),
            p99_ms: self.all.latency.quantile(0.99),
            open_connections: self.all.open,
            clients: self.clients,
        }
    }
}

/// Which cluster has an endpoint.
///
/// A mirror has one cluster. An address of a federated Service is in the cluster whose EndpointSlices have it; if those of
/// one cluster could not be read, and it is in no other one, it is in that cluster. What proxies say about the cluster of
/// an endpoint counts only for mirrors: Linkerd labels all endpoints of a Service by one of its slices, and a federated
/// Service has slices of several clusters.
fn served_by(key: &TrafficKey, service: &TrafficService, services: &TrafficServices) -> ServedBy {
    let by = |cluster: Option<&str>| ServedBy {
        cluster: cluster.map(str::to_owned),
        without_endpoint: false,
    };
    let Some(address) = key.address else {
        return ServedBy {
            cluster: None,
            without_endpoint: true,
        };
    };
    if service.mode.is_none() {
        return by(Some(LOCAL));
    }
    if service.mode != Some(ShownMode::Federated) {
        let named = key.target_cluster.as_ref().or(service.cluster.as_ref());
        return by(named.map(String::as_str));
    }
    let place = (key.service.clone(), address);
    let known = services.addresses.get(&place);
    match known
        .map(|clusters| clusters.iter().collect::<Vec<_>>())
        .as_deref()
    {
        Some([only]) => return by(Some(only)),
        // Pod networks overlap.
        Some(_) => return by(None),
        None => {}
    }
    match service.unread.iter().collect::<Vec<_>>().as_slice() {
        [only] => by(Some(only)),
        _ => by(None),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc, time::Duration};

    use super::*;
    use crate::clusters::traffic::Bound;

    fn id(name: &str) -> ResourceId {
        ResourceId::new("shop", name)
    }

    fn key(service: &str, address: u8, cluster: Option<&str>) -> TrafficKey {
        TrafficKey {
            service: id(service),
            address: (address > 0).then(|| IpAddr::from([10, 0, 0, address])),
            target_cluster: cluster.map(str::to_owned),
        }
    }

    /// A federated Service with members here, in `east` and in `north`. EndpointSlices of `unread` ones are unknown.
    fn services(unread: &[&str]) -> TrafficServices {
        let mirror = |mode, cluster: Option<&str>| TrafficService {
            mode: Some(mode),
            cluster: cluster.map(str::to_owned),
            ..TrafficService::default()
        };
        let federated = TrafficService {
            unread: unread.iter().map(|cluster| (*cluster).to_owned()).collect(),
            ..mirror(ShownMode::Federated, None)
        };
        let mut services = TrafficServices::default();
        services.services.extend([
            (id("gated-east"), mirror(ShownMode::Gateway, Some("east"))),
            (
                id("flat-east"),
                mirror(ShownMode::RemoteDiscovery, Some("east")),
            ),
            (id("web-federated"), federated),
            (id("web"), TrafficService::default()),
        ]);
        for (address, cluster) in [(1, "local"), (2, "east"), (3, "east"), (3, "north")] {
            let place = (id("web-federated"), IpAddr::from([10, 0, 0, address]));
            let clusters = services.addresses.entry(place).or_default();
            clusters.insert(cluster.to_owned());
        }
        services
    }

    #[test]
    fn serving_cluster_is_known_or_it_is_unknown() {
        for (key, unread, expected) in [
            (key("gated-east", 9, Some("east")), &[][..], Some("east")),
            (key("flat-east", 9, None), &[], Some("east")),
            (key("web", 9, None), &[], Some("local")),
            // The label may be that of another endpoint of the Service.
            (key("web-federated", 2, Some("north")), &[], Some("east")),
            (key("web-federated", 9, Some("north")), &[], None),
            (key("web-federated", 1, None), &["north"], Some("local")),
            (key("web-federated", 2, None), &[], Some("east")),
            // Two clusters have the address.
            (key("web-federated", 3, None), &[], None),
            // No slice has it: it is in the only cluster whose slices could not be read, if there is one.
            (key("web-federated", 9, None), &[], None),
            (key("web-federated", 9, None), &["north"], Some("north")),
            (key("web-federated", 9, None), &["north", "south"], None),
        ] {
            let services = services(unread);
            let service = services.get(&key.service).unwrap();
            let found = served_by(&key, service, &services);
            assert_eq!(found.cluster.as_deref(), expected, "{key:?} {unread:?}");
            assert!(!found.without_endpoint);
        }
        let services = services(&[]);
        let key = key("gated-east", 0, None);
        let found = served_by(&key, services.get(&key.service).unwrap(), &services);
        assert!(found.without_endpoint && found.cluster.is_none());
    }

    fn client(seconds: u64, activities: &[(TrafficKey, f64, f64, f64)]) -> ClientActivity {
        let by_key = activities.iter().map(|(key, success, failure, open)| {
            let mut activity = Activity {
                success: *success,
                failure: *failure,
                open: *open,
                ..Activity::default()
            };
            for bound in [10.0, f64::INFINITY] {
                activity.latency.add(Bound::of(bound), success + failure);
            }
            (Arc::new(key.clone()), activity)
        });
        ClientActivity {
            lasted: Duration::from_secs(seconds),
            by_key: by_key.collect(),
        }
    }

    #[test]
    fn rows_add_up_the_clients_of_each_serving_cluster() {
        let services = services(&[]);
        let clients = [
            client(
                10,
                &[
                    (key("web-federated", 1, None), 10.0, 0.0, 1.0),
                    (key("web-federated", 2, None), 20.0, 0.0, 2.0),
                    (key("unknown", 2, None), 20.0, 0.0, 2.0),
                    (key("flat-east", 4, None), 0.0, 0.0, 0.0),
                ],
            ),
            client(
                5,
                &[
                    (key("web-federated", 2, None), 5.0, 5.0, 0.0),
                    (key("web-federated", 0, None), 0.0, 2.0, 0.0),
                    (key("gated-east", 9, Some("east")), 0.0, 0.0, 3.0),
                ],
            ),
        ];
        let rows = rows("west", &services, &clients);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let cluster = row.served.cluster.as_deref().unwrap_or("-");
                let rate = row.success_rate.unwrap_or(-1.0);
                format!(
                    "{} {cluster} {} {} {rate:.2} {} {}",
                    row.service,
                    row.requests,
                    row.requests_per_second,
                    row.open_connections,
                    row.clients
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "gated-east east 0 0 -1.00 3 0",
                "web-federated - 2 0.4 0.00 0 1",
                "web-federated east 30 4 0.83 2 2",
                "web-federated local 10 1 1.00 1 1",
            ]
        );
        assert_eq!(rows[2].p50_ms, Some(5.0));
        assert_eq!(rows[0].p50_ms, None);
    }
}
