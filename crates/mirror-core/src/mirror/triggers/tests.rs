//! Which keys a change concerns, of each kind of object.

use std::time::Duration;

use super::*;
use crate::{
    api::{
        link::LinkObject,
        metadata::OwnerReference,
        preference::{ClusterRef, FailedOver, Outage},
    },
    mirror::{
        LinkEntry, Target,
        fixtures::{
            LINKS, Svc, at, backing, entry, hosts, link, omitted, slice, state, svc, target,
        },
    },
};

/// A Link that keeps headless Services headless.
fn headless(cluster: &str) -> Target {
    Target::parse(&link(cluster), true).unwrap()
}

#[test]
fn a_fully_qualified_name_gives_the_key_of_a_service() {
    let mirror = |service: &str| Some(Key::mirror("east", "ns", service));
    for (name, fq_name, expected) in [
        ("web-east", "web.ns.svc.cluster.local", mirror("web")),
        ("a-b-east", "a-b.ns.svc.cluster.local", mirror("a-b")),
        ("db-0-east", "db-0.db.ns.svc.cluster.local", mirror("db")),
        ("web-east", "web.ns.svc", mirror("web")),
        ("web-east", "web.other.svc.cluster.local", None),
        ("db-0-east", "db-0.db.other.svc.cluster.local", None),
        ("api-east", "web.ns.svc.cluster.local", None),
        ("web", "web.ns.svc.cluster.local", None),
        ("web-", "web.ns.svc.cluster.local", None),
        ("webeast", "web.ns.svc.cluster.local", None),
        ("web-east", "web.ns.pod.cluster.local", None),
        ("web-east", "web", None),
        ("web-east", "", None),
    ] {
        assert_eq!(
            written_for("ns", name, fq_name),
            expected,
            "{name}: {fq_name}"
        );
    }
}

#[test]
fn a_local_service_concerns_its_own_key_whatever_labels_it_has_left() {
    let mirror = svc("web-east").mirrored_by_linkerd("east", "web");
    let host = svc("db-0-east")
        .mirrored_by_linkerd("east", "db-0.db")
        .label(l::HEADLESS_MIRROR, "db-east");
    let probe = svc("probe-east")
        .within(LINKS)
        .label(l::MIRRORED_GATEWAY, "true")
        .label(l::CLUSTER_NAME, "east");
    let stripped = svc("web-east").annotation(l::REMOTE_FQ_NAME, "web.ns.svc.cluster.local");
    let ours = stripped.clone().annotation(l::MANAGED_BY, l::MANAGER);
    let (web, db) = (
        Key::mirror("east", "ns", "web"),
        Key::mirror("east", "ns", "db"),
    );
    for (what, service, expected) in [
        ("a mirror", mirror, vec![web.clone()]),
        ("an endpoint mirror", host, vec![db]),
        ("a probe Service", probe, vec![Key::gateway("east")]),
        ("one that lost its labels", ours, vec![web]),
        ("somebody else's", stripped, vec![]),
    ] {
        // Without Links, only a probe Service may claim its name too.
        let mut keys = state().keys_of_local(&service.0);
        keys.dedup();
        assert_eq!(keys, expected, "{what}");
    }
}

