//! Clusters of new Links, which Linkerd may not know yet.

use std::time::Duration;

use super::*;
use crate::mirror::{LinkEntry, fixtures::entry, target::policy::FederatedThrough};

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
