//! What is wrong with the Pod that calls, and with what Linkerd knows.

use serde_json::json;

use super::{
    cases::{LINK, RESTART, ROTATE, broken, changed, degraded, hold},
    scene::{
        federated, flat_mirror, found, gateway_mirror, now, ready_pod, service_status, slice,
        with_client, with_target,
    },
};
use crate::clusters::{
    fixtures::B,
    request_path::{
        ClientPod, EndpointCounts, ProxyAnswer, ProxyCounts, RequestPath,
        facts::{ClientProxy, Protocol},
    },
    skipped_ports::{SkippedPorts, SkippedSubnets},
    snapshot::Destination,
};

#[test]
fn what_is_wrong_with_the_client_is_found() {
    let client = |change: fn(&mut ClientPod)| {
        changed(with_client(gateway_mirror()), |facts| {
            facts.proxy = Some(Err("forbidden".into()));
            change(facts.client.as_mut().unwrap().as_mut().unwrap());
        })
    };
    let restart = "kubectl --context west -n shop rollout restart deployment/client";
    hold(vec![
        (
            "proxy is not ready",
            client(|pod| {
                pod.state.ready = false;
                pod.proxy.as_mut().unwrap().ready = false;
            }),
            broken(
                "client",
                "ProxyNotReady",
                "kubectl --context west -n shop logs client-0 -c linkerd-proxy --tail=20",
            ),
        ),
        (
            "old trust anchors",
            client(|pod| pod.proxy.as_mut().unwrap().trust_anchors = Some(B.to_owned())),
            broken("client", "ClientTrustRootsDiffer", restart),
        ),
        (
            "has ended",
            client(|pod| pod.state.phase = "Failed".to_owned()),
            broken(
                "client",
                "ClientNotRunning",
                "kubectl --context west -n shop get pods",
            ),
        ),
    ]);
    // As with Linkerd's CNI plugin: the Pod says nothing itself.
    let skipping = |facts: RequestPath| {
        changed(facts, |facts| {
            let config = facts.source.config.as_mut().unwrap();
            let init = json!({ "ignoreOutboundPorts": "25,80" });
            config.rest.insert("proxyInit".to_owned(), init);
        })
    };
    let own = skipping(client(|pod| {
        pod.skipped = Some(SkippedPorts(String::new()));
    }));
    assert_eq!(found(&own), None, "the Pod says otherwise");
    let other_port = client(|pod| {
        pod.skipped = Some(SkippedPorts("81-90".to_owned()));
        pod.annotated = pod.skipped.clone();
    });
    assert_eq!(found(&other_port), None);
}

#[test]
fn what_linkerd_lacks_is_found_where_it_discovers_pods() {
    let destination = |facts: RequestPath, change: fn(&mut Destination)| {
        changed(facts, |facts| {
            change(facts.source.destination.as_mut().unwrap());
        })
    };
    let member = service_status("web", "True", "Mirrored");
    let stale = |known: &mut Destination| {
        known.credentials.get_mut("east").unwrap().changed =
            Some("2026-11-26T04:00:00Z".parse().unwrap());
    };
    hold(vec![
        (
            "no Secret",
            destination(flat_mirror(), |known| known.credentials.clear()),
            broken("discovery", "LinkerdSecretMissing", LINK),
        ),
        (
            "no Secret, and another member",
            destination(federated("", &member), |known| known.credentials.clear()),
            degraded("discovery", "LinkerdSecretMissing", LINK),
        ),
        (
            "incomplete",
            destination(flat_mirror(), |known| {
                known.credentials.get_mut("east").unwrap().lacks =
                    vec!["the key kubeconfig".to_owned()];
            }),
            broken(
                "discovery",
                "LinkerdSecretIgnored",
                "kubectl --context west -n linkerd delete secret cluster-credentials-east",
            ),
        ),
        (
            "stale",
            destination(flat_mirror(), stale),
            degraded("discovery", "LinkerdSecretStale", RESTART),
        ),
        (
            "expired",
            destination(flat_mirror(), |known| {
                known.credentials.get_mut("east").unwrap().expiry = Some(now());
            }),
            broken("discovery", "LinkerdCredentialsExpired", ROTATE),
        ),
        (
            "other token",
            destination(flat_mirror(), |known| {
                known.credentials.get_mut("east").unwrap().token = Some("u".to_owned());
            }),
            degraded("discovery", "LinkerdCredentialsDiffer", ROTATE),
        ),
        (
            "networks overlap",
            changed(with_target(flat_mirror()), |facts| {
                facts.target.as_mut().unwrap().slices =
                    Ok(vec![slice("web", &json!({}), &[("10.1.0.77", true)])]);
            }),
            broken(
                "network",
                "NetworksOverlap",
                "kubectl --context east-admin -n shop label service web mirror.linkerd.io/exported=true --overwrite",
            ),
        ),
    ]);
    let gated = destination(gateway_mirror(), |known| known.credentials.clear());
    assert_eq!(found(&gated), None, "the gateway needs no credentials");
    let elsewhere = changed(with_target(flat_mirror()), |facts| {
        facts.target.as_mut().unwrap().slices =
            Ok(vec![slice("web", &json!({}), &[("10.1.0.77", true)])]);
        // Pods have addresses of other networks than those that the Nodes name.
        facts.source.destination_pods = Ok(vec![ready_pod(
            "linkerd",
            "linkerd-destination-0",
            "10.9.0.2",
        )]);
    });
    assert_eq!(found(&elsewhere), None);
}

