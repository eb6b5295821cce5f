//! Reads what is known of the mesh of a cluster: its certificates, and the networks of its Pods. Reads no private key.

use std::{net::IpAddr, time::Duration};

use client::requests::list_all;
use futures::future::join_all;
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        authorization::v1::ResourceAttributes,
        core::v1::{Node, Pod},
    },
};
use kube::{Api, Client, api::ListParams};
use mirror_core::api::{k8s::EndpointSlice, labels, wire::Wire};
use rustls_pki_types::{
    CertificateDer,
    pem::{self, PemObject as _},
};
use serde::Deserialize;

use super::{
    access::may,
    certificates::{IssuerCertificate, ProxyCertificates, Validity},
    proxies::PodProxy,
    snapshot::Known,
};

/// Maximum number of EndpointSlices that are read of a target cluster, to see addresses of its Pods.
const SLICES: u32 = 200;
/// Maximum number of proxies whose metrics are read.
const PROXIES: usize = 10;
/// When the certificate of a proxy ends, and when the proxy got it, in seconds of the epoch.
const ENDS: &str = "identity_cert_expiration_timestamp_seconds";
const STARTED: &str = "identity_cert_refresh_timestamp_seconds";

/// A list of Secrets, of which only the certificates are decoded.
#[derive(Clone, Debug, Default, Deserialize)]
struct Issuers {
    items: Vec<Issuer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Issuer {
    #[serde(default)]
    data: IssuerData,
}

/// The certificate, of the scheme `linkerd.io/tls` or `kubernetes.io/tls`. The key beside it is not decoded.
#[derive(Clone, Debug, Default, Deserialize)]
struct IssuerData {
    #[serde(rename = "crt.pem")]
    crt_pem: Option<ByteString>,
    #[serde(rename = "tls.crt")]
    tls_crt: Option<ByteString>,
}

/// The certificate with which Linkerd signs those of proxies. It is read as a list, for which the right to list this one
/// Secret is enough.
pub async fn issuer(client: &Client, namespace: &str) -> Known<IssuerCertificate> {
    let name = labels::LINKERD_ISSUER;
    let path = format!(
        "/api/v1/namespaces/{namespace}/secrets?fieldSelector=metadata.name%3D{name}&limit=1"
    );
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let found: Issuers = client.request(request).await?;
    issuer_of(&found).map_err(|why| format!("Secret {namespace}/{name}: {why}").into())
}

fn issuer_of(found: &Issuers) -> Result<IssuerCertificate, &'static str> {
    let issuer = found.items.first().ok_or("it does not exist")?;
    let IssuerData { crt_pem, tls_crt } = &issuer.data;
    let pem = crt_pem.as_ref().or(tls_crt.as_ref());
    let pem = pem.ok_or("it has no certificate")?;
    let chain = CertificateDer::pem_slice_iter(&pem.0).map(|der| Ok(der?.to_vec()));
    let chain: Result<Vec<_>, pem::Error> = chain.collect();
    let chain = chain.map_err(|_| "invalid certificate")?;
    let first = chain.first().ok_or("invalid certificate")?;
    let validity = Validity::of_der(first).ok_or("unreadable certificate")?;
    Ok(IssuerCertificate { validity, chain })
}

/// The certificates of the proxies of these Pods: of some of them.
pub async fn of_proxies(
    client: &Client,
    pods: &[Pod],
    deadline: Duration,
) -> Known<ProxyCertificates> {
    let proxies = pods.iter().filter_map(|pod| PodProxy::of(pod).ok());
    let proxies: Vec<PodProxy> = proxies.take(PROXIES).collect();
    if proxies.is_empty() {
        return Ok(ProxyCertificates::default());
    }
    if !may(client, metrics_of_proxies()).await? {
        return Err("you are not permitted to get pods/proxy".into());
    }
    let reads = proxies.iter().map(async |proxy| {
        let (mut started, mut ends) = (None, None);
        let names = [STARTED, ENDS];
        let read = proxy.metrics(client, &names, deadline, |sample| {
            let seconds = Duration::try_from_secs_f64(sample.value).unwrap_or_default();
            let place = if sample.name == ENDS {
                &mut ends
            } else {
                &mut started
            };
            *place = Timestamp::UNIX_EPOCH.checked_add(seconds).ok();
        });
        (proxy.pod.clone(), read.await.map(|()| started.zip(ends)))
    });
    let mut certificates = ProxyCertificates::default();
    for (pod, read) in join_all(reads).await {
        match read {
            Ok(Some((from, until))) => {
                certificates.seen.insert(pod, Validity { from, until });
            }
            Ok(None) => {
                let why = "it counts no certificate".to_owned();
                certificates.unread.insert(pod, why);
            }
            Err(why) => {
                certificates.unread.insert(pod, why.to_string());
            }
        }
    }
    Ok(certificates)
}

