//! A Link that leaves its cluster, because it names another one now or is not in charge any more.

use mirror_core::mirror::fixtures::{at, omitted, svc};
use tokio::time::Instant;

use super::*;

/// The ways in which a Link leaves its cluster, and begins again. The keys of its former cluster are processed in
/// between.
fn leave_and_begin(engine: &mut Engine, way: usize) {
    let keys = engine.outstanding("east");
    if way == 0 {
        engine.apply(&link_to("east", "west"));
        engine.settle_all(&keys);
    } else {
        let mut older = link_to("older", "east");
        older.metadata.creation_timestamp.as_mut().unwrap().0 = at(-1);
        engine.apply(&older);
        assert_eq!(engine.ready("east"), "DuplicateCluster");
        engine.settle_all(&keys);
        assert_eq!(engine.condition("east", "LimitExceeded"), None);
        assert_eq!(engine.condition("east", "GatewayAlive"), None);
        engine.delete(&older);
    }
}

#[tokio::test]
async fn link_that_left_its_cluster_during_the_first_sync_is_not_ready_before_the_next_one() {
    for way in 0..2 {
        let mut engine = engine();
        engine.apply(&link_to("east", "east"));
        engine.listed("east", &[svc("web").exported().0]);
        assert!(!engine.outstanding("east").is_empty());
        leave_and_begin(&mut engine, way);

        // The heartbeat answers before the lists have arrived.
        for event in connected() {
            engine.report("east", event);
        }
        assert_eq!(engine.ready("east"), "Syncing");
        engine.listed("east", &[svc("web").exported().0]);
        assert_eq!(engine.ready("east"), "Syncing");
        let keys = engine.outstanding("east");
        engine.settle_all(&keys);
        assert_eq!(engine.ready("east"), "Mirroring");
    }
}

#[tokio::test]
async fn unusable_credentials_are_tried_again_and_reported_for_the_next_cluster() {
    for way in 0..2 {
        let mut engine = engine();
        engine.apply(&link_to("east", "east"));
        let unusable = || SessionEvent::Unusable("it runs a command".to_owned());
        engine.report("east", unusable());
        assert_eq!(engine.ready("east"), "CredentialsInvalid");
        assert!(engine.pending("east").is_none());
        leave_and_begin(&mut engine, way);
        assert_eq!(engine.ready("east"), "Syncing");
        engine.report("east", unusable());
        assert_eq!(engine.ready("east"), "CredentialsInvalid");
    }
}

#[tokio::test]
async fn limit_and_gateway_of_the_former_cluster_are_not_reported() {
    for way in 0..2 {
        let mut engine = engine();
        engine.apply(&link_to("east", "east"));
        engine.listed("east", &[svc("web").exported().0]);
        let over = Event::List {
            objects: vec![svc("web").exported().arc()],
            omitted: omitted("other", true),
        };
        engine.report("east", SessionEvent::Services(0, over));
        assert!(engine.condition("east", "LimitExceeded").is_some());
        let links = &mut engine.links;
        let gateway = links.get_mut("east").unwrap().gateway.as_mut();
        gateway.unwrap().latency = Some((7, Instant::now()));
        leave_and_begin(&mut engine, way);
        assert_eq!(engine.condition("east", "LimitExceeded"), None);
        let gateway = engine.inputs("east").unwrap().gateway.unwrap();
        assert_eq!(gateway.latency_ms, None);
        assert!(engine.known("east").gateway.is_some());
    }
}

#[tokio::test]
async fn link_that_becomes_invalid_stays_in_charge_until_it_is_deleted() {
    type Spoil = fn(&mut Link);
    let spoils: [Spoil; 2] = [
        |link| link.spec.gateway_port = "none".to_owned(),
        |link| link.spec.target_cluster_name.clear(),
    ];
    for spoil in spoils {
        let mut engine = engine();
        engine.apply(&link_to("east", "east"));
        engine.listed("east", &[svc("web").exported().0]);
        let mut younger = link_to("younger", "east");
        younger.metadata.creation_timestamp.as_mut().unwrap().0 = at(1);
        engine.apply(&younger);
        assert_eq!(engine.ready("younger"), "DuplicateCluster");
        let mut invalid = link_to("east", "east");
        spoil(&mut invalid);
        engine.apply(&invalid);
        assert_eq!(engine.ready("east"), "InvalidLink");
        assert_eq!(engine.ready("younger"), "DuplicateCluster");
        assert!(engine.pending("younger").is_none());
        engine.delete(&invalid);
        assert_eq!(engine.ready("younger"), "Syncing");
        assert!(engine.pending("younger").is_some());
    }
}

#[tokio::test]
async fn gateway_is_probed_for_the_cluster_that_its_link_names() {
    let mut engine = engine();
    engine.apply(&link_to("east", "east"));
    // The Link is invalid when its cluster changes, which was never listed. Its gateway stays the same.
    let mut invalid = link_to("east", "north");
    invalid.spec.gateway_port = "none".to_owned();
    engine.apply(&invalid);
    engine.apply(&link_to("east", "north"));
    let watched = engine.known("east").gateway.as_ref();
    assert_eq!(watched.map(|watched| &*watched.cluster), Some("north"));
}
