//! Facts of two clusters in which all is well: `shop/web-east` in this cluster is a mirror of `shop/web` in `east`.

use std::collections::BTreeMap;

use crate::{
    clusters::{
        fixtures::A,
        leader::Leader,
        request_path::{
            ClientPod, GatewayFacts, PodState, RequestPath, SourceFacts, TargetFacts,
            facts::{ClientProxy, Neighbour},
        },
        snapshot::{
            Destination, LinkCredentials, LinkSnapshot, LinkerdCredentials, Proxy, Workload,
        },
    },
    diagnose::{Diagnosis, diagnose, layer::Commands},
    finding::Level,
};
use client::Identity;
use hints::suggest::ClusterFlags;
use jiff::Timestamp;
use mirror_core::api::{labels as l, link::LinkerdConfig, metadata::ResourceId};
use serde_json::{Value, json};

/// The namespace of the Links.
pub const MC: &str = "linkerd-multicluster";

/// The current time.
pub fn now() -> Timestamp {
    "2026-11-26T03:00:00Z".parse().unwrap()
}

/// What is found: layer, cause, whether requests fail, and the first command.
pub type Found = (&'static str, &'static str, bool, String);

/// What is found in these facts; `None` if nothing is wrong.
pub fn found(facts: &RequestPath) -> Option<Found> {
    let diagnosis = diagnosed(facts);
    let (layer, finding) = diagnosis.cause()?;
    let fix = finding.actions.first().map(|fix| match &fix.cluster {
        Some(cluster) => format!("in {cluster}: {}", fix.command.line()),
        None => fix.command.line().to_owned(),
    });
    Some((
        layer.name(),
        finding.name(),
        finding.level == Level::Error,
        fix.unwrap_or_default(),
    ))
}

/// The diagnosis of these facts.
pub fn diagnosed(facts: &RequestPath) -> Diagnosis {
    diagnose(facts, &commands(facts)).unwrap_or_else(|none| panic!("{}: {}", none.what, none.hint))
}

pub fn commands(facts: &RequestPath) -> Commands {
    let target = facts.target.as_ref().map(|target| target.context.clone());
    Commands {
        source: ClusterFlags::of_context("west"),
        source_context: Some("west".to_owned()),
        target: target.as_deref().map(ClusterFlags::of_context),
        target_context: target,
        target_cluster: None,
        both: ClusterFlags::default(),
    }
}

pub fn ready_pod(namespace: &str, name: &str, address: &str) -> PodState {
    PodState {
        id: ResourceId::new(namespace, name),
        phase: "Running".to_owned(),
        ready: true,
        address: address.parse().ok(),
        ..PodState::default()
    }
}

/// A condition of a Link.
pub fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-26T00:00:00Z",
    })
}

/// What the Link says about one Service, in a list of its status.
pub fn service_status(name: &str, status: &str, reason: &str) -> Value {
    json!({
        "controllerName": "linkerd.io/service-mirror",
        "remoteRef": { "name": name, "namespace": "shop" },
        "conditions": [condition("Mirrored", status, reason, "the message")],
    })
}

/// The Link to `east` with these conditions in place of good ones, and these lists of Services.
pub fn link(conditions: &[Value], mirrored: &[Value], federated: &[Value]) -> LinkSnapshot {
    let mut all = vec![
        condition("Ready", "True", "Mirroring", ""),
        condition("CredentialsValid", "True", "Valid", ""),
        condition("Connected", "True", "Connected", ""),
        condition("GatewayAlive", "True", "ProbeSucceeded", ""),
    ];
    all.retain(|good| conditions.iter().all(|other| other["type"] != good["type"]));
    all.extend(conditions.iter().cloned());
    let selector = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
    let link = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": "east", "namespace": MC },
        "spec": {
            "targetClusterName": "east",
            "targetClusterDomain": "cluster.local",
            "targetClusterLinkerdNamespace": "linkerd",
            "clusterCredentialsSecret": "cluster-credentials-east",
            "gatewayAddress": "192.0.2.1",
            "gatewayPort": "4143",
            "gatewayIdentity": "gateway.mc",
            "probeSpec": { "path": "/ready", "period": "3s", "port": "4191" },
            "selector": selector(l::EXPORTED, "true"),
            "remoteDiscoverySelector": selector(l::EXPORTED, "remote-discovery"),
            "federatedServiceSelector": selector(l::FEDERATED, "member"),
        },
        "status": {
            "conditions": all,
            "gateway": { "alive": true, "addresses": ["192.0.2.1"] },
            "mirrorServices": mirrored,
            "federatedServices": federated,
        },
    });
    LinkSnapshot {
        link: serde_json::from_value(link).unwrap(),
        unreadable: None,
        credentials: Some(Ok(LinkCredentials {
            token: Some("t".to_owned()),
            ..LinkCredentials::default()
        })),
        target: None,
    }
}

