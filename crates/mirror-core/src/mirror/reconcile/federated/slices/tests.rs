//! Federated Services with members behind gateways.

mod local_pods;
mod turns;

use std::sync::Arc;

use crate::{
    api::{
        k8s::{EndpointSlice, PodRef, Service, TargetRef},
        labels as l,
    },
    mirror::{
        GatewayState, Key, Liveness, State, Target, Write,
        fixtures::{
            GATEWAY, Svc, at, backing, body, described, endpoint, ip, link, map, plan, reported,
            slice, state, svc, through_gateway,
        },
    },
};

/// The gateway of west; east has the usual one.
const WEST: &str = "192.0.2.2";

fn key() -> Key {
    Key::federated("ns", "web")
}

/// A member with a selector: Kubernetes creates its slices.
fn web() -> Svc {
    let mut made = svc("web").member();
    made.0.spec.selector = map(&[("app", "web")]);
    made
}

/// How a cluster takes part.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Gateway,
    Discovery,
    /// Through discovery, without a gateway.
    DiscoveryOnly,
    /// Through discovery, but Linkerd does not reach its API server.
    NoDiscovery,
}

fn target(cluster: &str, created: i64, by: By) -> Target {
    let mut made = link(cluster);
    made.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        at(created),
    ));
    made.spec.gateway_identity = format!("gateway.{cluster}");
    if by == By::Gateway {
        let annotations = made.metadata.annotations.get_or_insert_default();
        annotations.insert(l::FEDERATED_THROUGH.to_owned(), "gateway".to_owned());
    }
    if by == By::NoDiscovery {
        through_gateway(&mut made, false);
    }
    if by == By::DiscoveryOnly {
        made.spec.gateway_address.clear();
    }
    Target::parse(&made, false).unwrap()
}

/// East, which has the older Link, and west, each with a member that has endpoints.
fn two(east: By, west: By) -> State {
    state()
        .linked(target("east", 1, east), &[web()], &[backing("web")])
        .linked(target("west", 2, west), &[web()], &[backing("web")])
        .with_link("west", |entry| {
            entry.gateway.addresses = Some(vec![ip(WEST)]);
        })
}

/// Replaces the Links by those with these ways to take part.
fn turned(mut state: State, east: By, west: By) -> State {
    let links = &mut state.links;
    for (cluster, created, by) in [("east", 1, east), ("west", 2, west)] {
        let mut entry = links.remove(cluster).unwrap();
        entry.target = Ok(target(cluster, created, by));
        links.insert(cluster.to_owned(), entry);
    }
    state
}

/// A slice with Pods of the local member.
fn pods(count: usize) -> EndpointSlice {
    let endpoints = (0..count).map(|number| {
        let mut pod = endpoint(
            &format!("10.1.{}.{}", number / 250, number % 250),
            None,
            true,
        );
        pod.conditions.serving = Some(true);
        pod.pod = Some(Box::new(PodRef {
            target: Some(TargetRef {
                kind: Some("Pod".into()),
                namespace: Some("ns".into()),
                name: Some(format!("web-{number}").into()),
                uid: Some(format!("uid-{number}").into()),
            }),
            node: Some("node".into()),
            zone: Some("a".into()),
        }));
        pod
    });
    EndpointSlice {
        endpoints: endpoints.collect(),
        ..slice("web", "abcde")
    }
}

trait Local {
    fn pods(self, slice: EndpointSlice) -> State;
}

impl Local for State {
    fn pods(mut self, slice: EndpointSlice) -> State {
        let known = self.here().member_slices.get_or_insert_default();
        known.put(Arc::new(slice));
        self.local_member(web())
    }
}

fn slices(state: &State) -> Vec<&EndpointSlice> {
    let slices = state.local_slices("ns", "web-federated");
    let mut slices: Vec<_> = slices.iter().map(AsRef::as_ref).collect();
    slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    slices
}

fn of<'a>(state: &'a State, cluster: &str) -> &'a EndpointSlice {
    let mut slices = slices(state).into_iter();
    let found = slices.find(|slice| slice.metadata.labels.get(l::CLUSTER_NAME) == Some(cluster));
    found.unwrap()
}

fn existing(state: &State) -> &Service {
    state.existing("ns", "web-federated").unwrap()
}

fn news(state: State, cluster: &str, gateway: GatewayState) -> State {
    state.with_link(cluster, |entry| entry.gateway = gateway)
}

fn dead() -> GatewayState {
    GatewayState {
        addresses: Some(vec![ip(GATEWAY)]),
        liveness: Liveness::Dead,
    }
}

