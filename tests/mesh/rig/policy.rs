//! What Linkerd's policy controller knows.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::Context as _;
use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::DeleteParams, api::PostParams};
use linkerd2_proxy_api::{
    meta::metadata::Kind,
    net::{IpAddress, TcpAddress},
    outbound::{
        TrafficSpec, outbound_policies_client::OutboundPoliciesClient, traffic_spec::Target,
    },
};
use serde_json::json;
use tonic::transport::Endpoint;

use super::linkerd::POLICY;

/// How long its watches may take to come back.
const BACK: Duration = Duration::from_secs(60);
/// A Service that it has never been asked about.
const NEW: &str = "policy-follows";

/// Waits until the policy controller at this address knows a new Service. Until then, it answers for the address of a new
/// Service as for one outside of the cluster, and keeps that answer while a proxy uses it.
pub(super) async fn follows(plane: &ControlPlane, at: Ipv4Addr) -> anyhow::Result<()> {
    let services: Api<Service> = Api::namespaced(plane.client(), "default");
    let new = json!({ "metadata": { "name": NEW }, "spec": { "ports": [{ "port": 80 }] } });
    let new = services
        .create(&PostParams::default(), &serde_json::from_value(new)?)
        .await?;
    let address = new.spec.and_then(|spec| spec.cluster_ip);
    let address = address.context("the new Service has no ClusterIP")?;
    let address = TcpAddress {
        ip: Some(IpAddress::from(address.parse::<std::net::IpAddr>()?)),
        port: 80,
    };
    let channel = Endpoint::from_shared(format!("http://{at}:{POLICY}"))?.connect_lazy();
    let what = "Linkerd's policy controller to know a new Service";
    let known = eventually(what, BACK, async || {
        let request = TrafficSpec {
            source_workload: json!({ "ns": "default", "pod": "none" }).to_string(),
            target: Some(Target::Addr(address)),
        };
        let mut controller = OutboundPoliciesClient::new(channel.clone());
        let answer = controller.get(request).await?.into_inner();
        let kind = answer.metadata.and_then(|metadata| metadata.kind);
        let is_new = matches!(kind, Some(Kind::Resource(object)) if object.name == NEW);
        Ok(is_new.then_some(()))
    });
    known.await?;
    services.delete(NEW, &DeleteParams::default()).await?;
    Ok(())
}
