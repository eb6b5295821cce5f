//! Routes of federated Services.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    api::k8s::EndpointSlice,
    mirror::{
        Key, Store, Target,
        fixtures::{Svc, backing, link, plan, port, state, svc},
    },
};

/// A state in which routes are enabled, but none exist yet.
fn routed() -> State {
    let mut state = state();
    state.config.routes = Some(Duration::from_secs(30));
    state.here().routes = RouteKind::ALL
        .map(|kind| (kind, Some(Store::default())))
        .into();
    state
}

/// The routes for a local member with this preference and these ports, while the cluster `east` has a member and a
/// mirror.
fn asked_for(preference: &str, ports: Vec<ServicePort>, opaque: Option<&str>) -> Vec<Route> {
    let mut member = svc("web")
        .member()
        .ports(ports.clone())
        .annotation(l::PREFER, preference);
    if let Some(opaque) = opaque {
        member = member.annotation(l::OPAQUE_PORTS, opaque);
    }
    let target = Target::parse(&link("east"), false).unwrap();
    let mirror = svc("web-east")
        .label(l::MIRRORED_SERVICE, "true")
        .label(l::CLUSTER_NAME, "east")
        .ports(ports);
    let mut state = routed()
        .linked(target, &[svc("web").member()], &[backing("web")])
        .local(&[mirror])
        .local_member(member);
    let pods: EndpointSlice = backing("web");
    state
        .here()
        .member_slices
        .get_or_insert_default()
        .put(Arc::new(pods));
    let writes = plan(&state, &Key::federated("ns", "web")).writes;
    let created = writes.into_iter().filter_map(|write| match write {
        Write::Create(Object::Route(route)) => Some(*route),
        _ => None,
    });
    created.collect()
}

#[test]
fn keys_that_people_add_to_a_route_survive_our_writes() {
    let ports = || vec![port("http", 80)];
    let mut actual = asked_for("east", ports(), None).remove(0);
    actual.metadata.labels.insert("theirs", "x");
    actual.metadata.annotations.insert("theirs", "x");
    let wanted = asked_for("local", ports(), None).remove(0);
    let wanted = DesiredRoute {
        kind: wanted.kind,
        namespace: "ns",
        name: wanted.metadata.name().to_owned(),
        port: 80,
        owner: ("web-federated", ""),
        metadata: DesiredMetadata::of(&wanted.metadata),
        spec: wanted.spec.clone(),
    };
    let Some(Write::Patch(patch)) = wanted.patch(&actual) else {
        panic!("no patch");
    };
    for keys in ["labels", "annotations"] {
        let keys = patch.body["metadata"][keys].as_object().unwrap();
        assert!(!keys.contains_key("theirs"), "{keys:?}");
    }
}

fn named(name: &str, number: i32, protocol: Option<&str>) -> ServicePort {
    ServicePort {
        app_protocol: protocol.map(Into::into),
        ..port(name, number)
    }
}

#[test]
fn kind_follows_from_the_protocol_of_the_port() {
    let kind_of = |number, protocol, opaque| {
        let routes = asked_for("local", vec![named("p", number, protocol)], opaque);
        let kinds: Vec<_> = routes.iter().map(|route| route.kind).collect();
        assert_eq!(kinds.len(), 1, "{routes:?}");
        kinds[0]
    };
    for (number, protocol, opaque, expected) in [
        (80, None, None, RouteKind::Http),
        (80, Some("http"), None, RouteKind::Http),
        (80, Some("HTTP"), None, RouteKind::Http),
        (80, Some("kubernetes.io/h2c"), None, RouteKind::Http),
        (80, Some("grpc"), None, RouteKind::Tcp),
        (80, Some("linkerd.io/opaque"), None, RouteKind::Tcp),
        // Linkerd's default, unless the Service says otherwise; `appProtocol` comes first.
        (5432, None, None, RouteKind::Tcp),
        (5432, None, Some("80"), RouteKind::Http),
        (5432, Some("http"), Some("5432"), RouteKind::Http),
        (80, None, Some("25,70-90"), RouteKind::Tcp),
        (91, None, Some("25,70-90"), RouteKind::Http),
        (80, None, Some("what,80-"), RouteKind::Http),
    ] {
        assert_eq!(
            kind_of(number, protocol, opaque),
            expected,
            "{number} {protocol:?} {opaque:?}"
        );
    }
}

#[test]
fn each_tcp_port_has_a_route_to_the_same_port_of_the_backend() {
    let udp = ServicePort {
        protocol: Some("UDP".into()),
        ..port("dns", 53)
    };
    let routes = asked_for("local", vec![port("http", 80), udp, port("more", 81)], None);
    let names: Vec<_> = routes.iter().map(|route| route.metadata.name()).collect();
    assert_eq!(names, ["web-federated-80", "web-federated-81"]);
    for route in &routes {
        assert_eq!(route.services().count(), 1);
        assert!(route.backends().eq(["web", "web-federated"]), "{route:?}");
    }
}

#[test]
fn weights_keep_their_proportion_and_all_members_stay_as_fallback() {
    let weights = |preference| -> Vec<(String, u32)> {
        let routes = asked_for(preference, vec![port("http", 80)], None);
        let backends = routes[0].spec.rules[0].backend_refs.iter();
        backends
            .map(|backend| (backend.name.to_string(), backend.weight.unwrap()))
            .collect()
    };
    let own = |name: &str, weight| (name.to_owned(), weight);
    let all = own("web-federated", 1);
    for (preference, expected) in [
        ("local", vec![own("web", HEAVY), all.clone()]),
        ("east,local", vec![own("web-east", HEAVY), all.clone()]),
        // An unknown cluster: the next one is used.
        ("north,local", vec![own("web", HEAVY), all.clone()]),
        ("north", vec![all.clone()]),
        (
            "east=80,local=20",
            vec![
                own("web-east", HEAVY / 80 * 80),
                own("web", HEAVY / 80 * 20),
                all,
            ],
        ),
    ] {
        assert_eq!(weights(preference), expected, "{preference}");
    }
}

#[test]
fn nothing_is_written_until_routes_are_listed() {
    let member: Svc = svc("web").member().annotation(l::PREFER, "local");
    let mut state = routed().local_member(member);
    state.here().routes.remove(&RouteKind::Policy);
    let writes = plan(&state, &Key::federated("ns", "web")).writes;
    let kinds: Vec<_> = writes.iter().map(|write| write.describe().1).collect();
    assert_eq!(kinds, ["Service"]);
}
