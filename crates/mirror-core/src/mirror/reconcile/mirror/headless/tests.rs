//! Headless Services: the situations and weaknesses of Linkerd's service mirror, numbered as in `mirror/tests.rs`.

mod others;

use std::sync::Arc;

use crate::{
    api::{k8s::EndpointSlice, labels as l},
    mirror::{
        Key, Liveness, State, Store, Target,
        fixtures::{
            Svc, backing, body, described, endpoint, hosts, link, plan, port, reported, slice,
            state, svc,
        },
    },
};

const MIRRORED: &str = "db@east: db-east";
const HEADLESS: [&str; 5] = [
    "create Service ns/db-east",
    "create Service ns/h-0-east",
    "create EndpointSlice ns/h-0-east-ipv4",
    "create Service ns/h-1-east",
    "create EndpointSlice ns/h-1-east-ipv4",
];

fn key() -> Key {
    Key::mirror("east", "ns", "db")
}

fn db() -> Svc {
    svc("db").exported().headless()
}

fn target() -> Target {
    Target::parse(&link("east"), true).unwrap()
}

fn has(service: Svc, slice: EndpointSlice) -> State {
    state().linked(target(), &[service], &[slice])
}

/// Two hosts, whose endpoint mirrors have addresses and are endpoints of the headless mirror.
fn stands() -> State {
    has(db(), hosts("db", &["h-0", "h-1"]))
        .worked_on(&key())
        .worked_on(&key())
}

fn then(service: Svc, slice: EndpointSlice) -> State {
    stands().linked(target(), &[service], &[slice])
}

fn dead(state: State) -> State {
    state.with_link("east", |entry| entry.gateway.liveness = Liveness::Dead)
}

/// The target cluster has not been listed, as after a restart.
fn away(state: State) -> State {
    state.with_link("east", |entry| entry.remote = None)
}

#[test]
fn headless_services_are_mirrored_by_host_as_in_linkerds_service_mirror() {
    let nameless = [
        "create Service ns/db-east",
        "create EndpointSlice ns/db-east-ipv4",
    ];
    let gone = [
        "delete EndpointSlice ns/h-1-east-ipv4",
        "delete Service ns/h-1-east",
    ];
    let all_gone = [
        "delete EndpointSlice ns/h-0-east-ipv4",
        "delete Service ns/h-0-east",
        "delete EndpointSlice ns/h-1-east-ipv4",
        "delete Service ns/h-1-east",
        "delete EndpointSlice ns/db-east-ipv4",
        "delete Service ns/db-east",
    ];
    let with = |first: &[&'static str], then: &[&'static str]| [first, then].concat();
    let patch = ["patch EndpointSlice ns/db-east-ipv4"];
    let mut one_ready = hosts("db", &["h-0", "h-1"]);
    one_ready.endpoints[1] = endpoint("192.0.2.11", Some("h-1"), false);
    let mut none_ready = slice("db", "x");
    none_ready.endpoints = [endpoint("192.0.2.10", Some("h-0"), false)].into();
    let patches = [
        "patch EndpointSlice ns/db-east-ipv4",
        "patch EndpointSlice ns/h-0-east-ipv4",
        "patch EndpointSlice ns/h-1-east-ipv4",
    ];
    let ports = || vec![port("http", 80), port("grpc", 81)];
    for (situation, state, writes, reports) in vec![
        (
            "no slice was seen yet: what it becomes is not known",
            state().linked(target(), &[db()], &[]),
            vec![],
            "db@east: unknown",
        ),
        (
            "3.4 named hosts: addresses come with the next pass",
            has(db(), hosts("db", &["h-0", "h-1"])),
            HEADLESS.to_vec(),
            MIRRORED,
        ),
        (
            "3.4 the endpoint mirrors have addresses",
            has(db(), hosts("db", &["h-0", "h-1"])).worked_on(&key()),
            vec!["create EndpointSlice ns/db-east-ipv4"],
            MIRRORED,
        ),
        ("3.4 nothing changed", stands(), vec![], MIRRORED),
        (
            "3.4 no named host: an ordinary mirror",
            has(db(), backing("db")),
            nameless.to_vec(),
            MIRRORED,
        ),
        (
            "3.4 a host that is not ready decides the form, and has no endpoint mirror",
            has(db(), none_ready),
            vec!["create Service ns/db-east"],
            MIRRORED,
        ),
        (
            "3.4 a host goes",
            then(db(), hosts("db", &["h-0"])),
            with(&patch, &gone),
            MIRRORED,
        ),
        (
            "3.4 a host is not ready any more",
            then(db(), one_ready),
            with(&patch, &gone),
            MIRRORED,
        ),
        (
            "3.4 a host comes",
            then(db(), hosts("db", &["h-0", "h-1", "h-2"])),
            vec![
                "create Service ns/h-2-east",
                "create EndpointSlice ns/h-2-east-ipv4",
            ],
            MIRRORED,
        ),
        (
            "the gateway died: all of them are not ready",
            dead(stands()),
            patches.to_vec(),
            MIRRORED,
        ),
        (
            "ports changed: the Services and their slices follow, the hosts stay",
            then(db().ports(ports()), hosts("db", &["h-0", "h-1"])),
            vec![
                "patch Service ns/db-east",
                "patch EndpointSlice ns/h-0-east-ipv4",
                "patch Service ns/h-0-east",
                "patch EndpointSlice ns/h-1-east-ipv4",
                "patch Service ns/h-1-east",
            ],
            MIRRORED,
        ),
        (
            "3.4 unexported: the endpoint mirrors go first",
            then(svc("db").headless(), hosts("db", &["h-0", "h-1"])),
            all_gone.to_vec(),
            "db@east: absent",
        ),
        (
            "for remote discovery it is mirrored as any other",
            has(svc("db").headless().discovered(), hosts("db", &["h-0"])),
            vec!["create Service ns/db-east"],
            MIRRORED,
        ),
        (
            "D15 it turns ordinary: what stands is removed and made anew",
            then(svc("db").exported(), backing("db")),
            all_gone.to_vec(),
            "db@east: unknown",
        ),
    ] {
        let plan = plan(&state, &key());
        assert_eq!(described(&plan.writes), writes, "{situation}");
        assert_eq!(reported(&plan).join("\n"), reports, "{situation}");
    }
}

