//! Services with the label of a headless mirror that are not its endpoint mirrors.

use super::*;
use crate::mirror::fixtures::{GATEWAY, LINKS};

/// Adds a Service with the label of the headless mirror, and a slice of ours that leads to the gateway.
fn with_alike(state: State, name: &str, cluster: &str, installation: &str) -> State {
    let service = svc(name)
        .label(l::MIRRORED_SERVICE, "true")
        .label(l::CLUSTER_NAME, cluster)
        .label(l::HEADLESS_MIRROR, "db-east")
        .annotation(l::MANAGED_BY, l::MANAGER)
        .annotation(l::INSTALLATION, installation);
    let mut behind = slice(name, "ipv4");
    behind.endpoints = [endpoint(GATEWAY, None, true)].into();
    let labels = &mut behind.metadata.labels;
    labels.insert(l::SLICE_MANAGED_BY, l::MANAGER);
    labels.insert(l::CLUSTER_NAME, cluster);
    state.local(&[service]).local_slice(behind)
}

#[test]
fn endpoint_mirrors_of_other_clusters_and_installations_are_left_alone() {
    for (what, state, writes) in [
        ("nothing changed", stands(), 0),
        ("a host goes", then(db(), hosts("db", &["h-0"])), 3),
        (
            "it is not exported any more",
            then(svc("db").headless(), hosts("db", &["h-0"])),
            6,
        ),
        (
            "its cluster cannot be seen, and its gateway is dead",
            away(dead(stands())),
            3,
        ),
    ] {
        let alone = described(&plan(&state, &key()).writes);
        assert_eq!(alone.len(), writes, "{what}: {alone:?}");
        for (name, cluster, installation) in [
            ("h-9-west", "west", LINKS),
            ("h-9-east", "east", "elsewhere"),
        ] {
            let state = with_alike(state.clone(), name, cluster, installation);
            let beside = described(&plan(&state, &key()).writes);
            assert_eq!(beside, alone, "{what}, {name}");
        }
    }
}
