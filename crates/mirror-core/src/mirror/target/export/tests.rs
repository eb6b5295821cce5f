//! Which Services take part. The rows are the decisions of Linkerd's service mirror for a Service that it sees.

use super::*;
use crate::mirror::fixtures::{Svc, link, svc, target};

#[test]
fn labels_decide_how_a_service_takes_part() {
    let by_linkerd = |made: Svc| made.mirrored_by_linkerd("west", "web");
    for (what, service, expected) in [
        ("2.1 neither label", svc("web"), (None, false)),
        (
            "2.1 exported",
            svc("web").exported(),
            (Some(MirrorMode::Gateway), false),
        ),
        (
            "2.1 for remote discovery",
            svc("web").discovered(),
            (Some(MirrorMode::RemoteDiscovery), false),
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
            (Some(MirrorMode::Gateway), true),
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
        Some(MirrorMode::RemoteDiscovery)
    );
}

#[test]
fn slices_are_requested_if_the_link_has_gateway_mode() {
    let exported = "mirror.linkerd.io/exported in (true)";
    assert_eq!(target("east").queries(false).slices, [exported]);
    let mut flat = link("east");
    flat.spec.selector = None;
    let queries = Target::parse(&flat, false).unwrap().queries(false);
    let services = [
        "mirror.linkerd.io/exported in (remote-discovery)",
        "mirror.linkerd.io/federated in (member)",
    ];
    let services = services.map(str::to_owned).into();
    let slices = Vec::new();
    assert_eq!(queries, Queries { services, slices });
}

#[test]
fn slices_of_members_are_requested_if_federated_services_are_made_of_slices() {
    let (exported, members) = (
        "mirror.linkerd.io/exported in (true)",
        "mirror.linkerd.io/federated in (member)",
    );
    assert_eq!(target("east").queries(true).slices, [exported, members]);
    let mut without = link("east");
    without.spec.gateway_address.clear();
    let without = Target::parse(&without, false).unwrap();
    assert_eq!(without.queries(true).slices, [exported]);
}

#[test]
fn slices_are_requested_by_name_once_each_and_in_batches() {
    let name = |n: usize| ("a".to_owned(), format!("s{n:03}"));
    let mut names: Names = (0..NAMES).map(name).collect();
    names.insert(("b".to_owned(), "s000".to_owned()));
    let one = slices_of(&names);
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].matches("s000").count(), 1);
    assert!(one[0].starts_with("kubernetes.io/service-name in (s000,s001,"));
    names.insert(name(NAMES));
    assert_eq!(slices_of(&names).len(), 2);
    assert_eq!(slices_of(&Names::new()), [""; 0]);
}

#[test]
fn source_cluster_is_asked_for_what_service_mirrors_create_and_for_links() {
    let queries = local_queries();
    let gateway_slices = "mirror.linkerd.io/cluster-name,!mirror.linkerd.io/mirrored-service";
    for (what, query, of_installation, labels, fields) in [
        (
            "mirrors",
            queries.mirrors,
            false,
            Some("mirror.linkerd.io/mirrored-service=true"),
            None,
        ),
        (
            "gateways",
            queries.gateways,
            true,
            Some("mirror.linkerd.io/mirrored-gateway=true"),
            None,
        ),
        (
            "slices of gateways",
            queries.gateway_slices,
            true,
            Some(gateway_slices),
            None,
        ),
        ("Links", queries.links, true, None, None),
        (
            "credentials",
            queries.credentials,
            true,
            None,
            Some("type=mirror.linkerd.io/remote-kubeconfig"),
        ),
    ] {
        let expected = Query {
            of_installation,
            labels: labels.map(str::to_owned),
            fields: fields.map(str::to_owned),
        };
        assert_eq!(query, expected, "{what}");
    }
}