#[test]
fn each_gateway_has_a_slice_with_its_identity_and_the_members_name() {
    let state = two(By::Gateway, By::Gateway).worked_on(&key());
    let service = existing(&state);
    assert_eq!(
        service.metadata.annotations.get(l::MEMBERS),
        Some("web@east,web@west")
    );
    assert_eq!(service.metadata.annotations.get(l::REMOTE_DISCOVERY), None);
    assert!(service.spec.selector.is_empty());
    for (slice, (cluster, address)) in slices(&state)
        .into_iter()
        .zip([("east", GATEWAY), ("west", WEST)])
    {
        let metadata = &slice.metadata;
        assert_eq!(metadata.name(), format!("web-federated.{cluster}-ipv4"));
        let annotation = |key| metadata.annotations.get(key).unwrap();
        assert_eq!(annotation(l::REMOTE_FQ_NAME), "web.ns.svc.cluster.local");
        assert_eq!(
            annotation(l::REMOTE_GATEWAY_IDENTITY),
            format!("gateway.{cluster}")
        );
        assert_eq!(slice.ports[0].port, Some(4143));
        assert_eq!(*slice.endpoints, [endpoint(address, None, true)]);
    }
    assert_eq!(plan(&state, &key()).writes, []);
}

#[test]
fn no_slice_has_labels_of_a_member() {
    let mut labelled = web();
    labelled.0.metadata.labels.insert("app", "web");
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(2))
        .local_member(labelled)
        .worked_on(&key());
    assert_eq!(existing(&state).metadata.labels.get("app"), Some("web"));
    let slices = slices(&state);
    assert_eq!(slices.len(), 3);
    for slice in slices {
        let labels = slice.metadata.labels.iter().map(|(key, _)| key);
        let known = [
            l::CLUSTER_NAME,
            l::MIRRORED_SERVICE,
            l::SLICE_MANAGED_BY,
            l::SLICE_SERVICE,
        ];
        let others: Vec<&str> = labels.filter(|key| !known.contains(key)).collect();
        assert_eq!(others, [""; 0], "{:?}", slice.metadata.name);
    }
}

#[test]
fn member_that_linkerd_cannot_discover_takes_part_through_gateways_alone() {
    let flat = two(By::Discovery, By::NoDiscovery);
    let told = reported(&plan(&flat, &key()));
    assert_eq!(told[0], "web@east: web-federated");
    assert!(told[1].starts_with("web@west: NoDiscovery: "), "{told:?}");
    let through_gateways = two(By::Gateway, By::NoDiscovery).worked_on(&key());
    assert_eq!(slices(&through_gateways).len(), 2);
    // It keeps its endpoints when the last member leaves that needs slices.
    let left = through_gateways.linked(target("east", 1, By::Gateway), &[], &[]);
    let left = plan(&left, &key());
    assert_eq!(
        reported(&left),
        ["web@east: absent", "web@west: web-federated"]
    );
    assert_eq!(
        described(&left.writes),
        [
            "delete EndpointSlice ns/web-federated.east-ipv4",
            "patch Service ns/web-federated"
        ]
    );
    // One that is discovered already stays, and that it has no endpoints any more is reported.
    let before = two(By::Discovery, By::Discovery).worked_on(&key());
    let after = plan(&turned(before, By::Discovery, By::NoDiscovery), &key());
    assert_eq!(described(&after.writes), Vec::<String>::new());
    let told = reported(&after);
    assert!(told[1].contains("NoDiscovery: Linkerd cannot"), "{told:?}");
}

#[test]
fn discovery_members_use_their_gateway_or_report_that_they_have_none() {
    let state = two(By::Gateway, By::Discovery).worked_on(&key());
    assert_eq!(slices(&state).len(), 2);
    let mixed = two(By::Gateway, By::DiscoveryOnly);
    assert_eq!(
        reported(&plan(&mixed, &key())),
        [
            "web@east: web-federated",
            "web@west: NoGateway: remote members require a gateway, and the Link has none"
        ]
    );
    assert_eq!(slices(&mixed.worked_on(&key())).len(), 1);
    // If no member needs a gateway, nothing changes.
    let flat = two(By::Discovery, By::DiscoveryOnly).worked_on(&key());
    assert_eq!(slices(&flat).len(), 0);
    assert_eq!(
        existing(&flat)
            .metadata
            .annotations
            .get(l::REMOTE_DISCOVERY),
        Some("web@east,web@west")
    );
}

#[test]
fn a_gateway_that_dies_and_a_member_without_endpoints_are_one_write_each() {
    let state = two(By::Gateway, By::Gateway).worked_on(&key());
    let down = news(state.clone(), "east", dead());
    assert_eq!(
        described(&plan(&down, &key()).writes),
        ["patch EndpointSlice ns/web-federated.east-ipv4"]
    );
    let idle = state.with_link("west", |entry| {
        let remote = entry.remote.as_mut().unwrap();
        remote.slices[0].put(Arc::new(slice("web", "x")));
    });
    let writes = plan(&idle, &key()).writes;
    assert_eq!(
        described(&writes),
        ["patch EndpointSlice ns/web-federated.west-ipv4"]
    );
    let patch = body(&writes, "web-federated.west-ipv4");
    assert_eq!(patch["endpoints"], serde_json::json!([]));
}

