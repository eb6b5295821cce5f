//! What Linkerd's controllers tell the client's proxy, and who may connect in the target cluster.

use std::{collections::BTreeMap, net::SocketAddr};

use serde_json::json;

use super::{
    cases::{RESTART, broken, changed, degraded, hold},
    scene::{
        MC, diagnosed, federated, flat_mirror, found, gateway_mirror, ready_pod, service_status,
        slice, with_client, with_target,
    },
};
use crate::clusters::{
    linkerd_api::{
        Authorization, ClientPolicy, DiscoveredEndpoint, DiscoveredProfile, PermittedClients,
        PolicyBackend, PolicyReference, PolicyRoute, ServerPolicy,
    },
    request_path::{ClientView, InboundPort, PodState, RequestPath, facts::ToldEndpoints},
};

const ROTATE_BOTH: &str = "linkerd-mc --context west rotate east --target east-admin";
/// The identity of the client.
pub const CART: &str = "cart.shop.serviceaccount.identity.linkerd.cluster.local";

/// The same facts, and what Linkerd tells the client's proxy: endpoints with these addresses.
pub fn with_view(facts: RequestPath, addresses: &[&str]) -> RequestPath {
    let mut facts = with_client(facts);
    let name = &facts.service.name;
    let endpoints = addresses.iter().map(|address| DiscoveredEndpoint {
        address: SocketAddr::new(address.parse().unwrap(), 8080),
        labels: BTreeMap::new(),
        identity: None,
        authority: None,
        is_opaque: false,
    });
    let service = |port| PolicyReference::Object {
        group: "core".to_owned(),
        kind: "Service".to_owned(),
        namespace: "shop".to_owned(),
        name: name.clone(),
        port,
    };
    let backend = PolicyBackend {
        backend: Some(service(80)),
        weight: 1,
        authority: Some(format!("{name}.shop.svc.cluster.local:80")),
        failure: None,
    };
    let route = PolicyRoute {
        route: Some(PolicyReference::Default("http".to_owned())),
        failure: None,
        backends: vec![backend],
    };
    facts.view = Some(Ok(ClientView {
        port: 80,
        profile: Ok(DiscoveredProfile::default()),
        policy: Ok(ClientPolicy {
            parent: Some(service(80)),
            protocol: "detect",
            routes: vec![route],
        }),
        endpoints: vec![ToldEndpoints {
            by: String::new(),
            endpoints: Ok(Some(endpoints.collect())),
        }],
    }));
    facts
}

