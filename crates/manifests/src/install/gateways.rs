//! The gateways of a cluster, as their templates need them: that for traffic, and that for the API server.

use std::collections::BTreeSet;

use mirror_core::{
    api::{
        gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes},
        labels,
    },
    mirror::API_SERVER_SERVICE,
};
use serde::Serialize;
use serde_json::Value;

use super::affinity::affinity;
use crate::values::{GatewayValues, Values};

/// A gateway.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayContext {
    #[serde(flatten)]
    values: GatewayValues,
    component: &'static str,
    identity: String,
    /// Value of the annotation with variables of its proxy, if the manifest sets it.
    additional_env: Option<String>,
    node_ports: NodePorts,
    affinity: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePorts {
    gateway: Option<u16>,
    probe: Option<u16>,
    health_check: Option<u16>,
}

impl GatewayContext {
    fn new(
        namespace: &str,
        values: &Values,
        gateway: GatewayValues,
        component: &'static str,
        additional_env: Option<String>,
    ) -> Self {
        // The API server rejects node ports for Services of other types.
        let has_node_ports = ["NodePort", "LoadBalancer"].contains(&gateway.service_type.as_str());
        let node_port = |port: Option<u16>| port.filter(|port| has_node_ports && *port != 0);
        let (linkerd, domain) = (&values.linkerd_namespace, &values.identity_trust_domain);
        Self {
            component,
            identity: identity(&gateway.name, namespace, linkerd, domain),
            additional_env,
            node_ports: NodePorts {
                gateway: node_port(gateway.node_port),
                probe: node_port(gateway.probe.node_port),
                health_check: node_port(gateway.health_check_node_port),
            },
            affinity: affinity(values, &gateway.name),
            values: gateway,
        }
    }

    /// The gateway for traffic. Unless the controller keeps the list of what it forwards to, applying the manifest removes
    /// the list that the controller has written before.
    pub fn of_traffic(namespace: &str, values: &Values) -> Self {
        let gateway = values.gateway.clone();
        let is_theirs = gateway.deployment_annotations.contains_key(ADDITIONAL_ENV);
        let removed = !gateway.is_limited() && !is_theirs;
        let env = removed.then(|| "[]".to_owned());
        Self::new(namespace, values, gateway, "gateway", env)
    }

    /// The gateway for the API server. It forwards to nothing else, and is otherwise like the one for traffic, except for
    /// its own values.
    pub fn of_api_server(namespace: &str, values: &Values) -> Self {
        let own = values.api_gateway.clone();
        let mut gateway = GatewayValues {
            name: labels::API_GATEWAY_NAME.to_owned(),
            replicas: own.replicas,
            port: own.port,
            service_type: own.service_type,
            node_port: own.node_port,
            health_check_node_port: None,
            service_annotations: own.service_annotations,
            load_balancer_class: own.load_balancer_class,
            load_balancer_ip: own.load_balancer_ip,
            load_balancer_source_ranges: own.load_balancer_source_ranges,
            ..values.gateway.clone()
        };
        gateway.probe.node_port = None;
        gateway.deployment_annotations.remove(ADDITIONAL_ENV);
        let domain = &values.cluster_domain;
        let only = format!("{API_SERVER_SERVICE}.{namespace}.svc.{domain}.");
        let env = GatewaySuffixes(BTreeSet::from([only])).to_annotation();
        Self::new(namespace, values, gateway, "api-gateway", Some(env))
    }
}

/// Who may use the gateway for the API server. By default, controllers of clusters with the names and the trust domain of
/// this one: that of the extension, and that of Linkerd, which discovers endpoints.
pub fn api_clients(namespace: &str, values: &Values) -> Vec<String> {
    if !values.api_gateway.clients.is_empty() {
        return values.api_gateway.clients.clone();
    }
    let (linkerd, domain) = (&values.linkerd_namespace, &values.identity_trust_domain);
    let of = |account, namespace| identity(account, namespace, linkerd, domain);
    vec![
        of(labels::CONTROLLER_NAME, namespace),
        of("linkerd-destination", linkerd),
    ]
}

fn identity(account: &str, namespace: &str, linkerd: &str, domain: &str) -> String {
    format!("{account}.{namespace}.serviceaccount.identity.{linkerd}.{domain}")
}
