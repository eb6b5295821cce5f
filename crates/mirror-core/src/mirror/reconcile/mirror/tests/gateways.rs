//! What is known of a gateway applies to existing mirrors, whether its Link has a probe or not, and while the target
//! cluster cannot be seen.

use std::sync::Arc;

use super::{MIRRORED, UNRESOLVED, has, hold, key, stands, then, web};
use crate::{
    api::{labels as l, link::ProbeSpec},
    mirror::{
        Liveness, RemoteState, State, Store, Target, Write,
        fixtures::{
            GATEWAY, backing, body, described, endpoint, ip, link, omitted, plan, slice, state,
            svc, target,
        },
    },
};

const PATCHED: [&str; 1] = ["patch EndpointSlice ns/web-east-ipv4"];
const UNKNOWN: &str = "web@east: unknown";

fn dead(state: State) -> State {
    state.with_link("east", |entry| entry.gateway.liveness = Liveness::Dead)
}

/// The mirror of a Service whose gateway is dead.
fn unready() -> State {
    dead(has(web())).worked_on(&key())
}

/// The target cluster has not been listed, as after a restart.
fn away(state: State) -> State {
    state.with_link("east", |entry| entry.remote = None)
}

fn moved(state: State) -> State {
    state.with_link("east", |entry| {
        entry.gateway.addresses = Some(vec![ip("192.0.2.9")]);
    })
}

/// The Link allows its gateway no address that it has.
fn refused(state: State) -> State {
    let mut made = link("east");
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(l::GATEWAY_NETWORKS.to_owned(), "198.51.100.0/24".to_owned());
    let target = Target::parse(&made, false).unwrap();
    state.with_link("east", |entry| entry.target = Ok(target))
}

/// The state after the slices of a plan were written.
fn with_slices_of(mut state: State) -> State {
    for write in plan(&state, &key()).writes {
        if let Write::Patch(patch) = write {
            let known = state.here().slices.get(&patch.namespace, &patch.name);
            let mut known = known.unwrap().as_ref().clone();
            known.endpoints =
                serde_json::from_value(patch.body["endpoints"].clone()).unwrap_or(known.endpoints);
            let annotations = patch.body["metadata"]["annotations"].as_object().unwrap();
            for (key, value) in annotations {
                if let Some(value) = value.as_str() {
                    known.metadata.annotations.insert(key, value);
                }
            }
            state.here().slices.put(Arc::new(known));
        }
    }
    state
}

#[test]
fn a_gateway_without_a_probe_counts_as_alive() {
    let probing = |change: fn(&mut ProbeSpec), liveness| {
        let mut made = link("east");
        change(&mut made.spec.probe_spec);
        let target = Target::parse(&made, false).unwrap();
        unready().with_link("east", |entry| {
            entry.target = Ok(target);
            entry.gateway.liveness = liveness;
        })
    };
    let (unknown, dead) = (Liveness::Unknown, Liveness::Dead);
    hold(vec![
        ("probed", probing(|_| (), dead), &[], MIRRORED),
        ("not probed yet", probing(|_| (), unknown), &[], MIRRORED),
        (
            "no probe",
            probing(|probe| probe.path.clear(), unknown),
            &PATCHED,
            MIRRORED,
        ),
        (
            "no probe, and the last state is remembered",
            probing(|probe| probe.path.clear(), dead),
            &PATCHED,
            MIRRORED,
        ),
        (
            "invalid period",
            probing(|probe| probe.period = "soon".into(), unknown),
            &PATCHED,
            MIRRORED,
        ),
        (
            "invalid threshold",
            probing(|probe| probe.failure_threshold = Some("0".into()), unknown),
            &PATCHED,
            MIRRORED,
        ),
    ]);
}