/// A Service with labels and annotations, and these ports.
pub fn service(
    name: &str,
    labels: &Value,
    annotations: &Value,
    ports: &[u16],
) -> mirror_core::api::k8s::Service {
    let ports: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "name": format!("p{port}"), "port": port }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": name, "labels": labels, "annotations": annotations },
        "spec": { "ports": ports },
    }))
    .unwrap()
}

/// A mirror through the gateway.
pub fn gated() -> mirror_core::api::k8s::Service {
    let labels = json!({ l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: "east" });
    let annotations = json!({
        l::MANAGED_BY: l::MANAGER, l::INSTALLATION: MC, l::REMOTE_FQ_NAME: "web.shop.svc.cluster.local",
    });
    service("web-east", &labels, &annotations, &[80])
}

/// The slice of a Service, with these addresses.
pub fn slice(
    service: &str,
    labels: &Value,
    addresses: &[(&str, bool)],
) -> mirror_core::api::k8s::EndpointSlice {
    let mut labels = labels.clone();
    labels[l::SLICE_SERVICE] = json!(service);
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|(address, ready)| json!({ "addresses": [address], "conditions": { "ready": ready } }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": format!("{service}-ipv4"), "labels": labels },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{ "name": "p80", "port": 8080 }],
    }))
    .unwrap()
}

/// The labels of slices of our controller.
pub fn ours() -> Value {
    json!({ l::MIRRORED_SERVICE: "true", l::SLICE_MANAGED_BY: l::MANAGER })
}

/// All is well, and nothing of the client and the target cluster was asked for.
pub fn gateway_mirror() -> RequestPath {
    let leader = Leader {
        active: true,
        holder: Some("controller-0".to_owned()),
        renewed: Some(now()),
        namespace: MC.to_owned(),
        ..Leader::default()
    };
    let controller = Workload {
        id: ResourceId::new(MC, l::CONTROLLER_NAME),
        desired: 1,
        available: 1,
        ..Workload::default()
    };
    let credentials = LinkerdCredentials {
        name: "cluster-credentials-east".to_owned(),
        token: Some("t".to_owned()),
        ..LinkerdCredentials::default()
    };
    let neighbours = [("web", false), ("api-east", true)];
    let source = SourceFacts {
        namespace_exists: Ok(true),
        service: Ok(Some(gated())),
        neighbours: Ok(names(&neighbours)),
        slices: Ok(vec![slice("web-east", &ours(), &[("192.0.2.1", true)])]),
        routes: Ok(vec![]),
        links: Ok(vec![link(
            &[],
            &[service_status("web", "True", "Mirrored")],
            &[],
        )]),
        leaders: [(MC.to_owned(), Ok(Some(leader)))].into(),
        controllers: Ok(vec![controller]),
        controller_pods: Ok([(
            MC.to_owned(),
            vec![ready_pod(MC, "controller-0", "10.1.0.3")],
        )]
        .into()),
        linkerd_namespace: "linkerd".to_owned(),
        config: Ok(config(A)),
        destination: Ok(Destination {
            namespace: "linkerd".to_owned(),
            credentials: [("east".to_owned(), credentials)].into(),
            started: Some(now()),
            pods: 1,
        }),
        destination_replicas: Ok(Some(1)),
        destination_pods: Ok(vec![ready_pod(
            "linkerd",
            "linkerd-destination-0",
            "10.1.0.2",
        )]),
        pod_networks: Ok(vec!["10.1.0.0/24".parse().unwrap()]),
        history: Vec::new(),
    };
    RequestPath {
        now: now(),
        service: ResourceId::new("shop", "web-east"),
        port: Some(80),
        source,
        client: None,
        proxy: None,
        view: None,
        target: None,
    }
}