/// Who may connect to a port of a Pod, by a Server or by a default.
pub fn inbound(
    pod: PodState,
    (kind, name): (&str, &str),
    authorizations: Vec<Authorization>,
) -> InboundPort {
    let labels = [("kind", kind), ("name", name)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    InboundPort {
        pod,
        port: 8080,
        policy: Ok(ServerPolicy {
            protocol: "detect",
            labels: labels.into(),
            authorizations,
            of_routes: Vec::new(),
        }),
    }
}

fn told(facts: RequestPath, change: impl FnOnce(&mut ClientView)) -> RequestPath {
    changed(facts, |facts| {
        change(facts.view.as_mut().unwrap().as_mut().unwrap());
    })
}

pub fn policy(view: &mut ClientView) -> &mut ClientPolicy {
    view.policy.as_mut().unwrap()
}

fn object(kind: &str, namespace: &str, name: &str) -> PolicyReference {
    PolicyReference::Object {
        group: "gateway.networking.k8s.io".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        port: 0,
    }
}

/// A route in this namespace, to another Service.
pub fn route(namespace: &str, failure: Option<&str>) -> impl FnOnce(&mut ClientView) {
    let route = Some(object("HTTPRoute", namespace, "of-client"));
    let failure = failure.map(str::to_owned);
    move |view| {
        let routes = &mut policy(view).routes;
        let mut backend = routes[0].backends[0].clone();
        backend.backend = Some(object("Service", "cart", "other"));
        backend.failure = failure;
        *routes = vec![PolicyRoute {
            route,
            failure: None,
            backends: vec![backend],
        }];
    }
}

#[test]
fn what_linkerd_tells_the_client_is_compared_with_what_there_is() {
    let gated = |addresses: &[&str]| with_view(gateway_mirror(), addresses);
    let flat = |addresses: &[&str]| with_view(with_target(flat_mirror()), addresses);
    let delete =
        "kubectl --context west -n cart delete httproute.gateway.networking.k8s.io of-client";
    let edit = "kubectl --context west -n cart edit httproute.gateway.networking.k8s.io of-client";
    let member = service_status("web", "True", "Mirrored");
    hold(vec![
        (
            "no endpoint of the gateway",
            gated(&[]),
            broken("discovery", "EndpointsNotTold", RESTART),
        ),
        (
            "other endpoints",
            gated(&["192.0.2.7"]),
            broken("discovery", "EndpointsNotTold", RESTART),
        ),
        (
            "one endpoint too many",
            gated(&["192.0.2.1", "192.0.2.7"]),
            degraded("discovery", "EndpointsStale", RESTART),
        ),
        (
            "no Pod of the target",
            flat(&[]),
            broken("discovery", "EndpointsNotTold", ROTATE_BOTH),
        ),
        (
            "one Pod too many",
            flat(&["10.2.0.7", "10.2.0.8"]),
            degraded("discovery", "EndpointsStale", ROTATE_BOTH),
        ),
        (
            "no Pod of one member",
            with_view(with_target(federated("", &member)), &["10.1.0.44"]),
            degraded("discovery", "EndpointsNotTold", ROTATE_BOTH),
        ),
        (
            "no endpoint, without a look into the target",
            with_view(flat_mirror(), &[]),
            broken(
                "discovery",
                "NothingDiscovered",
                "in east: kubectl -n shop get endpointslices -l kubernetes.io/service-name=web",
            ),
        ),
        (
            "no such Service",
            told(gated(&[]), |view| view.endpoints[0].endpoints = Ok(None)),
            broken("discovery", "UnknownToLinkerd", RESTART),
        ),
        (
            "no such ClusterIP",
            told(gated(&["192.0.2.1"]), |view| policy(view).parent = None),
            broken("policy", "UnknownToLinkerd", RESTART),
        ),
        (
            "a route of the client's namespace to another Service",
            told(gated(&["192.0.2.1"]), route("cart", None)),
            degraded("policy", "ForeignRoute", edit),
        ),
        (
            "the same to nowhere",
            told(
                gated(&["192.0.2.1"]),
                route("cart", Some("no such service")),
            ),
            broken("policy", "RouteBackendMissing", edit),
        ),
        (
            "the same over a preference",
            told(
                with_view(federated("east", &member), &["10.1.0.44"]),
                route("cart", None),
            ),
            degraded("policy", "RouteConflict", delete),
        ),
        (
            "a ServiceProfile of the client's namespace",
            told(gated(&["192.0.2.1"]), |view| {
                let profile = view.profile.as_mut().unwrap();
                let name = "web-east.shop.svc.cluster.local";
                profile.profile = Some(object("ServiceProfile", "cart", name));
                profile.overrides = vec![("other.shop.svc.cluster.local.:80".to_owned(), 1)];
            }),
            degraded(
                "policy",
                "ForeignRoute",
                "kubectl --context west -n cart delete serviceprofiles.linkerd.io web-east.shop.svc.cluster.local",
            ),
        ),
    ]);
    #[expect(clippy::useless_vec, reason = "an array of them is large")]
    for well in vec![
        gated(&["192.0.2.1"]),
        flat(&["10.2.0.7"]),
        with_view(flat_mirror(), &["10.2.0.7"]),
        with_view(
            with_target(federated("", &member)),
            &["10.1.0.44", "10.2.0.7"],
        ),
        told(gated(&["192.0.2.1"]), route("shop", None)),
        told(
            with_view(federated("east", &member), &["10.1.0.44"]),
            |view| {
                view.profile.as_mut().unwrap().profile = Some(object("", "", ""));
            },
        ),
    ] {
        assert_eq!(found(&well), None, "{:#?}", diagnosed(&well));
    }
}

#[test]
fn endpoints_of_a_family_that_linkerd_does_not_use_are_not_missed() {
    let facts = changed(with_view(gateway_mirror(), &["192.0.2.1"]), |facts| {
        let slices = facts.source.slices.as_mut().unwrap();
        slices.push(slice(
            "web-east",
            &super::scene::ours(),
            &[("2001:db8::1", true)],
        ));
    });
    assert_eq!(found(&facts), None);
    // No Pod is ready, and Linkerd says the same.
    let none = changed(with_view(with_target(flat_mirror()), &[]), |facts| {
        let target = facts.target.as_mut().unwrap();
        target.slices = Ok(vec![slice("web", &json!({}), &[("10.2.0.7", false)])]);
    });
    assert_eq!(found(&none).unwrap().1, "NoReadyPods");
}

pub fn authorization(names: &[&str], networks: &[&str]) -> Authorization {
    Authorization {
        policy: Some(PolicyReference::Object {
            group: "policy.linkerd.io".to_owned(),
            kind: "authorizationpolicy".to_owned(),
            namespace: String::new(),
            name: "some".to_owned(),
            port: 0,
        }),
        networks: networks.iter().map(|net| (*net).to_owned()).collect(),
        clients: PermittedClients::Identities {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            suffixes: vec![],
        },
    }
}

#[test]
fn policies_that_deny_are_named_with_what_decides() {
    let gateway = |facts: RequestPath, server, authorizations| {
        changed(with_target(with_client(facts)), |facts| {
            let pod = ready_pod(MC, "linkerd-gateway-0", "10.2.0.2");
            let gateways = facts.target.as_mut().unwrap().gateways.as_mut().unwrap();
            gateways[0].inbound = Some(inbound(pod, server, authorizations));
        })
    };
    let serving = |facts: RequestPath, server, authorizations| {
        let pod = PodState {
            workload: Some("deployment/web".to_owned()),
            ..ready_pod("shop", "web-0", "10.2.0.7")
        };
        changed(with_target(with_client(facts)), |facts| {
            let port = inbound(pod, server, authorizations);
            facts.target.as_mut().unwrap().serving = Some(Ok(port));
        })
    };
    let of_gateway = ("server", "linkerd-gateway");
    let deny = ("default", "deny");
    let edit =
        "kubectl --context east-admin -n shop edit authorizationpolicy.policy.linkerd.io some";
    hold(vec![
        (
            "nobody may connect to the gateway",
            gateway(gateway_mirror(), of_gateway, vec![]),
            broken(
                "network",
                "GatewayDenies",
                "kubectl --context east-admin -n linkerd-multicluster get authorizationpolicies.policy.linkerd.io",
            ),
        ),
        (
            "others may connect to the gateway",
            gateway(
                gateway_mirror(),
                of_gateway,
                vec![authorization(&["other"], &[])],
            ),
            broken(
                "network",
                "GatewayDenies",
                "kubectl --context east-admin -n linkerd-multicluster edit authorizationpolicy.policy.linkerd.io some",
            ),
        ),
        (
            "the gateway may not connect to the Pod",
            serving(
                gateway_mirror(),
                ("server", "web"),
                vec![authorization(&[CART], &[])],
            ),
            broken("target", "ServerDenies", edit),
        ),
        (
            "the client may not connect to the Pod",
            serving(
                flat_mirror(),
                ("server", "web"),
                vec![authorization(&["gateway.mc"], &[])],
            ),
            broken("target", "ServerDenies", edit),
        ),
        (
            "not from this address",
            serving(
                flat_mirror(),
                ("server", "web"),
                vec![authorization(&[CART], &["10.2.0.0/16"])],
            ),
            broken("target", "ServerDenies", edit),
        ),
        (
            "nobody may connect to the Pod",
            serving(flat_mirror(), ("server", "web"), vec![]),
            broken(
                "target",
                "ServerDenies",
                "kubectl --context east-admin -n shop edit servers.policy.linkerd.io web",
            ),
        ),
        (
            "the default denies",
            serving(flat_mirror(), deny, vec![]),
            broken(
                "target",
                "ServerDenies",
                "kubectl --context east-admin -n shop get servers.policy.linkerd.io",
            ),
        ),
    ]);
    let unknown = changed(gateway(gateway_mirror(), of_gateway, vec![]), |facts| {
        facts.client = None;
    });
    for well in [
        gateway(
            gateway_mirror(),
            of_gateway,
            vec![authorization(&[CART], &["10.2.0.0/16"])],
        ),
        serving(
            gateway_mirror(),
            ("server", "web"),
            vec![authorization(&["gateway.mc"], &[])],
        ),
        serving(
            flat_mirror(),
            deny,
            vec![authorization(&[CART], &["10.1.0.0/16"])],
        ),
        unknown,
    ] {
        assert_eq!(found(&well), None, "{:#?}", diagnosed(&well));
    }
}

#[test]
fn permission_for_some_routes_is_one_and_that_for_probes_is_none() {
    let probe = Authorization {
        policy: Some(PolicyReference::Default("probe".to_owned())),
        networks: vec!["0.0.0.0/0".to_owned()],
        clients: PermittedClients::All,
    };
    let facts = |of_route: Authorization| {
        changed(with_target(with_client(flat_mirror())), |facts| {
            let pod = ready_pod("shop", "web-0", "10.2.0.7");
            let mut port = inbound(pod, ("server", "web"), vec![]);
            port.policy.as_mut().unwrap().of_routes = vec![of_route];
            facts.target.as_mut().unwrap().serving = Some(Ok(port));
        })
    };
    assert_eq!(found(&facts(authorization(&[CART], &[]))), None);
    assert_eq!(found(&facts(probe)).unwrap().1, "ServerDenies");
}

#[test]
fn pod_that_is_being_deleted_is_a_cause_once_its_proxy_is_gone() {
    let pods = "kubectl --context west -n shop get pods";
    let facts = |is_gone: bool| {
        changed(with_client(gateway_mirror()), |facts| {
            let pod = facts.client.as_mut().unwrap().as_mut().unwrap();
            (pod.state.ready, pod.state.terminating) = (false, true);
            if is_gone {
                facts.proxy = Some(Err("the API server cannot reach it".into()));
            }
        })
    };
    hold(vec![
        (
            "its proxy runs",
            facts(false),
            degraded("client", "ClientTerminating", pods),
        ),
        (
            "its proxy is gone",
            facts(true),
            broken("client", "ClientTerminating", pods),
        ),
    ]);
}

/// A member without endpoints is one of several, until none is left. More knowledge does not make the answer weaker.
#[test]
fn federated_service_without_any_endpoint_is_broken() {
    let member = service_status("web", "True", "Mirrored");
    let cause = |facts: &RequestPath| {
        let (_, cause, is_broken, _) = found(facts).unwrap();
        (cause, is_broken)
    };
    let unseen = with_view(federated("", &member), &[]);
    assert_eq!(cause(&unseen), ("NothingDiscovered", true));
    let none_ready = changed(with_target(federated("", &member)), |facts| {
        facts.target.as_mut().unwrap().slices = Ok(vec![]);
    });
    let seen = with_view(none_ready, &[]);
    assert_eq!(cause(&seen), ("NoReadyPods", true));
    // The Pods of the target cluster are ready, and Linkerd tells of none.
    let ready = with_view(with_target(federated("", &member)), &[]);
    assert_eq!(cause(&ready), ("EndpointsNotTold", true));
}

/// A control plane with several Pods: the client's proxy has asked one of them, and nothing says which.
#[test]
fn pod_of_the_destination_controller_that_differs_is_named() {
    let ask = |facts: RequestPath, answers: &[Option<&[&str]>]| {
        let views = answers.iter().enumerate().map(|(at, addresses)| {
            let view = with_view(facts.clone(), addresses.unwrap_or_default());
            let mut told = view.view.unwrap().unwrap().endpoints.remove(0);
            told.by = format!("linkerd-destination-{at}");
            if addresses.is_none() {
                told.endpoints = Err("timed out".into());
            }
            told
        });
        let endpoints = views.collect();
        told(with_view(facts.clone(), &[]), |view| {
            view.endpoints = endpoints;
        })
    };
    let (ok, none, stale): (&[&str], &[&str], &[&str]) =
        (&["192.0.2.1"], &[], &["192.0.2.1", "192.0.2.7"]);
    let delete =
        |at| format!("kubectl --context west -n linkerd delete pod linkerd-destination-{at}");
    hold(vec![
        (
            "the last of three tells none",
            ask(gateway_mirror(), &[Some(ok), Some(ok), Some(none)]),
            degraded("discovery", "EndpointsNotTold", &delete(2)),
        ),
        (
            "the first of three tells too many",
            ask(gateway_mirror(), &[Some(stale), Some(ok), None]),
            degraded("discovery", "EndpointsStale", &delete(0)),
        ),
        (
            "all tell none",
            ask(gateway_mirror(), &[Some(none), Some(none), None]),
            broken("discovery", "EndpointsNotTold", RESTART),
        ),
    ]);
    // The node of the first one is gone.
    let well = ask(gateway_mirror(), &[None, Some(ok)]);
    let diagnosis = diagnosed(&well);
    assert_eq!(found(&well), None, "{diagnosis:#?}");
    let unseen = format!("{diagnosis:?}");
    let expected = "the endpoints that linkerd-destination-0 tells the proxy: timed out";
    assert!(unseen.contains(expected), "{unseen}");
    let member = service_status("web", "True", "Mirrored");
    let one_of_two = ask(federated("", &member), &[Some(none), Some(&["10.1.0.44"])]);
    assert_eq!(
        found(&one_of_two).map(|(_, cause, is_broken, _)| (cause, is_broken)),
        Some(("NothingDiscovered", false))
    );
}