#[test]
fn unknown_parts_of_a_federated_service_are_not_changed() {
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(1))
        .worked_on(&key());
    for (what, blind) in [
        (
            "the gateway's name does not resolve",
            news(state.clone(), "east", GatewayState::default()),
        ),
        (
            "the cluster has not been listed yet",
            state.clone().with_link("east", |entry| entry.remote = None),
        ),
        (
            "the slices of the cluster have not",
            state.clone().with_link("east", |entry| {
                let remote = entry.remote.as_mut().unwrap();
                remote.slices[0] = crate::mirror::Store::default();
            }),
        ),
        ("nor have those of the local member", {
            let mut blind = state.clone();
            blind.here().member_slices = None;
            blind
        }),
    ] {
        assert_eq!(described(&plan(&blind, &key()).writes), [""; 0], "{what}");
    }
    // A gateway that dies meanwhile is noticed all the same.
    let blind = state.with_link("east", |entry| {
        entry.remote = None;
        entry.gateway = dead();
    });
    assert_eq!(
        described(&plan(&blind, &key()).writes),
        ["patch EndpointSlice ns/web-federated.east-ipv4"]
    );
}

#[test]
fn slices_are_created_before_the_form_changes_and_stay_after_it_changes_back() {
    let flat = two(By::Discovery, By::Discovery)
        .pods(pods(1))
        .worked_on(&key());
    assert_eq!(slices(&flat).len(), 0);
    let turning = turned(flat.clone(), By::Gateway, By::Discovery);
    let writes = plan(&turning, &key()).writes;
    let expected = [
        "create EndpointSlice ns/web-federated.east-ipv4",
        "create EndpointSlice ns/web-federated.west-ipv4",
    ];
    assert_eq!(described(&writes)[..2], expected);
    assert_eq!(
        described(&writes).last().unwrap(),
        "patch Service ns/web-federated"
    );
    assert_eq!(writes.len(), 4);
    let patch = body(&writes, "web-federated");
    let annotations = &patch["metadata"]["annotations"];
    assert!(
        annotations[l::REMOTE_DISCOVERY].is_null() && annotations[l::LOCAL_DISCOVERY].is_null()
    );
    assert_eq!(annotations[l::MEMBERS], "web@east,web@west");

    // Until it is known which members have endpoints, nothing changes.
    let early = turning.clone().with_link("west", |entry| {
        let remote = entry.remote.as_mut().unwrap();
        remote.slices[0] = crate::mirror::Store::default();
    });
    assert_eq!(plan(&early, &key()).writes, []);
    let mut early = turning;
    early.here().member_slices = None;
    assert_eq!(plan(&early, &key()).writes, []);

    // Back to discovery: the slices stay for streams that began with them.
    let made = two(By::Gateway, By::Gateway)
        .pods(pods(1))
        .worked_on(&key());
    let back = turned(made, By::Discovery, By::Discovery);
    let writes = plan(&back, &key()).writes;
    assert_eq!(described(&writes), ["patch Service ns/web-federated"]);
    let annotations = &body(&writes, "web-federated")["metadata"]["annotations"];
    assert_eq!(annotations[l::REMOTE_DISCOVERY], "web@east,web@west");
    assert!(annotations[l::MEMBERS].is_null());
}

#[test]
fn a_link_that_loses_its_gateway_keeps_endpoints() {
    let state = two(By::Gateway, By::Gateway).worked_on(&key());
    let lost = |state: &State, cluster| {
        state.clone().with_link(cluster, |entry| {
            entry.target.as_mut().unwrap().gateway = None;
        })
    };
    let one = lost(&state, "east");
    assert_eq!(plan(&one, &key()).writes, []);
    assert_eq!(
        reported(&plan(&one, &key()))[0],
        "web@east: Error: Failed to get gateway address: the Link has no gateway"
    );
    assert_eq!(plan(&lost(&one, "west"), &key()).writes, []);
    // A cluster that never had a gateway does not join, and does not change the form.
    let never = two(By::Gateway, By::DiscoveryOnly).with_link("east", |entry| {
        entry.target.as_mut().unwrap().gateway = None;
    });
    assert_eq!(
        reported(&plan(&never, &key())),
        [
            "web@east: NoGateway: remote members require a gateway, and the Link has none",
            "web@west: web-federated"
        ]
    );
    let flat = never.worked_on(&key());
    assert_eq!(
        existing(&flat)
            .metadata
            .annotations
            .get(l::REMOTE_DISCOVERY),
        Some("web@west")
    );
}

