//! Reads a cluster's networks: the addresses of its API server, the range of its `ClusterIP`s, and how many of these are
//! available.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::{
    core::v1::Service,
    discovery::v1::EndpointSlice,
    networking::v1::{IPAddress, ServiceCIDR},
};
use kube::{Api, Client, Config, api::ListParams, core::PartialObjectMeta};
use mirror_core::{api::labels as l, mirror::ClusterNetworks};

use super::{
    requests::{list_all, next_page},
    service_range::{self, cidrs, is_v4},
};

/// Namespace and name of the Service of the API server.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

/// Kubernetes' label of an `IPAddress`: its family.
const IP_FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// The networks of a cluster, as far as they can be read.
#[derive(Debug, Default)]
pub struct ObservedNetworks {
    pub networks: ClusterNetworks,
    /// How many `ClusterIP`s may be allocated, if that is known, so that a quarter of the range stays free.
    pub available_ips: Option<i64>,
    /// Why some are unknown, if the API server denied access.
    pub denied: Option<kube::Error>,
}

/// The address of the API server in a configuration, if it is an IP address.
pub fn server_address(config: &Config) -> Option<IpAddr> {
    let host = config.cluster_url.host()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse().ok()
}

/// Reads a cluster's networks. Fails without a response; what the API server denies is unknown.
///
/// `ServiceCIDR`s exist in Kubernetes 1.33 and later. Before that, no object has the range of `ClusterIP`s.
pub async fn cluster_networks(client: &Client) -> kube::Result<ObservedNetworks> {
    let (namespace, name) = API_SERVER;
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
    let ranges = Api::<ServiceCIDR>::all(client.clone());
    let of_service = ListParams::default().labels(&format!("{}={name}", l::SLICE_SERVICE));
    let all = ListParams::default();
    let (service, slices, ranges) = futures::join!(
        services.get_opt(name),
        slices.list(&of_service),
        ranges.list(&all)
    );
    let mut denied = None;
    let service = permitted(service, &mut denied)?.flatten();
    let slices = permitted(slices, &mut denied)?;
    let ranges = permitted(ranges, &mut denied)?;
    let ranges: Vec<ServiceCIDR> = ranges.into_iter().flatten().collect();
    let available_ips = permitted(available_ips(client, &ranges).await, &mut denied)?.flatten();

    let ips = service.and_then(|service| service.spec?.cluster_ips);
    let endpoints = slices
        .into_iter()
        .flatten()
        .flat_map(|slice| slice.endpoints);
    let addresses = endpoints.flat_map(|endpoint| endpoint.addresses);
    let addresses = ips.into_iter().flatten().chain(addresses);
    Ok(ObservedNetworks {
        networks: ClusterNetworks {
            api_servers: addresses.filter_map(|text| text.parse().ok()).collect(),
            services: ranges.iter().flat_map(cidrs).collect(),
        },
        available_ips,
        denied,
    })
}

/// How many `ClusterIP`s may be allocated; `None` if that is unknown.
///
/// Only their number is requested, which costs little. It counts all address families. Those of one family are listed if
/// there are several, and the number alone could mean that too many are allocated.
async fn available_ips(client: &Client, ranges: &[ServiceCIDR]) -> kube::Result<Option<i64>> {
    let networks = service_range::networks(ranges);
    let Some(first) = networks.first() else {
        return Ok(None);
    };
    let api: Api<PartialObjectMeta<IPAddress>> = Api::all(client.clone());
    let page = api.list(&ListParams::default().limit(1)).await?;
    let more = page.metadata.remaining_item_count;
    if next_page(page.metadata).is_some() && more.is_none() {
        return Ok(None);
    }
    let more = usize::try_from(more.unwrap_or_default()).unwrap_or_default();
    let available = service_range::available(&networks, page.items.len() + more);
    let mut all = ranges.iter().flat_map(cidrs);
    if available > 0 || all.all(|net| is_v4(&net) == is_v4(first)) {
        return Ok(Some(available));
    }
    let allocated = allocated_ips(client, first).await?;
    Ok(Some(service_range::available(&networks, allocated)))
}

