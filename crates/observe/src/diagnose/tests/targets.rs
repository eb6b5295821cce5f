//! The Service in the target cluster: its ports, whether it is exported, and which cluster a context is for.

use mirror_core::api::{k8s::EndpointSlice, labels as l};
use serde_json::{Value, json};

use super::{
    cases::{broken, changed, degraded, hold},
    linkerd::with_view,
    scene::{
        MC, condition, config, diagnosed, federated, flat_mirror, found, gateway_mirror, link,
        names, service, service_status, slice, with_target,
    },
};
use crate::clusters::{
    fixtures::B,
    request_path::{RequestPath, TargetFacts},
};

fn target(facts: &mut RequestPath) -> &mut TargetFacts {
    facts.target.as_mut().unwrap()
}

/// A slice of ready Pods whose containers declare these ports of the Service.
fn declaring(ports: &[&str]) -> EndpointSlice {
    let mut slice = slice("web", &json!({}), &[("10.2.0.7", true)]);
    let ports = ports
        .iter()
        .map(|name| json!({ "name": name, "port": 8080 }));
    let ports = Value::Array(ports.collect());
    slice.ports = serde_json::from_value(ports).unwrap();
    slice
}

#[test]
fn port_that_no_container_declares_is_found_however_pods_are_reached() {
    let pods = "kubectl --context east-admin -n shop get service web -o yaml";
    let without = |facts: RequestPath, slices: Vec<EndpointSlice>| {
        changed(with_target(facts), |facts| {
            target(facts).slices = Ok(slices);
        })
    };
    let of_no_port = |facts: RequestPath| changed(facts, |facts| facts.port = None);
    let member = service_status("web", "True", "Mirrored");
    let cause = "PortHasNoContainer";
    hold(vec![
        (
            "through the gateway",
            without(gateway_mirror(), vec![declaring(&[])]),
            broken("target", cause, pods),
        ),
        (
            "from Pod to Pod",
            without(flat_mirror(), vec![declaring(&["p81"])]),
            broken("target", cause, pods),
        ),
        (
            "from Pod to Pod, and Linkerd tells of none, as it should",
            without(with_view(flat_mirror(), &[]), vec![declaring(&[])]),
            broken("target", cause, pods),
        ),
        (
            "no port was named, and it is the only one",
            of_no_port(without(gateway_mirror(), vec![declaring(&[])])),
            broken("target", cause, pods),
        ),
        (
            "of one member",
            without(federated("", &member), vec![declaring(&[])]),
            degraded("target", cause, pods),
        ),
    ]);
    // Nothing says which port is called.
    let one_of_two = of_no_port(changed(
        without(gateway_mirror(), vec![declaring(&["p80"])]),
        |facts| {
            let labels = json!({ l::EXPORTED: "true" });
            let both = service("web", &labels, &json!({}), &[80, 81]);
            target(facts).service = Ok(Some(both));
        },
    ));
    assert_eq!(found(&one_of_two), None);
    let seen = format!("{:?}", diagnosed(&one_of_two));
    assert!(
        seen.contains("declares the port behind port 81, so requests to it fail"),
        "{seen}"
    );
    // A part of the Pods declares it, as during a rollout.
    let some = vec![declaring(&[]), declaring(&["p80"])];
    let some = without(with_view(flat_mirror(), &["10.2.0.7"]), some);
    assert_eq!(found(&some), None, "{:#?}", diagnosed(&some));
}

#[test]
fn service_that_is_mirrored_for_a_preference_needs_no_label_of_its_own() {
    let with = |annotations: Value| {
        changed(with_target(flat_mirror()), |facts| {
            let labels = json!({ l::FEDERATED: "member" });
            target(facts).service = Ok(Some(service("web", &labels, &annotations, &[80])));
        })
    };
    let alone = with(json!({}));
    assert_eq!(found(&alone).unwrap().1, "NotExported");
    let preferred = |preference: &str| {
        changed(alone.clone(), |facts| {
            let mut others = names(&[("web", false), ("web-federated", true)]);
            preference.clone_into(&mut others.get_mut("web-federated").unwrap().prefers);
            facts.source.neighbours = Ok(others);
        })
    };
    for preference in ["east", "local,east", "local=1,east=99"] {
        let well = preferred(preference);
        assert_eq!(found(&well), None, "{:#?}", diagnosed(&well));
    }
    for other in ["", "north", "local"] {
        assert_eq!(
            found(&preferred(other)).unwrap().1,
            "NotExported",
            "{other}"
        );
    }
}

