//! Which Services take part. The rows are the decisions of Linkerd's service mirror for a Service that it sees.

use super::*;
use crate::api::labels as l;
use crate::mirror::fixtures::{Svc, link, svc, target};

#[test]
fn labels_decide_how_a_service_takes_part() {
    let by_linkerd = |made: Svc| made.mirrored_by_linkerd("west", "web");
    for (what, service, expected) in [
        ("2.1 neither label", svc("web"), (None, false)),
        (
            "2.1 exported",
            svc("web").exported(),
            (Some(Mode::Gateway), false),
        ),
        (
            "2.1 for remote discovery",
            svc("web").discovered(),
            (Some(Mode::RemoteDiscovery), false),
        ),
        (
            "another value",
            svc("web").label(l::EXPORTED, "yes"),
            (None, false),
        ),
        ("3.5 a member", svc("web").member(), (None, true)),
        (
            "exported and a member",
            svc("web").exported().member(),
            (Some(Mode::Gateway), true),
        ),
        (
            "a mirror is never mirrored",
            by_linkerd(svc("web").exported()),
            (None, false),
        ),
        (
            "a mirror is never a member",
            by_linkerd(svc("web").member()),
            (None, false),
        ),
        (
            "what we wrote is never mirrored, though its labels are gone",
            svc("web").exported().annotation(l::MANAGED_BY, l::MANAGER),
            (None, false),
        ),
        (
            "a name that no API server would take",
            svc("a\u{1b}[2J").exported().member(),
            (None, false),
        ),
        (
            "a namespace that no API server would take",
            svc("web").within("a b").exported().member(),
            (None, false),
        ),
    ] {
        let target = target("east");
        assert_eq!(
            (mode(&target, &service.0), member(&target, &service.0)),
            expected,
            "{what}"
        );
    }
}

#[test]
fn remote_discovery_wins_where_both_selectors_match() {
    let mut both = link("east");
    both.spec.remote_discovery_selector = both.spec.selector.clone();
    let both = Target::parse(&both, false).unwrap();
    assert_eq!(
        mode(&both, &svc("web").exported().0),
        Some(Mode::RemoteDiscovery)
    );
}

#[test]
fn modes_have_the_names_that_users_write() {}
