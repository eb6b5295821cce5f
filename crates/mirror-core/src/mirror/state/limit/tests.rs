//! Which objects are kept and which are omitted, after lists and after single changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;

use super::{listing::Listing, *};
use crate::{
    api::{k8s::EndpointSlice, labels as l, wire::StoredObject as _},
    mirror::{
        fixtures::{backing, hosts, state, svc, target},
        key::Names,
    },
};

fn id(n: usize) -> (String, String) {
    (format!("ns-{}", n % 2), format!("svc-{n}"))
}

fn number(limit: &Limit, n: usize) -> u64 {
    let (namespace, name) = id(n);
    limit.number(&namespace, &name)
}

fn put(listing: &mut Listing<'_, usize>, n: usize) {
    put_heavy(listing, n, 0);
}

fn put_heavy(listing: &mut Listing<'_, usize>, n: usize, bytes: usize) {
    let (namespace, name) = id(n);
    let number = listing.number(&namespace, &name);
    listing.put(number, bytes, Arc::new(n), |n| id(*n));
}

/// Receives a list. Returns the objects that are kept, and what is omitted.
fn listed(limit: &mut Limit, there: &BTreeSet<usize>) -> (BTreeSet<usize>, Omitted) {
    let mut listing = limit.list();
    for n in there {
        put(&mut listing, *n);
    }
    let (taken, omitted) = listing.end(|n| id(*n));
    (taken.iter().map(|n| **n).collect(), omitted)
}

fn names(of: impl IntoIterator<Item = usize>) -> Names {
    of.into_iter().map(id).collect()
}

#[test]
fn objects_that_are_kept_have_priority() {
    let mut limit = Limit::of(2).first(&names([8]));
    let (taken, omitted) = listed(&mut limit, &[1, 3, 8, 9].into());
    assert_eq!(taken, [1, 8].into());
    assert_eq!(omitted.services(), &names([3, 9]));
    let (taken, omitted) = listed(&mut limit, &[0, 1, 8].into());
    assert_eq!((taken, omitted.services()), ([1, 8].into(), &names([0])));
    // More objects than there is room for were kept before the limit was lowered.
    let mut limit = Limit::of(1).first(&names([1, 3]));
    let (taken, omitted) = listed(&mut limit, &[0, 1, 3].into());
    assert_eq!((taken, omitted.services().len()), ([1].into(), 2));
}

#[test]
fn list_that_breaks_off_changes_nothing() {
    let mut limit = Limit::of(1);
    listed(&mut limit, &[8].into());
    let mut listing = limit.list();
    put(&mut listing, 1);
    drop(listing);
    let (taken, omitted) = listed(&mut limit, &[1, 8].into());
    assert_eq!((taken, omitted.services()), ([8].into(), &names([1])));
}

#[test]
fn without_a_limit_everything_is_kept() {
    let mut limit = Limit::default();
    let all: BTreeSet<usize> = (0..100).collect();
    let (taken, omitted) = listed(&mut limit, &all);
    assert_eq!((taken, omitted.is_empty()), (all, true));
    assert!(limit.admits(number(&limit, 200), 0));
    limit.gone(number(&limit, 200));
    assert!(!limit.is_stale());
    // There is nothing to remember.
    assert!(limit.kept.is_empty());
}

#[test]
fn new_objects_get_free_room_and_deletions_of_unknown_objects_change_nothing() {
    let mut limit = Limit::of(2);
    assert_eq!(limit.max(), 2);
    listed(&mut limit, &[1].into());
    assert!(limit.admits(number(&limit, 3), 0) && !limit.is_stale());
    listed(&mut limit, &[1, 3, 5].into());
    limit.gone(number(&limit, 7));
    assert!(!limit.is_stale());
    // An object that was omitted is deleted.
    limit.gone(number(&limit, 5));
    assert!(limit.is_stale());
}

#[test]
fn left_out_services_can_be_forgotten() {
    let mut omitted = Omitted::default();
    omitted.add(id(1));
    omitted.add(id(2));
    omitted.retain(|service| *service == id(1));
    assert_eq!(omitted.services(), &names([1]));
}

#[test]
fn services_with_local_objects_are_found_for_a_cluster() {
    let federated = svc("all-federated")
        .label(l::MIRRORED_SERVICE, "true")
        .annotation(l::REMOTE_DISCOVERY, "all@east");
    let host = svc("db-0-east")
        .mirrored_by_linkerd("east", "db-0.db")
        .label(l::HEADLESS_MIRROR, "db-east");
    let stripped = svc("api-west")
        .annotation(l::MANAGED_BY, l::MANAGER)
        .annotation(l::REMOTE_FQ_NAME, "api.ns.svc.cluster.local");
    let state = state().linked(target("east"), &[], &[]).local(&[
        svc("web-east").mirrored_by_linkerd("east", "web"),
        svc("web-west").mirrored_by_linkerd("west", "web"),
        federated,
        host,
        stripped,
    ]);
    let local = state.local.unwrap();
    let own = |service: &str| ("ns".to_owned(), service.to_owned());
    assert_eq!(
        local.services_with_objects("east"),
        [own("web"), own("all"), own("db"), own("db-0")].into()
    );
    assert_eq!(
        local.services_with_objects("west"),
        [own("web"), own("api")].into()
    );
}

