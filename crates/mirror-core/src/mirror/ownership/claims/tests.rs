//! Names with several claims: which claim gets a free name, and that an object keeps its name.

use super::*;
use crate::{
    api::labels as l,
    mirror::{
        InvalidLink, Target,
        fixtures::{LINKS, Svc, at, described, endpoint, hosts, link, plan, reported, state, svc},
    },
};

fn aged(cluster: &str, created: i64) -> Target {
    let mut made = link(cluster);
    made.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        at(created),
    ));
    Target::parse(&made, true).unwrap()
}

fn mirror<'a>(cluster: &'a str, service: &'a str) -> Purpose<'a> {
    Purpose::Mirror { cluster, service }
}

/// `a` of `b-c` and `a-b` of `c`: both are mirrored as `a-b-c`. Their Links were created at these times.
fn two(first: i64, second: i64) -> State {
    state()
        .linked(aged("b-c", first), &[svc("a").exported().selecting()], &[])
        .linked(aged("c", second), &[svc("a-b").exported().selecting()], &[])
}

#[test]
fn a_free_name_goes_to_the_claim_with_precedence() {
    let headless = || svc("db").exported().headless();
    let host = |service| Purpose::Host {
        cluster: "c",
        service,
        host: "h",
    };
    let named_federated = state()
        .linked(aged("federated", 0), &[svc("web").exported()], &[])
        .linked(aged("c", 1), &[svc("web").member()], &[]);
    let not_exported = state().linked(aged("b-c", 0), &[svc("a")], &[]).linked(
        aged("c", 1),
        &[svc("a-b").exported()],
        &[],
    );
    let bare = state()
        .linked(
            aged("b-c", 0),
            &[svc("a").exported().ports(Vec::new())],
            &[],
        )
        .linked(aged("c", 1), &[svc("a-b").exported()], &[]);
    let same_host = |names: [&str; 2]| {
        let services: Vec<Svc> = names.map(|name| svc(name).exported().headless()).into();
        let slices = names.map(|name| hosts(name, &["h"]));
        state().linked(aged("c", 0), &services, &slices)
    };
    let host_and_service = state().linked(
        aged("c", 0),
        &[headless(), svc("h").exported()],
        &[hosts("db", &["h"])],
    );
    for (situation, state, name, first) in [
        (
            "two remotes: the older Link's",
            two(2, 1),
            "a-b-c",
            Some(mirror("c", "a-b")),
        ),
        (
            "the other way round",
            two(1, 2),
            "a-b-c",
            Some(mirror("b-c", "a")),
        ),
        (
            "a tie goes to the Link's name",
            two(1, 1),
            "a-b-c",
            Some(mirror("b-c", "a")),
        ),
        (
            "one that is not exported wants nothing",
            not_exported,
            "a-b-c",
            Some(mirror("c", "a-b")),
        ),
        (
            "nor does one that cannot be mirrored",
            bare,
            "a-b-c",
            Some(mirror("c", "a-b")),
        ),
        (
            "a federated Service comes before a mirror",
            named_federated,
            "web-federated",
            Some(Purpose::Federated("web")),
        ),
        (
            "a Service comes before a host",
            host_and_service,
            "h-c",
            Some(mirror("c", "h")),
        ),
        (
            "hosts: by name of the Service",
            same_host(["y", "x"]),
            "h-c",
            Some(host("x")),
        ),
        ("nobody", state(), "a-b-c", None),
    ] {
        assert_eq!(state.first_claim("ns", name), first, "{situation}");
    }
}

#[test]
fn an_object_keeps_its_name_and_the_conflict_is_reported_for_the_other() {
    let keys = [Key::mirror("b-c", "ns", "a"), Key::mirror("c", "ns", "a-b")];
    let held = two(2, 1).worked_on(&keys[1]);
    // Later, the Link of the other one proves to be older. This changes nothing.
    let later = held.linked(aged("b-c", 0), &[svc("a").exported()], &[]);
    let [loser, owner] = keys.map(|key| plan(&later, &key));
    assert_eq!(
        (
            described(&loser.writes).len(),
            described(&owner.writes).len()
        ),
        (0, 0)
    );
    assert_eq!(
        reported(&loser),
        ["a@b-c: NameConflict: the name ns/a-b-c is taken by Service a-b of cluster c"]
    );
    assert_eq!(reported(&owner), ["a-b@c: a-b-c"]);
}