#[test]
fn the_headless_mirror_maps_each_host_to_its_endpoint_mirror() {
    let state = stands();
    let mirror = state.existing("ns", "db-east").unwrap();
    assert!(mirror.is_headless());
    let [slice] = state.local_slices("ns", "db-east") else {
        panic!("one slice")
    };
    assert_eq!(slice.ports[0].port, Some(8080), "the target's own port");
    for endpoint in &slice.endpoints {
        let host = endpoint.hostname.clone().unwrap(); // not the name of its pod
        let stands = state.existing("ns", &format!("{host}-east")).unwrap();
        assert_eq!(
            stands.spec.cluster_ip.as_ref(),
            endpoint.addresses.first(),
            "{host}"
        );
        let metadata = &stands.metadata;
        assert_eq!(metadata.labels.get(l::HEADLESS_MIRROR), Some("db-east"));
        let name = format!("{host}.db.ns.svc.cluster.local");
        assert_eq!(metadata.annotations.get(l::REMOTE_FQ_NAME), Some(&*name));
        let [own] = state.local_slices("ns", &format!("{host}-east")) else {
            panic!("one slice")
        };
        assert_eq!(own.ports[0].port, Some(4143), "the gateway's port");
    }
    assert_eq!(slice.endpoints.len(), 2);
}

#[test]
fn a_host_whose_name_is_taken_is_left_out_and_reported() {
    let mut state = has(db(), hosts("db", &["h-0", "h-1"]));
    let mut with_taken = |name: &str| {
        let slot = ("ns".to_owned(), name.to_owned());
        state.foreign.insert(slot, "somebody".to_owned());
        plan(&state, &key())
    };
    let one = with_taken("h-0-east");
    assert_eq!(
        described(&one.writes),
        [HEADLESS[0], HEADLESS[3], HEADLESS[4]]
    );
    let first = "db@east: NameConflict: host h-0 is not mirrored: the name ns/h-0-east is taken by somebody";
    assert_eq!(reported(&one), [first]);

    let both = with_taken("h-1-east");
    assert_eq!(described(&both.writes), [HEADLESS[0]]);
    let second = "host h-1 is not mirrored: the name ns/h-1-east is taken by somebody";
    assert_eq!(reported(&both), [format!("{first}; {second}")]);
}

#[test]
fn hosts_that_are_gone_make_room_for_those_that_come() {
    let changed = then(db(), hosts("db", &["a-0", "h-1"]));
    assert_eq!(
        described(&plan(&changed, &key()).writes),
        [
            "patch EndpointSlice ns/db-east-ipv4",
            "delete EndpointSlice ns/h-0-east-ipv4",
            "delete Service ns/h-0-east",
            "create Service ns/a-0-east",
            "create EndpointSlice ns/a-0-east-ipv4",
        ]
    );
}

#[test]
fn a_host_whose_name_no_service_may_have_is_left_out_and_reported() {
    let plan = plan(&has(db(), hosts("db", &["H-0", "h-1"])), &key());
    assert_eq!(
        described(&plan.writes),
        [HEADLESS[0], HEADLESS[3], HEADLESS[4]]
    );
    assert_eq!(
        reported(&plan),
        ["db@east: InvalidService: invalid Service name \"H-0-east\""]
    );
}

