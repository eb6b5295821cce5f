//! Reads a cluster's networks: the addresses of its API server, and the range of its `ClusterIP`s.

use std::{collections::BTreeSet, net::IpAddr};

use k8s_openapi::api::{
    core::v1::Service, discovery::v1::EndpointSlice, networking::v1::ServiceCIDR,
};
use kube::{Api, Client, Config, api::ListParams};

use crate::{api::labels as l, mirror::ClusterNetworks};

/// Namespace and name of the Service of the API server.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

/// The known networks of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The networks.
    pub networks: ClusterNetworks,
    /// Why some are unknown, if the API server denied access.
    pub refused: Option<kube::Error>,
}

/// The address of the API server in a configuration, if it is an IP address.
pub(crate) fn server_address(config: &Config) -> Option<IpAddr> {
    let host = config.cluster_url.host()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse().ok()
}

/// Reads a cluster's networks. Fails without a response; what the API server denies is unknown.
///
/// `ServiceCIDR`s exist in Kubernetes 1.33 and later. Before that, no object has the range of `ClusterIP`s.
pub(crate) async fn cluster_networks(client: &Client) -> kube::Result<Looked> {
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
    let mut refused = None;
    let service = told(service, &mut refused)?.flatten();
    let slices = told(slices, &mut refused)?;
    let ranges = told(ranges, &mut refused)?;

    let ips = service.and_then(|service| service.spec?.cluster_ips);
    let endpoints = slices
        .into_iter()
        .flatten()
        .flat_map(|slice| slice.endpoints);
    let addresses = endpoints.flat_map(|endpoint| endpoint.addresses);
    let addresses = ips.into_iter().flatten().chain(addresses);
    let api_servers: BTreeSet<IpAddr> = addresses.filter_map(|text| text.parse().ok()).collect();
    let cidrs = ranges
        .into_iter()
        .flatten()
        .filter_map(|range| range.spec?.cidrs);
    Ok(Looked {
        networks: ClusterNetworks {
            api_servers,
            services: cidrs
                .flatten()
                .filter_map(|text| text.parse().ok())
                .collect(),
        },
        refused,
    })
}

/// The response; `None` if the API server denied access or has no such object.
fn told<T>(answer: kube::Result<T>, refused: &mut Option<kube::Error>) -> kube::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) if is_refusal(&error) => {
            *refused = Some(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether a retry would get the same error.
fn is_refusal(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    (400..500).contains(&status.code) && ![408, 429].contains(&status.code)
}

#[cfg(test)]
mod tests {
    use http::{Response, StatusCode};
    use serde_json::{Value, json};

    use super::*;
    use crate::client::{TestBody, of_test_server};

    fn answer(code: u16, body: &Value) -> Response<TestBody> {
        use futures::StreamExt as _;
        let frame = hyper::body::Frame::data(hyper::body::Bytes::from(body.to_string()));
        let body = futures::stream::once(async { Ok(frame) }).boxed();
        let mut answer = Response::new(TestBody::new(body));
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        answer
    }

    /// Reads the networks from a server that gives this response to requests for `ServiceCIDR`s.
    async fn look(code: u16, ranges: Value) -> kube::Result<Looked> {
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
                    path => panic!("{path}"),
                })
            }
        });
        cluster_networks(&client).await
    }

    #[tokio::test]
    async fn networks_are_read_from_the_cluster() {
        let status = |code: u16| json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "" });
        let list = json!({ "kind": "ServiceCIDRList", "metadata": {}, "items": [
            { "metadata": { "name": "kubernetes" }, "spec": { "cidrs": ["10.96.0.0/16", "fd00::/108"] } },
            { "metadata": { "name": "more" }, "spec": { "cidrs": ["10.97.0.0/24", "no network"] } },
            { "metadata": { "name": "none" } },
        ] });
        let ranges = |looked: &Looked| -> Vec<String> {
            let ranges = looked.networks.services.iter();
            ranges.map(ToString::to_string).collect()
        };
        let looked = look(200, list).await.unwrap();
        assert_eq!(
            ranges(&looked),
            ["10.96.0.0/16", "fd00::/108", "10.97.0.0/24"]
        );
        assert!(looked.refused.is_none());
        let servers: Vec<String> = (looked.networks.api_servers.iter())
            .map(ToString::to_string)
            .collect();
        assert_eq!(servers, ["10.96.0.1", "198.51.100.1", "fd00::1"]);

        for (code, refused) in [(404, false), (403, true)] {
            let looked = look(code, status(code)).await.unwrap();
            assert_eq!(ranges(&looked), [""; 0]);
            assert_eq!(looked.refused.is_some(), refused, "{code}");
            assert_eq!(looked.networks.api_servers.len(), 3, "{code}");
        }
        for code in [429, 500, 503] {
            assert!(look(code, status(code)).await.is_err(), "{code}");
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
