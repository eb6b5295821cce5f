//! Mirrors: the situations of Linkerd's service mirror, each with the expected writes and messages.
//! Numbers in names are those of its behaviour: 3.x a situation, W-n a weakness that must not come back.

mod gateways;
mod leaving;
mod slices;

use crate::{
    api::labels as l,
    mirror::{
        Key, Liveness, NamespacePhase, Outcome, State, Store, Target,
        fixtures::{
            Svc, backing, body, described, endpoint, ip, link, map, plan, port, reported, slice,
            state, svc, target, through_gateway,
        },
    },
};

const CREATE: [&str; 2] = [
    "create Service ns/web-east",
    "create EndpointSlice ns/web-east-ipv4",
];
const DELETE: [&str; 2] = [
    "delete EndpointSlice ns/web-east-ipv4",
    "delete Service ns/web-east",
];
const MIRRORED: &str = "web@east: web-east";
const UNRESOLVED: &str =
    "web@east: Error: Failed to get gateway address: no address of 192.0.2.1 is known";
const NO_DISCOVERY: &str = "web@east: NoDiscovery: Linkerd cannot discover its endpoints: the API server of cluster east is \
     reached through a gateway only; mirror it through the gateway, or link again with --discovery-through-gateway or --api-server-address";
const NO_GATEWAY: &str = "web@east: Error: Failed to get gateway address: the Link has no gateway";

/// A situation, its state, the expected writes, and the expected report.
type Case<'a> = (&'a str, State, &'a [&'a str], &'a str);

fn key() -> Key {
    Key::mirror("east", "ns", "web")
}

fn web() -> Svc {
    svc("web").exported()
}

/// The target cluster has this Service, with an endpoint.
fn has(service: Svc) -> State {
    state().linked(target("east"), &[service], &[backing("web")])
}

/// The target cluster has a Service with a mirror. Then it has these Services instead, with or without an endpoint.
fn then(before: Svc, after: &[Svc], backed: bool) -> State {
    let slices = if backed {
        vec![backing("web")]
    } else {
        vec![slice("web", "x")]
    };
    has(before)
        .worked_on(&key())
        .linked(target("east"), after, &slices)
}

/// The API server of the target cluster is reached through a gateway only.
fn without_discovery() -> Target {
    let mut made = link("east");
    through_gateway(&mut made, false);
    Target::parse(&made, false).unwrap()
}

fn stands() -> State {
    has(web()).worked_on(&key())
}

fn without_gateway() -> Target {
    let mut made = link("east");
    made.spec.gateway_address.clear();
    Target::parse(&made, false).unwrap()
}

fn namespaced(mut state: State, phase: Option<NamespacePhase>, create: bool) -> State {
    let known = &mut state.here().namespaces;
    known.set("ns", phase.map(Into::into));
    state.config.max_namespaces = usize::from(create);
    state
}

fn unlinked(mut state: State) -> State {
    state.links = crate::mirror::Links::default();
    state
}

fn hold(cases: Vec<Case<'_>>) {
    for (situation, state, writes, reports) in cases {
        let plan = plan(&state, &key());
        assert_eq!(described(&plan.writes), writes, "{situation}");
        assert_eq!(reported(&plan).join("\n"), reports, "{situation}");
    }
}

