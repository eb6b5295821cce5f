//! Which states of an object are taken, and which are stale.

use super::*;
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::fixtures::{map, slice},
};

fn service(name: &str, uid: &str, version: u64) -> Arc<Service> {
    Arc::new(Service {
        metadata: Metadata {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string().into()),
            ..Default::default()
        },
        ..Default::default()
    })
}

#[test]
fn an_older_event_does_not_undo_a_newer_state() {
    let mut objects = Store::default();
    assert!(matches!(
        objects.insert(service("a", "1", 9)),
        Inserted::Taken(None)
    ));
    assert!(matches!(
        objects.insert(service("a", "1", 10)),
        Inserted::Taken(Some(_))
    ));
    assert!(matches!(
        objects.insert(service("a", "1", 9)),
        Inserted::Stale
    ));
    assert!(objects.remove(&service("a", "1", 9)).is_none());
    assert_eq!(objects.len(), 1);
    assert!(objects.remove(&service("a", "1", 11)).is_some());
    assert!(objects.is_empty());
    objects.insert(service("a", "2", 12));
    assert!(objects.remove(&service("a", "2", 12)).is_some());
}

#[test]
fn deleted_object_does_not_come_back_with_the_response_to_a_write() {
    let mut objects = Store::default();
    objects.insert(service("a", "1", 9));
    objects.remove(&service("a", "1", 10)).unwrap();
    assert!(matches!(
        objects.insert(service("a", "1", 9)),
        Inserted::Stale
    ));
    assert!(objects.is_empty());
    // The object had lost the label that is watched, and now has it again.
    objects.insert(service("a", "1", 10));
    assert_eq!(objects.len(), 1);
    objects.remove(&service("a", "1", 12)).unwrap();
    // Another object of its name may be created. The same object may come back if a restored cluster lists it.
    objects.insert(service("a", "2", 13));
    objects.remove(&service("a", "2", 14)).unwrap();
    objects.put(service("a", "1", 5));
    objects.forget("ns", "a");
    objects.insert(service("a", "1", 6));
    assert_eq!(objects.len(), 1);
}

#[test]
fn deleted_object_does_not_replace_its_successor() {
    let mut objects = Store::default();
    objects.insert(service("a", "old", 9));
    objects.remove(&service("a", "old", 10)).unwrap();
    objects.insert(service("a", "new", 11));
    assert!(matches!(
        objects.insert(service("a", "old", 9)),
        Inserted::Stale
    ));
    let known = objects.get("ns", "a").unwrap();
    assert_eq!(known.metadata.uid.as_deref(), Some("new"));
}

#[test]
fn the_number_of_deleted_objects_that_are_remembered_is_limited() {
    let mut objects = Store::<Service>::default();
    for number in 0..2 * REMEMBERED {
        objects.remove(&service("a", &number.to_string(), 1));
    }
    assert_eq!(objects.gone.len(), REMEMBERED);
}

#[test]
fn deleted_objects_of_a_target_cluster_are_not_remembered() {
    let mut objects = Store::remote();
    objects.put(service("a", "1", 1));
    objects.remove(&service("a", "1", 2)).unwrap();
    objects.remove(&service("unknown", &"x".repeat(1000), 1));
    assert!(objects.gone.is_empty());
    objects.put(service("a", "1", 1));
    assert_eq!(objects.len(), 1);
}

#[test]
fn the_deletion_of_a_predecessor_leaves_its_successor() {
    let mut objects = Store::default();
    objects.insert(service("a", "new", 20));
    assert!(objects.remove(&service("a", "old", 30)).is_none());
    // A stale event of the predecessor does not replace the successor either.
    assert!(matches!(
        objects.insert(service("a", "old", 10)),
        Inserted::Stale
    ));
    assert!(matches!(
        objects.insert(service("a", "newest", 40)),
        Inserted::Taken(Some(_))
    ));
}

#[test]
fn objects_that_a_list_does_not_name_are_removed() {
    let mut objects = Store::default();
    objects.insert(service("a", "1", 1));
    objects.insert(service("b", "2", 2));
    assert_eq!((objects.len(), objects.is_empty()), (2, false));
    let gone = objects.retain_listed(&[("ns".to_owned(), "b".to_owned())].into());
    assert_eq!(
        gone.iter().map(|o| o.metadata.name()).collect::<Vec<_>>(),
        ["a"]
    );
    assert_eq!(objects.len(), 1);
}

#[test]
fn slices_with_a_host_are_found_by_name_in_whatever_order_they_came() {
    let mut objects = Store::default();
    for name in ["b", "a", "c"] {
        objects.put(Arc::new(crate::mirror::fixtures::hosts(name, &["db-0"])));
    }
    let found = objects.with_host("ns", "db-0").iter();
    let names: Vec<&str> = found.map(|slice| slice.metadata.name()).collect();
    assert_eq!(names, ["a-x", "b-x", "c-x"]);
}

