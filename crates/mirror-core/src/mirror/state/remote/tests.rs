//! What is known of Services and endpoints of a target cluster.

use super::*;
use crate::{
    api::{k8s::Endpoint, link::GatewayStatus},
    mirror::fixtures::{backing, endpoint as seen, omitted, slice, svc},
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
    let without_slices = |left: Omitted| RemoteState {
        omitted_slices: vec![Omitted::default(), left],
        ..RemoteState::default()
    };
    let services = |left: Omitted| RemoteState {
        omitted: vec![Omitted::default(), left],
        ..RemoteState::default()
    };
    for (what, remote, [cuts, may_omit, omits]) in [
        ("nothing is", RemoteState::default(), [false; 3]),
        (
            "some of its slices are",
            without_slices(omitted("web", true)),
            [true, false, false],
        ),
        (
            "some of another one's are",
            without_slices(omitted("api", true)),
            [false; 3],
        ),
        (
            "some slices are, nobody knows whose",
            without_slices(omitted("api", false)),
            [true, false, false],
        ),
        (
            "the Service is",
            services(omitted("web", true)),
            [false, true, true],
        ),
        (
            "another Service is",
            services(omitted("api", true)),
            [false; 3],
        ),
        (
            "some Service is, nobody knows which",
            services(omitted("api", false)),
            [false, true, false],
        ),
    ] {
        assert_eq!(remote.omits_slices_of("ns", "web"), cuts, "{what}");
        assert_eq!(remote.may_omit("ns", "web"), may_omit, "{what}");
        assert_eq!(remote.omits("ns", "web"), omits, "{what}");
    }
}

#[test]
fn a_service_without_a_selector_counts_as_having_endpoints_until_a_slice_of_it_is_seen() {
    let (without, with) = (svc("web").0, svc("web").selecting().0);
    let has = |slices: &[EndpointSlice], left: Option<Omitted>| {
        let mut store = Store::default();
        for slice in slices {
            store.put(Arc::new(slice.clone()));
        }
        RemoteState {
            slices: vec![store],
            omitted_slices: Vec::from_iter(left),
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
            "some are omitted",
            has(&[], Some(omitted("web", true))),
            None,
            None,
        ),
    ] {
        assert_eq!(remote.is_backed(&without), expected_without, "{what}");
        assert_eq!(remote.is_backed(&with), expected_with, "{what}");
    }
}

#[test]
fn each_watch_begins_with_nothing() {
    let remote = RemoteState::of_watches(2, 1);
    let of_services = (remote.services.len(), remote.omitted.len());
    let of_slices = (remote.slices.len(), remote.omitted_slices.len());
    assert_eq!((of_services, of_slices), ((2, 2), (1, 1)));
    assert_eq!(remote.services().count(), 0);
    assert!(!remote.may_omit("ns", "web") && !remote.omits_slices_of("ns", "web"));
}

#[test]
fn liveness_is_read_from_the_status() {
    let recorded = |alive: Option<bool>| {
        let gateway = GatewayStatus {
            alive,
            ..GatewayStatus::default()
        };
        let status = LinkStatus {
            gateway: Some(gateway),
            ..LinkStatus::default()
        };
        Liveness::recorded(Some(&status))
    };
    assert_eq!(Liveness::recorded(None), Liveness::Unknown);
    let without_gateway = LinkStatus::default();
    assert_eq!(
        Liveness::recorded(Some(&without_gateway)),
        Liveness::Unknown
    );
    assert_eq!(recorded(None), Liveness::Unknown);
    assert_eq!(recorded(Some(true)), Liveness::Alive);
    assert_eq!(recorded(Some(false)), Liveness::Dead);
}
