//! The commands that are printed: they run as they are, and change no more than the fault needs.

use mirror_core::api::{labels as l, route::Route};
use serde_json::{Value, json};

use super::{
    cases::{broken, changed, degraded, hold, route},
    linkerd::{CART, inbound},
    scene::{
        diagnosed, federated, flat_mirror, found, gateway_mirror, link, ready_pod, service,
        service_status, slice, with_client, with_target,
    },
};
use crate::clusters::{
    fixtures::B,
    request_path::{ClientPod, PodState, RequestPath, facts::ClientProxy},
    skipped_ports::SkippedPorts,
};

fn client(change: impl FnOnce(&mut ClientPod)) -> RequestPath {
    changed(with_client(gateway_mirror()), |facts| {
        facts.proxy = Some(Err("forbidden".into()));
        change(facts.client.as_mut().unwrap().as_mut().unwrap());
    })
}

fn patch(annotation: &str, value: &str) -> String {
    let template = json!({ "metadata": { "annotations": { annotation: value } } });
    let patch = json!({ "spec": { "template": template } });
    format!("kubectl --context west -n shop patch deployment/client --type=merge -p '{patch}'")
}

/// Wherever the Pod has its ports from: the annotation of the workload counts more than those of the namespace and of
/// Linkerd.
#[test]
fn port_is_taken_out_of_those_that_the_pod_skips_wherever_they_come_from() {
    let skip = |ports: &str| patch("config.linkerd.io/skip-outbound-ports", ports);
    let of_pod = |ports: &str, is_annotated: bool| {
        client(|pod| {
            pod.skipped = Some(SkippedPorts(ports.to_owned()));
            pod.annotated = pod.skipped.clone().filter(|_| is_annotated);
        })
    };
    let of_linkerd = changed(client(|_| ()), |facts| {
        let config = facts.source.config.as_mut().unwrap();
        let init = json!({ "ignoreOutboundPorts": "25,80" });
        config.rest.insert("proxyInit".to_owned(), init);
    });
    let cause = |ports: &str| broken("client", "OutboundPortSkipped", &skip(ports));
    hold(vec![
        ("annotated", of_pod("80", true), cause("")),
        ("a range", of_pod("79-81,443", true), cause("79,81,443")),
        (
            "a long range",
            of_pod("1-65535", true),
            cause("1-79,81-65535"),
        ),
        (
            "by its container",
            of_pod("25,80-90", false),
            cause("25,81-90"),
        ),
        ("by Linkerd", of_linkerd, cause("25")),
    ]);
}

#[test]
fn workload_is_injected_and_not_its_whole_namespace() {
    hold(vec![(
        "not injected",
        client(|pod| pod.proxy = None),
        broken(
            "client",
            "NotInjected",
            &patch("linkerd.io/inject", "enabled"),
        ),
    )]);
}

/// kubectl restarts Deployments, `StatefulSets` and `DaemonSets`, and changes the templates only of these.
#[test]
fn owners_that_cannot_be_restarted_are_named_and_not_restarted() {
    let faults: [fn(&mut ClientPod); 3] = [
        |pod| pod.proxy = None,
        |pod| pod.proxy.as_mut().unwrap().trust_anchors = Some(B.to_owned()),
        |pod| pod.skipped = Some(SkippedPorts("80".to_owned())),
    ];
    for fault in faults {
        for (owner, is_restarted) in [
            (Some("deployment/client"), true),
            (Some("statefulset/client"), true),
            (Some("daemonset/client"), true),
            (Some("job/client"), false),
            (Some("replicaset/client"), false),
            (Some("rollout/client"), false),
            (None, false),
        ] {
            let facts = client(|pod| {
                pod.state.workload = owner.map(str::to_owned);
                fault(pod);
            });
            let diagnosis = diagnosed(&facts);
            let (_, finding) = diagnosis.cause().unwrap();
            let changes = finding.actions.iter().any(|fix| {
                [" rollout ", " patch ", " edit "]
                    .iter()
                    .any(|verb| fix.command.line().contains(verb))
            });
            assert_eq!(changes, is_restarted, "{owner:?}: {finding:?}");
            assert!(!finding.actions.is_empty(), "{owner:?}: {finding:?}");
            let says = finding.evidence.contains("kubectl cannot restart");
            assert_eq!(says, !is_restarted, "{owner:?}: {}", finding.evidence);
        }
    }
    // What the proxy counts leads to the same.
    let refused = changed(
        client(|pod| pod.state.workload = Some("job/client".to_owned())),
        |facts| {
            let mut proxy = ClientProxy {
                ready: true,
                ..ClientProxy::default()
            };
            proxy.after.entry(80).or_default().undefined = 2.0;
            facts.proxy = Some(Ok(proxy));
        },
    );
    let (_, cause, _, fix) = found(&refused).unwrap();
    assert_eq!(cause, "PortRefusalKept");
    assert!(!fix.contains("rollout"), "{fix}");
}