#[test]
fn a_member_behind_a_gateway_is_never_discovered_before_it_has_slices() {
    // The local member is the only one, and its slices have not been listed yet.
    let mut state = two(By::Discovery, By::Discovery)
        .with_link("east", |entry| entry.remote = None)
        .with_link("west", |entry| entry.remote = None)
        .local_member(web())
        .worked_on(&key());
    let links = &mut state.links;
    links.remove("east");
    links.remove("west");
    state.here().member_slices = None;
    let joins = state.linked(target("east", 1, By::Gateway), &[web()], &[backing("web")]);
    assert_eq!(plan(&joins, &key()).writes, []);
    assert_eq!(reported(&plan(&joins, &key())), ["web@east: unknown"]);
    let known = joins.pods(pods(1));
    let writes = described(&plan(&known, &key()).writes);
    assert_eq!(writes.len(), 3, "{writes:?}");
    assert_eq!(writes[2], "patch Service ns/web-federated");
}

#[test]
fn slice_of_a_drained_cluster_is_deleted_and_the_form_stays() {
    let mut state = two(By::Gateway, By::Discovery).worked_on(&key());
    state.now = at(0);
    let drained = state.clone().with_link("east", |entry| {
        entry.target.as_mut().unwrap().drained_until = Some(at(60));
    });
    let writes = plan(&drained, &key()).writes;
    assert_eq!(
        described(&writes),
        [
            "delete EndpointSlice ns/web-federated.east-ipv4",
            "patch Service ns/web-federated"
        ]
    );
    let annotations = &body(&writes, "web-federated")["metadata"]["annotations"];
    assert_eq!(annotations[l::MEMBERS], "web@west");
    // If no other member could take the requests, the drained cluster stays.
    let alone = two(By::Gateway, By::DiscoveryOnly).worked_on(&key());
    let last = alone.with_link("east", |entry| {
        entry.target.as_mut().unwrap().drained_until = Some(at(60));
    });
    assert_eq!(plan(&last, &key()).writes, []);
}

#[test]
fn slices_are_deleted_with_their_federated_service() {
    let mut state = two(By::Gateway, By::Gateway).worked_on(&key());
    let links = &mut state.links;
    for cluster in ["east", "west"] {
        let mut entry = links.remove(cluster).unwrap();
        entry.remote = Some(crate::mirror::RemoteState {
            services: vec![crate::mirror::Store::default()],
            slices: vec![crate::mirror::Store::default()],
            ..Default::default()
        });
        links.insert(cluster.to_owned(), entry);
    }
    let writes = plan(&state, &key()).writes;
    assert_eq!(
        described(&writes),
        [
            "delete EndpointSlice ns/web-federated.east-ipv4",
            "delete EndpointSlice ns/web-federated.west-ipv4",
            "delete Service ns/web-federated"
        ]
    );
    assert!(
        writes
            .iter()
            .all(|write| matches!(write, Write::Delete { .. }))
    );
}

/// Names of the slices that the plan for a key creates.
fn created(state: &State, key: &Key) -> Vec<String> {
    let writes = described(&plan(state, key).writes);
    let slices = writes
        .iter()
        .filter_map(|write| write.strip_prefix("create EndpointSlice "));
    slices.map(str::to_owned).collect()
}

#[test]
fn a_federated_service_and_a_mirror_never_want_slices_of_one_name() {
    let named_alike = target("federated-east", 3, By::Discovery);
    let state = two(By::Gateway, By::Gateway).linked(
        named_alike,
        &[svc("web").exported()],
        &[backing("web")],
    );
    let of_mirror = created(&state, &Key::mirror("federated-east", "ns", "web"));
    assert_eq!(of_mirror, ["ns/web-federated-east-ipv4"]);
    let federated = created(&state, &key());
    assert_eq!(federated.len(), 2);
    assert!(!federated.contains(&of_mirror[0]), "{federated:?}");
    assert!(created(&state.worked_on(&key()), &key()).is_empty());
}

#[test]
fn slices_of_a_federated_service_concern_its_key() {
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(1))
        .worked_on(&key());
    for slice in slices(&state) {
        assert!(state.keys_of_local_slice(slice).contains(&key()));
    }
    assert!(state.keys_of_member_slice(&pods(1)).contains(&key()));
    assert!(
        state
            .keys_of_remote_slice("east", &backing("web"))
            .contains(&key())
    );
    assert!(
        of(&state, "east")
            .metadata
            .labels
            .contains_key(l::MIRRORED_SERVICE)
    );
}
