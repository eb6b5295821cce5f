//! Links that change how their cluster takes part, and what such a change leaves.

use super::*;
use crate::mirror::{
    Object,
    fixtures::{omitted, plan_unconfirmed},
};

const NO_GATEWAY: &str =
    "web@west: NoGateway: remote members require a gateway, and the Link has none";

/// The Link of a cluster that takes part through its gateway, and has none.
fn without_gateway(cluster: &str, created: i64) -> Target {
    Target {
        gateway: None,
        ..target(cluster, created, By::Gateway)
    }
}

/// The annotation for members in other clusters after a plan.
fn members_after(state: &State, annotation: &str) -> Option<String> {
    let writes = plan(state, &key()).writes;
    let patch = body(&writes, "web-federated");
    let list = patch["metadata"]["annotations"][annotation].as_str();
    list.map(str::to_owned)
}

/// A federated Service whose only member is west, through discovery, and the Link of east, which is drained.
fn flat_beside_drained(east: By) -> (State, Target) {
    let west = target("west", 2, By::DiscoveryOnly);
    let mut flat = state()
        .linked(west, &[web()], &[backing("web")])
        .worked_on(&key());
    flat.now = at(0);
    let mut drained = target("east", 1, east);
    drained.drained_until = Some(at(60));
    (flat, drained)
}

#[test]
fn cluster_that_cannot_have_slices_leaves_when_a_service_is_made_of_slices() {
    let flat = two(By::Discovery, By::DiscoveryOnly).worked_on(&key());
    let turned_to_slices = turned(flat, By::Gateway, By::DiscoveryOnly);
    let sliced = two(By::Gateway, By::Gateway).worked_on(&key());
    let turned_to_discovery = turned(sliced, By::Gateway, By::DiscoveryOnly);
    for (what, state) in [
        ("the other cluster turns to its gateway", turned_to_slices),
        (
            "it turns to discovery without a gateway",
            turned_to_discovery,
        ),
    ] {
        let told = reported(&plan(&state, &key()));
        assert_eq!(told, ["web@east: web-federated", NO_GATEWAY], "{what}");
        let members = members_after(&state, l::MEMBERS);
        assert_eq!(members.as_deref(), Some("web@east"), "{what}");
    }
}

#[test]
fn endpoints_of_a_lost_gateway_do_not_keep_out_a_cluster_that_can_only_be_discovered() {
    let sliced = two(By::Gateway, By::Gateway).worked_on(&key());
    let lost = sliced.with_link("west", |entry| {
        entry.target = Ok(without_gateway("west", 2));
    });
    let turned_to = |by: By| {
        lost.clone().with_link("east", |entry| {
            entry.target = Ok(target("east", 1, by));
        })
    };
    let only_discovered = turned_to(By::DiscoveryOnly);
    let told = reported(&plan(&only_discovered, &key()));
    assert_eq!(told, ["web@east: web-federated", NO_GATEWAY]);
    let members = members_after(&only_discovered, l::REMOTE_DISCOVERY);
    assert_eq!(members.as_deref(), Some("web@east"));
    // One that has a gateway takes part beside them.
    assert_eq!(
        described(&plan(&turned_to(By::Discovery), &key()).writes),
        [""; 0]
    );
}

#[test]
fn cluster_that_leaves_neither_keeps_nor_causes_slices_that_keep_out_another() {
    // Its leave is not confirmed, and it may not answer for days.
    let leaving = |state: State| state.linked(target("west", 2, By::Gateway), &[], &[]);
    let sliced = two(By::Gateway, By::Gateway).worked_on(&key());
    let turned = leaving(turned(sliced, By::DiscoveryOnly, By::Gateway));
    let writes = plan_unconfirmed(&turned, &key()).writes;
    let members = &body(&writes, "web-federated")["metadata"]["annotations"];
    assert_eq!(members[l::REMOTE_DISCOVERY], "web@east,web@west");
    // Its Link turned to the gateway while it left.
    let flat = leaving(two(By::DiscoveryOnly, By::Discovery).worked_on(&key()));
    let nothing = plan_unconfirmed(&flat, &key()).writes;
    assert_eq!(described(&nothing), [""; 0]);
}

#[test]
fn drained_cluster_joins_when_the_only_member_has_to_leave() {
    let (flat, drained) = flat_beside_drained(By::DiscoveryOnly);
    let lost = flat
        .linked(drained, &[web()], &[backing("web")])
        .with_link("west", |entry| {
            entry.target = Ok(without_gateway("west", 2));
        });
    let members = members_after(&lost, l::REMOTE_DISCOVERY);
    assert_eq!(members.as_deref(), Some("web@east"));
}

