//! What is known of the local cluster and of the target clusters.

use super::*;
use crate::{
    api::labels as l,
    mirror::fixtures::{svc, world},
};

#[test]
fn a_world_is_complete_once_every_kind_has_been_listed() {
    assert!(world().is_complete());
    let missing: [fn(&mut World); 7] = [
        |world| world.namespaces = None,
        |world| world.mirrors = None,
        |world| world.slices = None,
        |world| world.probes = None,
        |world| world.probe_slices = None,
        |world| world.members = None,
        |world| world.links = None,
    ];
    for (index, miss) in missing.into_iter().enumerate() {
        let mut world = world();
        miss(&mut world);
        assert!(!world.is_complete(), "{index}");
    }
}

#[test]
fn an_object_belongs_to_the_installation_that_it_names() {
    for (named, taken_over, belonging) in [
        (None, None, Belonging::Unclaimed),
        (Some("mc"), None, Belonging::Ours),
        (Some("mc"), Some("mc"), Belonging::Ours),
        (Some("old"), None, Belonging::Theirs("old")),
        (Some("old"), Some("old"), Belonging::Unclaimed),
        (Some("other"), Some("old"), Belonging::Theirs("other")),
    ] {
        let mut world = world();
        world.config.take_over_from = taken_over.map(str::to_owned);
        let mut service = svc("web-east");
        if let Some(named) = named {
            service = service.annotation(l::INSTALLATION, named);
        }
        let what = format!("{named:?}, {taken_over:?}");
        assert_eq!(world.belonging(&service.0.metadata), belonging, "{what}");
        // Only what this installation has written is its to collect.
        for (managed_by, ours) in [("others", false), (l::MANAGER, true)] {
            let managed = service.clone().annotation(l::MANAGED_BY, managed_by);
            let collected = ours && belonging == Belonging::Ours;
            let what = format!("{what}, managed by {managed_by}");
            assert_eq!(world.is_collected(&managed.0.metadata), collected, "{what}");
        }
    }
}
