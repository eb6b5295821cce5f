//! Which of several Links is in charge of a cluster.

use super::*;
use crate::mirror::fixtures::{at, entry, link};

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
        cluster: cluster.to_owned(),
        target: Err(InvalidLink::GatewayPort("x".to_owned())),
        remote: None,
        gateway: GatewayState::default(),
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
            "W-25 of the same second: by name",
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
fn charge_passes_on_when_a_link_goes_or_turns_to_another_cluster() {
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
    known.set_target("y", "west", named("y", "west", 1).target);
    assert_eq!(first(&known).as_deref(), Some("a"));
    assert_eq!(
        known
            .in_charge("west")
            .map(|(target, _)| target.link.as_str()),
        Some("y")
    );

    let mut known = links(&[("a", &young), ("y", &old)]);
    known.set_target("y", "east", Err(InvalidLink::GatewayPort("x".to_owned())));
    assert_eq!(first(&known).as_deref(), Some("a"));
    assert!(known.is_named_by_invalid("east"));
    known.insert("y".to_owned(), old);
    assert_eq!(first(&known).as_deref(), Some("y"));
    assert!(!known.is_named_by_invalid("east"));
    assert_eq!(known.naming("east").collect::<Vec<_>>(), ["a", "y"]);
    known.remove("a");
    known.remove("y");
    assert_eq!(first(&known), None);
    assert_eq!(known.all_in_charge().count(), 0);
}
