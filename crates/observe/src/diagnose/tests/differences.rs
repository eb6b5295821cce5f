//! What may differ from a scene in which all is well, one thing each. A difference that a scene has no place for changes
//! nothing there.

use mirror_core::api::{
    k8s::Service,
    labels as l,
    link::{Link, LinkStatus},
};
use serde_json::{Value, json};

use super::{
    cases::route as route_to,
    linkerd::{authorization, inbound, policy, route},
    scene::{MC, condition, config, now, ours, ready_pod, service, service_status, slice},
};
use crate::clusters::{
    fixtures::B,
    leader::Leader,
    request_path::{
        ClientPod, ClientView, EndpointCounts, GatewayFacts, ProxyAnswer, ProxyCounts, RequestPath,
        TargetFacts,
        facts::{ClientProxy, Protocol},
    },
    skipped_ports::{SkippedPorts, SkippedSubnets},
    snapshot::{LinkSnapshot, LinkerdCredentials},
};

/// One thing that differs.
pub struct Difference {
    pub what: &'static str,
    /// What it sets. Only one difference of a group can be there at once.
    pub group: &'static str,
    pub apply: fn(&mut RequestPath),
}

fn leader(facts: &mut RequestPath, change: impl FnOnce(&mut Leader)) {
    if let Some(Ok(Some(leader))) = facts.source.leaders.get_mut(MC) {
        change(leader);
    }
}

fn links(facts: &mut RequestPath, change: impl Fn(&mut LinkSnapshot)) {
    facts.source.links.iter_mut().flatten().for_each(change);
}

fn link(facts: &mut RequestPath, change: impl Fn(&mut Link)) {
    links(facts, |one| change(&mut one.link));
}

fn status(facts: &mut RequestPath, change: impl Fn(&mut LinkStatus)) {
    link(facts, |link| change(link.status.as_mut().unwrap()));
}

fn said(facts: &mut RequestPath, type_: &str, is: &str, reason: &str) {
    let new = condition(type_, is, reason, "the message");
    status(facts, |status| {
        status.conditions.retain(|old| old.type_ != type_);
        status
            .conditions
            .push(serde_json::from_value(new.clone()).unwrap());
    });
}

fn reported(facts: &mut RequestPath, reason: &str) {
    let new = service_status("web", "False", reason);
    status(facts, |status| {
        for list in [&mut status.mirror_services, &mut status.federated_services] {
            if !list.is_empty() {
                *list = vec![serde_json::from_value(new.clone()).unwrap()];
            }
        }
    });
}

fn local(facts: &mut RequestPath, change: impl FnOnce(&mut Service)) {
    if let Ok(Some(service)) = &mut facts.source.service {
        change(service);
    }
}

fn client(facts: &mut RequestPath, change: impl FnOnce(&mut ClientPod)) {
    if let Some(Ok(client)) = &mut facts.client {
        change(client);
    }
}

fn proxy(facts: &mut RequestPath, change: impl FnOnce(&mut ClientProxy)) {
    if let Some(Ok(proxy)) = &mut facts.proxy {
        change(proxy);
    }
}

fn counts(facts: &mut RequestPath, change: impl Fn(&mut ProxyCounts)) {
    proxy(facts, |proxy| {
        change(proxy.after.entry(80).or_default());
    });
}

fn answers(facts: &mut RequestPath, all: &[(&str, f64)]) {
    counts(facts, |counts| {
        for (status, count) in all {
            let answer = ProxyAnswer {
                protocol: Protocol::Http,
                status: (*status).to_owned(),
                error: String::new(),
            };
            counts.answers.insert(answer, *count);
        }
    });
}

fn view(facts: &mut RequestPath, change: impl FnOnce(&mut ClientView)) {
    if let Some(Ok(view)) = &mut facts.view {
        change(view);
    }
}

fn target(facts: &mut RequestPath, change: impl FnOnce(&mut TargetFacts)) {
    facts.target.as_mut().map(change);
}

fn gateway(facts: &mut RequestPath, change: impl FnOnce(&mut GatewayFacts)) {
    target(facts, |target| {
        change(&mut target.gateways.as_mut().unwrap()[0]);
    });
}

