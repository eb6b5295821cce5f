//! Reads the facts of a target cluster, in the context that a person names. Reads only.

use client::{
    Cluster, kube_system_uid,
    requests::{list_all, within},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service as WholeService;
use kube::{Api, Client};
use manifests::gateway::port_for_others;
use mirror_core::api::{labels as l, metadata::ResourceId};

use super::{
    facts::{GatewayFacts, TargetFacts},
    linkerd::InboundPolicies,
    objects::{Noted, get_service, slices},
    source::pods,
};
use crate::{
    clusters::{
        linkerd_api::ControllerAddresses,
        snapshot::{Known, annotation},
        target::config_in_force,
    },
    timeline::history,
};

/// Port of the proxy of a gateway. The policy of this port applies to all requests through the gateway.
const GATEWAY_PORT: u16 = 4143;
/// Selects the Services of gateways, as the extension labels them.
const GATEWAYS: &str = "linkerd.io/extension=multicluster";

/// What is asked of a target cluster.
pub struct TargetQuestion<'a> {
    /// Name of the target cluster.
    pub name: &'a str,
    /// The Service there.
    pub remote: ResourceId,
    /// The port that is called, if it was named.
    pub port: Option<u16>,
    /// Addresses of Linkerd's controllers there.
    pub linkerd: &'a ControllerAddresses,
}

/// Reads what concerns one Service of the target cluster.
pub async fn target_facts(cluster: &Cluster, question: TargetQuestion<'_>) -> TargetFacts {
    let (client, deadline) = (&cluster.client, cluster.deadline);
    let TargetQuestion {
        name,
        remote,
        port,
        linkerd,
    } = question;
    let uid = async {
        let uid: Known<_> = within(deadline, kube_system_uid(client)).await;
        uid.ok().flatten()
    };
    let noted = Noted::default();
    let (uid, service, slices, mut gateways, config, policies) = futures::join!(
        uid,
        within(deadline, get_service(client, &remote, &noted)),
        within(deadline, slices(client, &remote, &noted)),
        within(deadline, gateways(client, &noted)),
        within(
            deadline,
            config_in_force(client, &cluster.linkerd_namespace)
        ),
        InboundPolicies::of(cluster, linkerd),
    );
    let serving = async {
        let (Ok(Some(service)), Ok(slices)) = (&service, &slices) else {
            return None;
        };
        let asked = async { Known::Ok(policies.of_service(client, service, slices, port).await) };
        let asked = within(deadline, asked).await;
        asked.unwrap_or_else(|why| Some(Err(why)))
    };
    let of_gateways = join_all(gateways.iter_mut().flatten().map(async |gateway| {
        let ready = gateway.pods.iter().flatten().find(|pod| pod.ready);
        if let Some(pod) = ready.cloned() {
            gateway.inbound = Some(policies.of_pod(pod, GATEWAY_PORT).await);
        }
    }));
    let (serving, _) = futures::join!(serving, of_gateways);
    TargetFacts {
        context: cluster.name.clone(),
        identity: cluster.identity.clone(),
        uid,
        linkerd_namespace: cluster.linkerd_namespace.clone(),
        cluster: name.to_owned(),
        service,
        remote,
        slices,
        serving,
        gateways,
        config,
        history: noted.into_inner(),
    }
}

async fn gateways(client: &Client, noted: &Noted) -> Known<Vec<GatewayFacts>> {
    let api: Api<WholeService> = Api::all(client.clone());
    let found = list_all(&api, GATEWAYS).await?;
    let with_identity = found
        .iter()
        .filter(|service| !annotation(&service.metadata, l::GATEWAY_IDENTITY).is_empty());
    let all = with_identity.map(async |service| {
        noted.borrow_mut().extend(history("Service", service));
        let mut gateway = gateway(service);
        gateway.pods = match selector(service) {
            Some(selector) => pods(client, Some(&gateway.id.namespace), &selector).await,
            None => Err("its Service selects no Pods".into()),
        };
        gateway
    });
    Ok(join_all(all).await)
}

/// What the Service of a gateway says.
fn gateway(service: &WholeService) -> GatewayFacts {
    let spec = service.spec.clone().unwrap_or_default();
    let status = service.status.clone().unwrap_or_default();
    let ingress = status.load_balancer.and_then(|balancer| balancer.ingress);
    let ingress = ingress.into_iter().flatten();
    let ingress = ingress.flat_map(|one| one.ip.into_iter().chain(one.hostname));
    GatewayFacts {
        id: ResourceId::of(service),
        addresses: ingress
            .chain(spec.external_ips.clone().into_iter().flatten())
            .collect(),
        identity: annotation(&service.metadata, l::GATEWAY_IDENTITY).to_owned(),
        port: port_for_others(service, l::GATEWAY_PORT_NAME),
        probe_port: port_for_others(service, l::PROBE_PORT_NAME),
        pods: Ok(Vec::new()),
        inbound: None,
    }
}

/// Selects the Pods of a Service; `None` if it selects none.
fn selector(service: &WholeService) -> Option<String> {
    let selector = service.spec.as_ref()?.selector.as_ref()?;
    let pairs = selector.iter().map(|(key, value)| format!("{key}={value}"));
    let text = pairs.collect::<Vec<_>>().join(",");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gateway_is_read_from_its_service() {
        let service = json!({
            "metadata": {
                "namespace": "mc", "name": "linkerd-gateway",
                "annotations": { l::GATEWAY_IDENTITY: "gateway.mc" },
            },
            "spec": {
                "selector": { "app": "gateway", "b": "c" },
                "ports": [{ "name": l::GATEWAY_PORT_NAME, "port": 4143 }, { "name": l::PROBE_PORT_NAME, "port": 4191 }],
                "externalIPs": ["192.0.2.9"],
            },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }, { "hostname": "gw.example" }] } },
        });
        let service: WholeService = serde_json::from_value(service).unwrap();
        let found = gateway(&service);
        assert_eq!(found.addresses, ["192.0.2.1", "gw.example", "192.0.2.9"]);
        assert_eq!((found.port, found.probe_port), (Some(4143), Some(4191)));
        assert_eq!(found.identity, "gateway.mc");
        // Other clusters connect to Nodes.
        let mut on_nodes = service.clone();
        let spec = on_nodes.spec.as_mut().unwrap();
        spec.type_ = Some("NodePort".to_owned());
        spec.ports.as_mut().unwrap()[0].node_port = Some(31143);
        assert_eq!(gateway(&on_nodes).port, Some(31143));
        assert_eq!(selector(&service).as_deref(), Some("app=gateway,b=c"));
        assert_eq!(selector(&WholeService::default()), None);
    }
}