#[test]
fn a_local_slice_concerns_the_services_that_it_was_written_for() {
    let labelled = |service: &str, labels: &[(&str, &str)]| {
        let mut made = slice(service, "ipv4");
        for (key, value) in labels {
            made.metadata.labels.insert(key, value);
        }
        made
    };
    let mut defaced = slice("web-east", "ipv4");
    let owner = OwnerReference {
        name: "web-east".into(),
        ..OwnerReference::default()
    };
    defaced.metadata.labels = crate::api::map::Map::default();
    defaced.metadata.owner_references = [owner].into();
    defaced
        .metadata
        .annotations
        .insert(l::REMOTE_FQ_NAME, "web.ns.svc.cluster.local");
    let key = |service: &str| Key::mirror("east", "ns", service);
    let of_east = (l::CLUSTER_NAME, "east");
    for (what, slice, expected) in [
        (
            "a mirror's",
            labelled("web-east", &[of_east]),
            vec![key("web")],
        ),
        (
            "an endpoint mirror's",
            labelled("db-0-east", &[of_east, (l::HEADLESS_MIRROR, "db-east")]),
            vec![key("db"), key("db-0")],
        ),
        (
            "a probe Service's",
            labelled("probe-east", &[of_east, (l::MIRRORED_GATEWAY, "true")]),
            vec![Key::gateway("east")],
        ),
        ("one that lost its labels", defaced, vec![key("web")]),
        ("somebody else's", slice("web", "x"), vec![]),
    ] {
        assert_eq!(state().keys_of_local_slice(&slice), expected, "{what}");
    }
}

#[test]
fn slice_that_others_created_for_a_probe_service_concerns_its_probe() {
    let mut made = slice("probe-east", "x");
    made.metadata.labels.insert(l::CLUSTER_NAME, "east");
    let probe = svc("probe-east")
        .label(l::CLUSTER_NAME, "east")
        .label(l::MIRRORED_GATEWAY, "true");
    let keys = state().local(&[probe]).keys_of_local_slice(&made);
    assert!(keys.contains(&Key::gateway("east")), "{keys:?}");
}

#[test]
fn slice_of_a_former_mirror_concerns_the_present_owner_of_its_name() {
    // Cluster `c` exported `a-b`, and now `b-c` exports `a`.
    let mut left = slice("a-b-c", "x");
    left.metadata.labels.insert(l::CLUSTER_NAME, "c");
    let former = Key::mirror("c", "ns", "a-b");
    assert_eq!(
        state().keys_of_local_slice(&left),
        std::slice::from_ref(&former)
    );
    let now = svc("a-b-c").mirrored_by_linkerd("b-c", "a");
    let state = state().local(&[now]);
    let keys = [former, Key::mirror("b-c", "ns", "a")];
    assert_eq!(state.keys_of_local_slice(&left), keys);
}

#[test]
fn hosts_of_a_headless_service_concern_keys_that_claim_their_names() {
    let slice = hosts("db", &["db-0", "db-1"]);
    let own = Key::mirror("east", "ns", "db");
    let by_name = [
        Key::mirror("east", "ns", "db-0"),
        Key::mirror("east", "ns", "db-1"),
    ];
    let remote = [svc("db").exported().headless()];
    for (what, target, with_hosts) in [
        ("mirrored by host", headless("east"), true),
        ("mirrored as a whole", target("east"), false),
    ] {
        let state = state().linked(target, &remote, std::slice::from_ref(&slice));
        for keys in [
            state.keys_of_remote_slice("east", &slice),
            state.keys_of_remote("east", &remote[0].0),
        ] {
            assert!(keys.contains(&own), "{what}: {keys:?}");
            for key in &by_name {
                assert_eq!(keys.contains(key), with_hosts, "{what}: {key}: {keys:?}");
            }
        }
    }
}

#[test]
fn a_member_concerns_its_federated_service_and_keys_that_claim_its_name() {
    let state = state().linked(target("federated"), &[], &[]);
    let keys = state.keys_of_member(&svc("web").member().0);
    let expected = [
        Key::federated("ns", "web"),
        Key::federated("ns", "web"),
        Key::mirror("federated", "ns", "web"),
    ];
    assert_eq!(keys, expected);
}

