//! Which clusters have failed over, and which preferences are applied.

use super::{super::unreadable, *};
use crate::mirror::{Liveness, fixtures::svc};

/// A local member with ready Pods and this preference, while east has a member behind its gateway.
fn beside_gateway(place: &str) -> State {
    let gateway = through("east", FederatedThrough::Gateway);
    let state = routed().linked(gateway, &[web()], &[backing("web")]);
    after(pods(state.local_member(prefers(place)), true), &key())
}

#[test]
fn cluster_in_its_hold_down_has_no_ready_endpoint() {
    let endpoints = |cluster: &str, slice: &str| {
        let state = with_outage(beside_gateway(cluster), cluster, -60, Some(20));
        let writes = plan(&state, &key()).writes;
        let mut patches = writes.iter().filter_map(|write| match write {
            Write::Patch(patch) => Some(patch),
            _ => None,
        });
        let patch = patches.find(|patch| patch.name.starts_with(slice)).unwrap();
        patch.body["endpoints"].clone()
    };
    assert_eq!(endpoints("east", "web-federated.east-ipv4"), json!([]));
    let pods = endpoints("local", "web-federated-local-");
    assert_eq!(pods[0]["conditions"]["ready"], false);
}

#[test]
fn hold_down_lasts_while_another_member_that_is_not_preferred_may_take_requests() {
    let dead = |state: State| state.with_link("east", |e| e.gateway.liveness = Liveness::Dead);
    let unseen = |state: State| {
        state.with_link("east", |entry| {
            entry.remote.as_mut().unwrap().slices = vec![Store::default()];
        })
    };
    let alone = after(pods(routed().local_member(prefers("local")), true), &key());
    let drained = |state: State| {
        state.with_link("east", |entry| {
            entry.target.as_mut().unwrap().drained_until = Some(at(NOW + 60));
        })
    };
    for (what, state, waits) in [
        ("no other member", alone, false),
        ("behind its gateway", beside_gateway("local"), true),
        ("its gateway is dead", dead(beside_gateway("local")), false),
        (
            "its slices are unknown",
            unseen(beside_gateway("local")),
            true,
        ),
        ("it is drained", drained(beside_gateway("local")), false),
        ("Linkerd discovers it", beside_flat("local"), true),
        (
            "its Link cannot be read now",
            unreadable(beside_gateway("local"), "east"),
            true,
        ),
        (
            "it is preferred too, and available",
            beside_gateway("local,east"),
            true,
        ),
        (
            "it is preferred too, and its gateway is dead",
            dead(beside_gateway("local,east")),
            false,
        ),
    ] {
        let state = after(with_outage(state, "local", -60, Some(20)), &key());
        let out = failed_over(&state).unwrap_or_default();
        assert_eq!(out.contains("local="), waits, "{what}: {out:?}");
    }
}

#[test]
fn preferred_clusters_without_a_link_are_reported() {
    let beside = || routed().linked(flat("east"), &[web()], &[]);
    let why = "InvalidPreference: preferred clusters without a Link:";
    let member = "web@east: web-federated";
    for (what, state, expected) in [
        ("no Link", beside(), format!("{member}, {why} north, south")),
        (
            "a Link",
            beside().linked(flat("north"), &[], &[]),
            format!("{member}, {why} south"),
        ),
        (
            "a Link that cannot be read now",
            unreadable(beside().linked(flat("north"), &[], &[]), "north"),
            format!("{member}, {why} south"),
        ),
    ] {
        let state = state.local_member(prefers("north,east,south,local"));
        assert_eq!(reported(&plan(&state, &key()))[0], expected, "{what}");
    }
}

#[test]
fn member_of_another_cluster_is_told_that_its_preference_is_ignored_only_if_it_has_one() {
    let told = |state: State, member: Svc| {
        let state = state.linked(flat("east"), &[member], &[]);
        reported(&plan(&state, &key())).remove(0)
    };
    let plain = "web@east: web-federated";
    let ignored = format!("{plain}, PreferenceIgnored: ");
    assert!(told(routed(), prefers("east")).starts_with(&ignored));
    assert_eq!(told(routed(), web()), plain);
    // Without routes no preference counts, so nothing is said about it.
    assert_eq!(told(state(), prefers("east")), plain);
}

#[test]
fn preferred_cluster_receives_requests_while_its_link_cannot_be_read() {
    let state = led_to_east(Federation::Any);
    for (what, state) in [
        ("it can be read", state.clone()),
        ("it cannot", unreadable(state, "east")),
    ] {
        let writes = plan(&state, &key()).writes;
        assert_eq!(described(&writes), PATCHED, "{what}");
        let rule = &body(&writes, "web-federated-80")["spec"]["rules"][0];
        assert_eq!(rule["backendRefs"][0]["name"], "web-east", "{what}");
    }
}

#[test]
fn cluster_that_cannot_be_seen_is_not_preferred_unless_it_is_a_member() {
    // East has a mirror, and its Service is no member.
    let far = routed().linked(flat("east"), &[svc("web").exported()], &[backing("web")]);
    let far = after(far, &mirror());
    let state = after(pods(far.local_member(prefers("east,local")), true), &key());
    let away = state.clone().with_link("east", |entry| entry.remote = None);
    for (what, state) in [("it is listed", state), ("it is away", away)] {
        assert_eq!(described(&plan(&state, &key()).writes), [""; 0], "{what}");
    }
}

#[test]
fn dead_gateway_of_a_preferred_cluster_counts_while_the_cluster_cannot_be_seen() {
    let state = beside_gateway("east").with_link("east", |entry| {
        entry.gateway.liveness = Liveness::Dead;
        entry.remote = None;
    });
    let out = failed_over(&after(state, &key())).unwrap_or_default();
    assert!(out.contains("east="), "{out:?}");
}
