//! What is known of the local cluster and of the target clusters.

use super::*;
use crate::{
    api::labels as l,
    mirror::{
        Key,
        fixtures::{Svc, plan, slice, state, svc, target},
    },
};

#[test]
fn nothing_is_planned_before_the_local_cluster_is_listed() {
    let mut state = state().linked(target("east"), &[svc("web").exported()], &[]);
    let key = Key::mirror("east", "ns", "web");
    assert!(!plan(&state, &key).writes.is_empty());
    state.local = None;
    let keys = state.keys();
    assert!(keys.contains(&key), "{keys:?}");
    for key in keys {
        let plan = plan(&state, &key);
        assert!(plan.writes.is_empty() && plan.report.is_empty(), "{key:?}");
    }
}

#[test]
fn gateway_services_of_all_links_are_planned() {
    let state = state().linked(target("east"), &[], &[]);
    let link = Key::gateway(&target("east").link);
    assert_eq!(state.keys(), [link]);
}

#[test]
fn an_object_belongs_to_the_installation_that_it_names() {
    for (named, taken_over, installation_of) in [
        (None, None, Installation::Unclaimed),
        (Some("mc"), None, Installation::Ours),
        (Some("mc"), Some("mc"), Installation::Ours),
        (Some("old"), None, Installation::Theirs("old")),
        (Some("old"), Some("old"), Installation::Unclaimed),
        (Some("other"), Some("old"), Installation::Theirs("other")),
    ] {
        let mut state = state();
        state.config.take_over_from = taken_over.map(str::to_owned);
        let mut service = svc("web-east");
        if let Some(named) = named {
            service = service.annotation(l::INSTALLATION, named);
        }
        let what = format!("{named:?}, {taken_over:?}");
        assert_eq!(
            state.installation_of(&service.0.metadata),
            installation_of,
            "{what}"
        );
        // An installation may delete only what it has written.
        for (managed_by, ours) in [("others", false), (l::MANAGER, true)] {
            let managed = service.clone().annotation(l::MANAGED_BY, managed_by);
            let collected = ours && installation_of == Installation::Ours;
            let what = format!("{what}, managed by {managed_by}");
            assert_eq!(state.may_delete(&managed.0.metadata), collected, "{what}");
        }
    }
}

#[test]
fn cluster_that_was_listed_without_objects_has_no_slices_of_members() {
    let state = state();
    assert!(state.member_slices().is_some_and(Store::is_empty));
}

#[test]
fn only_our_slices_of_federated_services_count_as_such() {
    let of = |service: &str, manager: Option<&str>| {
        let mut made = slice(service, "x");
        if let Some(manager) = manager {
            made.metadata.labels.insert(l::SLICE_MANAGED_BY, manager);
        }
        made
    };
    let ours = Some(l::MANAGER);
    for (what, slices, expected) in [
        ("no slices", vec![], false),
        ("of a mirror", vec![of("web-east", ours)], false),
        (
            "of others",
            vec![
                of("web-federated", None),
                of("api-federated", Some("somebody-else")),
            ],
            false,
        ),
        (
            "one of two is ours",
            vec![of("web-east", ours), of("web-federated", ours)],
            true,
        ),
    ] {
        let state = slices.into_iter().fold(state(), State::local_slice);
        let local = state.local.unwrap();
        assert_eq!(local.has_federated_slices(), expected, "{what}");
    }
}

#[test]
fn only_preferences_of_our_services_count() {
    let ours = |made: Svc| made.annotation(l::MANAGED_BY, l::MANAGER);
    let prefers = |name: &str| svc(name).annotation(l::PREFER, "east");
    for (what, services, expected) in [
        ("no Services", vec![], false),
        ("no preference", vec![ours(svc("web-federated"))], false),
        ("of others", vec![prefers("web-federated")], false),
        (
            "one of two",
            vec![ours(svc("web-federated")), ours(prefers("api-federated"))],
            true,
        ),
    ] {
        let local = state().local(&services).local.unwrap();
        assert_eq!(local.has_preferences(), expected, "{what}");
    }
}

#[test]
fn namespaces_are_counted_and_named_until_they_are_deleted() {
    let mut known = Namespaces::default();
    assert_eq!((known.len(), known.is_empty()), (0, true));
    for name in ["a", "b", "b"] {
        known.set(name, Some(NamespacePhase::Active.into()));
    }
    assert_eq!((known.len(), known.is_empty()), (2, false));
    assert_eq!(known.names().collect::<Vec<_>>(), ["a", "b"]);
    for name in ["a", "b"] {
        known.set(name, None);
    }
    assert_eq!((known.len(), known.is_empty()), (0, true));
}