/// An address that the gateway's Service does not know is right if a NAT, an endpoint of a cloud or an alias leads there.
#[test]
fn address_that_may_be_mapped_is_not_replaced() {
    let dead = |change: fn(&mut RequestPath)| {
        changed(with_target(gateway_mirror()), |facts| {
            let failed = condition("GatewayAlive", "False", "ProbeFailed", "timed out");
            let mirrored = service_status("web", "True", "Mirrored");
            facts.source.links = Ok(vec![link(&[failed], &[mirrored], &[])]);
            target(facts).gateways.as_mut().unwrap()[0].addresses = vec!["10.3.0.7".to_owned()];
            change(facts);
        })
    };
    let facts = dead(|_| ());
    let diagnosis = diagnosed(&facts);
    let (_, finding) = diagnosis.cause().unwrap();
    assert_eq!(finding.name(), "ProbesFail", "{diagnosis:#?}");
    for part in ["192.0.2.1", "10.3.0.7"] {
        assert!(finding.evidence.contains(part), "{}", finding.evidence);
    }
    for fix in &finding.actions {
        assert!(fix.command.line().contains(" get "), "{}", fix.command);
    }
    // Nobody means an address if the Link names none.
    let none = dead(|facts| {
        let link = &mut facts.source.links.as_mut().unwrap()[0].link;
        link.spec.gateway_address.clear();
    });
    assert_eq!(found(&none).unwrap().1, "GatewayAddressUnknown");
}

/// The context that a person names is that of one cluster.
#[test]
fn command_for_a_cluster_never_has_the_context_of_another() {
    let member = service_status("web", "True", "Mirrored");
    let refused = condition("CredentialsValid", "False", "Refused", "401");
    let gone = condition("Connected", "False", "Unauthorized", "401");
    let dead = condition("GatewayAlive", "False", "ProbeFailed", "timed out");
    let drained = condition("Drained", "True", "Drained", "until noon");
    let by_gateway = |facts: &mut RequestPath| {
        let service = facts.source.service.as_mut().unwrap().as_mut().unwrap();
        let annotations =
            json!({ l::MANAGED_BY: l::MANAGER, l::INSTALLATION: MC, l::MEMBERS: "web@east" });
        service.metadata.annotations = serde_json::from_value(annotations).unwrap();
    };
    let changes: [&dyn Fn(&mut RequestPath); 7] = [
        &|_| (),
        &|facts| {
            let known = facts.source.destination.as_mut().unwrap();
            known.credentials.clear();
        },
        &|facts| facts.port = Some(81),
        &|facts| facts.source.slices = Ok(vec![]),
        &|facts| facts.source.service = Ok(None),
        &|facts| *facts = with_view(facts.clone(), &[]),
        &by_gateway,
    ];
    for conditions in [vec![], vec![refused], vec![gone], vec![dead], vec![drained]] {
        for said in [
            member.clone(),
            service_status("web", "False", "PortConflict"),
            service_status("web", "False", "NoGateway"),
        ] {
            for change in changes {
                let mut facts = with_target(federated("", &said));
                facts.source.links = Ok(vec![link(&conditions, &[], std::slice::from_ref(&said))]);
                let target = facts.target.as_mut().unwrap();
                "north".clone_into(&mut target.cluster);
                "north-admin".clone_into(&mut target.context);
                change(&mut facts);
                for report in &diagnosed(&facts).layers {
                    let fixes = report.findings.iter().flat_map(|found| &found.actions);
                    for fix in fixes {
                        assert!(!fix.command.line().contains("north-admin"), "{fix:?}");
                    }
                }
            }
        }
    }
}

/// Linkerd may be in another namespace, in each cluster in one of its own.
#[test]
fn namespaces_of_linkerd_are_those_of_the_clusters_whatever_may_be_read() {
    let facts = changed(
        with_view(with_target(gateway_mirror()), &["192.0.2.1"]),
        |facts| {
            facts.source.linkerd_namespace = "mesh".to_owned();
            facts.source.destination = Err("forbidden".into());
            facts.source.destination_pods.as_mut().unwrap()[0].ready = false;
            target(facts).linkerd_namespace = "l5d".to_owned();
        },
    );
    let restart = "kubectl --context west -n mesh rollout restart deployment/linkerd-destination";
    assert_eq!(found(&facts).unwrap().3, restart);
    let anchors = changed(facts, |facts| {
        facts.source.destination_pods.as_mut().unwrap()[0].ready = true;
        target(facts).config = Ok(config(B));
    });
    let diagnosis = diagnosed(&anchors);
    let (_, finding) = diagnosis.cause().unwrap();
    let commands: Vec<&str> = finding
        .actions
        .iter()
        .map(|fix| fix.command.line())
        .collect();
    let read = |context: &str, namespace: &str| {
        format!(
            "kubectl --context {context} -n {namespace} get configmap linkerd-identity-trust-roots -o yaml"
        )
    };
    assert_eq!(commands, [read("west", "mesh"), read("east-admin", "l5d")]);
}