#[test]
fn while_its_cluster_cannot_be_seen_a_mirror_follows_its_gateway() {
    let idle = || then(web(), &[web()], false);
    let idle = || with_slices_of(idle());
    hold(vec![
        ("nothing changed", away(stands()), &[], UNKNOWN),
        (
            "the gateway is dead",
            away(dead(stands())),
            &PATCHED,
            UNKNOWN,
        ),
        (
            "the gateway is alive again",
            away(unready()).with_link("east", |entry| entry.gateway.liveness = Liveness::Alive),
            &PATCHED,
            UNKNOWN,
        ),
        (
            "not probed yet",
            away(unready()).with_link("east", |entry| entry.gateway.liveness = Liveness::Unknown),
            &[],
            UNKNOWN,
        ),
        ("another address", away(moved(stands())), &PATCHED, UNKNOWN),
        (
            "its address is refused",
            away(refused(stands())),
            &["delete EndpointSlice ns/web-east-ipv4"],
            UNKNOWN,
        ),
        (
            "the addresses are not known",
            away(dead(stands())).with_link("east", |entry| entry.gateway.addresses = None),
            &[],
            UNKNOWN,
        ),
        ("no endpoints", away(moved(dead(idle()))), &[], UNKNOWN),
        (
            "no slices",
            away(moved(stands())).without_slices(),
            &[],
            UNKNOWN,
        ),
        (
            "of Linkerd's service mirror",
            away(moved(state().linked(target("east"), &[], &[])))
                .local(&[svc("web-east").mirrored_by_linkerd("east", "web")])
                .local_slice(slice("web-east", "ipv4")),
            &[],
            UNKNOWN,
        ),
        (
            "of Linkerd's service mirror, and only its slice is ours yet",
            away(moved(stands())).edited("ns", "web-east", |service| {
                for key in l::SIGNATURE {
                    service.metadata.annotations.remove(key);
                }
            }),
            &[],
            UNKNOWN,
        ),
    ]);
    let plan = plan(&away(moved(dead(stands()))), &key());
    let endpoints = &body(&plan.writes, "web-east-ipv4")["endpoints"];
    assert_eq!(endpoints[0]["addresses"][0], "192.0.2.9");
    assert_eq!(endpoints[0]["conditions"]["ready"], false);
}

#[test]
fn slice_that_stays_as_it_is_says_which_slices_share_its_address() {
    let mut other = slice("web-east", "of-endpoints");
    other.endpoints = [endpoint(GATEWAY, None, true)].into();
    let unresolved = |state: State| state.with_link("east", |e| e.gateway.addresses = None);
    let shared = || unresolved(stands()).local_slice(other.clone());
    hold(vec![
        ("no other slice", unresolved(stands()), &[], UNRESOLVED),
        ("another slice", shared(), &PATCHED, UNRESOLVED),
        (
            "another slice, and the cluster is away",
            away(shared()),
            &PATCHED,
            UNKNOWN,
        ),
    ]);
    let patch = body(&plan(&shared(), &key()).writes, "web-east-ipv4");
    assert_eq!(patch.get("endpoints"), None);
}

#[test]
fn what_was_written_while_the_cluster_was_away_stays_when_it_is_listed() {
    let followed = with_slices_of(away(moved(dead(stands()))));
    let listed = state().linked(target("east"), &[web()], &[backing("web")]);
    let remote = listed.links.get("east").unwrap().remote.clone();
    let state = followed.with_link("east", |entry| entry.remote = remote);
    hold(vec![("listed again", state, &[], MIRRORED)]);
}

#[test]
fn the_same_holds_for_services_and_slices_that_the_limit_leaves_out() {
    let remote = |state: State, change: fn(&mut RemoteState)| {
        state.with_link("east", |entry| change(entry.remote.as_mut().unwrap()))
    };
    let service = remote(dead(stands()), |remote| {
        remote.services = vec![Store::default()];
        remote.omitted = vec![omitted("web", true)];
    });
    let slices = remote(dead(stands()), |remote| {
        remote.slices = vec![Store::default()];
        remote.omitted_slices = vec![omitted("web", true)];
    });
    for state in [service, slices] {
        assert_eq!(described(&plan(&state, &key()).writes), PATCHED);
    }
}

#[test]
fn labels_that_others_added_to_a_mirror_are_not_copied_to_its_slices() {
    let edited = |state: State| {
        state.edited("ns", "web-east", |service| {
            service.metadata.labels.insert("mine", "yes");
        })
    };
    hold(vec![(
        "nothing changed",
        edited(away(stands())),
        &[],
        UNKNOWN,
    )]);
    let writes = plan(&edited(away(moved(stands()))), &key()).writes;
    let labels = &body(&writes, "web-east-ipv4")["metadata"]["labels"];
    assert!(labels.get("mine").is_none(), "{labels}");
}
