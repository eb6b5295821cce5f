//! Routes of federated Services.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    api::k8s::EndpointSlice,
    mirror::{
        Key, Store, Target,
        fixtures::{Svc, backing, described, link, plan, port, reported, state, svc},
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

fn key() -> Key {
    Key::federated("ns", "web")
}

fn mirror() -> Svc {
    svc("web-east")
        .label(l::MIRRORED_SERVICE, "true")
        .label(l::CLUSTER_NAME, "east")
}

/// A local member with this preference and these ports, while the cluster `east` has a member and a mirror.
fn asking(preference: &str, ports: Vec<ServicePort>, opaque: Option<&str>) -> State {
    let mut member = svc("web")
        .member()
        .ports(ports.clone())
        .annotation(l::PREFER, preference);
    if let Some(opaque) = opaque {
        member = member.annotation(l::OPAQUE_PORTS, opaque);
    }
    let target = Target::parse(&link("east"), false).unwrap();
    let remote = svc("web").member().ports(ports.clone());
    let mut state = routed()
        .linked(target, &[remote], &[backing("web")])
        .local(&[mirror().ports(ports)])
        .local_member(member);
    let pods: EndpointSlice = backing("web");
    state
        .here()
        .member_slices
        .get_or_insert_default()
        .put(Arc::new(pods));
    state
}

fn asked_for(preference: &str, ports: Vec<ServicePort>, opaque: Option<&str>) -> Vec<Route> {
    created(&asking(preference, ports, opaque))
}

fn created(state: &State) -> Vec<Route> {
    let writes = plan(state, &key()).writes;
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
    let writes = plan(&state, &key()).writes;
    let kinds: Vec<_> = writes.iter().map(|write| write.describe().1).collect();
    assert_eq!(kinds, ["Service"]);
}

#[test]
fn routes_are_written_with_all_fields_that_the_api_server_would_add() {
    let routes = asked_for("local", vec![port("http", 80), port("sql", 5432)], None);
    let spec = |number: i32, mut rule: Value| {
        let of =
            |name: &str| json!({ "group": "", "kind": "Service", "name": name, "port": number });
        let weighted = |name: &str, weight: u32| {
            let mut backend = of(name);
            backend["weight"] = json!(weight);
            backend
        };
        rule["backendRefs"] = json!([weighted("web", HEAVY), weighted("web-federated", 1)]);
        json!({ "parentRefs": [of("web-federated")], "rules": [rule] })
    };
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let expected = [
        (RouteKind::Http, spec(80, json!({ "matches": matches }))),
        (RouteKind::Tcp, spec(5432, json!({}))),
    ];
    let found = routes.iter().map(|route| (route.kind, json!(route.spec)));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn backend_of_a_cluster_is_its_own_mirror_if_that_has_an_address() {
    let host = mirror().label(l::HEADLESS_MIRROR, "db-east");
    for (what, mirror, expected) in [
        ("its mirror", mirror(), &["web-east", "web-federated"][..]),
        ("headless", mirror().headless(), &["web-federated"]),
        ("the endpoint mirror of a host", host, &["web-federated"]),
    ] {
        let state = asking("east", vec![port("http", 80)], None).local(&[mirror]);
        let routes = created(&state);
        let backends: Vec<_> = routes[0].backends().collect();
        assert_eq!(backends, expected, "{what}");
    }
}

fn with_route(mut state: State, route: Route) -> State {
    let known = state.here().routes.entry(route.kind).or_default();
    known.get_or_insert_default().put(Arc::new(route));
    state
}

/// A route of somebody else for the requests to a Service.
fn theirs(service: &str, port: Option<i32>) -> Route {
    let parent = ParentRef {
        group: Some("".into()),
        kind: Some("Service".into()),
        name: service.into(),
        port,
        ..ParentRef::default()
    };
    Route {
        metadata: Metadata {
            name: Some("theirs".into()),
            namespace: Some("ns".into()),
            ..Metadata::default()
        },
        spec: RouteSpec {
            parent_refs: [parent].into(),
            ..RouteSpec::default()
        },
        ..Route::default()
    }
}

fn conflict(name: &str) -> String {
    format!(
        "web@east: web-federated, RouteConflict: no cluster is preferred: HTTPRoute {name} already routes these requests"
    )
}

#[test]
fn ports_that_somebody_elses_route_applies_to_get_no_route_and_are_reported() {
    let both = ["web-federated-80", "web-federated-81"];
    for (service, number, expected) in [
        ("web-federated", None, &[][..]),
        ("web-federated", Some(80), &both[1..]),
        ("web-federated", Some(82), &both),
        ("web", None, &both),
        ("web", Some(80), &both),
    ] {
        let asking = asking("local", vec![port("http", 80), port("more", 81)], None);
        let state = with_route(asking, theirs(service, number));
        let routes = created(&state);
        let names: Vec<_> = routes.iter().map(|route| route.metadata.name()).collect();
        assert_eq!(names, expected, "{service} {number:?}");
        let told = reported(&plan(&state, &key()));
        let is_reported = told == [conflict("theirs")];
        assert_eq!(is_reported, expected.len() < both.len(), "{told:?}");
    }
}

#[test]
fn route_of_another_installation_is_somebody_elses() {
    let asking = asking("local", vec![port("http", 80)], None);
    let mut route = created(&asking).remove(0);
    let annotations = &mut route.metadata.annotations;
    annotations.insert(l::INSTALLATION, "elsewhere");
    let plan = plan(&with_route(asking, route), &key());
    assert_eq!(described(&plan.writes), ["create Service ns/web-federated"]);
    assert_eq!(reported(&plan), [conflict("web-federated-80")]);
}

#[test]
fn route_that_linkerd_does_not_read_is_written_and_reported() {
    let mut opaque = port("db", 5432);
    opaque.app_protocol = Some("postgres".into());
    let asking = asking("local", vec![opaque], None);
    let mut route = created(&asking).remove(0);
    route.version = "v1";
    let why = "web@east: web-federated, RouteNotAccepted: no cluster is preferred: Linkerd has not accepted TCPRoute \
               web-federated-5432, because it reads TCPRoute as v1alpha2, which the API server does not serve";
    for (is_accepted, expected) in [(false, why), (true, "web@east: web-federated")] {
        route.is_accepted = is_accepted;
        let plan = plan(&with_route(asking.clone(), route.clone()), &key());
        assert_eq!(reported(&plan), [expected]);
        assert_eq!(described(&plan.writes), ["create Service ns/web-federated"]);
    }
}
