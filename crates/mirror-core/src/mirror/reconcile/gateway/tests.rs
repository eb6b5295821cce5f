//! The gateway Services of a Link: when they exist, and their contents.

use crate::{
    api::labels as l,
    mirror::{
        GatewayService, InvalidLink, Key, Links, Liveness, State, Target,
        fixtures::{self, LINKS, at, described, entry, ip, link, plan, state, svc, target},
    },
};

const SLICE: &str = "EndpointSlice mc/probe-east-ipv4";

fn key() -> Key {
    Key::gateway("east")
}

fn linked() -> State {
    state().linked(target("east"), &[], &[])
}

fn stands() -> State {
    linked().worked_on(&key())
}

fn changed(state: State, change: fn(&mut crate::api::link::Link)) -> State {
    let mut made = link("east");
    change(&mut made);
    let target = Target::parse(&made, false).unwrap();
    state.with_entry(entry(target), &[], &[])
}

#[test]
fn only_links_with_a_probed_gateway_have_a_probe_service() {
    let create = vec![
        "create Service mc/probe-east".to_owned(),
        format!("create {SLICE}"),
    ];
    let delete = vec![
        "delete Service mc/probe-east".to_owned(),
        format!("delete {SLICE}"),
    ];
    let service = vec!["create Service mc/probe-east".to_owned()];
    let slice_only = vec![format!("patch {SLICE}")];
    let both = vec![
        format!("patch {SLICE}"),
        "patch Service mc/probe-east".to_owned(),
    ];
    let without_links = |mut state: State| {
        state.links = Links::default();
        state
    };
    let dead = |state: State| state.with_link("east", |e| e.gateway.liveness = Liveness::Dead);
    let moved = stands().with_link("east", |e| {
        e.gateway.addresses = Some(vec![ip("192.0.2.9")]);
    });
    let dual = linked().with_link("east", |e| {
        e.gateway.addresses = Some(vec![ip("192.0.2.1"), ip("2001:db8::1")]);
    });
    let older = |state: State| {
        let mut made = link("old");
        "east".clone_into(&mut made.spec.target_cluster_name);
        made.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(-1)));
        state.linked(Target::parse(&made, false).unwrap(), &[], &[])
    };
    let mut theirs = linked();
    let stranger = svc("probe-east").within(LINKS);
    theirs.here().gateways.put(stranger.arc());
    for (situation, state, writes) in vec![
        ("D17 a Link with a gateway", linked(), create),
        ("nothing changed", stands(), vec![]),
        (
            "an address for each family",
            dual,
            vec![
                service[0].clone(),
                format!("create {SLICE}"),
                "create EndpointSlice mc/probe-east-ipv6".to_owned(),
            ],
        ),
        (
            "no address is known yet",
            linked().with_link("east", |e| e.gateway.addresses = None),
            service,
        ),
        (
            "no address is known any more: what stands stays",
            stands().with_link("east", |e| e.gateway.addresses = None),
            vec![],
        ),
        ("3.2 the gateway moved", moved, slice_only.clone()),
        (
            "3.2 never unready: it is the probe that finds out",
            dead(stands()),
            vec![],
        ),
        (
            "the identity changed",
            changed(stands(), |link| link.spec.gateway_identity = "other".into()),
            slice_only,
        ),
        (
            "the probe's port changed",
            changed(stands(), |link| link.spec.probe_spec.port = "4192".into()),
            both,
        ),
        (
            "5 the Link asks for no probe any more",
            changed(stands(), |link| link.spec.probe_spec.path.clear()),
            delete.clone(),
        ),
        (
            "the Link has no gateway any more",
            changed(stands(), |link| link.spec.gateway_address.clear()),
            delete.clone(),
        ),
        (
            "3.7 the Link was deleted",
            without_links(stands()),
            delete.clone(),
        ),
        ("an older Link has the cluster", older(stands()), delete),
        (
            "the Link cannot be read now",
            stands().with_link("east", |e| {
                e.target = Err(InvalidLink::GatewayPort("x".into()));
            }),
            vec![],
        ),
        ("the name is a user's", theirs, vec![]),
    ] {
        assert_eq!(
            described(&plan(&state, &key()).writes),
            writes,
            "{situation}"
        );
    }
}

#[test]
fn slice_of_the_probe_service_has_the_gateways_identity_and_the_probes_port() {
    let state = stands();
    let service = state
        .gateway_service("east", GatewayService::Probe)
        .unwrap();
    assert_eq!(service.spec.ports[0].name.as_deref(), Some("mc-probe"));
    assert_eq!(service.spec.ports[0].port, 4191);
    assert_eq!(service.spec.ports[0].protocol.as_deref(), Some("TCP"));
    let [slice] = state.local_gateway_slices("east", GatewayService::Probe) else {
        panic!("one slice")
    };
    assert_eq!(slice.ports[0].name.as_deref(), Some("mc-probe"));
    assert_eq!(slice.ports[0].port, Some(4191));
    assert_eq!(slice.endpoints[0].addresses, ["192.0.2.1".into()].into());
    let metadata = &slice.metadata;
    assert_eq!(
        metadata.annotations.get(l::REMOTE_GATEWAY_IDENTITY),
        Some("gateway.identity")
    );
    for metadata in [metadata, &service.metadata] {
        assert_eq!(metadata.labels.get(l::CLUSTER_NAME), Some("east"));
        assert_eq!(metadata.labels.get(l::MIRRORED_GATEWAY), Some("true"));
    }
    let owner = &metadata.owner_references[0];
    assert_eq!(Some(&owner.uid), service.metadata.uid.as_ref());
}

