//! Which of several Links is in charge of a cluster.

use super::*;
use crate::mirror::{
    Liveness, State,
    fixtures::{at, entry, link},
};

fn named(name: &str, cluster: &str, created: i64) -> LinkEntry {
    let mut made = link(name);
    cluster.clone_into(&mut made.spec.target_cluster_name);
    made.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        at(created),
    ));
    entry(Target::parse(&made, false).unwrap())
}

fn broken(cluster: &str) -> LinkEntry {
    LinkEntry {
        cluster: Some(cluster.to_owned()),
        created: None,
        linked: None,
        listed: None,
        target: Err(InvalidLink::GatewayPort("x".to_owned())),
        remote: None,
        gateway: GatewayState::default(),
        api_gateway: GatewayState::default(),
    }
}

fn created(time: i64, entry: LinkEntry) -> LinkEntry {
    LinkEntry {
        created: Some(at(time)),
        ..entry
    }
}

fn links(entries: &[(&str, &LinkEntry)]) -> Links {
    let entries = entries
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), (*entry).clone()));
    entries.collect()
}

#[test]
fn the_oldest_link_that_can_be_read_is_in_charge() {
    let (old, young) = (named("y", "east", 1), named("a", "east", 2));
    let (tie, other, bad) = (named("b", "east", 2), named("w", "west", 0), broken("east"));
    for (what, entries, first) in [
        ("3.7 one Link", vec![("a", &young)], Some("a")),
        (
            "two: the older one, whatever its name",
            vec![("a", &young), ("y", &old)],
            Some("y"),
        ),
        (
            "of the same second: by name",
            vec![("b", &tie), ("a", &young)],
            Some("a"),
        ),
        (
            "another cluster's says nothing",
            vec![("w", &other), ("a", &young)],
            Some("a"),
        ),
        ("one that cannot be read", vec![("0", &bad)], None),
        (
            "one that cannot be read, and a good one",
            vec![("0", &bad), ("a", &young)],
            Some("a"),
        ),
        ("none", vec![], None),
    ] {
        let links = links(&entries);
        let in_charge = links
            .in_charge("east")
            .map(|(target, _)| target.link.as_str());
        assert_eq!(in_charge, first, "{what}");
    }
}

#[test]
fn the_next_link_is_in_charge_when_one_is_deleted_or_moves() {
    let (old, young) = (named("y", "east", 1), named("a", "east", 2));
    let first = |links: &Links| {
        links
            .in_charge("east")
            .map(|(target, _)| target.link.clone())
    };
    let mut known = links(&[("a", &young), ("y", &old)]);
    known.remove("y");
    assert_eq!(first(&known).as_deref(), Some("a"));

    let mut known = links(&[("a", &young), ("y", &old)]);
    known.insert("y".to_owned(), named("y", "west", 1));
    assert_eq!(first(&known).as_deref(), Some("a"));
    assert_eq!(
        known
            .in_charge("west")
            .map(|(target, _)| target.link.as_str()),
        Some("y")
    );

    let mut known = links(&[("a", &young), ("y", &old)]);
    known.insert("y".to_owned(), broken("east"));
    assert_eq!(first(&known).as_deref(), Some("a"));
    assert!(known.may_keep("east"));
    known.insert("y".to_owned(), old);
    assert_eq!(first(&known).as_deref(), Some("y"));
    assert!(!known.may_keep("east"));
    assert_eq!(known.naming("east").collect::<Vec<_>>(), ["y", "a"]);
    known.remove("a");
    known.remove("y");
    assert_eq!(first(&known), None);
    assert_eq!(known.all_in_charge().count(), 0);
}