#[test]
fn the_number_of_names_kept_is_limited() {
    let mut limit = Limit::of(1);
    let there = (0..NAMED + 11).collect();
    let (_, omitted) = listed(&mut limit, &there);
    assert_eq!(omitted.services().len(), NAMED);
    assert_eq!(omitted.unnamed(), 10);
    assert!(omitted.names(&id(1)) && !omitted.names(&("ns".to_owned(), "none".to_owned())));
    assert!(!omitted.is_complete() && !omitted.is_empty());
}

#[test]
fn a_list_over_the_limit_is_detected_while_it_is_received() {
    let mut limit = Limit::of(2);
    let mut listing = limit.list();
    for n in 0..3 {
        assert!(!listing.is_over(), "{n}");
        put(&mut listing, n);
    }
    assert!(listing.is_over());
    // Objects that were kept before count as well.
    let mut limit = Limit::of(2).first(&names([0, 2]));
    let mut listing = limit.list();
    for n in [0, 2, 4] {
        assert!(!listing.is_over(), "{n}");
        put(&mut listing, n);
    }
    assert!(listing.is_over());
}

/// Receives a list of objects with their bytes.
fn listed_heavy(limit: &mut Limit, there: &[(usize, usize)]) -> (BTreeSet<usize>, Omitted) {
    let mut listing = limit.list();
    for (n, bytes) in there {
        put_heavy(&mut listing, *n, *bytes);
    }
    let (taken, omitted) = listing.end(|n| id(*n));
    (taken.iter().map(|n| **n).collect(), omitted)
}

#[test]
fn objects_with_too_many_bytes_are_left_out_until_there_is_room() {
    let all = Budget::new(100);
    let (own, other) = (all.part(80), all.part(80));
    let mut limit = Limit::of(9).within(own.clone());
    let (taken, omitted) = listed_heavy(&mut limit, &[(1, 50), (2, 40), (3, 30)]);
    assert_eq!((taken, omitted.services()), ([1, 3].into(), &names([2])));
    assert!(omitted.is_heavy() && limit.waits() && !limit.is_stale());
    assert_eq!((own.used(), all.used()), (80, 80));
    // An object that is kept cannot grow beyond the room, and its deletion frees its room.
    assert!(!limit.admits(number(&limit, 1), 51) && limit.is_stale());
    let (taken, omitted) = listed_heavy(&mut limit, &[(1, 50), (2, 40), (3, 20)]);
    assert_eq!((taken, omitted.services()), ([1, 3].into(), &names([2])));
    assert_eq!(own.used(), 70);
    assert!(other.try_reserve(30));
    limit.gone(number(&limit, 1));
    assert!(limit.is_stale());
    let (taken, omitted) = listed_heavy(&mut limit, &[(2, 40), (3, 20)]);
    assert_eq!((taken, omitted.is_empty()), ([2, 3].into(), true));
    assert!(!limit.is_stale() && !omitted.is_heavy());
    // Others take the room, and give it back.
    assert!(!limit.admits(number(&limit, 4), 15) && limit.is_stale());
    listed_heavy(&mut limit, &[(2, 40), (3, 20), (4, 15)]);
    assert!(!limit.is_stale());
    other.release(30);
    assert!(limit.is_stale());
    // An object beyond the maximum size does not wait for room.
    let (_, omitted) = listed_heavy(&mut limit, &[(5, MAX_COST + 1)]);
    assert!(omitted.is_heavy() && !limit.waits());
    drop(limit);
    assert_eq!((own.used(), all.used()), (0, 0));
}

#[test]
fn objects_without_a_place_do_not_wait_for_bytes() {
    let mut limit = Limit::of(2).within(Budget::new(100));
    listed_heavy(&mut limit, &[(1, 30), (2, 30)]);
    // The bytes suffice for one new object, but there is no place for any.
    let all = [(1, 30), (2, 30), (3, 30), (4, 30)];
    let (taken, omitted) = listed_heavy(&mut limit, &all);
    assert_eq!((taken, omitted.services()), ([1, 2].into(), &names([3, 4])));
    assert!(!limit.is_stale() && !limit.waits() && !omitted.is_heavy());
    limit.gone(number(&limit, 1));
    assert!(limit.is_stale());
}

#[test]
fn objects_with_priority_take_the_bytes_of_others() {
    let budget = Budget::new(100);
    let mut limit = Limit::of(9).first(&names([8])).within(budget.clone());
    let (taken, omitted) = listed_heavy(&mut limit, &[(1, 40), (2, 40), (8, 50)]);
    assert_eq!((taken, omitted.services()), ([1, 8].into(), &names([2])));
    assert_eq!(budget.used(), 90);
    // A list that breaks off gives back what it took.
    let mut listing = limit.list();
    put_heavy(&mut listing, 3, 10);
    assert_eq!(budget.used(), 100);
    drop(listing);
    assert_eq!(budget.used(), 90);
}

