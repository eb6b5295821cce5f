//! Reads what the proxy of the calling Pod says and counts. Reads only.

use std::time::Duration;

use kube::Client;

use super::facts::{ClientProxy, ProxyCounts};
use crate::{
    api::metadata::ResourceId,
    clusters::{
        proxies::{PodProxy, ProxyError, Sample},
        snapshot::Known,
    },
};

/// Endpoints of a balancer, by state.
const ENDPOINTS: &str = "outbound_http_balancer_endpoints";
/// Answers to requests of the application, by route.
const STATUSES: &str = "outbound_http_route_request_statuses_total";
/// Connections that ended, by route. A port that its Service does not declare has an opaque route that forbids all.
const CLOSED: &str = "outbound_tcp_route_close_total";
/// Labels of the Service that is called.
const PARENT: [&str; 2] = ["parent_namespace", "parent_name"];
/// The route of a port that its Service does not declare.
const UNDEFINED: &str = "undefined-port";

/// Reads the proxy twice, so that what it counts now can be told from what it counted before.
pub(crate) async fn client_proxy(
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
        let mut counts = ProxyCounts::default();
        let take = |sample: &Sample<'_>| count(&mut counts, sample, service, port);
        let read = proxy.metrics(client, &[ENDPOINTS, STATUSES, CLOSED], deadline, take);
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
fn count(counts: &mut ProxyCounts, sample: &Sample<'_>, service: &ResourceId, port: Option<u16>) {
    let names = PARENT.map(|label| sample.label(label));
    let is_port = port.is_none_or(|port| sample.label("parent_port") == port.to_string());
    if names != [service.namespace.as_str(), service.name.as_str()] || !is_port {
        return;
    }
    match sample.name {
        ENDPOINTS => match sample.label("endpoint_state") {
            "ready" => counts.ready += sample.value,
            _ => counts.pending += sample.value,
        },
        CLOSED if sample.label("route_name") == UNDEFINED => counts.undefined += sample.value,
        STATUSES => {
            let status = sample.label("http_status").to_owned();
            let error = sample.label("error").to_owned();
            *counts.answers.entry((status, error)).or_default() += sample.value;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_the_service_and_port_are_counted() {
        let labels = |port: &'static str, more: &[(&'static str, &'static str)]| {
            let own = [
                ("parent_namespace", "shop"),
                ("parent_name", "web-east"),
                ("parent_port", port),
            ];
            let all = own.iter().chain(more);
            all.map(|(key, value)| (*key, (*value).into())).collect()
        };
        let mut counts = ProxyCounts::default();
        let service = ResourceId::new("shop", "web-east");
        for (name, port, more, value) in [
            (ENDPOINTS, "80", &[("endpoint_state", "ready")][..], 2.0),
            (ENDPOINTS, "80", &[("endpoint_state", "pending")], 1.0),
            (ENDPOINTS, "81", &[("endpoint_state", "pending")], 7.0),
            (
                CLOSED,
                "80",
                &[("route_name", UNDEFINED), ("error", "forbidden")],
                3.0,
            ),
            (
                STATUSES,
                "80",
                &[
                    ("route_name", "http"),
                    ("http_status", "503"),
                    ("error", "failfast"),
                ],
                4.0,
            ),
        ] {
            let sample = Sample {
                name,
                labels: labels(port, more),
                value,
            };
            count(&mut counts, &sample, &service, Some(80));
        }
        assert_eq!(
            (counts.ready, counts.pending, counts.undefined),
            (2.0, 1.0, 3.0)
        );
        let failed = ("503".to_owned(), "failfast".to_owned());
        assert_eq!(counts.answers, [(failed, 4.0)].into());
        let other = Sample {
            name: ENDPOINTS,
            labels: vec![
                ("parent_namespace", "shop".into()),
                ("parent_name", "other".into()),
            ],
            value: 9.0,
        };
        count(&mut counts, &other, &service, None);
        assert_eq!((counts.pending, counts.ready), (1.0, 2.0));
    }
}