#[test]
fn a_cluster_concerns_its_exports_and_its_local_objects() {
    let mirror = |name: &str, cluster: &str| {
        svc(&format!("{name}-{cluster}")).mirrored_by_linkerd(cluster, name)
    };
    let federated = svc("api-federated")
        .label(l::MIRRORED_SERVICE, "true")
        .annotation(l::REMOTE_DISCOVERY, "api@north");
    let of = |cluster: &str| {
        let mut made = slice(&format!("left-{cluster}"), "ipv4");
        made.metadata.labels.insert(l::CLUSTER_NAME, cluster);
        made
    };
    let state = state()
        .linked(target("east"), &[svc("web").exported()], &[backing("web")])
        .linked(target("north"), &[svc("other").exported()], &[])
        .local(&[mirror("gone", "east"), mirror("kept", "north"), federated])
        .local_slice(of("east"))
        .local_slice(of("north"));
    let keys = state.keys_of_cluster("east");
    for (key, expected) in [
        (Key::gateway("east"), true),
        (Key::mirror("east", "ns", "web"), true),
        (Key::federated("ns", "web"), false),
        (Key::mirror("east", "ns", "gone"), true),
        (Key::mirror("east", "ns", "left"), true),
        (Key::federated("ns", "api"), false),
        (Key::gateway("north"), false),
        (Key::mirror("north", "ns", "other"), false),
        (Key::mirror("north", "ns", "kept"), false),
        (Key::mirror("north", "ns", "left"), false),
    ] {
        assert_eq!(keys.contains(&key), expected, "{key}: {keys:?}");
    }
    let mut once = keys.clone();
    once.dedup();
    assert_eq!(keys, once, "each once");
}

#[test]
fn exports_of_a_cluster_exclude_those_of_others() {
    let linked = state()
        .linked(target("east"), &[svc("web").exported()], &[])
        .linked(target("west"), &[svc("other").exported()], &[]);
    let web = Key::mirror("east", "ns", "web");
    assert_eq!(linked.keys_of_exports("east"), [web]);
}

#[test]
fn a_change_of_left_out_services_concerns_those_in_either_set() {
    let linked = state().linked(target("east"), &[svc("web").exported()], &[]);
    let keys = |before: &Omitted, now: &Omitted| linked.keys_of_limit("east", before, now);
    let (a, b) = (omitted("a", true), omitted("b", true));
    let [key_a, key_b] = ["a", "b"].map(|name| Key::mirror("east", "ns", name));
    assert_eq!(keys(&a, &a), []);
    assert_eq!(keys(&a, &b), [key_a.clone(), key_b]);
    assert_eq!(keys(&a, &Omitted::default()), [key_a]);
    // If the names are not known, any Service may be omitted.
    let any = linked.keys_of_cluster("east");
    assert_eq!(keys(&a, &omitted("a", false)), any);
    assert_eq!(keys(&omitted("a", false), &a), any);
}

#[test]
fn link_that_may_name_any_cluster_concerns_all_local_objects() {
    let entry = |link, unreadable: Option<&str>| {
        let unreadable = unreadable.map(str::to_owned);
        LinkEntry::new(&LinkObject { link, unreadable }, false)
    };
    let unknown = || {
        let mut link = link("odd");
        link.spec.target_cluster_name.clear();
        entry(link, Some("odd"))
    };
    let gone = svc("web-gone").mirrored_by_linkerd("gone", "web");
    let mut state = state().local(&[gone]);
    let key = Key::mirror("gone", "ns", "web");
    let mut change = |entry: Option<LinkEntry>| {
        let keys = state.change_link("odd", |links| match entry {
            Some(entry) => drop(links.insert("odd".to_owned(), entry)),
            None => drop(links.remove("odd")),
        });
        keys.contains(&key)
    };
    let readable = entry(link("odd"), None);
    assert!(!change(Some(readable.clone())));
    assert!(change(Some(unknown())));
    assert!(change(Some(readable.clone())));
    assert!(change(Some(unknown())));
    assert!(change(None));
    assert!(!change(Some(readable)));
}

#[test]
fn members_concern_their_federated_services() {
    let members = ["web", "api"].map(|name| svc(name).member());
    let state = members.into_iter().fold(state(), State::local_member);
    let keys = once_each(state.keys_of_members());
    assert_eq!(keys, ["api", "web"].map(|name| Key::federated("ns", name)));
}

