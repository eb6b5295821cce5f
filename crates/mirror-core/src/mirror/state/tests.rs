//! What is known of the local cluster and of the target clusters.

use super::*;
use crate::{
    api::labels as l,
    mirror::{
        Key,
        fixtures::{plan, state, svc, target},
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
