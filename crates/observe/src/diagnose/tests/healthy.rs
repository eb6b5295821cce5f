//! States in which all is well although something looks unusual.

use mirror_core::api::labels as l;
use serde_json::json;

use super::{
    cases::changed,
    linkerd::{CART, authorization, inbound, with_view},
    scene::{
        MC, config, diagnosed, federated, flat_mirror, found, gateway_mirror, names, ready_pod,
        service, service_status, with_target,
    },
};
use crate::clusters::{
    fixtures::{A, B},
    request_path::{ClientPod, GatewayFacts, RequestPath, TargetFacts},
};

/// A state, and what differs from the usual one.
type State = (&'static str, fn(&mut RequestPath));

fn target(facts: &mut RequestPath) -> &mut TargetFacts {
    facts.target.as_mut().unwrap()
}

fn gateway(facts: &mut RequestPath) -> &mut GatewayFacts {
    &mut target(facts).gateways.as_mut().unwrap()[0]
}

fn client(facts: &mut RequestPath) -> &mut ClientPod {
    facts.client.as_mut().unwrap().as_mut().unwrap()
}

/// The trust anchors of both clusters, and those that the proxy of the client was started with.
fn anchors(facts: &mut RequestPath, [own, theirs]: [&str; 2], proxy: Option<&str>) {
    facts.source.config = Ok(config(own));
    target(facts).config = Ok(config(theirs));
    client(facts).proxy.as_mut().unwrap().trust_anchors = proxy.map(str::to_owned);
}

fn link_port(facts: &mut RequestPath, port: &str, probe: &str) {
    let spec = &mut facts.source.links.as_mut().unwrap()[0].link.spec;
    port.clone_into(&mut spec.gateway_port);
    probe.clone_into(&mut spec.probe_spec.port);
}

/// Three Pods of each controller, of which one is being replaced.
fn three(facts: &mut RequestPath) {
    let pods = |namespace: &str, name: &str| {
        [0, 1, 2].map(|at| {
            let mut pod = ready_pod(namespace, &format!("{name}-{at}"), &format!("10.1.1.{at}"));
            pod.ready = at != 1;
            pod
        })
    };
    facts.source.destination_replicas = Ok(Some(3));
    facts.source.destination_pods = Ok(pods("linkerd", "linkerd-destination").into());
    facts.source.controller_pods = Ok([(MC.to_owned(), pods(MC, "controller").into())].into());
    let controller = &mut facts.source.controllers.as_mut().unwrap()[0];
    (controller.desired, controller.available) = (3, 2);
    gateway(facts).pods = Ok(pods(MC, "linkerd-gateway").into());
    let view = facts.view.as_mut().unwrap().as_mut().unwrap();
    let told = view.endpoints.remove(0);
    view.endpoints = vec![told.clone(), told];
    for (at, told) in view.endpoints.iter_mut().enumerate() {
        told.by = format!("linkerd-destination-{at}");
    }
}

/// Linkerd is in another namespace in each cluster, and only the client's identity with that namespace is permitted.
fn other_namespaces(facts: &mut RequestPath) {
    "mesh".clone_into(&mut facts.source.linkerd_namespace);
    let destination = facts.source.destination.as_mut().unwrap();
    "mesh".clone_into(&mut destination.namespace);
    for pod in facts.source.destination_pods.as_mut().unwrap() {
        "mesh".clone_into(&mut pod.id.namespace);
    }
    "l5d".clone_into(&mut target(facts).linkerd_namespace);
    let spec = &mut facts.source.links.as_mut().unwrap()[0].link.spec;
    "l5d".clone_into(&mut spec.target_cluster_linkerd_namespace);
    let identity = CART.replace(".linkerd.", ".mesh.");
    let by = authorization(&[&identity, "gateway.mc"], &["0.0.0.0/0"]);
    let server = ("server.policy.linkerd.io", "web");
    let pod = ready_pod("shop", "web-0", "10.2.0.7");
    gateway(facts).inbound = Some(inbound(pod.clone(), server, vec![by.clone()]));
    target(facts).serving = Some(Ok(inbound(pod, server, vec![by])));
}

const STATES: &[State] = &[
    ("anchors are rotated: both have both", |facts| {
        anchors(facts, [&format!("{A}{B}"), &format!("{B}{A}")], None);
    }),
    (
        "one cluster has finished, and workloads know both",
        |facts| {
            let both = format!("{A}{B}");
            anchors(facts, [&both, B], Some(&both));
        },
    ),
    (
        "anchors were rotated, and a proxy knows the former one too",
        |facts| {
            anchors(facts, [B, B], Some(&format!("{A}{B}")));
        },
    ),
    ("anchors of a ConfigMap that may not be read", |facts| {
        anchors(facts, ["", B], None);
    }),
    ("gateway on Nodes", |facts| {
        link_port(facts, "31143", "31191");
        let gateway = gateway(facts);
        (gateway.port, gateway.probe_port) = (Some(31143), Some(31191));
        gateway.addresses.clear();
    }),
    ("gateway behind a port mapping", |facts| {
        link_port(facts, "443", "8443");
        gateway(facts).addresses = vec!["10.9.0.1".to_owned()];
    }),
    ("gateway on Nodes behind a port mapping", |facts| {
        link_port(facts, "443", "8443");
        let gateway = gateway(facts);
        (gateway.port, gateway.probe_port) = (Some(31143), Some(31191));
        gateway.addresses.clear();
    }),
    ("Linkerd in other namespaces", other_namespaces),
    ("three replicas of all controllers", three),
    ("mirrored for a preference alone", |facts| {
        if facts.service.name != "web-federated" {
            let labels = json!({ l::FEDERATED: "member" });
            target(facts).service = Ok(Some(service("web", &labels, &json!({}), &[80])));
            let mut others = names(&[("web", false), ("web-federated", true)]);
            "east".clone_into(&mut others.get_mut("web-federated").unwrap().prefers);
            facts.source.neighbours = Ok(others);
        }
    }),
];

#[test]
fn nothing_is_found_in_states_that_only_look_unusual() {
    let member = service_status("web", "True", "Mirrored");
    let scenes: [(_, _, &[&str]); 4] = [
        ("gateway", gateway_mirror(), &["192.0.2.1"]),
        ("flat", flat_mirror(), &["10.2.0.7"]),
        (
            "federated",
            federated("", &member),
            &["10.1.0.44", "10.2.0.7"],
        ),
        (
            "preferring",
            federated("local,east", &member),
            &["10.1.0.44", "10.2.0.7"],
        ),
    ];
    for (scene, facts, addresses) in scenes {
        let whole = with_view(with_target(facts), addresses);
        for (state, apply) in STATES {
            let all = changed(whole.clone(), apply);
            let without_target = changed(all.clone(), |facts| facts.target = None);
            let without_client = changed(all.clone(), |facts| {
                (facts.client, facts.proxy, facts.view) = (None, None, None);
            });
            for facts in [all, without_target, without_client] {
                assert_eq!(
                    found(&facts),
                    None,
                    "{scene}, {state}: {:#?}",
                    diagnosed(&facts)
                );
            }
        }
    }
}