#[test]
fn drained_cluster_that_takes_no_part_does_not_turn_a_service_of_others() {
    let (mut flat, drained) = flat_beside_drained(By::Gateway);
    let beside = flat
        .clone()
        .linked(drained.clone(), &[web()], &[backing("web")]);
    assert_eq!(described(&plan(&beside, &key()).writes), [""; 0]);
    // If there is no other member, it joins in the form that its Link asks for.
    flat.links.remove("west");
    let alone = flat.linked(drained, &[web()], &[backing("web")]);
    let members = members_after(&alone, l::MEMBERS);
    assert_eq!(members.as_deref(), Some("web@east"));
}

#[test]
fn cluster_that_cannot_be_discovered_keeps_its_endpoints_without_its_gateway() {
    let sliced = two(By::Gateway, By::NoDiscovery).worked_on(&key());
    let lost = sliced.with_link("west", |entry| {
        entry.target = Ok(Target {
            gateway: None,
            ..target("west", 2, By::NoDiscovery)
        });
    });
    assert_eq!(described(&plan(&lost, &key()).writes), [""; 0]);
}

#[test]
fn cluster_without_the_gateway_that_its_link_asks_for_makes_no_service_of_slices() {
    let flat = two(By::Discovery, By::Discovery).worked_on(&key());
    let member = flat.with_link("west", |entry| {
        entry.target = Ok(without_gateway("west", 2));
    });
    let sliced = state()
        .linked(target("east", 1, By::Gateway), &[web()], &[backing("web")])
        .worked_on(&key());
    let new = sliced
        .with_link("east", |entry| {
            entry.target = Ok(target("east", 1, By::Discovery));
        })
        .linked(without_gateway("west", 2), &[web()], &[backing("web")]);
    for (what, state) in [("a member", member), ("a new cluster", new)] {
        let told = reported(&plan(&state, &key()));
        assert_eq!(told, ["web@east: web-federated", NO_GATEWAY], "{what}");
        let members = members_after(&state, l::REMOTE_DISCOVERY);
        assert_eq!(members.as_deref(), Some("web@east"), "{what}");
    }
}

#[test]
fn form_stays_while_a_link_cannot_be_read_and_changes_once_it_is_deleted() {
    let mut state = two(By::Gateway, By::Discovery).worked_on(&key());
    let unreadable = state.clone().with_link("east", |entry| {
        entry.target = Err(crate::mirror::InvalidLink::GatewayPort("x".to_owned()));
    });
    assert_eq!(described(&plan(&unreadable, &key()).writes), [""; 0]);
    // It names another cluster now, which is not listed yet.
    let moved = state.clone().with_link("east", |entry| {
        entry.cluster = Some("north".to_owned());
        entry.target = Ok(Target {
            link: "east".to_owned(),
            ..target("north", 1, By::Gateway)
        });
        entry.remote = None;
    });
    assert_eq!(described(&plan(&moved, &key()).writes), [""; 0]);
    state.links.remove("east");
    let members = members_after(&state, l::REMOTE_DISCOVERY);
    assert_eq!(members.as_deref(), Some("web@west"));
}

#[test]
fn slices_that_a_service_no_longer_uses_follow_their_gateways() {
    let state = two(By::Gateway, By::Gateway).worked_on(&key());
    let flat = turned(state, By::Discovery, By::Discovery);
    assert_eq!(
        described(&plan(&news(flat, "east", dead()), &key()).writes),
        [
            "patch Service ns/web-federated",
            "patch EndpointSlice ns/web-federated.east-ipv4"
        ]
    );
}

#[test]
fn endpoints_of_other_members_are_not_those_of_a_cluster_that_cannot_be_seen() {
    let idle = two(By::Gateway, By::Gateway).pods(pods(1)).linked(
        target("east", 1, By::Gateway),
        &[web()],
        &[slice("web", "x")],
    );
    let state = idle.worked_on(&key());
    assert_eq!(of(&state, "east").endpoints.len(), 0);
    let blind = state.with_link("east", |entry| entry.remote = None);
    assert_eq!(described(&plan(&blind, &key()).writes), [""; 0]);
}

#[test]
fn slices_of_a_service_that_somebody_took_over_go_when_their_clusters_are_not_linked() {
    let slices = [
        "delete EndpointSlice ns/web-federated.east-ipv4",
        "delete EndpointSlice ns/web-federated.west-ipv4",
    ];
    for (what, lost, expected) in [
        ("it is not marked as ours", l::MANAGED_BY, &slices[..]),
        ("it may be another installation's", l::INSTALLATION, &[]),
    ] {
        let state = two(By::Gateway, By::Gateway).worked_on(&key());
        let mut state = state.edited("ns", "web-federated", |service| {
            service.metadata.annotations.remove(lost);
        });
        state.links.remove("east");
        let state = state.linked(target("west", 2, By::Gateway), &[], &[]);
        assert_eq!(described(&plan(&state, &key()).writes), expected, "{what}");
    }
}

