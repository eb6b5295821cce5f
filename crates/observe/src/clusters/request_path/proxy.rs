//! Reads what the proxy of the calling Pod says and counts. Reads only.

use std::{collections::BTreeMap, time::Duration};

use kube::Client;
use mirror_core::api::metadata::ResourceId;

#[cfg(test)]
use super::facts::EndpointCounts;
use super::facts::{ClientProxy, Protocol, ProxyAnswer, ProxyCounts};
use crate::clusters::{
    proxies::{PodProxy, ProxyError, Sample},
    snapshot::Known,
};

/// Endpoints of a balancer, by state: for requests, and for connections in which the proxy sees none.
const ENDPOINTS: [&str; 2] = [
    "outbound_http_balancer_endpoints",
    "outbound_tcp_balancer_endpoints",
];
/// Answers to requests of the application, by route.
const STATUSES: [&str; 2] = [
    "outbound_http_route_request_statuses_total",
    "outbound_grpc_route_request_statuses_total",
];
/// Connections that ended, by route. A port that its Service does not declare has an opaque route that forbids all.
const CLOSED: &str = "outbound_tcp_route_close_total";
/// All that is read.
const NAMES: [&str; 5] = [ENDPOINTS[0], ENDPOINTS[1], STATUSES[0], STATUSES[1], CLOSED];
/// Labels of the Service that is called.
const PARENT: [&str; 2] = ["parent_namespace", "parent_name"];
/// The route of a port that its Service does not declare.
const UNDEFINED: &str = "undefined-port";

/// Reads the proxy twice, so that what it counts now can be told from what it counted before.
pub async fn client_proxy(
    client: &Client,
    pod: &ResourceId,
    service: &ResourceId,
    port: Option<u16>,
    (deadline, pause): (Duration, Duration),
) -> Known<ClientProxy> {
    let told = |error: ProxyError| error.to_string();
    let proxy = PodProxy::find(client, pod, deadline).await.map_err(told)?;
    let ready = proxy.ready(client, deadline).await.map_err(told)?;
    let counts = async || {
        let mut counts = BTreeMap::new();
        let take = |sample: &Sample<'_>| count(&mut counts, sample, service, port);
        let read = proxy.metrics(client, &NAMES, deadline, take);
        read.await.map_err(told)?;
        Known::Ok(counts)
    };
    let before = counts().await?;
    tokio::time::sleep(pause).await;
    let after = counts().await?;
    Ok(ClientProxy {
        ready,
        before,
        after,
    })
}

/// Takes a sample, if it is about the Service.
fn count(
    counts: &mut BTreeMap<u16, ProxyCounts>,
    sample: &Sample<'_>,
    service: &ResourceId,
    port: Option<u16>,
) {
    let names = PARENT.map(|label| sample.label(label));
    let Ok(of) = sample.label("parent_port").parse::<u16>() else {
        return;
    };
    if names != [service.namespace.as_str(), service.name.as_str()]
        || port.is_some_and(|port| port != of)
    {
        return;
    }
    let counts = counts.entry(of).or_default();
    let mut answered = |protocol, status: &str| {
        let answer = ProxyAnswer {
            protocol,
            status: status.to_owned(),
            error: sample.label("error").to_owned(),
        };
        *counts.answers.entry(answer).or_default() += sample.value;
    };
    match sample.name {
        CLOSED if sample.label("route_name") == UNDEFINED => counts.undefined += sample.value,
        CLOSED => answered(Protocol::Tcp, ""),
        name if name == STATUSES[0] => answered(Protocol::Http, sample.label("http_status")),
        name if name == STATUSES[1] => answered(Protocol::Grpc, sample.label("grpc_status")),
        name => {
            let endpoints = if name == ENDPOINTS[0] {
                &mut counts.requests
            } else {
                &mut counts.connections
            };
            match sample.label("endpoint_state") {
                "ready" => endpoints.ready += sample.value,
                _ => endpoints.pending += sample.value,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(
        name: &'static str,
        port: &'static str,
        more: &[(&'static str, &'static str)],
        value: f64,
    ) -> Sample<'static> {
        let own = [
            ("parent_namespace", "shop"),
            ("parent_name", "web-east"),
            ("parent_port", port),
        ];
        let all = own.iter().chain(more);
        Sample {
            name,
            labels: all.map(|(key, value)| (*key, (*value).into())).collect(),
            value,
        }
    }

    #[test]
    fn samples_of_the_service_are_counted_by_port_and_protocol() {
        let [http, tcp] = ENDPOINTS;
        let [ready, pending] = ["ready", "pending"].map(|state| [("endpoint_state", state)]);
        let samples = || {
            [
                sample(http, "80", &ready, 2.0),
                sample(http, "80", &pending, 1.0),
                sample(http, "81", &pending, 7.0),
                sample(tcp, "3306", &pending, 3.0),
                sample(
                    CLOSED,
                    "80",
                    &[("route_name", UNDEFINED), ("error", "forbidden")],
                    3.0,
                ),
                sample(
                    CLOSED,
                    "3306",
                    &[("route_name", "opaque"), ("error", "unexpected")],
                    5.0,
                ),
                sample(
                    STATUSES[0],
                    "80",
                    &[("http_status", "503"), ("error", "FAIL_FAST")],
                    4.0,
                ),
                sample(STATUSES[1], "80", &[("grpc_status", "OK")], 6.0),
            ]
        };
        let service = ResourceId::new("shop", "web-east");
        let counted = |port: Option<u16>| {
            let mut counts = BTreeMap::new();
            for sample in samples() {
                count(&mut counts, &sample, &service, port);
            }
            let shown = counts.into_iter().map(|(port, counts)| {
                let EndpointCounts { ready, pending } = counts.endpoints();
                let answers = counts.answers.iter();
                let answers = answers.map(|(answer, count)| format!("{count} {answer}"));
                let answers: Vec<String> = answers.collect();
                (port, [ready, pending, counts.undefined], answers.join(", "))
            });
            shown.collect::<Vec<_>>()
        };
        let of_http = (
            80,
            [2.0, 1.0, 3.0],
            "4 answers with status 503 (FAIL_FAST), 6 answers with gRPC status OK".to_owned(),
        );
        assert_eq!(counted(Some(80)), std::slice::from_ref(&of_http));
        assert_eq!(
            counted(None),
            [
                of_http,
                (81, [0.0, 7.0, 0.0], String::new()),
                (
                    3306,
                    [0.0, 3.0, 0.0],
                    "5 connections (unexpected)".to_owned()
                ),
            ]
        );
        let other = ResourceId::new("shop", "other");
        let mut counts = BTreeMap::new();
        count(
            &mut counts,
            &sample(http, "80", &pending, 9.0),
            &other,
            None,
        );
        assert_eq!(counts, BTreeMap::new());
    }
}