fn known(facts: &mut RequestPath, change: impl FnOnce(&mut LinkerdCredentials)) {
    let destination = facts.source.destination.as_mut().unwrap();
    destination.credentials.get_mut("east").map(change);
}

fn routed(facts: &mut RequestPath, to: &str) {
    let version = "gateway.networking.k8s.io/v1";
    let name = facts.service.name.clone();
    let route = route_to(version, "HTTPRoute", "theirs", &name, to);
    facts.source.routes.as_mut().unwrap().push(route);
}

fn is_gated(facts: &RequestPath) -> bool {
    facts.service.name == "web-east"
        && facts
            .source
            .slices
            .as_ref()
            .is_ok_and(|slices| !slices.is_empty())
}

fn absent(facts: &mut RequestPath) {
    facts.source.service = Ok(None);
    facts.source.slices = Ok(vec![]);
    facts.view = None;
    facts.proxy = None;
}

fn pods(ready: bool, address: &str) -> Vec<mirror_core::api::k8s::EndpointSlice> {
    vec![slice("web", &json!({}), &[(address, ready)])]
}

macro_rules! differences {
    ($($what:literal $([$group:literal])?: $apply:expr;)*) => {
        /// All of them.
        pub const DIFFERENCES: &[Difference] = &[
            $(Difference { what: $what, group: concat!($($group)?), apply: $apply },)*
        ];
    };
}