/// A context that a person has mistaken is no witness of the cluster of the Link.
#[test]
fn nothing_is_concluded_from_the_context_of_another_cluster() {
    let mistaken = |recorded: &str| {
        changed(with_target(gateway_mirror()), |facts| {
            let link = &mut facts.source.links.as_mut().unwrap()[0].link;
            let annotations = link.metadata.annotations.get_or_insert_default();
            annotations.insert(l::CLUSTER_UID.to_owned(), recorded.to_owned());
            let target = target(facts);
            target.uid = Some("uid-north".to_owned());
            target.service = Ok(None);
            target.slices = Ok(vec![]);
            target.gateways.as_mut().unwrap()[0].identity = "gateway.north".to_owned();
            target.config = Ok(config(B));
        })
    };
    let facts = mistaken("uid-east");
    let diagnosis = diagnosed(&facts);
    assert_eq!(found(&facts), None, "{diagnosis:#?}");
    let unseen = format!("{diagnosis:?}");
    assert!(
        unseen.contains(
            "context east-admin is another cluster than that of Link linkerd-multicluster/east"
        ),
        "{unseen}"
    );
    let dead = changed(facts, |facts| {
        facts.source.destination_pods.as_mut().unwrap()[0].ready = true;
        facts.port = Some(81);
    });
    let (_, _, _, fix) = found(&dead).unwrap();
    assert_eq!(fix, "in east: kubectl -n shop edit service web");
    assert_eq!(
        found(&mistaken("uid-north")).unwrap().1,
        "GatewayIdentityWrong"
    );
}

/// The port for probes answers TLS, and requests with status 404, so everything else looks well.
#[test]
fn port_for_probes_is_none_for_requests() {
    let facts = changed(gateway_mirror(), |facts| {
        let link = &mut facts.source.links.as_mut().unwrap()[0].link;
        "4191".clone_into(&mut link.spec.gateway_port);
    });
    let relink = "linkerd-mc link --target east --source west --cluster-name east --gateway-port 0";
    hold(vec![(
        "without a look into the target",
        facts,
        broken("network", "GatewayPortWrong", relink),
    )]);
}

/// Without a report and a context, nothing says which cluster should have the member.
#[test]
fn missing_member_is_not_looked_for_in_an_arbitrary_cluster() {
    let missing = |conditions: &[Value]| {
        changed(
            federated("", &service_status("web", "True", "Mirrored")),
            |facts| {
                facts.source.service = Ok(None);
                let mut north = link(conditions, &[], &[]);
                "north".clone_into(&mut north.link.spec.target_cluster_name);
                facts.source.links = Ok(vec![link(&[], &[], &[]), north]);
            },
        )
    };
    let list = "linkerd-mc --context west status --services --namespace shop";
    let away = condition("Connected", "False", "Unreachable", "no");
    hold(vec![
        (
            "nowhere",
            missing(&[]),
            broken("objects", "NotExported", list),
        ),
        (
            "perhaps in the one that is away",
            missing(&[away]),
            broken(
                "objects",
                "TargetApiUnreachable",
                "linkerd-mc --context west status --cluster-name north",
            ),
        ),
    ]);
}

/// What the controller would have written, had it heard of it.
#[test]
fn cluster_that_is_away_is_the_cause_where_it_has_endpoints_and_the_mirror_has_none() {
    let status = "linkerd-mc --context west status --cluster-name east";
    let away = |target: bool| {
        let facts = changed(gateway_mirror(), |facts| {
            let away = condition("Connected", "False", "Unreachable", "no");
            facts.source.links = Ok(vec![link(&[away], &[], &[])]);
            facts.source.slices = Ok(vec![]);
        });
        if target { with_target(facts) } else { facts }
    };
    let (layer, cause, is_broken, commands) = found(&away(true)).unwrap();
    assert_eq!(
        (layer, cause, is_broken, commands.as_str()),
        ("objects", "TargetApiUnreachable", true, status)
    );
    // The Pods there may be what is missing.
    let (_, cause, is_broken, _) = found(&away(false)).unwrap();
    assert_eq!((cause, is_broken), ("NothingDiscovered", true));
}
