//! What is wrong with a mirror that exists.

use mirror_core::api::{labels as l, link::Link};
use serde_json::{Value, json};

use super::{
    cases::{LINK, RELINK, RESTART, broken, changed, degraded, hold, route},
    scene::{
        MC, condition, config, diagnosed, federated, flat_mirror, found, gateway_mirror, link,
        ours, service, service_status, slice, with_client, with_target,
    },
};
use crate::{
    clusters::{
        fixtures::B,
        request_path::{GatewayFacts, RequestPath},
        snapshot::{LinkSnapshot, ReadError},
    },
    diagnose::report,
    finding::causes::Layer,
};

#[test]
fn nothing_is_found_where_all_is_well() {
    let member = service_status("web", "True", "Mirrored");
    for facts in [
        gateway_mirror(),
        flat_mirror(),
        federated("", &member),
        federated("local,east", &member),
    ] {
        assert_eq!(found(&facts), None, "{:#?}", diagnosed(&facts));
        let whole = with_client(with_target(facts));
        let diagnosis = diagnosed(&whole);
        assert_eq!(found(&whole), None, "{diagnosis:#?}");
        assert_eq!(diagnosis.layers.len(), Layer::ALL.len());
    }
}

/// The facts, with a change of the gateway of the target cluster.
fn gateway(facts: RequestPath, change: fn(&mut GatewayFacts)) -> RequestPath {
    changed(facts, |facts| {
        change(&mut facts.target.as_mut().unwrap().gateways.as_mut().unwrap()[0]);
    })
}