/// The right to read what proxies count.
fn metrics_of_proxies() -> ResourceAttributes {
    ResourceAttributes {
        resource: Some("pods".to_owned()),
        subresource: Some("proxy".to_owned()),
        verb: Some("get".to_owned()),
        ..ResourceAttributes::default()
    }
}

/// The networks of Pods that the nodes have.
pub async fn of_nodes(client: &Client) -> Known<Vec<IpNet>> {
    let nodes: Vec<Node> = list_all(&Api::all(client.clone()), "").await?;
    let networks = nodes.into_iter().filter_map(|node| node.spec);
    let networks =
        networks.filter_map(|spec| spec.pod_cidrs.or_else(|| Some(vec![spec.pod_cidr?])));
    Ok(networks
        .flatten()
        .filter_map(|net| net.parse().ok())
        .collect())
}

/// The address of a Pod that does not use the network of its Node.
pub fn address(pod: &Pod) -> Option<IpAddr> {
    let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network);
    let address = pod.status.as_ref()?.pod_ip.as_ref()?;
    address.parse().ok().filter(|_| on_host != Some(true))
}

/// The addresses of some of a cluster's Pods, from one page of its EndpointSlices: those of mirrors lead to other clusters.
pub async fn some_of_pods(client: &Client) -> Known<Vec<IpAddr>> {
    let api: Api<Wire<EndpointSlice>> = Api::all(client.clone());
    let of_own = format!("!{}", labels::CLUSTER_NAME);
    let page = ListParams::default().labels(&of_own).limit(SLICES);
    let slices = api.list(&page).await?.items.into_iter();
    let slices = slices.map(EndpointSlice::from);
    Ok(slices.flat_map(|slice| of_slice(&slice)).collect())
}

fn of_slice(slice: &EndpointSlice) -> Vec<IpAddr> {
    let endpoints = slice.endpoints.iter();
    let of_pods = endpoints.filter(|endpoint| endpoint.pod.is_some());
    let addresses = of_pods.flat_map(|endpoint| &endpoint.addresses);
    addresses.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clusters::{fixtures::A, trust_anchors};

    #[test]
    fn issuer_is_read_without_its_key() {
        let secret = |data: serde_json::Value| -> Issuers {
            serde_json::from_value(json!({ "items": [{ "data": data }] })).unwrap()
        };
        let base64 = |text: &str| serde_json::to_value(ByteString(text.into())).unwrap();
        let anchors = trust_anchors::parse(A).unwrap();
        let first = anchors.first().unwrap();
        let expected = Some(IssuerCertificate {
            validity: Validity::of_der(first).unwrap(),
            chain: vec![first.clone(), first.clone()],
        });
        for (certificate, key) in [("crt.pem", "key.pem"), ("tls.crt", "tls.key")] {
            // What is decoded would have to be base64.
            let own = secret(json!({ certificate: base64(&format!("{A}{A}")), key: "!" }));
            assert_eq!(issuer_of(&own).ok(), expected, "{certificate}");
        }
        for (found, why) in [
            (Issuers::default(), "it does not exist"),
            (secret(json!({})), "it has no certificate"),
            (
                secret(json!({ "tls.crt": base64("-----BEGIN CERTIFICATE-----\n!") })),
                "invalid certificate",
            ),
        ] {
            assert_eq!(issuer_of(&found), Err(why));
        }
    }

    #[test]
    fn addresses_of_nodes_and_of_other_servers_do_not_count() {
        let pod = |host: bool| -> Pod {
            serde_json::from_value(json!({
                "spec": { "containers": [], "hostNetwork": host },
                "status": { "podIP": "10.1.0.7" },
            }))
            .unwrap()
        };
        assert_eq!(address(&pod(false)), Some([10, 1, 0, 7].into()));
        assert_eq!(address(&pod(true)), None);
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "name": "x" },
            "addressType": "IPv4",
            "endpoints": [
                { "addresses": ["10.1.0.7"], "targetRef": { "kind": "Pod", "name": "a", "namespace": "b" } },
                { "addresses": ["10.1.0.8"] },
            ],
        }))
        .unwrap();
        assert_eq!(of_slice(&slice), ["10.1.0.7".parse::<IpAddr>().unwrap()]);
    }
}