#[test]
fn an_invalid_link_that_was_in_charge_stays_in_charge_until_it_is_deleted() {
    let (old, young) = (named("y", "east", 1), named("a", "east", 2));
    let invalid = |cluster: Option<&str>, last: Option<&str>| LinkEntry {
        cluster: cluster.map(str::to_owned),
        ..listed(last, &created(1, broken("x")))
    };
    let in_charge = |known: &Links| {
        let found = known.in_charge("east");
        found.map(|(target, _)| target.link.clone())
    };
    for (what, broken, first, kept) in [
        (
            "it names the cluster",
            invalid(Some("east"), Some("east")),
            None,
            true,
        ),
        (
            "it names another one",
            invalid(Some("north"), Some("east")),
            None,
            true,
        ),
        ("it names none", invalid(None, Some("east")), None, true),
        (
            "it was never in charge",
            invalid(Some("east"), None),
            Some("a"),
            true,
        ),
        (
            "it was in charge of another one",
            invalid(Some("east"), Some("north")),
            Some("a"),
            true,
        ),
        (
            "it is the younger one",
            created(3, invalid(Some("east"), Some("east"))),
            Some("a"),
            true,
        ),
    ] {
        let mut known = links(&[("a", &young), ("y", &old)]);
        assert_eq!(in_charge(&known).as_deref(), Some("y"), "{what}");
        known.insert("y".to_owned(), broken);
        assert_eq!(in_charge(&known).as_deref(), first, "{what}");
        assert_eq!(known.may_keep("east"), kept, "{what}");
        assert_eq!(known.holder("east"), first.or(Some("y")), "{what}");
        known.remove("y");
        assert_eq!(in_charge(&known).as_deref(), Some("a"), "{what}");
        assert!(!known.may_keep("east"), "{what}");
    }
}

/// A Link whose status says which cluster was listed last.
fn listed(last: Option<&str>, entry: &LinkEntry) -> LinkEntry {
    LinkEntry {
        listed: last.map(str::to_owned),
        remote: None,
        ..entry.clone()
    }
}

#[test]
fn clusters_that_a_link_may_have_mirrored_are_kept() {
    let unknown = LinkEntry {
        cluster: None,
        ..broken("x")
    };
    let moving = listed(Some("east"), &named("m", "west", 1));
    let west = named("w", "west", 0);
    let unlisted = listed(None, &west);
    for (what, entries, kept) in [
        ("no Link", vec![], [false, false]),
        (
            "a Link of another cluster",
            vec![("w", &west)],
            [false, false],
        ),
        (
            "names it and is invalid",
            vec![("b", &broken("east"))],
            [true, false],
        ),
        ("may name any", vec![("u", &unknown)], [true, true]),
        (
            "names none, and listed it last",
            vec![("u", &listed(Some("east"), &unknown))],
            [true, false],
        ),
        (
            "invalid, names one and listed another",
            vec![("b", &listed(Some("east"), &broken("north")))],
            [true, true],
        ),
        ("moves, not listed yet", vec![("m", &moving)], [true, false]),
        (
            "moves, and the Link in charge there has not listed it",
            vec![("m", &moving), ("w", &unlisted)],
            [true, false],
        ),
        (
            "moves, and the Link in charge there has listed it",
            vec![("m", &moving), ("w", &west)],
            [false, false],
        ),
        ("stays", vec![("e", &named("e", "east", 1))], [false, false]),
    ] {
        let links = links(&entries);
        assert_eq!(["east", "north"].map(|c| links.may_keep(c)), kept, "{what}");
    }
}

#[test]
fn only_an_invalid_link_that_names_no_cluster_may_name_any() {
    let unknown = LinkEntry {
        cluster: None,
        ..broken("x")
    };
    for (what, entry, any) in [
        ("a valid one", &named("l", "east", 1), false),
        ("invalid, and names one", &broken("east"), false),
        ("names none", &unknown, true),
        (
            "names none, and listed one last",
            &listed(Some("east"), &unknown),
            false,
        ),
    ] {
        assert_eq!(links(&[("l", entry)]).is_any_cluster("l"), any, "{what}");
    }
    assert!(!links(&[]).is_any_cluster("l"), "there is none");
}

#[test]
fn mirrors_of_the_old_cluster_are_kept_until_the_new_one_is_listed() {
    let moving = listed(Some("east"), &named("m", "west", 1));
    let mut known = links(&[("m", &moving)]);
    assert_eq!(known.left_for("west").collect::<Vec<_>>(), ["east"]);
    known.listed("m", RemoteState::default());
    assert!(!known.may_keep("east"));
    assert_eq!(known.left_for("west").count(), 0);
    assert_eq!(known.get("m").unwrap().listed.as_deref(), Some("west"));
    // What is known through an invalid Link says nothing about a cluster.
    known.insert("m".to_owned(), listed(Some("west"), &broken("south")));
    known.listed("m", RemoteState::default());
    assert_eq!(known.get("m").unwrap().listed.as_deref(), Some("west"));
}