#[test]
fn destination_controller_that_is_scaled_to_nothing_is_started() {
    let scaled = |replicas| {
        changed(gateway_mirror(), |facts| {
            facts.source.destination_replicas = Ok(replicas);
            facts.source.destination_pods = Ok(vec![]);
        })
    };
    let scale =
        "kubectl --context west -n linkerd scale deployment/linkerd-destination --replicas=1";
    hold(vec![(
        "scaled to nothing",
        scaled(Some(0)),
        broken("discovery", "DestinationDown", scale),
    )]);
    assert_eq!(found(&scaled(None)), None, "it is installed in another way");
}

#[test]
fn what_the_proxy_counts_is_judged_at_last() {
    let counting = |facts: RequestPath, before: ProxyCounts, after: ProxyCounts| {
        changed(with_client(facts), |facts| {
            facts.proxy = Some(Ok(ClientProxy {
                ready: true,
                before: [(80, before)].into(),
                after: [(80, after)].into(),
            }));
        })
    };
    let refused = |count: f64| ProxyCounts {
        undefined: count,
        ..ProxyCounts::default()
    };
    let endpoints = |ready: f64, pending: f64| ProxyCounts {
        requests: EndpointCounts { ready, pending },
        ..ProxyCounts::default()
    };
    let pending = || endpoints(0.0, 1.0);
    let connected = || endpoints(1.0, 1.0);
    hold(vec![
        (
            "the refusal of a port is kept",
            counting(gateway_mirror(), refused(2.0), refused(5.0)),
            broken(
                "answers",
                "PortRefusalKept",
                "kubectl --context west -n shop rollout restart deployment/client",
            ),
        ),
        (
            "the gateway's port is closed",
            counting(with_target(gateway_mirror()), pending(), pending()),
            broken(
                "answers",
                "GatewayPortClosed",
                "kubectl --context east-admin -n linkerd-multicluster get pods,services",
            ),
        ),
        (
            "no connection, without a look into the target",
            counting(gateway_mirror(), pending(), pending()),
            broken(
                "answers",
                "ConnectionFailed",
                "kubectl --context west -n shop logs client-0 -c linkerd-proxy --tail=20",
            ),
        ),
        (
            "no connection from Pod to Pod",
            counting(with_target(flat_mirror()), pending(), pending()),
            broken(
                "answers",
                "ConnectionFailed",
                "kubectl --context west -n shop logs client-0 -c linkerd-proxy --tail=20",
            ),
        ),
    ]);
    for (before, after) in [
        (refused(5.0), refused(5.0)),
        (pending(), connected()),
        // A connection is made anew.
        (connected(), pending()),
    ] {
        assert_eq!(found(&counting(gateway_mirror(), before, after)), None);
    }
    let terminating = changed(with_client(gateway_mirror()), |facts| {
        let pod = facts.client.as_mut().unwrap().as_mut().unwrap();
        pod.state.ready = false;
        pod.proxy.as_mut().unwrap().ready = false;
    });
    assert_eq!(found(&terminating), None, "its proxy says that it is ready");
    let unready = changed(with_client(gateway_mirror()), |facts| {
        facts.proxy = Some(Ok(ClientProxy::default()));
    });
    assert_eq!(found(&unready).unwrap().1, "ProxyNotReady");
}

/// Facts of a mirror of port 80 and 3306, and what its client counts for a port just now.
fn answering(port: u16, answers: &[(Protocol, &str, &str, f64)]) -> RequestPath {
    changed(with_client(gateway_mirror()), |facts| {
        let answers = answers.iter().map(|(protocol, status, error, count)| {
            let answer = ProxyAnswer {
                protocol: *protocol,
                status: (*status).to_owned(),
                error: (*error).to_owned(),
            };
            (answer, *count)
        });
        let counts = ProxyCounts {
            answers: answers.collect(),
            ..ProxyCounts::default()
        };
        facts.port = None;
        facts.proxy = Some(Ok(ClientProxy {
            ready: true,
            before: [(port, ProxyCounts::default())].into(),
            after: [(port, counts)].into(),
        }));
    })
}