#[test]
fn what_belongs_to_others_is_shown_and_not_deleted() {
    let taken = changed(gateway_mirror(), |facts| {
        let said = service_status("web", "False", "NameConflict");
        facts.source.links = Ok(vec![link(&[], &[said], &[])]);
        facts.source.service = Ok(Some(service("web-east", &json!({}), &json!({}), &[80])));
    });
    hold(vec![(
        "the name is taken",
        taken,
        broken(
            "objects",
            "NameConflict",
            "kubectl --context west -n shop get service web-east -o yaml",
        ),
    )]);
}

fn with_rules(rules: &Value) -> RequestPath {
    changed(gateway_mirror(), |facts| {
        let version = "gateway.networking.k8s.io/v1";
        let mut of: Route = route(version, "HTTPRoute", "theirs", "web-east", "gone");
        of.spec.rules = serde_json::from_value(rules.clone()).unwrap();
        facts.source.routes = Ok(vec![of]);
    })
}

#[test]
fn route_breaks_requests_only_if_all_of_its_rules_do() {
    let to = |name: &str| json!({ "group": "", "kind": "Service", "name": name, "port": 80 });
    let edit = "kubectl --context west -n shop edit httproutes.gateway.networking.k8s.io theirs";
    let (all, some) = (
        broken("objects", "RouteBackendMissing", edit),
        degraded("objects", "RouteBackendMissing", edit),
    );
    let rule = |backends: Value| json!({ "backendRefs": backends });
    let weighted = |name: &str, weight: u32| {
        let mut to = to(name);
        to["weight"] = json!(weight);
        to
    };
    let own = || rule(json!([to("web-east")]));
    let gone = || rule(json!([to("gone")]));
    hold(vec![
        ("the only rule", with_rules(&json!([gone()])), all.clone()),
        (
            "both rules",
            with_rules(&json!([gone(), gone()])),
            all.clone(),
        ),
        (
            "the only backend with a weight",
            with_rules(&json!([rule(json!([weighted("web-east", 0), to("gone")]))])),
            all,
        ),
        (
            "one of two rules",
            with_rules(&json!([gone(), own()])),
            some.clone(),
        ),
        (
            "one of two backends",
            with_rules(&json!([rule(json!([to("web-east"), to("gone")]))])),
            some,
        ),
    ]);
    let mut elsewhere = to("gone");
    elsewhere["kind"] = json!("InferencePool");
    elsewhere["group"] = json!("inference.networking.k8s.io");
    for other in [weighted("gone", 0), elsewhere] {
        let facts = with_rules(&json!([rule(json!([to("web-east"), other]))]));
        assert_eq!(found(&facts), None, "{:#?}", diagnosed(&facts));
    }
}