#[test]
fn only_a_valid_other_name_is_a_move() {
    let east = named("e", "east", 1);
    let bad = |cluster: Option<&str>| LinkEntry {
        cluster: cluster.map(str::to_owned),
        ..broken("x")
    };
    for (before, now, left) in [
        (&east, &named("e", "west", 1), Some("east")),
        (&east, &east, None),
        (&east, &bad(Some("west")), None),
        (&east, &bad(None), None),
        (&bad(None), &east, None),
        (&bad(Some("west")), &east, Some("west")),
        (&listed(Some("west"), &bad(None)), &east, Some("west")),
        // It was invalid when it got its new name, so what is known is still that of the old cluster.
        (
            &listed(Some("west"), &bad(Some("east"))),
            &east,
            Some("west"),
        ),
        (&listed(Some("east"), &bad(Some("west"))), &east, None),
    ] {
        assert_eq!(before.left_for(now).as_deref(), left, "{before:?} {now:?}");
    }
}

#[test]
fn federated_services_are_made_of_slices_if_a_link_in_charge_leads_through_a_gateway() {
    let through_gateway = |name: &str, cluster: &str, created: i64| {
        let mut made = named(name, cluster, created);
        if let Ok(target) = &mut made.target {
            target.federated_through = FederatedThrough::Gateway;
        }
        made
    };
    let (east, west) = (named("e", "east", 1), through_gateway("w", "west", 2));
    let younger = through_gateway("y", "east", 2);
    for (what, entries, expected) in [
        ("no Links", vec![], false),
        ("none does", vec![("e", &east)], false),
        ("the only one does", vec![("w", &west)], true),
        ("one of two does", vec![("e", &east), ("w", &west)], true),
        (
            "one that is not in charge does",
            vec![("e", &east), ("y", &younger)],
            false,
        ),
    ] {
        let links = links(&entries);
        assert_eq!(links.by_slices(|| false), expected, "{what}");
        assert!(links.by_slices(|| true), "{what}");
        let state = State {
            links,
            ..State::default()
        };
        assert_eq!(state.by_slices(), expected, "{what}");
    }
}

#[test]
fn links_are_found_by_when_they_were_linked() {
    let mut known = links(&[("m", &named("m", "west", 1))]);
    let since = |known: &Links, second| -> Vec<(String, Timestamp)> {
        let found = known.linked_since(at(second));
        found.map(|(t, at)| (t.link.clone(), at)).collect()
    };
    assert_eq!(since(&known, 0), []);
    known.linked("m", Some(at(5)));
    assert_eq!(since(&known, 5), [("m".to_owned(), at(5))]);
    assert_eq!(since(&known, 6), []);
    known.linked("m", Some(at(7)));
    assert_eq!(since(&known, 0), [("m".to_owned(), at(7))]);
    known.linked("m", None);
    assert_eq!(since(&known, 0), []);
}

#[test]
fn what_another_replica_recorded_is_taken_over() {
    let moved = listed(Some("west"), &named("m", "west", 1));
    let mut known = links(&[("m", &moved)]);
    assert_eq!(known.left_for("west").count(), 0);
    let gateway = GatewayState {
        addresses: None,
        liveness: Liveness::Dead,
    };
    known.take_over("m", Some("east".to_owned()), gateway.clone());
    assert_eq!(known.get("m").unwrap().gateway, gateway);
    // The other replica has not listed the new cluster, so there may be mirrors of the old one.
    assert_eq!(known.left_for("west").collect::<Vec<_>>(), ["east"]);
    assert!(known.may_keep("east"));
}

#[test]
fn objects_may_belong_to_a_link_that_has_left_and_is_older() {
    let left = listed(Some("east"), &named("m", "west", 5));
    let known = links(&[("m", &left)]);
    for (than, older) in [
        ((Some(at(4)), "m"), false),
        ((Some(at(5)), "a"), false),
        // It is not older than itself.
        ((Some(at(5)), "m"), false),
        ((Some(at(5)), "n"), true),
        ((Some(at(6)), "a"), true),
    ] {
        assert_eq!(known.older_may_keep("east", than), older, "{than:?}");
    }
    assert!(!known.older_may_keep("south", (Some(at(6)), "a")));
}