#[test]
fn while_its_cluster_cannot_be_seen_each_host_follows_its_gateway() {
    let patches = [
        "patch EndpointSlice ns/db-east-ipv4",
        "patch EndpointSlice ns/h-0-east-ipv4",
        "patch EndpointSlice ns/h-1-east-ipv4",
    ];
    let of_ipv6 = [
        "patch EndpointSlice ns/db-east-ipv6",
        "patch EndpointSlice ns/h-0-east-ipv4",
    ];
    let ipv6 = has(db(), hosts("db", &["h-0"]))
        .worked_on(&key())
        .edited("ns", "h-0-east", |service| {
            service.spec.cluster_ip = Some("2001:db8::1".into());
        })
        .worked_on(&key());
    for (what, state, writes) in [
        ("nothing changed", away(stands()), &[][..]),
        ("the gateway is dead", away(dead(stands())), &patches),
        ("hosts have IPv6 addresses", away(dead(ipv6)), &of_ipv6),
    ] {
        let plan = plan(&state, &key());
        assert_eq!(described(&plan.writes), writes, "{what}");
        assert_eq!(reported(&plan), ["db@east: unknown"], "{what}");
    }
}

#[test]
fn without_endpoints_a_mirror_keeps_its_form() {
    let emptied = then(db(), slice("db", "x"));
    let headless = plan(&emptied, &key());
    assert!(described(&headless.writes).contains(&"delete Service ns/h-0-east".to_owned()));
    assert!(!described(&headless.writes).contains(&"delete Service ns/db-east".to_owned()));
    assert_eq!(
        headless.writes.len(),
        5,
        "{:?}",
        described(&headless.writes)
    );

    let ordinary = has(db(), backing("db")).worked_on(&key());
    let emptied = ordinary.linked(target(), &[db()], &[slice("db", "x")]);
    assert_eq!(
        described(&plan(&emptied, &key()).writes),
        ["patch EndpointSlice ns/db-east-ipv4"]
    );
}

#[test]
fn hosts_of_a_service_without_a_selector_are_those_of_labelled_slices() {
    let without_slices = |state: State| {
        state.with_link("east", |entry| {
            entry.remote.as_mut().unwrap().slices = vec![Store::default()];
        })
    };
    let none = without_slices(has(db(), hosts("db", &["h-0"])));
    assert_eq!(described(&plan(&none, &key()).writes), [""; 0]);
    assert_eq!(
        described(&plan(&without_slices(stands()), &key()).writes),
        described(&plan(&then(db(), slice("db", "x")), &key()).writes)
    );
}

#[test]
fn an_address_that_an_endpoint_mirror_gets_anew_is_followed() {
    let state = stands().edited("ns", "h-0-east", |service| {
        service.spec.cluster_ip = Some("10.9.9.9".into());
    });
    let plan = plan(&state, &key());
    let endpoints = &body(&plan.writes, "db-east-ipv4")["endpoints"];
    assert_eq!(endpoints[0]["addresses"][0], "10.9.9.9");
    assert_eq!(endpoints[0]["hostname"], "h-0");
}

#[test]
fn slices_of_somebody_else_are_not_touched() {
    let mut theirs = slice("db-east", "theirs");
    theirs.endpoints = [endpoint("192.0.2.77", None, true)].into();
    let state = stands().local_slice(theirs.clone());
    assert!(
        state
            .local_slices("ns", "db-east")
            .contains(&Arc::new(theirs))
    );
    assert_eq!(
        described(&plan(&state, &key()).writes),
        Vec::<String>::new()
    );
}

#[test]
fn slice_seen_before_its_endpoint_mirror_does_not_block_its_name() {
    let mut state = stands();
    state.here().mirrors.forget("ns", "h-0-east").unwrap();
    let named_like_the_host = Key::mirror("east", "ns", "h-0");
    let clears = |state: &State| described(&plan(state, &named_like_the_host).writes);
    assert_eq!(clears(&state), Vec::<String>::new());

    // Without an owner, Kubernetes does not delete the slice.
    let mut slice = state.local_slices("ns", "h-0-east")[0].as_ref().clone();
    slice.metadata.owner_references = Box::default();
    let state = state.local_slice(slice);
    assert_eq!(clears(&state), ["delete EndpointSlice ns/h-0-east-ipv4"]);
}

#[test]
fn a_host_in_two_slices_has_the_ports_that_sort_first() {
    let with_port = |suffix: &str, number: i32| EndpointSlice {
        metadata: slice("db", suffix).metadata,
        ports: [crate::api::k8s::EndpointPort {
            port: Some(number),
            ..slice("db", suffix).ports[0].clone()
        }]
        .into(),
        ..hosts("db", &["h-0"])
    };
    for (first, second) in [(8080, 9090), (9090, 8080)] {
        let slices = [with_port("a", first), with_port("b", second)];
        let state = state()
            .linked(target(), &[db()], &slices)
            .worked_on(&key())
            .worked_on(&key());
        let [made] = state.local_slices("ns", "db-east") else {
            panic!("one slice for one set of ports")
        };
        assert_eq!(made.ports[0].port, Some(8080), "{first}, {second}");
    }
}