#[test]
fn gateway_mode_is_as_in_linkerds_service_mirror() {
    let dead = |state: State| state.with_link("east", |e| e.gateway.liveness = Liveness::Dead);
    let unknown =
        |state: State| state.with_link("east", |e| e.gateway.liveness = Liveness::Unknown);
    let moved = |state: State| {
        state.with_link("east", |e| {
            e.gateway.addresses = Some(vec![ip("192.0.2.9")]);
        })
    };
    let unresolved = |state: State| state.with_link("east", |e| e.gateway.addresses = None);
    let two = vec![port("http", 80), port("grpc", 81)];
    let slice_only = ["patch EndpointSlice ns/web-east-ipv4"];
    let both = [
        "patch EndpointSlice ns/web-east-ipv4",
        "patch Service ns/web-east",
    ];
    let mut vanished = stands();
    vanished.here().mirrors = Store::default();
    let mut not_ready = backing("web");
    not_ready.endpoints = [endpoint("192.0.2.10", None, false)].into();
    hold(vec![
        ("3.2 exported", has(web()), &CREATE, MIRRORED),
        ("3.2 nothing changed", stands(), &[], MIRRORED),
        (
            "only the version moved",
            then(web(), &[web().version(2)], true),
            &[],
            MIRRORED,
        ),
        (
            "3.2 ports changed",
            then(web(), &[web().ports(two)], true),
            &both,
            MIRRORED,
        ),
        (
            "3.2 labels changed",
            then(web(), &[web().label("a", "b")], true),
            &["patch Service ns/web-east"],
            MIRRORED,
        ),
        (
            "3.2 annotations changed",
            then(web(), &[web().annotation("a", "b")], true),
            &["patch Service ns/web-east"],
            MIRRORED,
        ),
        (
            "3.2 the local Service vanished: the slice gets its new owner",
            vanished,
            &[
                "create Service ns/web-east",
                "patch EndpointSlice ns/web-east-ipv4",
            ],
            MIRRORED,
        ),
        (
            "the local slices vanished",
            stands().without_slices(),
            &["create EndpointSlice ns/web-east-ipv4"],
            MIRRORED,
        ),
        (
            "3.2 the endpoints become empty",
            then(web(), &[web()], false),
            &slice_only,
            MIRRORED,
        ),
        (
            "3.2 no endpoint is ready any more",
            stands().linked(target("east"), &[web()], &[not_ready]),
            &slice_only,
            MIRRORED,
        ),
        (
            "no slice was seen yet: the Service alone",
            state().linked(target("east"), &[web().selecting()], &[]),
            &["create Service ns/web-east"],
            MIRRORED,
        ),
        (
            "3.2 the gateway died",
            dead(stands()),
            &slice_only,
            MIRRORED,
        ),
        (
            "D8 the gateway was not probed yet",
            unknown(stands()),
            &[],
            MIRRORED,
        ),
        (
            "3.2 the gateway moved",
            moved(stands()),
            &slice_only,
            MIRRORED,
        ),
        (
            "the gateway does not resolve",
            unresolved(has(web())),
            &["create Service ns/web-east"],
            UNRESOLVED,
        ),
        (
            "the gateway does not resolve any more: its endpoints stay",
            unresolved(stands()),
            &[],
            UNRESOLVED,
        ),
        (
            "exported to a Link without gateway",
            state().linked(without_gateway(), &[web()], &[backing("web")]),
            &["create Service ns/web-east"],
            NO_GATEWAY,
        ),
        (
            "the mirror was edited by hand",
            stands().edited("ns", "web-east", |s| s.spec.ports = Box::default()),
            &["patch Service ns/web-east"],
            MIRRORED,
        ),
        (
            "3.4 headless, and the Link does not ask for that",
            has(web().headless()),
            &CREATE,
            MIRRORED,
        ),
    ]);
}

#[test]
fn remote_discovery_and_changes_of_mode_are_as_in_linkerds_service_mirror() {
    let flat = || svc("web").discovered();
    let service_only = ["create Service ns/web-east"];
    let selecting = || {
        let mut made = web();
        made.0.spec.selector = map(&[("app", "web")]);
        made
    };
    // The mirror was in gateway mode before.
    let switched = || {
        let mut state = has(flat()).worked_on(&key());
        state.here().slices = stands().local.unwrap().slices;
        state
    };
    hold(vec![
        ("3.3 exported", has(flat()), &service_only, MIRRORED),
        (
            "3.3 nothing changed",
            has(flat()).worked_on(&key()),
            &[],
            MIRRORED,
        ),
        (
            "3.3 without a gateway",
            state().linked(without_gateway(), &[flat()], &[]),
            &service_only,
            MIRRORED,
        ),
        (
            "3.3 from gateway to remote discovery: the slices stay for streams that run",
            then(web(), &[flat()], true),
            &["patch Service ns/web-east"],
            MIRRORED,
        ),
        ("and nothing more is written", switched(), &[], MIRRORED),
        (
            "and nothing after a restart, before the cluster is listed",
            switched().with_link("east", |entry| entry.remote = None),
            &[],
            "web@east: unknown",
        ),
        (
            "and they follow the gateway",
            switched().with_link("east", |entry| entry.gateway.liveness = Liveness::Dead),
            &["patch EndpointSlice ns/web-east-ipv4"],
            MIRRORED,
        ),
        (
            "and stay as they are without one",
            switched().with_link("east", |entry| entry.target = Ok(without_gateway())),
            &[],
            MIRRORED,
        ),
        (
            "3.3 from remote discovery to gateway: the slices come first",
            then(flat(), &[web()], true),
            &[
                "create EndpointSlice ns/web-east-ipv4",
                "patch Service ns/web-east",
            ],
            MIRRORED,
        ),
        (
            "and nothing before a slice of the Service was seen",
            then(flat(), &[selecting()], true).with_link("east", |entry| {
                entry.remote.as_mut().unwrap().slices = vec![Store::default()];
            }),
            &[],
            MIRRORED,
        ),
        (
            "nor while the gateway does not resolve",
            then(flat(), &[web()], true).with_link("east", |e| e.gateway.addresses = None),
            &[],
            UNRESOLVED,
        ),
        (
            "nor to a Link without gateway",
            then(flat(), &[web()], true)
                .with_link("east", |entry| entry.target = Ok(without_gateway())),
            &[],
            NO_GATEWAY,
        ),
        (
            "Linkerd does not reach the API server",
            has(flat()).with_link("east", |entry| entry.target = Ok(without_discovery())),
            &[],
            NO_DISCOVERY,
        ),
        (
            "and a mirror stays as it was",
            then(web(), &[flat()], true)
                .with_link("east", |entry| entry.target = Ok(without_discovery())),
            &[],
            NO_DISCOVERY,
        ),
        (
            "3.3 unexported",
            then(flat(), &[], true),
            &["delete Service ns/web-east"],
            "web@east: absent",
        ),
    ]);
}

