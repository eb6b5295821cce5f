//! What is known of Services and endpoints of a target cluster.

use super::*;
use crate::{
    api::k8s::Endpoint,
    mirror::fixtures::{endpoint as seen, left_out, slice},
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
    let unlisted = |service: &str| RemoteState {
        unlisted: [("ns".to_owned(), service.to_owned())].into(),
        ..RemoteState::default()
    };
    let cut = |left: LeftOut| RemoteState {
        cut: vec![LeftOut::default(), left],
        ..RemoteState::default()
    };
    let services = |left: LeftOut| RemoteState {
        left_out: vec![LeftOut::default(), left],
        ..RemoteState::default()
    };
    for (what, remote, [lacks, cuts, may_leave_out, leaves_out]) in [
        ("nothing is", RemoteState::default(), [false; 4]),
        (
            "its slices are not listed",
            unlisted("web"),
            [true, false, false, false],
        ),
        ("another one's are not", unlisted("api"), [false; 4]),
        (
            "some of its slices are",
            cut(left_out("web", true)),
            [true, true, false, false],
        ),
        (
            "some of another one's are",
            cut(left_out("api", true)),
            [false; 4],
        ),
        (
            "some slices are, nobody knows whose",
            cut(left_out("api", false)),
            [true, true, false, false],
        ),
        (
            "the Service is",
            services(left_out("web", true)),
            [false, false, true, true],
        ),
        (
            "another Service is",
            services(left_out("api", true)),
            [false; 4],
        ),
        (
            "some Service is, nobody knows which",
            services(left_out("api", false)),
            [false, false, true, false],
        ),
    ] {
        assert_eq!(remote.lacks_slices_of("ns", "web"), lacks, "{what}");
        assert_eq!(remote.cuts_slices_of("ns", "web"), cuts, "{what}");
        assert_eq!(remote.may_leave_out("ns", "web"), may_leave_out, "{what}");
        assert_eq!(remote.leaves_out("ns", "web"), leaves_out, "{what}");
    }
}