#[test]
fn the_second_claim_waits_and_takes_the_name_once_it_is_free() {
    let key = Key::mirror("b-c", "ns", "a");
    let waiting = plan(&two(2, 1), &key);
    assert_eq!(described(&waiting.writes), Vec::<String>::new());
    assert_eq!(
        reported(&waiting),
        ["a@b-c: NameConflict: the name ns/a-b-c is taken by Service a-b of cluster c"]
    );
    let free = two(2, 1).linked(aged("c", 1), &[], &[]);
    assert_eq!(
        described(&plan(&free, &key).writes),
        ["create Service ns/a-b-c"]
    );
}

#[test]
fn name_owner_follows_the_labels_if_the_name_agrees() {
    let by_linkerd = |name: &str, cluster: &str| svc(name).mirrored_by_linkerd(cluster, "a");
    let federated = |name: &str| {
        svc(name)
            .label(crate::api::labels::MIRRORED_SERVICE, "true")
            .annotation(crate::api::labels::REMOTE_DISCOVERY, "a@c")
    };
    let managed =
        |made: Svc| made.annotation(crate::api::labels::MANAGED_BY, crate::api::labels::MANAGER);
    for (what, service, expected) in [
        (
            "a mirror",
            by_linkerd("a-c", "c"),
            NameOwner::Purpose(mirror("c", "a")),
        ),
        (
            "the same name, another label",
            by_linkerd("a-b-c", "b-c"),
            NameOwner::Purpose(mirror("b-c", "a")),
        ),
        (
            "a name that does not agree",
            by_linkerd("a-c", "d"),
            NameOwner::Foreign,
        ),
        (
            "ours, and a name that does not agree",
            managed(by_linkerd("a-c", "d")),
            NameOwner::Stray,
        ),
        (
            "a federated Service",
            federated("a-federated"),
            NameOwner::Purpose(Purpose::Federated("a")),
        ),
        (
            "federated by its labels only",
            federated("a"),
            NameOwner::Foreign,
        ),
        ("a user's", svc("a-c"), NameOwner::Foreign),
        (
            "ours, stripped of its labels",
            managed(svc("a-c")),
            NameOwner::Stray,
        ),
    ] {
        assert_eq!(state().name_owner(&service.0), expected, "{what}");
    }
}

#[test]
fn keys_of_all_claims_to_a_name_are_found() {
    let state = two(1, 2);
    assert_eq!(
        state.keys_for_name("ns", "a-b-c"),
        [Key::mirror("b-c", "ns", "a"), Key::mirror("c", "ns", "a-b")]
    );
    assert_eq!(
        state.keys_for_name("ns", "web-federated"),
        [Key::federated("ns", "web")]
    );
    assert_eq!(state.keys_for_name("mc", "probe-x"), [Key::gateway("x")]);
    assert_eq!(
        state.keys_for_name("ns", "probe-x"),
        [],
        "probe Services are in one namespace"
    );
}

#[test]
fn a_host_claims_a_name_only_if_it_gets_an_endpoint_mirror() {
    let changed = |edit: fn(&mut crate::api::link::Link), headless| {
        let mut made = link("c");
        edit(&mut made);
        Target::parse(&made, headless).unwrap()
    };
    let slices = [hosts("db", &["db-0"])];
    let db = || svc("db").exported().headless();
    let host = Purpose::Host {
        cluster: "c",
        service: "db",
        host: "db-0",
    };
    for (what, target, service, expected) in [
        (
            "a headless Service",
            changed(|_| {}, true),
            db(),
            Some(host),
        ),
        (
            "its Link mirrors it as a whole",
            changed(|_| {}, false),
            db(),
            None,
        ),
        (
            "its Link has no gateway",
            changed(|link| link.spec.gateway_address.clear(), true),
            db(),
            None,
        ),
        (
            "a Service with a ClusterIP",
            changed(|_| {}, true),
            svc("db").exported(),
            None,
        ),
        (
            "remote discovery",
            changed(|_| {}, true),
            svc("db").discovered().headless(),
            None,
        ),
        (
            "not exported",
            changed(|_| {}, true),
            svc("db").headless(),
            None,
        ),
        (
            "without ports",
            changed(|_| {}, true),
            db().ports(vec![]),
            None,
        ),
    ] {
        let state = state().linked(target, &[service], &slices);
        assert_eq!(state.first_claim("ns", "db-0-c"), expected, "{what}");
    }
}

