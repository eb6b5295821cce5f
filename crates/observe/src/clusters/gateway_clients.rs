//! Who uses the gateway of a cluster, by what the proxies of its Pods count. Reads only.
//!
//! Names and labels as of edge-26.8, from a proxy of `tests/mesh`. A gateway knows the identity of a client, and not its
//! cluster: clusters that share a trust domain cannot be told apart.
//!
//! | Sample | Meaning |
//! | --- | --- |
//! | `inbound_http_authz_allow_total`, `inbound_http_authz_deny_total` | requests by client that the policy lets through, or refuses |
//! | `inbound_tcp_authz_deny_total` | connections that it refuses |
//! | `tcp_open_connections` of `peer="src"` | open connections by client |
//! | `response_total` of `direction="outbound"` | what the Services behind the gateway answer |

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use client::{Cluster, requests::list_all};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use mirror_core::api::metadata::ResourceId;
use tokio::time::Instant;

use super::{
    counters::{growth, read_twice, service_of},
    proxies::{PodProxy, ProxyError, Sample},
    snapshot::Known,
};

/// What selects the Pods of gateways, in Linkerd's chart and in ours.
const GATEWAYS: &str = "app=linkerd-gateway";
/// Maximum number of Pods that are read.
const PODS: usize = 10;
/// Name of the route of probes, in the metrics of a proxy.
const PROBE: &str = "probe";
const ALLOWED: &str = "inbound_http_authz_allow_total";
const REFUSED: [&str; 2] = [
    "inbound_http_authz_deny_total",
    "inbound_tcp_authz_deny_total",
];
const OPEN: &str = "tcp_open_connections";
const ANSWERS: &str = "response_total";
const NAMES: [&str; 5] = [ALLOWED, REFUSED[0], REFUSED[1], OPEN, ANSWERS];

/// What happened at the gateway between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayActivity {
    /// Pods of the gateway.
    pub pods: usize,
    /// Those whose proxies were read.
    pub read: usize,
    /// Why others could not be read: the first reason.
    pub unread: Option<String>,
    /// The time between the samples.
    pub lasted: Duration,
    /// By identity; an empty one is that of clients without one.
    pub clients: BTreeMap<String, ClientCounts>,
    /// Identities that have probed the gateway; an empty one is that of clients without one.
    pub probes: BTreeMap<String, f64>,
    /// The Services behind the gateway that have answered: all answers, and those that failed.
    pub services: BTreeMap<ResourceId, (f64, f64)>,
}

/// What one client did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientCounts {
    /// Open connections at the end.
    pub connections: f64,
    /// Requests that the policy let through.
    pub requests: f64,
    /// Requests and connections that it refused.
    pub refused: f64,
}

/// What a series counts, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GatewayCount {
    Open(String),
    Allowed(String),
    Refused(String),
    Probe(String),
    Answer { service: ResourceId, failed: bool },
}

/// The sums of the series of one proxy.
type Counts = HashMap<GatewayCount, f64>;

/// Reads the proxies of the gateway twice; `None` if the cluster has no gateway.
pub async fn gateway_activity(
    cluster: &Cluster,
    interval: Duration,
) -> Known<Option<GatewayActivity>> {
    let api: Api<Pod> = Api::all(cluster.client.clone());
    let pods = list_all(&api, GATEWAYS).await?;
    if pods.is_empty() {
        return Ok(None);
    }
    let proxies: Vec<PodProxy> = pods
        .iter()
        .filter_map(|pod| PodProxy::of(pod).ok())
        .collect();
    let proxies = &proxies[..proxies.len().min(PODS)];
    let began = Instant::now();
    let sample = async || sample(&cluster.client, proxies, cluster.deadline).await;
    let samples = read_twice(proxies, interval, sample).await;
    let mut activity = GatewayActivity {
        pods: pods.len(),
        unread: samples.unread,
        lasted: began.elapsed(),
        ..GatewayActivity::default()
    };
    for (_, first, second) in samples.read {
        activity.add(&first, second);
    }
    Ok(Some(activity))
}

async fn sample(
    client: &Client,
    proxies: &[PodProxy],
    deadline: Duration,
) -> Vec<Result<Counts, ProxyError>> {
    let reads = proxies.iter().map(async |proxy| {
        let mut counts = Counts::new();
        let each = |line: &Sample<'_>| {
            if let Some(counted) = counted(line) {
                *counts.entry(counted).or_default() += line.value;
            }
        };
        proxy
            .forwarded_metrics(client, &NAMES, deadline, each)
            .await?;
        Ok(counts)
    });
    join_all(reads).await
}