#[test]
fn mirror_of_a_cluster_named_federated_does_not_write_slices_of_a_federated_service() {
    let named_alike = target("federated", 3, By::Discovery);
    let state = two(By::Gateway, By::Gateway)
        .worked_on(&key())
        .linked(named_alike, &[], &[])
        .with_link("federated", |entry| entry.remote = None);
    let mirror = Key::mirror("federated", "ns", "web");
    assert_eq!(described(&plan(&state, &mirror).writes), [""; 0]);
}

#[test]
fn members_that_cannot_be_seen_keep_endpoints_when_a_service_turns_to_slices() {
    let flat = two(By::Discovery, By::Discovery).worked_on(&key());
    let turning = turned(flat, By::Gateway, By::Discovery);
    // The Link of west says how its gateway is reached, so its endpoints count as ready.
    let away = turning
        .clone()
        .with_link("west", |entry| entry.remote = None);
    let created = described(&plan(&away, &key()).writes);
    let west = "create EndpointSlice ns/web-federated.west-ipv4".to_owned();
    assert!(created.contains(&west), "{created:?}");
    // Without a Link that can be read, nobody knows how west is reached.
    let unreadable = turning.with_link("west", |entry| {
        entry.target = Err(crate::mirror::InvalidLink::GatewayPort("x".to_owned()));
    });
    assert_eq!(described(&plan(&unreadable, &key()).writes), [""; 0]);
}

#[test]
fn service_turns_to_slices_once_the_gateways_of_its_members_have_addresses() {
    let flat = two(By::Discovery, By::Discovery).worked_on(&key());
    let joined = flat.linked(target("north", 3, By::Gateway), &[web()], &[backing("web")]);
    let resolved = |addresses: Option<&str>| {
        let addresses = addresses.map(|address| vec![ip(address)]);
        let known = GatewayState {
            addresses,
            liveness: Liveness::Alive,
        };
        news(joined.clone(), "west", known)
    };
    let waits = "web@north: Error: the cluster joins once an address of the gateway of cluster \
                 west can be used, or west is drained";
    for (what, west) in [("not resolved", None), ("refused", Some("127.0.0.1"))] {
        let waiting = plan(&resolved(west), &key());
        assert_eq!(described(&waiting.writes), [""; 0], "{what}");
        let told = reported(&waiting);
        let expected = ["web@east: web-federated", waits, "web@west: web-federated"];
        assert_eq!(told, expected, "{what}");
    }
    let drained = resolved(None).with_link("west", |entry| {
        entry.target.as_mut().unwrap().drained_until = Some(at(60));
    });
    for (what, state, members) in [
        ("known", resolved(Some(WEST)), "web@east,web@north,web@west"),
        (
            "drained",
            State {
                now: at(0),
                ..drained
            },
            "web@east,web@north",
        ),
    ] {
        let turned = members_after(&state, l::MEMBERS);
        assert_eq!(turned.as_deref(), Some(members), "{what}");
    }
}

#[test]
fn member_with_too_many_slices_does_not_keep_a_service_from_turning_to_slices() {
    let flat = two(By::Discovery, By::Discovery).worked_on(&key());
    let beyond = turned(flat, By::Gateway, By::Discovery)
        .linked(target("west", 2, By::Discovery), &[web()], &[])
        .with_link("west", |entry| {
            entry.gateway.addresses = Some(vec![ip(WEST)]);
            entry.remote.as_mut().unwrap().omitted_slices = vec![omitted("web", true)];
        });
    let writes = plan(&beyond, &key()).writes;
    let of_west = writes.iter().find_map(|write| match write {
        Write::Create(Object::EndpointSlice(made)) => {
            (made.metadata.name() == "web-federated.west-ipv4").then_some(&made.endpoints)
        }
        _ => None,
    });
    assert_eq!(of_west.map(|endpoints| endpoints.len()), Some(1));
}

#[test]
fn slices_of_members_are_watched_as_long_as_a_federated_service_has_slices() {
    let state = two(By::Gateway, By::Discovery).worked_on(&key());
    let unreadable = |state: State| {
        state.with_link("east", |entry| {
            entry.target = Err(crate::mirror::InvalidLink::GatewayPort("x".to_owned()));
        })
    };
    assert!(state.by_slices());
    assert!(unreadable(state.clone()).by_slices());
    assert!(turned(state.clone(), By::Discovery, By::Discovery).by_slices());
    assert!(!turned(state.without_slices(), By::Discovery, By::Discovery).by_slices());
    let flat = two(By::Discovery, By::Discovery).worked_on(&key());
    assert!(!unreadable(flat).by_slices());
}

#[test]
fn slices_of_a_member_that_cannot_be_seen_are_only_created_when_a_service_turns_to_slices() {
    let state = two(By::Gateway, By::Gateway).worked_on(&key());
    let bare = state.without_slices();
    let blind = bare.with_link("east", |entry| entry.remote = None);
    assert_eq!(
        described(&plan(&blind, &key()).writes),
        ["create EndpointSlice ns/web-federated.west-ipv4"]
    );
}