/// A Server for the port lets in whom the default lets in, and a policy for it the one who is meant.
#[test]
fn default_policy_is_opened_for_the_caller_alone() {
    let facts = changed(with_target(with_client(flat_mirror())), |facts| {
        let pod = PodState {
            workload: Some("deployment/web".to_owned()),
            ..ready_pod("shop", "web-0", "10.2.0.7")
        };
        let target = facts.target.as_mut().unwrap();
        target.serving = Some(Ok(inbound(
            pod,
            ("default", "cluster-authenticated"),
            vec![],
        )));
        let service = target.service.as_mut().unwrap().as_mut().unwrap();
        service.spec.selector = serde_json::from_value(json!({ "app": "web" })).unwrap();
    });
    let (_, cause, _, command) = found(&facts).unwrap();
    assert_eq!(cause, "ServerDenies");
    let (echo, apply) = command.split_once(" | ").unwrap();
    assert_eq!(apply, "kubectl --context east-admin apply -f -");
    let objects = echo
        .strip_prefix("echo '")
        .unwrap()
        .strip_suffix('\'')
        .unwrap();
    let objects: Value = serde_json::from_str(objects).unwrap();
    let object = |version: &str, kind: &str, spec: Value| {
        json!({
            "apiVersion": format!("policy.linkerd.io/{version}"), "kind": kind,
            "metadata": { "namespace": "shop", "name": "web-8080" }, "spec": spec,
        })
    };
    let reference =
        |kind: &str| json!({ "group": "policy.linkerd.io", "kind": kind, "name": "web-8080" });
    let expected = [
        object(
            "v1alpha1",
            "MeshTLSAuthentication",
            json!({ "identities": [CART] }),
        ),
        object(
            "v1alpha1",
            "AuthorizationPolicy",
            json!({
                "targetRef": reference("Server"),
                "requiredAuthenticationRefs": [reference("MeshTLSAuthentication")],
            }),
        ),
        object(
            "v1beta3",
            "Server",
            json!({
                "podSelector": { "matchLabels": { "app": "web" } },
                "port": 8080, "accessPolicy": "cluster-authenticated",
            }),
        ),
    ];
    assert_eq!(
        objects,
        json!({ "apiVersion": "v1", "kind": "List", "items": expected })
    );
    let unselected = changed(facts, |facts| {
        let service = facts.target.as_mut().unwrap().service.as_mut().unwrap();
        service.as_mut().unwrap().spec.selector = serde_json::from_value(json!({})).unwrap();
    });
    let (_, _, _, command) = found(&unselected).unwrap();
    assert_eq!(
        command,
        "kubectl --context east-admin -n shop get servers.policy.linkerd.io"
    );
}

#[test]
fn overlapping_networks_of_a_federated_service_are_not_mended_by_a_mirror() {
    let overlaps = |facts: RequestPath| {
        changed(with_target(facts), |facts| {
            let slices = vec![slice("web", &json!({}), &[("10.1.0.77", true)])];
            facts.target.as_mut().unwrap().slices = Ok(slices);
        })
    };
    let member = service_status("web", "True", "Mirrored");
    let relink = "linkerd-mc link --target east-admin --source west --cluster-name east --federated-through gateway";
    let label = "kubectl --context east-admin -n shop label service web";
    let own_label = changed(flat_mirror(), |facts| {
        let link = &mut facts.source.links.as_mut().unwrap()[0].link;
        let selector = json!({ "matchLabels": { "export": "gateway" } });
        link.spec.selector = serde_json::from_value(selector).unwrap();
    });
    hold(vec![
        (
            "a federated Service",
            overlaps(federated("", &member)),
            degraded("network", "NetworksOverlap", relink),
        ),
        (
            "a mirror",
            overlaps(flat_mirror()),
            broken(
                "network",
                "NetworksOverlap",
                &format!("{label} {}=true --overwrite", l::EXPORTED),
            ),
        ),
        (
            "a mirror, with a selector of its own",
            overlaps(own_label),
            broken(
                "network",
                "NetworksOverlap",
                &format!("{label} export=gateway --overwrite"),
            ),
        ),
    ]);
}
