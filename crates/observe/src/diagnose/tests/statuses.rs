//! What a Link's status says counts only while a controller writes it.

use serde_json::Value;

use super::{
    cases::{broken, changed, degraded, hold},
    scene::{
        MC, condition, diagnosed, federated, flat_mirror, found, gateway_mirror, link, ours,
        ready_pod, service_status, slice, with_target,
    },
};
use crate::clusters::request_path::RequestPath;

const RESTART: &str = "kubectl --context west -n linkerd-multicluster rollout restart deployment/linkerd-multicluster-controller";

/// The same facts, and nobody renews the Lease.
fn abandoned(facts: RequestPath) -> RequestPath {
    changed(facts, |facts| {
        let leader = facts.source.leaders.get_mut(MC).unwrap();
        leader.as_mut().unwrap().as_mut().unwrap().active = false;
    })
}

/// The same facts, and these conditions of the Link.
fn said(facts: RequestPath, conditions: &[Value]) -> RequestPath {
    changed(facts, |facts| {
        let mirrored = service_status("web", "True", "Mirrored");
        facts.source.links = Ok(vec![link(conditions, &[mirrored], &[])]);
    })
}

fn unready(facts: RequestPath) -> RequestPath {
    changed(facts, |facts| {
        facts.source.slices = Ok(vec![slice("web-east", &ours(), &[("192.0.2.1", false)])]);
    })
}

#[test]
fn status_that_nobody_writes_is_no_fact() {
    let dead = condition("GatewayAlive", "False", "ProbeFailed", "timed out");
    let pods = "kubectl --context east-admin -n linkerd-multicluster get pods,services";
    let no_pods = |facts: RequestPath| {
        changed(with_target(facts), |facts| {
            let gateways = facts.target.as_mut().unwrap().gateways.as_mut().unwrap();
            gateways[0].pods = Ok(vec![]);
        })
    };
    let mut cases = vec![
        (
            "the gateway has died since the controller stopped",
            no_pods(abandoned(gateway_mirror())),
            broken("network", "GatewayDown", pods),
        ),
        (
            "the gateway is back, and nobody sets the endpoints ready",
            with_target(abandoned(unready(said(
                gateway_mirror(),
                std::slice::from_ref(&dead),
            )))),
            broken("objects", "ControllerDown", RESTART),
        ),
        (
            "the same without a look into the target",
            abandoned(unready(said(gateway_mirror(), std::slice::from_ref(&dead)))),
            broken("objects", "ControllerDown", RESTART),
        ),
        (
            "nobody wrote the endpoints",
            changed(abandoned(gateway_mirror()), |facts| {
                facts.source.slices = Ok(vec![]);
            }),
            broken("objects", "ControllerDown", RESTART),
        ),
        (
            "the probes failed when the controller stopped, and the endpoints are ready",
            with_target(abandoned(said(gateway_mirror(), &[dead]))),
            degraded("objects", "ControllerDown", RESTART),
        ),
    ];
    for told in [
        condition("Connected", "False", "Unauthorized", "401"),
        condition("CredentialsValid", "False", "SecretMissing", "gone"),
        condition("Stalled", "True", "InvalidLink", "no"),
        condition("GatewayAddressRefused", "True", "AllRefused", "loopback"),
        condition("CredentialsExpiring", "True", "Expired", "gone"),
        condition("Drained", "True", "Drained", "until noon"),
    ] {
        for facts in [gateway_mirror(), flat_mirror()] {
            cases.push((
                "an old condition",
                with_target(abandoned(said(facts, std::slice::from_ref(&told)))),
                degraded("objects", "ControllerDown", RESTART),
            ));
        }
        let member = service_status("web", "False", "PortConflict");
        let facts = changed(abandoned(federated("", &member)), |facts| {
            facts.source.links = Ok(vec![link(
                std::slice::from_ref(&told),
                &[],
                std::slice::from_ref(&member),
            )]);
        });
        let expected = degraded("objects", "ControllerDown", RESTART);
        cases.push(("an old condition, of a member", facts, expected));
    }
    hold(cases);
}

/// What was not looked at is said, with the time since when.
#[test]
fn old_status_is_said_to_be_old() {
    let facts = with_target(abandoned(gateway_mirror()));
    let diagnosis = diagnosed(&facts);
    let unseen: Vec<&String> = diagnosis
        .layers
        .iter()
        .flat_map(|report| &report.unseen)
        .collect();
    let expected =
        "the gateway at 192.0.2.1: no controller has reported since 2026-11-26 03:00:00 UTC";
    assert!(unseen.iter().any(|line| *line == expected), "{unseen:#?}");
    let seen = format!("{:?}", diagnosis.layers);
    assert!(!seen.contains("answers the controller's probes"), "{seen}");
}

/// A controller that reports, and Pods of the gateway that it has not missed yet.
#[test]
fn gateway_without_pods_is_not_well_because_it_answered_a_moment_ago() {
    let facts = changed(with_target(gateway_mirror()), |facts| {
        let gateways = facts.target.as_mut().unwrap().gateways.as_mut().unwrap();
        let mut pod = ready_pod(MC, "linkerd-gateway-0", "10.2.0.2");
        pod.ready = false;
        gateways[0].pods = Ok(vec![pod]);
    });
    let (layer, cause, is_broken, _) = found(&facts).unwrap();
    assert_eq!((layer, cause, is_broken), ("network", "GatewayDown", false));
    // Something else may answer for a Service that selects no Pod.
    let none = changed(facts, |facts| {
        let gateways = facts.target.as_mut().unwrap().gateways.as_mut().unwrap();
        gateways[0].pods = Ok(vec![]);
    });
    assert_eq!(found(&none), None);
}

/// The Lease of nobody is as good as none.
#[test]
fn status_under_a_lease_of_a_stranger_is_no_fact() {
    let facts = changed(gateway_mirror(), |facts| {
        let leader = facts.source.leaders.get_mut(MC).unwrap();
        let leader = leader.as_mut().unwrap().as_mut().unwrap();
        leader.holder = Some("stranger".to_owned());
        leader.renewed = Some("2026-11-26T02:59:00Z".parse().unwrap());
    });
    let dead = condition("GatewayAlive", "False", "ProbeFailed", "timed out");
    let facts = said(facts, &[dead]);
    let (_, cause, is_broken, _) = found(&with_target(facts)).unwrap();
    assert_eq!((cause, is_broken), ("LeaseHeldByNobody", false));
}