#[test]
fn probes_go_to_the_address_of_a_probe_service_that_is_ours() {
    let of_user = |mut state: State| {
        let service = svc("probe-east").within(LINKS);
        state.here().gateways.put(service.arc());
        state
    };
    let stands = stands();
    let address = stands
        .gateway_service("east", GatewayService::Probe)
        .unwrap()
        .spec
        .cluster_ip
        .clone();
    for (what, state, expected) in [
        ("it stands", stands, address.map(|address| ip(&address))),
        ("there is none yet", linked(), None),
        ("the name is a user's", of_user(linked()), None),
    ] {
        assert_eq!(
            state.gateway_service_address("east", GatewayService::Probe),
            expected,
            "{what}"
        );
    }
}

/// A Link whose API server is reached through a gateway.
fn through_gateway(link: &mut crate::api::link::Link) {
    fixtures::through_gateway(link, false);
}

#[test]
fn service_for_the_api_server_exists_while_the_link_reaches_it_through_the_gateway() {
    const API_SLICE: &str = "EndpointSlice mc/api-east-ipv4";
    let asked = || changed(stands(), through_gateway);
    let stands_too = || asked().worked_on(&key());
    let create = vec![
        "create Service mc/api-east".to_owned(),
        format!("create {API_SLICE}"),
    ];
    let delete = vec![
        "delete Service mc/api-east".to_owned(),
        format!("delete {API_SLICE}"),
    ];
    let mut theirs = asked();
    theirs
        .here()
        .gateways
        .put(svc("api-east").within(LINKS).arc());
    for (situation, state, writes) in [
        ("the Link asks for it", asked(), create.clone()),
        ("nothing changed", stands_too(), vec![]),
        (
            "the target cluster was never listed",
            asked().with_link("east", |entry| entry.remote = None),
            create,
        ),
        (
            "its gateway moved",
            stands_too().with_link("east", |entry| {
                entry.api_gateway.addresses = Some(vec![ip("192.0.2.9")]);
            }),
            vec![format!("patch {API_SLICE}")],
        ),
        (
            "the gateway for traffic moved, and is dead",
            stands_too().with_link("east", |entry| {
                entry.gateway.addresses = Some(vec![ip("192.0.2.9")]);
                entry.gateway.liveness = Liveness::Dead;
            }),
            vec!["patch EndpointSlice mc/probe-east-ipv4".to_owned()],
        ),
        (
            "the Link asks for it no more",
            changed(stands_too(), |_| {}),
            delete,
        ),
        ("the name is a user's", theirs, vec![]),
    ] {
        assert_eq!(
            described(&plan(&state, &key()).writes),
            writes,
            "{situation}"
        );
    }
}

#[test]
fn slice_for_the_api_server_names_the_service_that_the_gateway_forwards_to() {
    let state = changed(stands(), through_gateway).worked_on(&key());
    let service = state.gateway_service("east", GatewayService::ApiServer);
    let port = &service.unwrap().spec.ports[0];
    assert_eq!((port.name.as_deref(), port.port), (Some("https"), 8443));
    let [slice] = state.local_gateway_slices("east", GatewayService::ApiServer) else {
        panic!("one slice")
    };
    assert_eq!(slice.ports[0].name.as_deref(), Some("https"));
    assert_eq!(slice.ports[0].port, Some(4443));
    assert_eq!(slice.endpoints[0].addresses, ["192.0.2.7".into()].into());
    for (annotation, value) in [
        (l::REMOTE_GATEWAY_IDENTITY, "api.identity"),
        (
            l::REMOTE_FQ_NAME,
            "kubernetes-api.linkerd-multicluster.svc.cluster.local",
        ),
    ] {
        assert_eq!(slice.metadata.annotations.get(annotation), Some(value));
    }
}

#[test]
fn api_server_is_reached_at_the_address_and_port_of_its_service() {
    let reached = changed(stands(), through_gateway).worked_on(&key());
    let service = reached.gateway_service("east", GatewayService::ApiServer);
    let address = service.unwrap().spec.cluster_ip.as_deref().map(ip);
    assert!(address.is_some());
    assert_eq!(
        reached.api_server_address("east"),
        address.map(|address| (address, 8443))
    );
    assert_eq!(stands().api_server_address("east"), None);
}

#[test]
fn link_without_a_gateway_for_traffic_can_have_one_for_the_api_server() {
    let mut made = link("east");
    through_gateway(&mut made);
    made.spec.gateway_address.clear();
    let target = Target::parse(&made, false).unwrap();
    let writes = plan(&state().linked(target, &[], &[]), &key()).writes;
    let create = [
        "create Service mc/api-east",
        "create EndpointSlice mc/api-east-ipv4",
    ];
    assert_eq!(described(&writes), create);
}

#[test]
fn link_whose_name_makes_too_long_a_service_name_cannot_reach_the_api_server() {
    let state = linked();
    assert_eq!(state.api_server_problem("east"), None);
    assert!(state.api_server_problem(&"e".repeat(63)).is_some());
}
