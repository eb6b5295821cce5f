//! Mirrors whose Service has unknown slices, no slices, or slices without endpoints.

use std::sync::Arc;

use super::{CREATE, MIRRORED, has, hold, key, then, web};
use crate::{
    api::{k8s::EndpointSlice, labels as l},
    mirror::{
        Omitted, RemoteState, State, Store,
        fixtures::{omitted, slice, state, svc, target},
    },
};

const PATCHED: [&str; 1] = ["patch EndpointSlice ns/web-east-ipv4"];
const DELETED: [&str; 1] = ["delete EndpointSlice ns/web-east-ipv4"];

/// The target cluster has this Service, and no slice of it has an endpoint.
fn has_idle(service: super::Svc) -> State {
    state().linked(target("east"), &[service], &[slice("web", "x")])
}

fn with_remote(state: State, change: impl FnOnce(&mut RemoteState)) -> State {
    state.with_link("east", |entry| change(entry.remote.as_mut().unwrap()))
}

/// No slice of the target cluster is known.
fn without_remote_slices(state: State) -> State {
    with_remote(state, |remote| remote.slices = vec![Store::default()])
}

#[test]
fn endpoints_stay_while_slices_of_the_service_are_left_out() {
    let without_slices = |state: State, left: Omitted| {
        with_remote(state, |remote| remote.omitted_slices = vec![left])
    };
    let beyond = "web@east: web-east, LimitExceeded: \
                  endpoints are not updated: the cluster has more EndpointSlices than the limit";
    let emptied = || then(web(), &[web()], false);
    hold(vec![
        ("listed", emptied(), &PATCHED, MIRRORED),
        (
            "new",
            without_slices(has_idle(web()), omitted("web", true)),
            &CREATE[..1],
            beyond,
        ),
        (
            "a ready one is known",
            without_slices(has(web()), omitted("web", true)),
            &CREATE,
            MIRRORED,
        ),
        (
            "omitted",
            without_slices(emptied(), omitted("web", true)),
            &[],
            beyond,
        ),
        (
            "another one's are omitted",
            without_slices(emptied(), omitted("api", true)),
            &PATCHED,
            MIRRORED,
        ),
    ]);
}

#[test]
fn slices_are_awaited_once_and_only_if_kubernetes_creates_them() {
    let flat = || svc("web").discovered();
    let selecting = || web().selecting();
    let switches = [
        "create EndpointSlice ns/web-east-ipv4",
        "patch Service ns/web-east",
    ];
    let linkerds = || svc("web-east").mirrored_by_linkerd("east", "web");
    let takes_over = [
        "create EndpointSlice ns/web-east-ipv4",
        "delete Endpoints ns/web-east",
        "patch Service ns/web-east",
    ];
    hold(vec![
        (
            "new, and a slice without endpoints is known",
            has_idle(web()),
            &CREATE,
            MIRRORED,
        ),
        (
            "it has a slice here, and none is known any more",
            without_remote_slices(then(selecting(), &[selecting()], true)),
            &[],
            MIRRORED,
        ),
        (
            "from remote discovery, and none is known yet",
            without_remote_slices(then(flat(), &[selecting()], true)),
            &[],
            MIRRORED,
        ),
        (
            "from remote discovery, and a slice without endpoints is known",
            then(flat(), &[selecting()], false),
            &switches,
            MIRRORED,
        ),
        (
            "from remote discovery, without a selector: there may never be one",
            without_remote_slices(then(flat(), &[web()], true)),
            &switches,
            MIRRORED,
        ),
        (
            "of Linkerd's, and none is known",
            without_remote_slices(has(web()).local(&[linkerds()])),
            &takes_over,
            MIRRORED,
        ),
    ]);
}

#[test]
fn without_a_selector_a_mirror_has_its_endpoint_until_labelled_slices_are_seen() {
    let unlabelled = || without_remote_slices(has(web()));
    hold(vec![
        ("new", unlabelled(), &CREATE, MIRRORED),
        (
            "labelled slices are not ready",
            then(web(), &[web()], false),
            &PATCHED,
            MIRRORED,
        ),
        (
            "they are not labelled any more",
            without_remote_slices(has_idle(web()).worked_on(&key())),
            &PATCHED,
            MIRRORED,
        ),
        (
            "it was mirrored before its slices had to be labelled",
            without_remote_slices(then(web(), &[web()], true)),
            &[],
            MIRRORED,
        ),
    ]);
}

#[test]
fn slices_kept_in_remote_discovery_keep_their_endpoints() {
    let mut switched = has(svc("web").discovered()).worked_on(&key());
    switched.here().slices = has(web()).worked_on(&key()).local.unwrap().slices;
    let slices = switched.here().slices.iter();
    assert_eq!(slices.flat_map(|s| &s.endpoints).count(), 1);
    assert!(
        switched
            .existing("ns", "web-east")
            .unwrap()
            .metadata
            .labels
            .contains_key(l::REMOTE_DISCOVERY)
    );
    let state = without_remote_slices(switched);
    hold(vec![("they stay", state, &[], MIRRORED)]);
}

#[test]
fn slices_that_somebody_gave_to_another_service_are_repaired() {
    let relabelled = |service: Option<&str>| {
        let mut state = has(web()).worked_on(&key());
        let slice = state.here().slices.get("ns", "web-east-ipv4").unwrap();
        let mut slice = EndpointSlice::clone(slice);
        match service {
            Some(service) => slice.metadata.labels.insert(l::SLICE_SERVICE, service),
            None => slice.metadata.labels.remove(l::SLICE_SERVICE),
        }
        state.here().slices.put(Arc::new(slice));
        state
    };
    hold(vec![
        ("another one", relabelled(Some("api")), &DELETED, MIRRORED),
        ("none", relabelled(None), &PATCHED, MIRRORED),
    ]);
}
