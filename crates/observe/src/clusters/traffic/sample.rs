//! A sample of a client's proxy: its counters of requests to mirrors and federated Services.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use kube::Client;
use mirror_core::api::metadata::ResourceId;
use tokio::time::Instant;

use super::services::TrafficServices;
use crate::clusters::{
    counters::service_of,
    proxies::{PodProxy, ProxyError, Sample},
};

/// Requests, by endpoint.
const REQUESTS: &str = "request_total";
/// Responses that ended, and errors in place of one, by endpoint. A request that its caller gives up is in none.
const RESPONSES: &str = "response_total";
/// Latency of responses, in milliseconds.
const LATENCY: &str = "response_latency_ms_bucket";
/// Open connections, by endpoint.
const CONNECTIONS: &str = "tcp_open_connections";
/// Results of requests by outbound policy, also of those that got to no endpoint.
const BY_ROUTE: [&str; 2] = [
    "outbound_http_route_request_statuses_total",
    "outbound_grpc_route_request_statuses_total",
];
/// When the proxy started.
const STARTED: &str = "process_start_time_seconds";
/// All that is read.
const NAMES: [&str; 7] = [
    REQUESTS,
    RESPONSES,
    LATENCY,
    CONNECTIONS,
    BY_ROUTE[0],
    BY_ROUTE[1],
    STARTED,
];
/// Errors of requests for which the proxy had no endpoint. No `response_total` counts these.
const WITHOUT_ENDPOINT: [&str; 2] = ["FAIL_FAST", "LOAD_SHED"];

/// The end of a bucket of a histogram. Never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bound(u64);

impl Bound {
    /// The bound with this value.
    pub fn of(value: f64) -> Self {
        // The bits of positive numbers are in the order of the numbers.
        Self(value.max(0.0).to_bits())
    }

    /// Its value.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// Whether the bucket has no end.
    pub fn is_infinite(self) -> bool {
        self.get().is_infinite()
    }
}

/// What a series measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Requests that succeeded.
    Success,
    /// Requests that failed.
    Failure,
    /// Requests that failed by an error of the connection, a timeout or a reset, at an endpoint.
    Error,
    /// Requests that ended with an error and without a response, as their route counts them. Most of them are errors at an
    /// endpoint too.
    Unanswered,
    /// Requests that were sent to an endpoint.
    Sent,
    /// Requests that took no longer than this, in milliseconds.
    Latency(Bound),
    /// Open connections.
    Open,
}

/// Where a proxy sent requests to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficKey {
    /// The mirror or federated Service.
    pub service: ResourceId,
    /// Address of the endpoint; `None` for requests that got to none.
    pub address: Option<IpAddr>,
    /// The cluster of the endpoint, if Linkerd names it.
    pub target_cluster: Option<String>,
}

/// A series of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesId {
    /// The Service and the endpoint that the proxy sent requests to.
    pub key: Arc<TrafficKey>,
    /// What is measured.
    pub measure: Measure,
    /// A hash of all other labels. Each series has a counter of its own, which may start again from zero.
    pub others: u64,
}

/// The counters of a proxy at one time.
#[derive(Clone, Debug)]
pub struct TrafficSample {
    /// When.
    pub taken: Instant,
    /// When the proxy started, in seconds.
    pub started: Option<f64>,
    /// Their values.
    pub series: HashMap<SeriesId, f64>,
}

impl TrafficSample {
    /// Reads a proxy.
    pub async fn read(
        client: &Client,
        proxy: &PodProxy,
        services: &TrafficServices,
        deadline: Duration,
    ) -> Result<Self, ProxyError> {
        let mut sample = Self {
            taken: Instant::now(),
            started: None,
            series: HashMap::new(),
        };
        let mut keys = HashSet::new();
        let read = proxy.metrics(client, &NAMES, deadline, |line| {
            sample.take(line, services, &mut keys);
        });
        read.await?;
        Ok(sample)
    }

    /// This sample, as if it had known these Services too, of which nothing was taken then: with what they have counted by the
    /// next one.
    pub fn with_new(mut self, next: &Self, new: &BTreeSet<ResourceId>) -> Self {
        let of_new = next
            .series
            .iter()
            .filter(|(id, _)| new.contains(&id.key.service));
        for (id, value) in of_new {
            self.series.entry(id.clone()).or_insert(*value);
        }
        self
    }

