//! Clusters of new Links, which Linkerd may not know yet.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::mirror::{
    LinkEntry, Store,
    fixtures::entry,
    target::policy::{FederatedThrough, Federation},
};

/// When west was linked, and how long it counts as new.
const LINKED: i64 = 100;
const DELAY: i64 = 20;

/// West has a member, and was linked a moment ago.
fn with_west(mut state: State, through: FederatedThrough) -> State {
    state.config.join_delay = Duration::from_secs(DELAY.unsigned_abs());
    state.advance(at(LINKED));
    let target = Target {
        federated_through: through,
        ..aged("west", 2)
    };
    let new = LinkEntry {
        linked: Some(at(LINKED)),
        ..entry(target)
    };
    state.with_entry(new, &[web()], &[])
}

/// East is a member already.
fn such() -> State {
    let east = state().linked(aged("east", 1), &[web()], &[]);
    with_west(east.worked_on(&key()), FederatedThrough::Discovery)
}

fn waits(state: &State) -> bool {
    plan(state, &key()).writes.is_empty()
}

#[test]
fn new_cluster_joins_when_linkerd_has_had_time_to_add_it() {
    let mut state = such();
    let end = LINKED + DELAY;
    assert!(waits(&state));
    assert_eq!(state.next_turn(), Some(at(end)));
    let (turned, _) = state.advance(at(end - 1));
    assert!(turned.is_empty(), "{turned:?}");
    assert!(waits(&state));
    let (turned, _) = state.advance(at(end));
    assert_eq!(turned.keys().collect::<Vec<_>>(), ["west"]);
    assert_eq!(turned["west"], [key()]);
    let patch = body(&plan(&state, &key()).writes, "web-federated");
    let named = &patch["metadata"]["annotations"][l::REMOTE_DISCOVERY];
    assert_eq!(named, "web@east,web@west");
    assert_eq!(state.next_turn(), None);
}

/// The members that the plan for an existing Service names, those of linked clusters first.
fn renamed(state: &State) -> [Value; 2] {
    let patch = body(&plan(state, &key()).writes, "web-federated");
    [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY]
        .map(|key| patch["metadata"]["annotations"][key].clone())
}

#[test]
fn last_members_stay_until_a_new_cluster_joins() {
    let mut unlinked = such();
    unlinked.links.remove("east");
    let withdrawn = such().linked(aged("east", 1), &[], &[]);
    for (how, mut state) in [("unlinked", unlinked), ("withdrawn", withdrawn)] {
        assert_eq!(described(&plan(&state, &key()).writes), [""; 0], "{how}");
        state.advance(at(LINKED + DELAY));
        assert_eq!(renamed(&state)[0], "web@west", "{how}");
    }
}

#[test]
fn last_members_that_may_not_take_part_leave_a_service_that_a_new_cluster_joins() {
    let forbidden = Target {
        federation: Federation::None,
        ..aged("east", 1)
    };
    let state = such().linked(forbidden, &[web()], &[]);
    // Without this annotation, the Service would not be a federated one.
    assert_eq!(renamed(&state)[0], "");
    let mut state = state.edited("ns", "web-federated", |service| {
        let annotations = &mut service.metadata.annotations;
        annotations.insert(l::REMOTE_DISCOVERY, "");
    });
    assert!(waits(&state));
    state.advance(at(LINKED + DELAY));
    assert_eq!(renamed(&state)[0], "web@west");
    state.links.remove("west");
    assert_eq!(described(&plan(&state, &key()).writes), DELETE);
}

#[test]
fn last_local_member_leaves_a_service_that_a_new_cluster_joins() {
    let local = state().local_member(web()).worked_on(&key());
    let mut state = with_west(local, FederatedThrough::Discovery);
    state.here().members = Store::default();
    assert_eq!(renamed(&state), ["".into(), Value::Null]);
    state.advance(at(LINKED + DELAY));
    assert_eq!(renamed(&state), ["web@west".into(), Value::Null]);
}

#[test]
fn new_cluster_that_is_named_stays() {
    let mut state = with_west(state(), FederatedThrough::Discovery);
    state.advance(at(LINKED + DELAY));
    let mut state = state.worked_on(&key());
    assert_eq!(members(&state).0.as_deref(), Some("web@west"));
    // The clock was set back, or the Secret was created again.
    state.advance(at(LINKED));
    assert!(waits(&state));
    assert_eq!(state.next_turn(), Some(at(LINKED + DELAY)));
}

#[test]
fn only_linkerd_needs_the_time() {
    // Nothing has to know the cluster whose endpoints are those of its gateway.
    for (through, joins) in [
        (FederatedThrough::Gateway, true),
        (FederatedThrough::Discovery, false),
    ] {
        let state = with_west(state(), through);
        assert_eq!(!waits(&state), joins, "{through:?}");
    }
}

#[test]
fn clock_that_is_wrong_delays_nothing_for_long() {
    for (now, is_new) in [
        (LINKED - 3600, false),
        (LINKED - DELAY, false),
        // The clocks of two machines differ by a little.
        (LINKED - 2, true),
        (LINKED + DELAY - 1, true),
        (LINKED + 3600, false),
    ] {
        let mut state = such();
        state.advance(at(now));
        assert_eq!(waits(&state), is_new, "{now}");
    }
}