#[test]
fn what_is_wrong_with_a_mirror_is_found() {
    let with = |conditions: &[Value]| {
        changed(gateway_mirror(), |facts| {
            facts.source.links = Ok(vec![link(
                conditions,
                &[service_status("web", "True", "Mirrored")],
                &[],
            )]);
        })
    };
    let dead = || {
        with(&[condition(
            "GatewayAlive",
            "False",
            "ProbeFailed",
            "timed out",
        )])
    };
    let port = |facts: RequestPath| changed(facts, |facts| facts.port = Some(81));
    let pods = "kubectl --context east-admin -n linkerd-multicluster get pods,services";
    hold(vec![
        (
            "no Link",
            changed(gateway_mirror(), |facts| facts.source.links = Ok(vec![])),
            broken("objects", "LinkMissing", LINK),
        ),
        (
            "the controller is down, and all is there",
            changed(gateway_mirror(), |facts| {
                let leader = facts.source.leaders.get_mut(MC).unwrap();
                leader.as_mut().unwrap().as_mut().unwrap().active = false;
            }),
            degraded(
                "objects",
                "ControllerDown",
                "kubectl --context west -n linkerd-multicluster rollout restart deployment/linkerd-multicluster-controller",
            ),
        ),
        (
            "the target is away, and all is there",
            with(&[condition("Connected", "False", "Unreachable", "no")]),
            degraded(
                "objects",
                "TargetApiUnreachable",
                "linkerd-mc --context west status --cluster-name east",
            ),
        ),
        (
            "port",
            port(gateway_mirror()),
            broken(
                "objects",
                "PortNotDeclared",
                "in east: kubectl -n shop edit service web",
            ),
        ),
        (
            "port, with a look into the target",
            port(with_target(gateway_mirror())),
            broken(
                "objects",
                "PortNotDeclared",
                "kubectl --context east-admin -n shop edit service web",
            ),
        ),
        (
            "port that only the target has",
            changed(port(with_target(gateway_mirror())), |facts| {
                let labels = json!({ l::EXPORTED: "true" });
                facts.target.as_mut().unwrap().service =
                    Ok(Some(service("web", &labels, &json!({}), &[80, 81])));
            }),
            broken(
                "objects",
                "NotMirroredYet",
                "linkerd-mc --context west plan east",
            ),
        ),
        (
            "port that only the target has, while the controller is down",
            changed(port(with_target(gateway_mirror())), |facts| {
                let labels = json!({ l::EXPORTED: "true" });
                facts.target.as_mut().unwrap().service =
                    Ok(Some(service("web", &labels, &json!({}), &[80, 81])));
                let leader = facts.source.leaders.get_mut(MC).unwrap();
                leader.as_mut().unwrap().as_mut().unwrap().active = false;
            }),
            broken(
                "objects",
                "ControllerDown",
                "kubectl --context west -n linkerd-multicluster rollout restart deployment/linkerd-multicluster-controller",
            ),
        ),
        (
            "slices of a stranger",
            changed(gateway_mirror(), |facts| {
                let strange = slice("web-east", &json!({}), &[("192.0.2.66", true)]);
                facts.source.slices.as_mut().unwrap().push(strange);
            }),
            broken(
                "objects",
                "ForeignEndpoints",
                "kubectl --context west -n shop delete endpointslice web-east-ipv4",
            ),
        ),
        (
            "route to nowhere",
            changed(gateway_mirror(), |facts| {
                facts.source.routes = Ok(vec![route(
                    "gateway.networking.k8s.io/v1",
                    "HTTPRoute",
                    "theirs",
                    "web-east",
                    "gone",
                )]);
            }),
            broken(
                "objects",
                "RouteBackendMissing",
                "kubectl --context west -n shop edit httproutes.gateway.networking.k8s.io theirs",
            ),
        ),
        (
            "route elsewhere",
            changed(gateway_mirror(), |facts| {
                facts.source.routes = Ok(vec![route(
                    "gateway.networking.k8s.io/v1",
                    "HTTPRoute",
                    "theirs",
                    "web-east",
                    "web",
                )]);
            }),
            degraded(
                "objects",
                "ForeignRoute",
                "kubectl --context west -n shop edit httproutes.gateway.networking.k8s.io theirs",
            ),
        ),
        (
            "destination controller",
            changed(gateway_mirror(), |facts| {
                facts.source.destination_pods.as_mut().unwrap()[0].ready = false;
            }),
            broken("discovery", "DestinationDown", RESTART),
        ),
        (
            "gateway does not answer",
            dead(),
            broken(
                "network",
                "GatewayUnreachable",
                "in east: kubectl -n linkerd-multicluster get pods,services",
            ),
        ),
        (
            "gateway is down",
            gateway(with_target(dead()), |gateway| {
                gateway.pods.as_mut().unwrap()[0].ready = false;
            }),
            broken("network", "GatewayDown", pods),
        ),
        (
            "probes do not arrive",
            with_target(dead()),
            broken("network", "ProbePortClosed", pods),
        ),
        (
            "gateway has moved",
            gateway(with_target(dead()), |gateway| {
                gateway.addresses = vec!["192.0.2.2".to_owned()];
            }),
            broken("network", "ProbesFail", pods),
        ),
        (
            "gateway has moved, and the Link names no address any more",
            changed(
                gateway(with_target(dead()), |gateway| {
                    gateway.addresses = vec!["192.0.2.2".to_owned()];
                }),
                |facts| {
                    let link = &mut facts.source.links.as_mut().unwrap()[0].link;
                    link.spec.gateway_address.clear();
                },
            ),
            broken(
                "network",
                "GatewayAddressUnknown",
                &format!("{RELINK} --gateway-addresses 192.0.2.2"),
            ),
        ),
        (
            "identity",
            gateway(with_target(gateway_mirror()), |gateway| {
                gateway.identity = "other".to_owned();
            }),
            broken("network", "GatewayIdentityWrong", RELINK),
        ),
        (
            "gateway's port",
            gateway(with_target(dead()), |gateway| {
                gateway.port = Some(4444);
            }),
            broken(
                "network",
                "GatewayPortWrong",
                &format!("{RELINK} --gateway-port 0"),
            ),
        ),
        (
            "addresses refused",
            with(&[condition(
                "GatewayAddressRefused",
                "True",
                "AllRefused",
                "loopback",
            )]),
            broken(
                "network",
                "GatewayAddressRefused",
                "kubectl --context west -n linkerd-multicluster edit links.multicluster.linkerd.io east",
            ),
        ),
        (
            "no Pods, with a look into the target",
            changed(with_target(gateway_mirror()), |facts| {
                facts.target.as_mut().unwrap().slices =
                    Ok(vec![slice("web", &json!({}), &[("10.2.0.7", false)])]);
            }),
            broken(
                "target",
                "NoReadyPods",
                "kubectl --context east-admin -n shop get endpointslices -l kubernetes.io/service-name=web",
            ),
        ),
        (
            "no Pods, by the mirror's endpoints",
            changed(gateway_mirror(), |facts| {
                facts.source.slices = Ok(vec![slice("web-east", &ours(), &[])]);
            }),
            broken(
                "target",
                "NothingDiscovered",
                "in east: kubectl -n shop get endpointslices -l kubernetes.io/service-name=web",
            ),
        ),
        (
            "deleted in the target",
            changed(with_target(gateway_mirror()), |facts| {
                facts.target.as_mut().unwrap().service = Ok(None);
            }),
            broken(
                "target",
                "MissingInTarget",
                "kubectl --context east-admin -n shop get services",
            ),
        ),
        (
            "other trust anchors",
            changed(with_target(gateway_mirror()), |facts| {
                facts.target.as_mut().unwrap().config = Ok(config(B));
            }),
            broken(
                "target",
                "TrustRootsDiffer",
                "kubectl --context west -n linkerd get configmap linkerd-identity-trust-roots -o yaml",
            ),
        ),
    ]);
}

