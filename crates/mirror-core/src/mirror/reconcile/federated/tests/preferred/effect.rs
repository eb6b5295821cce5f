//! Which clusters have failed over, and which preferences are applied.

use super::{super::unreadable, *};
use crate::mirror::Liveness;

/// A local member with ready Pods and this preference, while east has a member behind its gateway.
fn beside_gateway(place: &str) -> State {
    let gateway = through("east", FederatedThrough::Gateway);
    let state = routed().linked(gateway, &[web()], &[backing("web")]);
    after(pods(state.local_member(prefers(place)), true), &key())
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