#[test]
fn object_that_does_not_fit_takes_no_bytes_of_others() {
    let mut limit = Limit::of(9).first(&names([8])).within(Budget::new(100));
    let (taken, omitted) = listed_heavy(&mut limit, &[(1, 40), (8, 120), (9, 40)]);
    assert_eq!((taken, omitted.services()), ([1, 9].into(), &names([8])));
}

#[test]
fn object_of_the_maximum_size_is_kept() {
    let mut limit = Limit::of(9).within(Budget::new(3 * MAX_COST));
    assert!(limit.admits(number(&limit, 1), MAX_COST));
    assert!(!limit.admits(number(&limit, 2), MAX_COST + 1));
}

#[test]
fn hosts_have_a_cost_if_the_link_mirrors_them() {
    let limits = Limits {
        services: 9,
        metadata: 9,
        bytes: 9,
        host: Limits::HOST,
    };
    let (hosts, plain) = (hosts("db", &["db-0", "db-1"]), backing("db"));
    let mut headless = target("east");
    headless.headless = true;
    let of = |target: &Target, slice: &EndpointSlice| limits.of(target).cost(slice);
    let bytes = hosts.weight();
    assert_eq!(of(&headless, &hosts), bytes + 6144);
    assert_eq!(of(&target("east"), &hosts), bytes);
    assert_eq!(of(&headless, &plain), plain.weight());
}

#[derive(Clone, Debug)]
enum Step {
    Comes(usize),
    Goes(usize),
    List,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..8).prop_map(Step::Comes),
        4 => (0usize..8).prop_map(Step::Goes),
        1 => Just(Step::List),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Unless another list is needed: the objects that are kept and those that the last list omitted are all objects,
    /// as many are kept as the limit allows, and an object that is kept stays until it is deleted.
    #[test]
    fn every_object_is_either_kept_or_left_out(max in 1usize..5, steps in prop::collection::vec(step(), 1..40)) {
        let mut limit = Limit::of(max);
        let (mut there, mut taken, mut left) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Comes(n) => {
                    there.insert(n);
                    let known = taken.contains(&n);
                    if limit.admits(number(&limit, n), 0) {
                        taken.insert(n);
                    } else {
                        prop_assert!(!known);
                    }
                }
                Step::Goes(n) => {
                    if there.remove(&n) {
                        limit.gone(number(&limit, n));
                        taken.remove(&n);
                    }
                }
                Step::List => {
                    let (now, omitted) = listed(&mut limit, &there);
                    prop_assert!(now.is_superset(&taken));
                    taken = now;
                    left = there.difference(&taken).copied().collect();
                    prop_assert_eq!(omitted.services(), &names(left.iter().copied()));
                    prop_assert!(!limit.is_stale());
                }
            }
            prop_assert!(taken.len() <= max && taken.is_subset(&there));
            if !limit.is_stale() {
                prop_assert_eq!(&left, &there.difference(&taken).copied().collect::<BTreeSet<_>>());
                prop_assert!(left.is_empty() || taken.len() == max);
            }
        }
    }
}

/// A step with objects of some bytes.
fn heavy_step() -> impl Strategy<Value = (Step, usize)> {
    (step(), 0usize..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The bytes that are taken are those of the objects that are kept, and no object is omitted for which there is
    /// room.
    #[test]
    fn bytes_taken_equal_those_of_the_objects_kept(
        max in 0usize..14,
        steps in prop::collection::vec(heavy_step(), 1..40),
    ) {
        let budget = Budget::new(max);
        let mut limit = Limit::of(5).within(budget.clone());
        let (mut there, mut taken) = (BTreeMap::new(), BTreeMap::new());
        for (step, bytes) in steps {
            match step {
                Step::Comes(n) => {
                    there.insert(n, bytes);
                    if limit.admits(number(&limit, n), bytes) {
                        taken.insert(n, bytes);
                    }
                }
                Step::Goes(n) => {
                    if there.remove(&n).is_some() {
                        limit.gone(number(&limit, n));
                        taken.remove(&n);
                    }
                }
                Step::List => {
                    let all: Vec<_> = there.iter().map(|(n, bytes)| (*n, *bytes)).collect();
                    let (now, omitted) = listed_heavy(&mut limit, &all);
                    taken = there.iter().filter(|(n, _)| now.contains(n)).map(|(n, b)| (*n, *b)).collect();
                    let left = there.keys().filter(|n| !now.contains(n)).copied();
                    prop_assert_eq!(omitted.services(), &names(left));
                }
            }
            prop_assert_eq!(budget.used(), taken.values().sum::<usize>());
            prop_assert!(budget.used() <= max);
            if !limit.is_stale() && taken.len() < 5 {
                let has_room = |(n, bytes): (&usize, &usize)| !taken.contains_key(n) && budget.has(*bytes);
                prop_assert!(!there.iter().any(has_room));
            }
        }
        drop(limit);
        prop_assert_eq!(budget.used(), 0);
    }
}