#[test]
fn only_layers_that_change_are_printed_again() {
    let well = diagnosed(&with_target(gateway_mirror()));
    assert_eq!(report::changes(&well, &well), None);
    let dead = changed(with_target(gateway_mirror()), |facts| {
        facts.target.as_mut().unwrap().slices = Ok(vec![]);
    });
    let dead = diagnosed(&dead);
    let news = report::changes(&well, &dead).expect("a change");
    let news = anstream::adapter::strip_str(&news).to_string();
    assert!(news.starts_with("Cause: NoReadyPods (target)"), "{news}");
    let left = "- not judged, because a layer before is broken: answers\n";
    for part in ["\n\n× target    NoReadyPods", left] {
        assert!(news.contains(part), "{part}: {news}");
    }
    assert!(!news.contains("√ objects"), "{news}");
    let back = report::changes(&dead, &well).expect("a change");
    assert!(back.contains("Nothing is wrong"), "{back}");
}

#[test]
fn what_may_not_be_read_is_said_and_nothing_is_concluded_from_it() {
    let no = || ReadError::from("forbidden");
    let facts = changed(with_client(with_target(flat_mirror())), |facts| {
        let source = &mut facts.source;
        source.slices = Err(no());
        source.routes = Err(no());
        source.neighbours = Err(no());
        source.links = Err(no());
        source.leaders = [(MC.to_owned(), Err(no()))].into();
        source.controllers = Err(no());
        source.controller_pods = Err(no());
        source.config = Err(no());
        source.destination = Err(no());
        source.destination_pods = Err(no());
        source.pod_networks = Err(no());
        facts.client = Some(Err(no()));
        facts.proxy = Some(Err(no()));
        facts.view = Some(Err(no()));
        let target = facts.target.as_mut().unwrap();
        target.service = Err(no());
        target.slices = Err(no());
        target.gateways = Err(no());
        target.serving = Some(Err(no()));
        target.config = Err(no());
    });
    let diagnosis = diagnosed(&facts);
    assert_eq!(found(&facts), None, "{diagnosis:#?}");
    for report in &diagnosis.layers {
        let told = report.unseen.iter().any(|line| line.contains("forbidden"));
        assert!(told, "{report:#?}");
    }
}

/// `link` keeps a Link without a gateway as it is, unless a flag asks for one.
#[test]
fn link_without_a_gateway_is_linked_again_with_one() {
    let unknown = |change: fn(&mut Link)| {
        changed(gateway_mirror(), |facts| {
            let message = "no address of the gateway is known";
            let unknown = condition("GatewayAlive", "Unknown", "NotProbed", message);
            let mirrored = service_status("web", "True", "Mirrored");
            let mut link = link(&[unknown], &[mirrored], &[]);
            link.link.status.as_mut().unwrap().gateway = None;
            change(&mut link.link);
            facts.source.links = Ok(vec![link]);
        })
    };
    let without = |link: &mut Link| {
        link.spec.gateway_address.clear();
        link.spec.gateway_identity.clear();
    };
    hold(vec![
        (
            "no address",
            unknown(without),
            broken(
                "network",
                "GatewayAddressUnknown",
                &format!("{LINK} --gateway"),
            ),
        ),
        (
            "a host name that nobody knows",
            unknown(|_| ()),
            broken("network", "GatewayAddressUnknown", LINK),
        ),
        (
            "a host name that nobody knows, and a load balancer with another",
            gateway(
                with_target(unknown(|link| {
                    link.spec.gateway_address = "old.test".into();
                })),
                |gateway| gateway.addresses = vec!["new.test".to_owned()],
            ),
            broken(
                "network",
                "GatewayAddressUnknown",
                &format!("{RELINK} --gateway-addresses new.test"),
            ),
        ),
        (
            "no identity either, beside a gateway that has one",
            with_target(unknown(without)),
            broken(
                "network",
                "GatewayIdentityWrong",
                &format!("{RELINK} --gateway"),
            ),
        ),
    ]);
}