    /// The same time, with nothing counted before: all that the proxy counts is an increase.
    pub fn zero(&self) -> Self {
        Self {
            series: HashMap::new(),
            ..*self
        }
    }

    fn take(
        &mut self,
        line: &Sample<'_>,
        services: &TrafficServices,
        keys: &mut HashSet<Arc<TrafficKey>>,
    ) {
        if line.name == STARTED {
            self.started = Some(line.value);
            return;
        }
        let Some((key, measure)) = series_of(line, services) else {
            return;
        };
        let key = keys.get(&key).cloned().unwrap_or_else(|| Arc::new(key));
        keys.insert(key.clone());
        let id = SeriesId {
            key,
            measure,
            others: others(line),
        };
        self.series.insert(id, line.value);
    }
}

/// What a line says about one of these Services.
fn series_of(line: &Sample<'_>, services: &TrafficServices) -> Option<(TrafficKey, Measure)> {
    if BY_ROUTE.contains(&line.name) {
        let measure = error_of_route(line).filter(|_| line.label("parent_kind") == "Service")?;
        let service = ResourceId::new(line.label("parent_namespace"), line.label("parent_name"));
        let key = TrafficKey {
            service,
            ..TrafficKey::default()
        };
        return services.get(&key.service).map(|_| (key, measure));
    }
    if line.label("direction") != "outbound" {
        return None;
    }
    let measure = match line.name {
        RESPONSES if line.label("classification") == "success" => Measure::Success,
        RESPONSES if line.label("error").is_empty() => Measure::Failure,
        RESPONSES => Measure::Error,
        REQUESTS => Measure::Sent,
        LATENCY => Measure::Latency(Bound::of(line.label("le").parse().ok()?)),
        CONNECTIONS if line.label("peer") == "dst" => Measure::Open,
        _ => return None,
    };
    let service = service_of(line.label("authority"))?;
    services.get(&service)?;
    let target_cluster = line.label("dst_target_cluster");
    let key = TrafficKey {
        service,
        address: Some(line.label("target_ip").parse().ok()?),
        target_cluster: (!target_cluster.is_empty()).then(|| target_cluster.to_owned()),
    };
    Some((key, measure))
}

/// What a route counts as an error without a response.
fn error_of_route(line: &Sample<'_>) -> Option<Measure> {
    match (line.label("error"), line.label("grpc_status")) {
        ("", _) => None,
        (error, _) if WITHOUT_ENDPOINT.contains(&error) => Some(Measure::Failure),
        // Without a status, this is that of gRPC. A caller that ends a stream is counted with both.
        ("UNKNOWN", "UNKNOWN") => None,
        (_, "" | "UNKNOWN") => line
            .label("http_status")
            .is_empty()
            .then_some(Measure::Unanswered),
        _ => None,
    }
}

