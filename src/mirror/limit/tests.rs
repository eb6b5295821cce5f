//! What is taken in and what is left out, as lists and single changes come.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    api::labels as l,
    mirror::fixtures::{svc, target, world},
};

fn id(n: usize) -> (String, String) {
    (format!("ns-{}", n % 2), format!("svc-{n}"))
}

fn number(limit: &Limit, n: usize) -> u64 {
    let (namespace, name) = id(n);
    limit.number(&namespace, &name)
}

fn put(listing: &mut Listing<'_, usize>, n: usize) {
    let number = number(listing.limit, n);
    listing.put(number, Arc::new(n), |n| id(*n));
}

/// Takes in a list. Returns what was taken in, and what was left out.
fn listed(limit: &mut Limit, there: &BTreeSet<usize>) -> (BTreeSet<usize>, LeftOut) {
    let mut listing = limit.list();
    for n in there {
        put(&mut listing, *n);
    }
    let (taken, left_out) = listing.end(|n| id(*n));
    (taken.iter().map(|n| **n).collect(), left_out)
}

fn names(of: impl IntoIterator<Item = usize>) -> Names {
    of.into_iter().map(id).collect()
}

#[test]
fn what_is_taken_in_keeps_its_place() {
    let mut limit = Limit::of(2).first(&names([8]));
    let (taken, left_out) = listed(&mut limit, &[1, 3, 8, 9].into());
    assert_eq!(taken, [1, 8].into());
    assert_eq!(left_out.services(), &names([3, 9]));
    let (taken, left_out) = listed(&mut limit, &[0, 1, 8].into());
    assert_eq!((taken, left_out.services()), ([1, 8].into(), &names([0])));
    // More than there is room for were taken in before the limit was lowered.
    let mut limit = Limit::of(1).first(&names([1, 3]));
    let (taken, left_out) = listed(&mut limit, &[0, 1, 3].into());
    assert_eq!((taken, left_out.services().len()), ([1].into(), 2));
}

#[test]
fn list_that_breaks_off_changes_nothing() {
    let mut limit = Limit::of(1);
    listed(&mut limit, &[8].into());
    let mut listing = limit.list();
    put(&mut listing, 1);
    drop(listing);
    let (taken, left_out) = listed(&mut limit, &[1, 8].into());
    assert_eq!((taken, left_out.services()), ([8].into(), &names([1])));
}

#[test]
fn without_a_limit_everything_is_taken_in() {
    let mut limit = Limit::default();
    let all: BTreeSet<usize> = (0..100).collect();
    let (taken, left_out) = listed(&mut limit, &all);
    assert_eq!((taken, left_out.is_empty()), (all, true));
    assert!(limit.admits(number(&limit, 200)));
    limit.gone(number(&limit, 200));
    assert!(!limit.is_stale());
    // There is nothing to remember.
    assert!(limit.taken.is_empty());
}

#[test]
fn room_is_given_to_who_comes_and_nobody_else_s_end_makes_any() {
    let mut limit = Limit::of(2);
    assert_eq!(limit.most(), 2);
    listed(&mut limit, &[1].into());
    assert!(limit.admits(number(&limit, 3)) && !limit.is_stale());
    listed(&mut limit, &[1, 3, 5].into());
    limit.gone(number(&limit, 7));
    assert!(!limit.is_stale());
    // One that was left out is no longer there.
    limit.gone(number(&limit, 5));
    assert!(limit.is_stale());
}

#[test]
fn what_is_left_out_can_be_forgotten() {
    let mut left_out = LeftOut::default();
    left_out.add(id(1));
    left_out.add(id(2));
    left_out.retain(|service| *service == id(1));
    assert_eq!(left_out.services(), &names([1]));
}

#[test]
fn what_stands_for_a_cluster_names_its_services() {
    let federated = svc("all-federated")
        .label(l::MIRRORED_SERVICE, "true")
        .annotation(l::REMOTE_DISCOVERY, "all@east");
    let world = world().linked(target("east"), &[], &[]).local(&[
        svc("web-east").mirrored_by_linkerd("east", "web"),
        svc("web-west").mirrored_by_linkerd("west", "web"),
        federated,
    ]);
    let own = |service: &str| ("ns".to_owned(), service.to_owned());
    assert_eq!(world.stands_for("east"), [own("web"), own("all")].into());
    assert_eq!(world.stands_for("west"), [own("web")].into());
}

#[test]
fn only_so_many_names_are_kept() {
    let mut limit = Limit::of(1);
    let there = (0..NAMED + 11).collect();
    let (_, left_out) = listed(&mut limit, &there);
    assert_eq!(left_out.services().len(), NAMED);
    assert_eq!(left_out.unnamed(), 10);
    assert!(left_out.names(&id(1)) && !left_out.names(&("ns".to_owned(), "none".to_owned())));
    assert!(!left_out.is_complete() && !left_out.is_empty());
}

#[test]
fn list_that_is_too_long_is_seen_while_it_comes() {
    let mut limit = Limit::of(2);
    let mut listing = limit.list();
    for n in 0..3 {
        assert!(!listing.is_over(), "{n}");
        put(&mut listing, n);
    }
    assert!(listing.is_over());
    // Those that were there before count as well.
    let mut limit = Limit::of(2).first(&names([0, 2]));
    let mut listing = limit.list();
    for n in [0, 2, 4] {
        assert!(!listing.is_over(), "{n}");
        put(&mut listing, n);
    }
    assert!(listing.is_over());
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

    /// Unless it says that another list is needed, what is taken in and what the last list left out is all there is, as
    /// much is taken in as may be, and nothing that is taken in goes while it is there.
    #[test]
    fn nothing_is_lost_track_of(most in 1usize..5, steps in prop::collection::vec(step(), 1..40)) {
        let mut limit = Limit::of(most);
        let (mut there, mut taken, mut left) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Comes(n) => {
                    there.insert(n);
                    let known = taken.contains(&n);
                    if limit.admits(number(&limit, n)) {
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
                    let (now, left_out) = listed(&mut limit, &there);
                    prop_assert!(now.is_superset(&taken));
                    taken = now;
                    left = there.difference(&taken).copied().collect();
                    prop_assert_eq!(left_out.services(), &names(left.iter().copied()));
                    prop_assert!(!limit.is_stale());
                }
            }
            prop_assert!(taken.len() <= most && taken.is_subset(&there));
            if !limit.is_stale() {
                prop_assert_eq!(&left, &there.difference(&taken).copied().collect::<BTreeSet<_>>());
                prop_assert!(left.is_empty() || taken.len() == most);
            }
        }
    }
}