/// What a line counts.
fn counted(line: &Sample<'_>) -> Option<GatewayCount> {
    let client = || line.label("client_id").to_owned();
    let is_probe = line.label("route_name") == PROBE;
    // The proxy's own port for probes and metrics is no way to a Service.
    let is_own = line.label("authz_name") == "localhost" || line.label("srv_kind") == "default";
    match line.name {
        ALLOWED if is_probe => Some(GatewayCount::Probe(client())),
        ALLOWED if !is_own => Some(GatewayCount::Allowed(client())),
        name if REFUSED.contains(&name) && !is_own => Some(GatewayCount::Refused(client())),
        OPEN if line.label("direction") == "inbound" && !is_own => {
            Some(GatewayCount::Open(client()))
        }
        ANSWERS if line.label("direction") == "outbound" => Some(GatewayCount::Answer {
            service: service_of(line.label("authority"))?,
            failed: line.label("classification") != "success",
        }),
        _ => None,
    }
}

impl GatewayActivity {
    /// Adds what a proxy counted between two samples.
    fn add(&mut self, first: &Counts, second: Counts) {
        self.read += 1;
        for (counted, value) in second {
            let before = first.get(&counted).copied().unwrap_or_default();
            let grown = growth(before, value);
            match counted {
                GatewayCount::Open(client) => self.of(client).connections += value,
                GatewayCount::Allowed(client) => self.of(client).requests += grown,
                GatewayCount::Refused(client) => self.of(client).refused += grown,
                GatewayCount::Probe(client) => *self.probes.entry(client).or_default() += grown,
                GatewayCount::Answer { service, failed } => {
                    let (all, failures) = self.services.entry(service).or_default();
                    *all += grown;
                    *failures += if failed { grown } else { 0.0 };
                }
            }
        }
        let is_idle = |counts: &ClientCounts| *counts == ClientCounts::default();
        self.clients.retain(|_, counts| !is_idle(counts));
        self.probes.retain(|_, count| *count > 0.0);
        self.services.retain(|_, (all, _)| *all > 0.0);
    }

    fn of(&mut self, client: String) -> &mut ClientCounts {
        self.clients.entry(client).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::proxies::sampled as line;

    const CLIENT: &str = "client.app.serviceaccount.identity.linkerd.cluster.local";

    fn counts(lines: &[Sample<'_>]) -> Counts {
        let mut counts = Counts::new();
        for line in lines {
            if let Some(counted) = counted(line) {
                *counts.entry(counted).or_default() += line.value;
            }
        }
        counts
    }

    #[test]
    fn activity_is_what_was_counted_between_two_samples() {
        let of_gateway = [("srv_kind", "server"), ("client_id", CLIENT)];
        let of_probe = [
            ("srv_kind", "default"),
            ("route_name", "probe"),
            ("client_id", "c"),
        ];
        let own = [("srv_kind", "default"), ("authz_name", "localhost")];
        let inbound = [&of_gateway[..], &[("direction", "inbound")]].concat();
        let answer = |class| {
            vec![
                ("direction", "outbound"),
                ("authority", "gated.app.svc.cluster.local"),
                ("classification", class),
            ]
        };
        let sample = |requests: f64, open: f64, failed: f64| {
            counts(&[
                line(ALLOWED, &of_gateway, requests),
                line(REFUSED[0], &of_gateway, 2.0),
                line(REFUSED[1], &of_gateway, failed),
                line(ALLOWED, &of_probe, requests),
                line(ALLOWED, &own, requests),
                line(OPEN, &inbound, open),
                line(ANSWERS, &answer("success"), requests),
                line(ANSWERS, &answer("failure"), failed),
            ])
        };
        let mut activity = GatewayActivity::default();
        activity.add(&sample(10.0, 9.0, 0.0), sample(25.0, 3.0, 4.0));
        // Started again in between.
        activity.add(&sample(100.0, 0.0, 0.0), sample(5.0, 0.0, 0.0));
        let seen = ClientCounts {
            connections: 3.0,
            requests: 20.0,
            refused: 4.0,
        };
        assert_eq!(activity.clients, [(CLIENT.to_owned(), seen)].into());
        assert_eq!(activity.probes, [("c".to_owned(), 20.0)].into());
        let gated = ResourceId::new("app", "gated");
        assert_eq!(activity.services, [(gated, (24.0, 4.0))].into());
        assert_eq!(activity.read, 2);
    }

    #[test]
    fn who_does_nothing_is_no_client() {
        let labels = [("srv_kind", "server"), ("client_id", CLIENT)];
        let sample = || counts(&[line(ALLOWED, &labels, 7.0)]);
        let mut activity = GatewayActivity::default();
        activity.add(&sample(), sample());
        assert_eq!(activity.clients, BTreeMap::new());
    }
}