#[test]
fn name_owners_are_described_in_messages() {
    for (claim, described) in [
        (Purpose::Federated("web"), "federated Service web"),
        (
            Purpose::Gateway(GatewayService::Probe, "east"),
            "the probe Service of Link east",
        ),
        (
            Purpose::Gateway(GatewayService::ApiServer, "east"),
            "the Service for the API server of Link east",
        ),
        (mirror("east", "web"), "Service web of cluster east"),
        (
            Purpose::Host {
                cluster: "east",
                service: "db",
                host: "db-0",
            },
            "host db-0 of Service db of cluster east",
        ),
    ] {
        assert_eq!(claim.to_string(), described);
        assert_eq!(NameOwner::Purpose(claim).to_string(), described);
    }
    for holder in [NameOwner::Stray, NameOwner::Foreign] {
        assert_eq!(holder.to_string(), "a Service that is not a mirror");
    }
}

#[test]
fn federated_service_of_an_earlier_version_is_ours_if_a_link_names_one_of_its_clusters() {
    let federated = |clusters: &str| {
        let made = svc("web-federated").label(l::MIRRORED_SERVICE, "true");
        let made = made.annotation(l::LOCAL_DISCOVERY, "web");
        if clusters.is_empty() {
            made
        } else {
            made.annotation(l::REMOTE_DISCOVERY, clusters)
        }
    };
    let earlier = |clusters| federated(clusters).annotation(l::MANAGED_BY, l::MANAGER);
    let linked = || state().linked(aged("east", 0), &[], &[]);
    let invalid = || {
        linked().with_link("east", |entry| {
            entry.target = Err(InvalidLink::GatewayPort("x".to_owned()));
        })
    };
    let ours = NameOwner::Purpose(Purpose::Federated("web"));
    for (situation, state, service, holder) in [
        (
            "a Link names its cluster",
            linked(),
            earlier("web@east"),
            ours,
        ),
        ("one of them", linked(), earlier("web@west,web@east"), ours),
        (
            "a Link that is invalid does",
            invalid(),
            earlier("web@east"),
            ours,
        ),
        (
            "no Link does",
            linked(),
            earlier("web@west"),
            NameOwner::Unnamed,
        ),
        ("it names none", linked(), earlier(""), ours),
        (
            "Linkerd's service mirror made it",
            linked(),
            federated("web@west"),
            ours,
        ),
    ] {
        assert_eq!(state.name_owner(&service.0), holder, "{situation}");
    }
}

#[test]
fn probe_service_names_are_claimed_only_in_the_namespace_of_links() {
    let linked = state().linked(aged("east", 0), &[svc("web").exported()], &[]);
    assert!(linked.is_wanted(LINKS, "probe-east"));
    assert!(!linked.is_wanted("ns", "probe-east"));
    assert!(linked.is_wanted("ns", "web-east"));
    assert!(!linked.is_wanted("ns", "other-east"));
}

#[test]
fn host_that_is_not_ready_claims_no_name() {
    let mut slice = hosts("db", &["h", "i"]);
    slice.endpoints[0] = endpoint("192.0.2.50", Some("h"), false);
    let service = svc("db").exported().headless();
    let state = state().linked(aged("c", 0), &[service], &[slice]);
    assert_eq!(state.first_claim("ns", "h-c"), None);
    assert!(matches!(
        state.first_claim("ns", "i-c"),
        Some(Purpose::Host { .. })
    ));
}