/// The federated Service of members of this name, whose preferred cluster receives requests again at this time.
fn failed_over(member: &str, until: Option<i64>) -> Svc {
    let outage = Outage {
        since: at(0),
        until: until.map(at),
    };
    let failed_over = FailedOver([(ClusterRef::Local, outage)].into());
    svc(&format!("{member}-federated"))
        .label(l::MIRRORED_SERVICE, "true")
        .annotation(l::LOCAL_DISCOVERY, member)
        .annotation(l::FAILED_OVER, &failed_over.to_string())
}

#[test]
fn service_that_names_very_many_clusters_concerns_few_keys() {
    let many: Vec<String> = (0..20_000).map(|n| format!("c{n}")).collect();
    let made = svc("x-federated")
        .label(l::MIRRORED_SERVICE, "true")
        .annotation(l::PREFER, &many.join(","));
    let state = state().local(std::slice::from_ref(&made));
    assert!(state.keys_of_local(&made.0).len() <= 100);
}

#[test]
fn the_end_of_a_hold_down_concerns_its_federated_service() {
    let mut state = state().local(&[
        failed_over("web", Some(100)),
        failed_over("api", Some(200)),
        failed_over("away", None),
        svc("db-federated"),
    ]);
    let [web, api] = ["web", "api"].map(|name| Key::federated("ns", name));
    for (now, returned, next) in [
        (0, &[][..], Some(100)),
        (99, &[], Some(100)),
        (99, &[], Some(100)),
        (100, std::slice::from_ref(&web), Some(200)),
        (300, std::slice::from_ref(&api), None),
        // The clock is set back.
        (150, std::slice::from_ref(&api), Some(200)),
        (50, &[web.clone(), api.clone()], Some(100)),
        (250, &[web.clone(), api.clone()], None),
    ] {
        assert_eq!(state.advance(at(now)).1, returned, "{now}");
        assert_eq!(state.next_turn(), next.map(at), "{now}");
    }
}

#[test]
fn every_end_of_a_hold_down_concerns_the_federated_service() {
    let twice = failed_over("web", Some(100));
    let text = twice.0.metadata.annotations.get(l::FAILED_OVER).unwrap();
    let both = format!("{text},west=1970-01-01T00:00:00Z/1970-01-01T00:03:20Z");
    let mut state = state().local(&[twice.annotation(l::FAILED_OVER, &both)]);
    let web = [Key::federated("ns", "web")];
    for (now, returned, next) in [
        (0, &[][..], Some(100)),
        (100, &web, Some(200)),
        (200, &web, None),
        // The clock is set back.
        (0, &web, Some(100)),
    ] {
        assert_eq!(state.advance(at(now)).1, returned, "{now}");
        assert_eq!(state.next_turn(), next.map(at), "{now}");
    }
}

#[test]
fn hold_down_that_is_longer_or_over_by_now_has_no_other_end() {
    let mut state = state().local(&[failed_over("web", Some(100)), failed_over("api", Some(200))]);
    let mirrors = &mut state.here().mirrors;
    mirrors.put(failed_over("web", Some(300)).arc());
    assert_eq!(state.next_turn(), Some(at(200)));
    state.here().mirrors.forget("ns", "api-federated");
    assert_eq!(state.next_turn(), Some(at(300)));
    state.here().mirrors.put(failed_over("web", None).arc());
    assert_eq!(state.next_turn(), None);
}

#[test]
fn cluster_is_new_again_if_the_clock_is_set_back() {
    let joins = 120;
    let mut state = state();
    state.config.join_delay = Duration::from_secs(20);
    let linked = LinkEntry {
        linked: Some(at(joins - 20)),
        ..entry(target("west"))
    };
    let mut state = state.with_entry(linked, &[svc("web").member()], &[]);
    for (now, concerns) in [
        (joins - 1, false),
        (joins, true),
        (joins, false),
        (joins - 1, true),
        (joins + 1, true),
        (joins - 1, true),
    ] {
        let (turned, _) = state.advance(at(now));
        assert_eq!(turned.contains_key("west"), concerns, "{now}");
    }
}