/// A mirror whose Pods Linkerd discovers.
pub fn flat_mirror() -> RequestPath {
    let mut facts = gateway_mirror();
    let labels = json!({
        l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: "east", l::REMOTE_DISCOVERY: "east", l::REMOTE_SERVICE: "web",
    });
    let annotations = json!({ l::MANAGED_BY: l::MANAGER, l::INSTALLATION: MC });
    facts.source.service = Ok(Some(service("web-east", &labels, &annotations, &[80])));
    facts.source.slices = Ok(vec![]);
    facts
}

/// A federated Service of a member here and one in `east`, which prefers `prefer` if that is not empty.
pub fn federated(prefer: &str, status: &Value) -> RequestPath {
    let mut facts = gateway_mirror();
    facts.service.name = "web-federated".to_owned();
    let mut annotations = json!({
        l::MANAGED_BY: l::MANAGER, l::INSTALLATION: MC,
        l::REMOTE_DISCOVERY: "web@east", l::LOCAL_DISCOVERY: "web",
    });
    if !prefer.is_empty() {
        annotations[l::PREFER] = json!(prefer);
    }
    let labels = json!({ l::MIRRORED_SERVICE: "true" });
    facts.source.service = Ok(Some(service("web-federated", &labels, &annotations, &[80])));
    facts.source.slices = Ok(vec![]);
    facts.source.links = Ok(vec![link(&[], &[], std::slice::from_ref(status))]);
    facts
}

/// The same facts, and those of the target cluster.
pub fn with_target(mut facts: RequestPath) -> RequestPath {
    let exported = match &facts.source.service {
        Ok(Some(found)) if found.metadata.label(l::REMOTE_DISCOVERY) == "east" => {
            "remote-discovery"
        }
        _ => "true",
    };
    let labels = json!({ l::EXPORTED: exported, l::FEDERATED: "member" });
    let gateway = GatewayFacts {
        id: ResourceId::new(MC, "linkerd-gateway"),
        addresses: vec!["192.0.2.1".to_owned()],
        identity: "gateway.mc".to_owned(),
        port: Some(4143),
        probe_port: Some(4191),
        pods: Ok(vec![ready_pod(MC, "linkerd-gateway-0", "10.2.0.2")]),
        inbound: None,
    };
    facts.target = Some(TargetFacts {
        context: "east-admin".to_owned(),
        identity: Identity::default(),
        uid: None,
        linkerd_namespace: "linkerd".to_owned(),
        cluster: "east".to_owned(),
        service: Ok(Some(service("web", &labels, &json!({}), &[80]))),
        remote: ResourceId::new("shop", "web"),
        slices: Ok(vec![slice("web", &json!({}), &[("10.2.0.7", true)])]),
        serving: None,
        gateways: Ok(vec![gateway]),
        config: Ok(config(A)),
        history: Vec::new(),
    });
    facts
}

/// The same facts, and those of a Pod that calls.
pub fn with_client(mut facts: RequestPath) -> RequestPath {
    facts.client = Some(Ok(ClientPod {
        state: PodState {
            workload: Some("deployment/client".to_owned()),
            ..ready_pod("shop", "client-0", "10.1.0.9")
        },
        node: "node-1".to_owned(),
        account: "cart".to_owned(),
        proxy: Some(Proxy {
            ready: true,
            image: "proxy:1".to_owned(),
            forwards_to: None,
            trust_anchors: Some(A.to_owned()),
        }),
        skipped: None,
        annotated: None,
        subnets: None,
    }));
    facts.proxy = Some(Ok(ClientProxy {
        ready: true,
        ..ClientProxy::default()
    }));
    facts
}

/// Linkerd's configuration with these trust anchors.
pub fn config(anchors: &str) -> LinkerdConfig {
    LinkerdConfig {
        identity_trust_anchors_pem: anchors.to_owned(),
        identity_trust_domain: "cluster.local".to_owned(),
        ..LinkerdConfig::default()
    }
}

/// Names of Services and whether they are mirrors.
pub fn names(all: &[(&str, bool)]) -> BTreeMap<String, Neighbour> {
    let neighbour = |is_mirror: bool| Neighbour {
        is_mirror,
        ..Neighbour::default()
    };
    all.iter()
        .map(|(name, is)| ((*name).to_owned(), neighbour(*is)))
        .collect()
}
