//! What is known of Services and endpoints of a target cluster.

use super::*;
use crate::{
    api::k8s::Endpoint,
    mirror::fixtures::{backing, endpoint as seen, left_out, slice, svc},
};

#[test]
fn a_service_has_ready_endpoints_if_one_takes_traffic() {
    let nowhere = Endpoint {
        addresses: Box::default(),
        ..seen("192.0.2.1", None, true)
    };
    let mut unsaid = seen("192.0.2.1", None, true);
    unsaid.conditions.ready = None;
    for (what, endpoints, expected) in [
        ("none", vec![], false),
        ("a ready one", vec![seen("192.0.2.1", None, true)], true),
        ("one that says nothing counts as ready", vec![unsaid], true),
        (
            "one that is not ready",
            vec![seen("192.0.2.1", None, false)],
            false,
        ),
        ("one without an address", vec![nowhere], false),
        (
            "one of two",
            vec![
                seen("192.0.2.1", None, false),
                seen("192.0.2.2", None, true),
            ],
            true,
        ),
    ] {
        let mut made = slice("web", "x");
        made.endpoints = endpoints.into();
        assert_eq!(any_ready([&slice("web", "y"), &made]), expected, "{what}");
    }
}

#[test]
fn what_is_left_out_by_name_concerns_no_other_service() {
    let cut = |left: LeftOut| RemoteState {
        cut: vec![LeftOut::default(), left],
        ..RemoteState::default()
    };
    let services = |left: LeftOut| RemoteState {
        left_out: vec![LeftOut::default(), left],
        ..RemoteState::default()
    };
    for (what, remote, [cuts, may_leave_out, leaves_out]) in [
        ("nothing is", RemoteState::default(), [false; 3]),
        (
            "some of its slices are",
            cut(left_out("web", true)),
            [true, false, false],
        ),
        (
            "some of another one's are",
            cut(left_out("api", true)),
            [false; 3],
        ),
        (
            "some slices are, nobody knows whose",
            cut(left_out("api", false)),
            [true, false, false],
        ),
        (
            "the Service is",
            services(left_out("web", true)),
            [false, true, true],
        ),
        (
            "another Service is",
            services(left_out("api", true)),
            [false; 3],
        ),
        (
            "some Service is, nobody knows which",
            services(left_out("api", false)),
            [false, true, false],
        ),
    ] {
        assert_eq!(remote.cuts_slices_of("ns", "web"), cuts, "{what}");
        assert_eq!(remote.may_leave_out("ns", "web"), may_leave_out, "{what}");
        assert_eq!(remote.leaves_out("ns", "web"), leaves_out, "{what}");
    }
}

#[test]
fn a_service_without_a_selector_counts_as_having_endpoints_until_a_slice_of_it_is_seen() {
    let (without, with) = (svc("web").0, svc("web").selecting().0);
    let has = |slices: &[EndpointSlice], left: Option<LeftOut>| {
        let mut store = Store::default();
        for slice in slices {
            store.put(Arc::new(slice.clone()));
        }
        RemoteState {
            slices: vec![store],
            cut: Vec::from_iter(left),
            ..RemoteState::default()
        }
    };
    let idle = || slice("web", "y");
    for (what, remote, expected_without, expected_with) in [
        ("none", has(&[], None), Some(true), None),
        (
            "another one's",
            has(&[backing("api")], None),
            Some(true),
            None,
        ),
        ("not ready", has(&[idle()], None), Some(false), Some(false)),
        (
            "one of two is ready",
            has(&[idle(), backing("web")], None),
            Some(true),
            Some(true),
        ),
        (
            "some are left out",
            has(&[], Some(left_out("web", true))),
            None,
            None,
        ),
    ] {
        assert_eq!(remote.is_backed(&without), expected_without, "{what}");
        assert_eq!(remote.is_backed(&with), expected_with, "{what}");
    }
}