/// A load balancer or a NAT may map the port.
#[test]
fn gateway_with_another_port_that_answers_is_right() {
    let mapped = gateway(with_target(gateway_mirror()), |gateway| {
        gateway.port = Some(4444);
        gateway.addresses = vec!["10.9.0.1".to_owned()];
    });
    let diagnosis = diagnosed(&mapped);
    assert_eq!(found(&mapped), None, "{diagnosis:#?}");
    let seen = format!("{diagnosis:?}");
    assert!(
        seen.contains("has 4444, and it answers the controller's probes"),
        "{seen}"
    );
    // The load balancer of the Service itself has no other ports.
    let own = gateway(with_target(gateway_mirror()), |gateway| {
        gateway.port = Some(4444);
    });
    let (layer, cause, is_broken, _) = found(&own).unwrap();
    assert_eq!(
        (layer, cause, is_broken),
        ("network", "GatewayPortWrong", true)
    );
}

/// The mirror of a host has the name of the host, and the target cluster only the Service.
#[test]
fn mirror_of_a_host_belongs_to_the_service_of_the_host() {
    let host = |hostname: &str| {
        let mut facts = gateway_mirror();
        facts.service.name = "db-0-east".to_owned();
        let labels = json!({ l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: "east" });
        let annotations = json!({
            l::MANAGED_BY: l::MANAGER, l::INSTALLATION: MC, l::REMOTE_FQ_NAME: "db-0.db.shop.svc.cluster.local",
        });
        facts.source.service = Ok(Some(service("db-0-east", &labels, &annotations, &[80])));
        facts.source.slices = Ok(vec![slice("db-0-east", &ours(), &[("192.0.2.1", true)])]);
        let mirrored = service_status("db", "True", "Mirrored");
        facts.source.links = Ok(vec![link(&[], &[mirrored], &[])]);
        let mut facts = with_target(facts);
        let target = facts.target.as_mut().unwrap();
        let labels = json!({ l::EXPORTED: "true" });
        target.service = Ok(Some(service("db", &labels, &json!({}), &[80])));
        target.remote.name = "db".to_owned();
        let mut slices = slice("db", &json!({}), &[("10.2.0.7", true)]);
        slices.endpoints[0].hostname = Some(hostname.into());
        target.slices = Ok(vec![slices]);
        facts
    };
    let well = host("db-0");
    assert_eq!(found(&well), None, "{:#?}", diagnosed(&well));
    let subject = diagnosed(&well).what;
    assert!(subject.contains("host db-0 of db in east"), "{subject}");
    assert_eq!(found(&host("db-1")).unwrap().1, "NoReadyPods");
}

/// The firewall is blamed only if nothing else explains that a gateway with ready Pods does not answer.
#[test]
fn rivals_of_a_closed_port_are_looked_at_first() {
    let dead = |name: &str| {
        let condition = condition("GatewayAlive", "False", "ProbeFailed", "timed out");
        let mirrored = service_status("web", "True", "Mirrored");
        let mut link = link(&[condition], &[mirrored], &[]);
        name.clone_into(&mut link.link.spec.target_cluster_name);
        link
    };
    let with = |links: Vec<LinkSnapshot>| {
        with_target(changed(gateway_mirror(), |facts| {
            facts.source.links = Ok(links);
        }))
    };
    let cause = |facts: &RequestPath| found(facts).unwrap().1;
    assert_eq!(cause(&with(vec![dead("east")])), "ProbePortClosed");
    let anchors = changed(with(vec![dead("east")]), |facts| {
        facts.target.as_mut().unwrap().config = Ok(config(B));
    });
    assert_eq!(cause(&anchors), "TrustRootsDiffer");
    let all = with(vec![dead("east"), dead("north")]);
    assert_eq!(cause(&all), "ProbesFail");
    let mut alive = link(&[], &[], &[]);
    "north".clone_into(&mut alive.link.spec.target_cluster_name);
    assert_eq!(cause(&with(vec![dead("east"), alive])), "ProbePortClosed");
}