/// The number of `ClusterIP`s of the address family of a network.
pub async fn allocated_ips(client: &Client, network: &IpNet) -> kube::Result<usize> {
    let api: Api<PartialObjectMeta<IPAddress>> = Api::all(client.clone());
    let family = if is_v4(network) { "IPv4" } else { "IPv6" };
    let all = list_all(&api, &format!("{IP_FAMILY}={family}")).await?;
    Ok(all.len())
}

/// The response; `None` if the API server denied access or has no such object.
fn permitted<T>(
    answer: kube::Result<T>,
    denied: &mut Option<kube::Error>,
) -> kube::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        // A retry would get the same error.
        Err(kube::Error::Api(status))
            if (400..500).contains(&status.code) && ![408, 429].contains(&status.code) =>
        {
            *denied = Some(kube::Error::Api(status));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use http::{Response, StatusCode};
    use serde_json::{Value, json};

    use super::*;
    use crate::{TestBody, of_test_server};

    fn answer(code: u16, body: &Value) -> Response<TestBody> {
        use futures::StreamExt as _;
        let frame = hyper::body::Frame::data(hyper::body::Bytes::from(body.to_string()));
        let body = futures::stream::once(async { Ok(frame) }).boxed();
        let mut answer = Response::new(TestBody::new(body));
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        answer
    }

    /// Reads the networks from a server that gives this response to requests for `ServiceCIDR`s.
    async fn look(code: u16, ranges: Value) -> kube::Result<ObservedNetworks> {
        look_at(code, ranges, |_| (404, status(404))).await
    }

    fn status(code: u16) -> Value {
        json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "" })
    }

    /// The same, with these responses to requests for `IPAddress`es.
    async fn look_at(
        code: u16,
        ranges: Value,
        addresses: Addresses,
    ) -> kube::Result<ObservedNetworks> {
        let client = of_test_server(move |request| {
            let ranges = ranges.clone();
            async move {
                let path = request.uri().path().to_owned();
                let list = |kind: &str, items: Value| json!({ "kind": kind, "metadata": {}, "items": items });
                Ok(match path.as_str() {
                    "/api/v1/namespaces/default/services/kubernetes" => answer(
                        200,
                        &json!({ "metadata": {}, "spec": { "clusterIPs": ["10.96.0.1", "fd00::1"] } }),
                    ),
                    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices" => answer(
                        200,
                        &list(
                            "EndpointSliceList",
                            json!([{
                                "metadata": {}, "addressType": "IPv4",
                                "endpoints": [{ "addresses": ["198.51.100.1"] }, { "addresses": ["no address"] }],
                            }]),
                        ),
                    ),
                    "/apis/networking.k8s.io/v1/servicecidrs" => answer(code, &ranges),
                    "/apis/networking.k8s.io/v1/ipaddresses" => {
                        let of_family = request.uri().query().unwrap().contains("labelSelector");
                        let (code, addresses) = addresses(of_family);
                        answer(code, &addresses)
                    }
                    path => panic!("{path}"),
                })
            }
        });
        cluster_networks(&client).await
    }

    #[tokio::test]
    async fn networks_are_read_from_the_cluster() {
        let list = json!({ "kind": "ServiceCIDRList", "metadata": {}, "items": [
            { "metadata": { "name": "kubernetes" }, "spec": { "cidrs": ["10.96.0.0/16", "fd00::/108"] } },
            { "metadata": { "name": "more" }, "spec": { "cidrs": ["10.97.0.0/24", "no network"] } },
            { "metadata": { "name": "none" } },
        ] });
        let ranges = |read: &ObservedNetworks| -> Vec<String> {
            let ranges = read.networks.services.iter();
            ranges.map(ToString::to_string).collect()
        };
        let read = look(200, list).await.unwrap();
        assert_eq!(
            ranges(&read),
            ["10.96.0.0/16", "fd00::/108", "10.97.0.0/24"]
        );
        assert!(read.denied.is_none());
        let servers: Vec<String> = (read.networks.api_servers.iter())
            .map(ToString::to_string)
            .collect();
        assert_eq!(servers, ["10.96.0.1", "198.51.100.1", "fd00::1"]);

        for (code, denied) in [(404, false), (403, true)] {
            let read = look(code, status(code)).await.unwrap();
            assert_eq!(ranges(&read), [""; 0]);
            assert_eq!(read.denied.is_some(), denied, "{code}");
            assert_eq!(read.networks.api_servers.len(), 3, "{code}");
        }
        for code in [429, 500, 503] {
            assert!(look(code, status(code)).await.is_err(), "{code}");
        }
    }

    /// A description, the networks, the responses, and what is read from them: the available addresses, and whether
    /// something is denied.
    type Case<'a> = (&'a str, &'a [&'a str], Addresses, Option<i64>, bool);
    /// The responses to requests for all `IPAddress`es, and for those of one family.
    type Addresses = fn(bool) -> (u16, Value);

    /// A page of `IPAddress`es, and how many are on further pages.
    fn addresses(items: usize, more: Option<usize>) -> (u16, Value) {
        let items = vec![json!({ "metadata": { "name": "x" } }); items];
        let metadata = json!({ "continue": more.map(|_| "next"), "remainingItemCount": more });
        (
            200,
            json!({ "kind": "IPAddressList", "metadata": metadata, "items": items }),
        )
    }

    #[tokio::test]
    async fn room_of_the_service_range_is_counted_where_it_can_be() {
        let ranges = |cidrs: &[&str]| {
            json!({ "kind": "ServiceCIDRList", "metadata": {}, "items": [
                { "metadata": { "name": "kubernetes" }, "spec": { "cidrs": cidrs } },
            ] })
        };
        let single: &[&str] = &["10.96.0.0/24"];
        let dual: &[&str] = &["10.96.0.0/24", "fd00::/108"];
        let cases: [Case<'_>; 8] = [
            ("some", single, |_| addresses(1, Some(99)), Some(90), false),
            ("one", single, |_| addresses(1, None), Some(189), false),
            (
                "too many",
                single,
                |_| addresses(1, Some(250)),
                Some(-61),
                false,
            ),
            (
                "of both families",
                dual,
                |_| addresses(1, Some(99)),
                Some(90),
                false,
            ),
            (
                "most are of the other family",
                dual,
                |of_family| {
                    if of_family {
                        addresses(90, None)
                    } else {
                        addresses(1, Some(200))
                    }
                },
                Some(100),
                false,
            ),
            ("no range", &[], |_| addresses(1, Some(250)), None, false),
            ("no right", single, |_| (403, status(403)), None, true),
            (
                "no such objects",
                single,
                |_| (404, status(404)),
                None,
                false,
            ),
        ];
        for (what, cidrs, answer, available, denied) in cases {
            let read = look_at(200, ranges(cidrs), answer).await.unwrap();
            assert_eq!(read.available_ips, available, "{what}");
            assert_eq!(read.denied.is_some(), denied, "{what}");
        }
    }

    #[test]
    fn address_of_a_server_is_known_unless_it_is_a_name() {
        for (url, expected) in [
            ("https://192.0.2.1:6443", Some("192.0.2.1")),
            ("https://[2001:db8::1]:6443", Some("2001:db8::1")),
            ("https://api.example:6443", None),
        ] {
            let config = Config::new(url.parse().unwrap());
            let expected = expected.map(|text| text.parse().unwrap());
            assert_eq!(server_address(&config), expected, "{url}");
        }
    }
}