#[test]
fn a_change_of_mode_writes_and_clears_the_labels_that_linkerd_reads() {
    let flat = svc("web").discovered();
    let there = plan(&then(web(), std::slice::from_ref(&flat), true), &key());
    let labels = &body(&there.writes, "web-east")["metadata"]["labels"];
    assert_eq!(labels[l::REMOTE_DISCOVERY], "east");
    assert_eq!(labels[l::REMOTE_SERVICE], "web");
    let back = plan(&then(flat, &[web()], true), &key());
    let labels = &body(&back.writes, "web-east")["metadata"]["labels"];
    assert!(
        labels
            .as_object()
            .unwrap()
            .contains_key(l::REMOTE_DISCOVERY),
        "named, to be cleared"
    );
    assert!(labels[l::REMOTE_DISCOVERY].is_null() && labels[l::REMOTE_SERVICE].is_null());
}

#[test]
fn services_that_cannot_be_mirrored_report_why() {
    let missing = "web@east: MissingNamespace: Namespace does not exist";
    let into_new = [
        "create Namespace /ns",
        "create Service ns/web-east",
        "create EndpointSlice ns/web-east-ipv4",
    ];
    let mut external = web();
    external.0.spec.type_ = Some("ExternalName".into());
    let mut taken = has(web());
    taken.foreign.insert(
        ("ns".to_owned(), "web-east".to_owned()),
        "somebody".to_owned(),
    );
    hold(vec![
        (
            "3.2 no namespace, none may be made",
            namespaced(has(web()), None, false),
            &[],
            missing,
        ),
        (
            "3.2 no namespace, one may be made",
            namespaced(has(web()), None, true),
            &into_new,
            MIRRORED,
        ),
        (
            "the namespace is on its way out",
            namespaced(has(web()), Some(NamespacePhase::Terminating), true),
            &[],
            missing,
        ),
        (
            "an ExternalName Service",
            has(external.clone()),
            &[],
            "web@east: InvalidService: ExternalName Services have no endpoints to mirror",
        ),
        (
            "7 no ports",
            has(web().ports(Vec::new())),
            &[],
            "web@east: InvalidService: object spec has no exposed ports",
        ),
        (
            "it becomes an ExternalName: its mirror goes",
            then(web(), &[external], true),
            &DELETE,
            "web@east: InvalidService: ExternalName Services have no endpoints to mirror",
        ),
        (
            "the name is a user's",
            taken,
            &[],
            "web@east: NameConflict: the name ns/web-east is taken by somebody",
        ),
    ]);
    let long = "w".repeat(59);
    let state = state().linked(target("east"), &[svc(&long).exported()], &[]);
    let plan = plan(&state, &Key::mirror("east", "ns", &long));
    assert_eq!(plan.writes, []);
    let Outcome::Failed(problem) = &plan.report[0].report else {
        panic!("{:?}", plan.report)
    };
    assert_eq!(problem.reason.as_str(), "NameTooLong");
}

#[test]
fn slices_of_a_mirror_that_somebody_took_over_are_deleted() {
    let mut state = stands();
    // Without our labels, it is not listed.
    state.here().mirrors = Store::default();
    let name = ("ns".to_owned(), "web-east".to_owned());
    state.foreign.insert(name, "somebody".to_owned());
    let deleted = ["delete EndpointSlice ns/web-east-ipv4"];
    assert_eq!(described(&plan(&state, &key()).writes), deleted);
    let withdrawn = state.linked(target("east"), &[], &[]);
    assert_eq!(described(&plan(&withdrawn, &key()).writes), deleted);
}

#[test]
fn mirror_of_a_service_with_too_much_metadata_says_what_is_not_copied() {
    let heavy = Svc(web().annotation("note", "b").0.trimmed(8));
    let note = "LimitExceeded: labels and annotations are not copied: they are too large";
    hold(vec![
        (
            "mirrored",
            has(heavy.clone()),
            &CREATE,
            &format!("{MIRRORED}, {note}"),
        ),
        (
            "another problem comes first",
            has(heavy).with_link("east", |entry| entry.gateway.addresses = None),
            &CREATE[..1],
            UNRESOLVED,
        ),
    ]);
}

#[test]
fn mirror_of_linkerds_service_mirror_is_adopted_in_place() {
    let adopted = has(web()).local(&[svc("web-east").mirrored_by_linkerd("east", "web")]);
    hold(vec![
        (
            "its Endpoints go only once our slice stands, and the mark comes last",
            adopted.clone(),
            &[
                "create EndpointSlice ns/web-east-ipv4",
                "delete Endpoints ns/web-east",
                "patch Service ns/web-east",
            ],
            MIRRORED,
        ),
        (
            "without an address its Endpoints stay, and it is not marked as ours",
            adopted.with_link("east", |entry| entry.gateway.addresses = None),
            &[],
            UNRESOLVED,
        ),
    ]);
}