differences! {
    "no Link": |facts| facts.source.links = Ok(vec![]);
    "Link is invalid" ["validity"]: |facts| link(facts, |link| link.spec.gateway_port = "x".to_owned());
    "Link is stalled" ["validity"]: |facts| said(facts, "Stalled", "True", "DuplicateCluster");
    "controller is down" ["controller"]: |facts| leader(facts, |leader| leader.active = false);
    "controller is scaled to nothing" ["controller"]: |facts| {
        leader(facts, |leader| leader.active = false);
        facts.source.controllers.as_mut().unwrap()[0].desired = 0;
    };
    "Lease of a stranger" ["controller"]: |facts| leader(facts, |leader| {
        leader.holder = Some("stranger".to_owned());
        leader.renewed = Some("2026-11-26T02:59:00Z".parse().unwrap());
    });
    "API server is away" ["Connected"]: |facts| said(facts, "Connected", "False", "Unreachable");
    "certificate of the API server" ["Connected"]: |facts| said(facts, "Connected", "False", "CertificateInvalid");
    "token is refused" ["Connected"]: |facts| said(facts, "Connected", "False", "Unauthorized");
    "Secret is gone": |facts| said(facts, "CredentialsValid", "False", "SecretMissing");
    "token has expired": |facts| links(facts, |link| {
        if let Some(Ok(own)) = &mut link.credentials {
            own.expiry = Some(now());
        }
    });
    "no mirror, and nothing is said" ["report"]: |facts| {
        absent(facts);
        status(facts, |status| {
            status.mirror_services.clear();
            status.federated_services.clear();
        });
    };
    "no mirror, for want of a namespace" ["report"]: |facts| {
        absent(facts);
        facts.source.namespace_exists = Ok(false);
        reported(facts, "MissingNamespace");
    };
    "no mirror, because of a limit" ["report"]: |facts| { absent(facts); reported(facts, "LimitExceeded"); };
    "no mirror, because of the name" ["report"]: |facts| { absent(facts); reported(facts, "NameTooLong"); };
    "no mirror, for want of a gateway" ["report"]: |facts| { absent(facts); reported(facts, "NoGateway"); };
    "mirror cannot be written" ["report"]: |facts| reported(facts, "Error");
    "another port is called": |facts| facts.port = Some(81);
    "the target has a port that the mirror lacks" ["Service in the target"]: |facts| {
        facts.port = Some(81);
        target(facts, |target| if let Ok(Some(service)) = &mut target.service {
            let labels = json!({ l::EXPORTED: "true", l::FEDERATED: "member" });
            *service = super::scene::service("web", &labels, &json!({}), &[80, 81]);
        });
    };
    "slice of a stranger": |facts| {
        let name = facts.service.name.clone();
        let strange = slice(&name, &json!({}), &[("192.0.2.66", true)]);
        facts.source.slices.as_mut().unwrap().push(strange);
    };
    "route to nowhere": |facts| routed(facts, "gone");
    "route elsewhere": |facts| routed(facts, "web");
    "drained": |facts| said(facts, "Drained", "True", "Drained");
    "failed over": |facts| local(facts, |service| {
        service.metadata.annotations.insert(l::PREFER, "local,east");
        service.metadata.annotations.insert(l::FAILED_OVER, "local=2026-11-26T02:00:00Z/..");
    });
    "preference is invalid" ["report"]: |facts| reported(facts, "InvalidPreference");
    "ports of members differ" ["report"]: |facts| reported(facts, "PortConflict");
    "endpoints are not ready" ["slices"]: |facts| if is_gated(facts) {
        facts.source.slices.as_mut().unwrap()[0] = slice("web-east", &ours(), &[("192.0.2.1", false)]);
    };
    "mirror has no endpoints" ["slices"]: |facts| if is_gated(facts) {
        facts.source.slices.as_mut().unwrap()[0] = slice("web-east", &ours(), &[]);
    };
    "probes fail": |facts| said(facts, "GatewayAlive", "False", "ProbeFailed");
    "probes fail, and the endpoints are not ready" ["slices"]: |facts| {
        said(facts, "GatewayAlive", "False", "ProbeFailed");
        if is_gated(facts) {
            facts.source.slices.as_mut().unwrap()[0] = slice("web-east", &ours(), &[("192.0.2.1", false)]);
        }
    };
    "gateway has no ready Pod": |facts| {
        said(facts, "GatewayAlive", "False", "ProbeFailed");
        gateway(facts, |gateway| gateway.pods.as_mut().unwrap()[0].ready = false);
    };
    "gateway has moved": |facts| {
        said(facts, "GatewayAlive", "False", "ProbeFailed");
        gateway(facts, |gateway| gateway.addresses = vec!["192.0.2.2".to_owned()]);
    };
    "gateway has another identity": |facts| gateway(facts, |gateway| gateway.identity = "other".to_owned());
    "gateway has another port": |facts| {
        said(facts, "GatewayAlive", "False", "ProbeFailed");
        gateway(facts, |gateway| gateway.port = Some(4444));
    };
    "one port for requests and probes": |facts| link(facts, |link| link.spec.gateway_port = "4191".to_owned());
    "gateway is mapped": |facts| {
        gateway(facts, |gateway| {
            gateway.port = Some(4444);
            gateway.addresses = vec!["10.9.0.1".to_owned()];
        });
    };
    "addresses are refused": |facts| said(facts, "GatewayAddressRefused", "True", "AllRefused");
    "no address of the gateway": |facts| {
        said(facts, "GatewayAlive", "Unknown", "NotProbed");
        link(facts, |link| {
            link.spec.gateway_address.clear();
            link.status.as_mut().unwrap().gateway = None;
        });
    };
    "policy of the gateway": |facts| gateway(facts, |gateway| {
        let pod = ready_pod(MC, "linkerd-gateway-0", "10.2.0.2");
        gateway.inbound = Some(inbound(pod, ("server", "linkerd-gateway"), vec![]));
    });
    "client is not injected": |facts| client(facts, |pod| pod.proxy = None);
    "port is skipped": |facts| client(facts, |pod| pod.skipped = Some(SkippedPorts("80-81".to_owned())));
    "subnet is skipped": |facts| client(facts, |pod| pod.subnets = Some(SkippedSubnets("10.96.0.0/12".to_owned())));
    "client has ended": |facts| client(facts, |pod| pod.state.phase = "Failed".to_owned());
    "client terminates": |facts| {
        client(facts, |pod| (pod.state.ready, pod.state.terminating) = (false, true));
        if facts.proxy.is_some() {
            facts.proxy = Some(Err("the API server cannot reach it".into()));
        }
    };
    "proxy of the client is not ready": |facts| proxy(facts, |proxy| proxy.ready = false);
    "client has old anchors": |facts| client(facts, |pod| if let Some(proxy) = &mut pod.proxy {
        proxy.trust_anchors = Some(B.to_owned());
    });
    "Linkerd does not know the ClusterIP" ["policy"]: |facts| view(facts, |view| policy(view).parent = None);
    "route of the client's namespace" ["policy"]: |facts| view(facts, route("cart", None));
    "route of the client's namespace to nowhere" ["policy"]: |facts| view(facts, route("cart", Some("no such service")));
    "destination controller is down": |facts| facts.source.destination_pods.as_mut().unwrap()[0].ready = false;
    "Linkerd has no Secret": |facts| facts.source.destination.as_mut().unwrap().credentials.clear();
    "Linkerd's Secret is incomplete": |facts| known(facts, |known| known.lacks = vec!["the key kubeconfig".to_owned()]);
    "Linkerd's Secret is new": |facts| known(facts, |known| {
        known.changed = Some("2026-11-26T04:00:00Z".parse().unwrap());
    });
    "Linkerd's token has expired": |facts| known(facts, |known| known.expiry = Some(now()));
    "Linkerd has another token": |facts| known(facts, |known| known.token = Some("u".to_owned()));
    "Linkerd tells of no endpoint" ["endpoints"]: |facts| view(facts, |view| view.endpoints[0].endpoints = Ok(Some(vec![])));
    "Linkerd tells of an endpoint that is gone" ["endpoints"]: |facts| view(facts, |view| {
        if let Ok(Some(told)) = &mut view.endpoints[0].endpoints {
            let gone = told.first().cloned().map(|mut gone| {
                gone.address = "10.9.9.9:8080".parse().unwrap();
                gone
            });
            told.extend(gone);
        }
    });
    "Linkerd does not know the Service" ["endpoints"]: |facts| view(facts, |view| view.endpoints[0].endpoints = Ok(None));
    "Service is gone in the target" ["Service in the target"]: |facts| target(facts, |target| target.service = Ok(None));
    "Service is not exported" ["Service in the target"]: |facts| target(facts, |target| {
        target.service = Ok(Some(service("web", &json!({}), &json!({}), &[80])));
    });
    "no Pod is ready" ["Pods"]: |facts| target(facts, |target| target.slices = Ok(pods(false, "10.2.0.7")));
    "no Pod is left" ["Pods"]: |facts| target(facts, |target| target.slices = Ok(vec![]));
    "no container declares the port" ["Pods"]: |facts| target(facts, |target| {
        let mut slices = pods(true, "10.2.0.7");
        slices[0].ports = serde_json::from_value(Value::Array(vec![])).unwrap();
        target.slices = Ok(slices);
    });
    "policy of the server": |facts| target(facts, |target| {
        let pod = ready_pod("shop", "web-0", "10.2.0.7");
        let other = authorization(&["other"], &[]);
        target.serving = Some(Ok(inbound(pod, ("server", "web"), vec![other])));
    });
    "anchors differ": |facts| target(facts, |target| target.config = Ok(config(B)));
    "networks overlap" ["Pods"]: |facts| {
        target(facts, |target| target.slices = Ok(pods(true, "10.1.0.77")));
        view(facts, |view| if let Ok(Some(told)) = &mut view.endpoints[0].endpoints {
            for endpoint in told.iter_mut().filter(|one| one.address.ip().to_string() == "10.2.0.7") {
                endpoint.address = "10.1.0.77:8080".parse().unwrap();
            }
        });
    };
    "refusal of the port is kept": |facts| counts(facts, |counts| counts.undefined = 3.0);
    "no connection": |facts| proxy(facts, |proxy| {
        let pending = ProxyCounts {
            requests: EndpointCounts { ready: 0.0, pending: 1.0 },
            ..ProxyCounts::default()
        };
        proxy.before.insert(80, pending.clone());
        proxy.after.insert(80, pending);
    });
    "all requests fail" ["answers"]: |facts| answers(facts, &[("503", 3.0)]);
    "a part of the requests fails" ["answers"]: |facts| answers(facts, &[("200", 3.0), ("503", 3.0)]);
}