/// A hash of all labels but that of the bucket, whatever their order.
fn others(line: &Sample<'_>) -> u64 {
    let mut labels: Vec<_> = line
        .labels
        .iter()
        .filter(|(name, _)| *name != "le")
        .collect();
    labels.sort_unstable();
    let mut hasher = DefaultHasher::new();
    (line.name, labels).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::{proxies::sampled as line, traffic::TrafficService};

    fn services(names: &[&str]) -> TrafficServices {
        let mut services = TrafficServices::default();
        for name in names {
            let id = ResourceId::new("app", *name);
            services.services.insert(id, TrafficService::default());
        }
        services
    }

    const GATED: [(&str, &str); 4] = [
        ("direction", "outbound"),
        ("authority", "gated-east.app.svc.cluster.local:80"),
        ("target_ip", "10.241.2.10"),
        ("dst_target_cluster", "east"),
    ];

    #[test]
    fn series_are_those_of_the_services_in_question() {
        let services = services(&["gated-east"]);
        let with = |more: &[(&'static str, &'static str)]| [&GATED[..], more].concat();
        let without = |name: &str| {
            let labels = GATED.iter().filter(|(known, _)| *known != name);
            labels.copied().collect::<Vec<_>>()
        };
        let route = |error| {
            vec![
                ("parent_kind", "Service"),
                ("parent_namespace", "app"),
                ("parent_name", "gated-east"),
                ("error", error),
            ]
        };
        for (name, labels, expected) in [
            (
                RESPONSES,
                with(&[("classification", "success")]),
                Some(Measure::Success),
            ),
            (
                RESPONSES,
                with(&[("classification", "failure")]),
                Some(Measure::Failure),
            ),
            (
                LATENCY,
                with(&[("le", "5")]),
                Some(Measure::Latency(Bound::of(5.0))),
            ),
            (
                LATENCY,
                with(&[("le", "+Inf")]),
                Some(Measure::Latency(Bound::of(f64::INFINITY))),
            ),
            (LATENCY, with(&[("le", "x")]), None),
            (CONNECTIONS, with(&[("peer", "dst")]), Some(Measure::Open)),
            (CONNECTIONS, with(&[("peer", "src")]), None),
            (BY_ROUTE[0], route("FAIL_FAST"), Some(Measure::Failure)),
            (BY_ROUTE[1], route("LOAD_SHED"), Some(Measure::Failure)),
            (BY_ROUTE[0], route(""), None),
            (BY_ROUTE[0], route("UNKNOWN"), Some(Measure::Unanswered)),
            (
                BY_ROUTE[0],
                route("RESPONSE_HEADERS_TIMEOUT"),
                Some(Measure::Unanswered),
            ),
            (
                BY_ROUTE[0],
                [route("IO"), vec![("http_status", "")]].concat(),
                Some(Measure::Unanswered),
            ),
            // Its response is counted at the endpoint.
            (
                BY_ROUTE[0],
                [route("RESET"), vec![("http_status", "200")]].concat(),
                None,
            ),
            (
                BY_ROUTE[1],
                [route("RESET"), vec![("grpc_status", "UNKNOWN")]].concat(),
                Some(Measure::Unanswered),
            ),
            (
                BY_ROUTE[1],
                [route("RESET"), vec![("grpc_status", "UNAVAILABLE")]].concat(),
                None,
            ),
            (
                BY_ROUTE[1],
                [route("UNKNOWN"), vec![("grpc_status", "UNKNOWN")]].concat(),
                None,
            ),
            (
                RESPONSES,
                with(&[("classification", "failure"), ("error", "response timeout")]),
                Some(Measure::Error),
            ),
            (REQUESTS, with(&[]), Some(Measure::Sent)),
            (RESPONSES, without("direction"), None),
            (RESPONSES, without("authority"), None),
            (RESPONSES, without("target_ip"), None),
        ] {
            let found = series_of(&line(name, &labels, 1.0), &services);
            assert_eq!(
                found.as_ref().map(|(_, measure)| *measure),
                expected,
                "{name} {labels:?}"
            );
            if let Some((key, _)) = found.filter(|_| name == RESPONSES) {
                assert_eq!(key.address, Some(IpAddr::from([10, 241, 2, 10])));
                assert_eq!(key.target_cluster.as_deref(), Some("east"));
            }
        }
        let others = self::services(&["web-federated"]);
        let success = with(&[("classification", "success")]);
        assert_eq!(series_of(&line(RESPONSES, &success, 1.0), &others), None);
    }

    #[test]
    fn service_is_that_of_the_authority() {
        let web = Some(ResourceId::new("app", "web"));
        for (authority, expected) in [
            ("web.app.svc.cluster.local:80", web.clone()),
            ("web.app.svc.example.org", web.clone()),
            ("web.app.svc:80", web),
            ("web.app.example.org:80", None),
            ("10.0.0.1:80", None),
            ("web", None),
            ("", None),
        ] {
            assert_eq!(service_of(authority), expected, "{authority}");
        }
    }

    #[test]
    fn series_are_told_apart_by_all_labels_in_any_order() {
        let of = |labels: &[(&'static str, &'static str)]| others(&line(LATENCY, labels, 1.0));
        let all = of(&[("a", "1"), ("b", "2"), ("le", "5")]);
        assert_eq!(all, of(&[("b", "2"), ("le", "10"), ("a", "1")]));
        assert_ne!(all, of(&[("b", "2"), ("a", "3")]));
    }

    #[test]
    fn bounds_are_in_the_order_of_their_values() {
        let mut bounds = [f64::INFINITY, 0.0, 2.5, 10.0, 1.0].map(Bound::of);
        bounds.sort_unstable();
        let expected = [0.0, 1.0, 2.5, 10.0, f64::INFINITY];
        assert_eq!(bounds, expected.map(Bound::of));
        assert!((bounds[2].get() - 2.5).abs() < f64::EPSILON);
        assert!(bounds[4].is_infinite());
    }
}