/// "Nothing is wrong" needs a witness.
#[test]
fn requests_that_fail_are_a_finding_whatever_their_protocol() {
    use Protocol::{Grpc, Http, Tcp};
    let logs = "kubectl --context west -n shop logs client-0 -c linkerd-proxy --tail=20";
    let all = |what, answers: &[_]| {
        let found = broken("answers", "RequestsFail", logs);
        (what, answering(80, answers), found)
    };
    let some = |what, answers: &[_]| {
        let found = degraded("answers", "RequestsFail", logs);
        (what, answering(80, answers), found)
    };
    hold(vec![
        all("no endpoint", &[(Http, "504", "FAIL_FAST", 31.0)]),
        all(
            "errors of the server",
            &[(Http, "502", "", 3.0), (Http, "503", "", 1.0)],
        ),
        all("no answer", &[(Http, "", "REQUEST_TIMEOUT", 3.0)]),
        all("all are refused", &[(Http, "403", "", 3.0)]),
        all(
            "some are refused, the others fail",
            &[(Http, "403", "", 3.0), (Http, "500", "", 1.0)],
        ),
        all("gRPC", &[(Grpc, "UNAVAILABLE", "", 3.0)]),
        all("a database", &[(Tcp, "", "unexpected", 3.0)]),
        some(
            "one of two",
            &[(Http, "200", "", 1.0), (Http, "503", "", 1.0)],
        ),
        some(
            "a database, one of two",
            &[(Tcp, "", "", 1.0), (Tcp, "", "unexpected", 1.0)],
        ),
    ]);
    for well in [
        &[
            (Http, "200", "", 5.0),
            (Http, "404", "", 1.0),
            (Http, "403", "", 2.0),
        ][..],
        &[(Grpc, "OK", "", 5.0), (Grpc, "NOT_FOUND", "", 1.0)],
        &[(Tcp, "", "", 5.0)],
        &[],
    ] {
        assert_eq!(found(&answering(80, well)), None, "{well:?}");
    }
}

#[test]
fn refused_connections_to_a_port_that_is_not_declared_are_not_kept_refusals() {
    let refused = |port: u16| {
        changed(answering(port, &[]), |facts| {
            let proxy = facts.proxy.as_mut().unwrap().as_mut().unwrap();
            proxy.after.get_mut(&port).unwrap().undefined = 2.0;
        })
    };
    assert_eq!(found(&refused(81)).unwrap().1, "PortNotDeclared");
    assert_eq!(found(&refused(80)).unwrap().1, "PortRefusalKept");
}

/// The proxy counts endpoints that it takes out because they fail as not connected.
#[test]
fn firewall_is_not_blamed_where_something_else_may_explain_it() {
    let pending = |change: fn(&mut RequestPath)| {
        changed(with_client(with_target(gateway_mirror())), |facts| {
            let counts = ProxyCounts {
                requests: EndpointCounts {
                    ready: 0.0,
                    pending: 1.0,
                },
                ..ProxyCounts::default()
            };
            facts.proxy = Some(Ok(ClientProxy {
                ready: true,
                before: [(80, counts.clone())].into(),
                after: [(80, counts)].into(),
            }));
            change(facts);
        })
    };
    let cause = |facts: &RequestPath| found(facts).unwrap().1;
    assert_eq!(cause(&pending(|_| {})), "GatewayPortClosed");
    let accrual = pending(|facts| {
        let service = facts.source.service.as_mut().unwrap().as_mut().unwrap();
        let key = "balancer.linkerd.io/failure-accrual";
        service.metadata.annotations.insert(key, "consecutive");
    });
    assert_eq!(cause(&accrual), "ConnectionFailed");
    let unseen = pending(|facts| {
        facts.target.as_mut().unwrap().config = Err("forbidden".into());
    });
    assert_eq!(cause(&unseen), "ConnectionFailed");
}

/// Linkerd lets subnets bypass proxies as it does ports.
#[test]
fn cluster_ip_in_a_subnet_that_is_skipped_is_found() {
    let facts = |pod: Option<&str>, all: &str| {
        changed(with_client(gateway_mirror()), |facts| {
            let service = facts.source.service.as_mut().unwrap().as_mut().unwrap();
            service.spec.cluster_ip = Some("10.96.0.7".into());
            let client = facts.client.as_mut().unwrap().as_mut().unwrap();
            client.subnets = pod.map(|subnets| SkippedSubnets(subnets.to_owned()));
            let config = facts.source.config.as_mut().unwrap();
            let init = json!({ "skipSubnets": all });
            config.rest.insert("proxyInit".to_owned(), init);
        })
    };
    let patch = |left: &str| {
        let annotations = json!({ "config.linkerd.io/skip-subnets": left });
        let patch =
            json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
        format!("kubectl --context west -n shop patch deployment/client --type=merge -p '{patch}'")
    };
    hold(vec![
        (
            "of the Pod",
            facts(Some("10.0.0.0/8, 192.0.2.0/24"), ""),
            broken("client", "OutboundSubnetSkipped", &patch("192.0.2.0/24")),
        ),
        (
            "of Linkerd",
            facts(None, "10.96.0.0/12"),
            broken("client", "OutboundSubnetSkipped", &patch("")),
        ),
    ]);
    for well in [
        facts(Some(""), "10.96.0.0/12"),
        facts(Some("192.0.2.0/24,x"), ""),
        facts(None, ""),
    ] {
        assert_eq!(found(&well), None);
    }
}