#[test]
fn deleted_slices_are_found_by_none_of_their_hosts() {
    let mut objects = Store::default();
    let has = |name: &str, hosts: &[&str]| Arc::new(crate::mirror::fixtures::hosts(name, hosts));
    for name in ["a", "b"] {
        objects.put(has(name, &["db-0", "db-1"]));
    }
    let names = |objects: &Store<EndpointSlice>, host: &str| -> Vec<String> {
        let found = objects.with_host("ns", host).iter();
        found.map(|s| s.metadata.name().to_owned()).collect()
    };
    objects.forget("ns", "a-x");
    objects.put(has("b", &["db-0"]));
    assert_eq!(names(&objects, "db-0"), ["b-x"]);
    assert_eq!(names(&objects, "db-1"), [""; 0]);
    objects.forget("ns", "b-x");
    assert!(objects.namespaces.is_empty());
}

#[test]
fn services_have_no_hosts() {
    let mut objects = Store::default();
    objects.put(service("a", "1", 1));
    assert!(objects.with_host("ns", "").is_empty());
    assert!(service("a", "1", 1).hosts().is_empty());
}

#[test]
fn states_without_a_version_are_taken_in() {
    let mut objects = Store::default();
    for _ in 0..2 {
        assert!(matches!(
            objects.insert(service("a", "1", 0)),
            Inserted::Taken(_)
        ));
    }
    objects.insert(service("a", "1", 5));
    assert!(
        objects.remove(&service("a", "1", 0)).is_some(),
        "the end of an object without a version"
    );
}

#[test]
fn a_slice_without_owner_belongs_to_the_service_that_its_name_says() {
    for (name, cluster, service) in [
        ("web-east-ipv4", Some("east"), "web-east"),
        ("web-east-ipv6", None, "web-east"),
        ("db-east-ipv4-1", Some("east"), "db-east"),
        ("db-east-ipv4-1-2", Some("east"), "db-east"),
        ("web-federated.east-ipv4", Some("east"), "web-federated"),
        ("web-federated.east-ipv6", None, "web-federated"),
        // The mirror of `web` of a cluster that is called `federated-east`.
        (
            "web-federated-east-ipv4",
            Some("federated-east"),
            "web-federated-east",
        ),
        (
            "web-federated-local-00000000000000ff-0",
            None,
            "web-federated",
        ),
        ("else", None, "moved"),
    ] {
        let mut labels = map(&[
            (l::SLICE_MANAGED_BY, l::MANAGER),
            (l::SLICE_SERVICE, "moved"),
        ]);
        if let Some(cluster) = cluster {
            labels.insert(l::CLUSTER_NAME, cluster);
        }
        let mut made = slice("x", "y");
        made.metadata.name = Some(name.into());
        made.metadata.labels = labels;
        assert_eq!(made.group(), Some(service), "{name} of {cluster:?}");
        made.metadata.labels.remove(l::SLICE_MANAGED_BY);
        assert_eq!(made.group(), Some("moved"), "{name} of somebody else");
    }
}

#[test]
fn an_older_state_does_not_replace_a_newer_one() {
    for (what, uid, version, taken) in [
        ("the same object, newer", "1", 10, true),
        ("the same object, as it is known", "1", 9, false),
        ("the same object, older", "1", 8, false),
        ("the same object, without a version", "1", 0, false),
        ("another object, newer", "2", 10, true),
        ("another object, of the same version", "2", 9, true),
        ("another object, older", "2", 8, false),
        ("another object, without a version", "2", 0, true),
    ] {
        let mut objects = Store::default();
        objects.insert(service("a", "1", 9));
        let result = objects.insert(service("a", uid, version));
        assert_eq!(matches!(result, Inserted::Taken(Some(_))), taken, "{what}");
        let known = &objects.get("ns", "a").unwrap().metadata;
        let expected = if taken { (uid, version) } else { ("1", 9) };
        assert_eq!(
            (known.uid.as_deref().unwrap(), known.version()),
            expected,
            "{what}"
        );
    }
}

#[test]
fn other_objects_do_not_make_a_deletion_forgotten() {
    let mut objects = Store::default();
    objects.insert(service("a", "1", 9));
    objects.remove(&service("a", "1", 10)).unwrap();
    objects.insert(service("b", "2", 11));
    assert!(matches!(
        objects.insert(service("a", "1", 9)),
        Inserted::Stale
    ));
    assert_eq!(objects.len(), 1);
}
