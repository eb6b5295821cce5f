//! Services that target clusters export to some clusters only.

use super::*;
use crate::mirror::{
    Key, Plan,
    fixtures::{NS, Svc, backing, described, plan, plan_unconfirmed, reported, state, svc, target},
};

/// A state in which `east` has a Service, and this cluster has a trust domain.
fn with(own: Option<&str>, service: Svc) -> State {
    let mut state = state().linked(target("east"), &[service], &[backing("web")]);
    state.config.trust_domain = own.map(str::to_owned);
    state
}

/// The Service, exported to these clusters.
fn to(service: Svc, clusters: Option<&str>) -> Svc {
    match clusters {
        Some(clusters) => service.annotation(l::EXPORT_TO, clusters),
        None => service,
    }
}

fn mirror() -> Key {
    Key::mirror("east", NS, "web")
}

fn federated() -> Key {
    Key::federated(NS, "web")
}

/// The plan in a state in which everything was written as long as the Service was exported to all clusters.
fn after(key: &Key, service: Svc, unconfirmed: bool) -> Plan {
    let state = with(Some("west.example"), service.clone()).worked_on(key);
    let service = to(service, Some("north.example")).version(2);
    let now = state.with_link("east", |entry| {
        let remote = entry.remote.as_mut().unwrap();
        remote.services[0].insert(service.arc());
    });
    if unconfirmed {
        plan_unconfirmed(&now, key)
    } else {
        plan(&now, key)
    }
}

const WEST: Option<&str> = Some("west.example");

#[test]
fn service_is_taken_if_it_is_exported_to_this_cluster() {
    let to_others = "ExportedToOthers: east does not export it to west.example, only to north.example (annotation \
                     multicluster.linkerd.io/export-to)";
    let unknown = "UnclearExport: east exports it only to west.example (annotation multicluster.linkerd.io/export-to), \
                   and the trust domain of this cluster is unknown (flag --trust-domain of the controller)";
    let empty = "UnclearExport: east exports it to no cluster: invalid annotation multicluster.linkerd.io/export-to: it is \
                 empty (leave it out to export to all clusters)";
    for (own, clusters, why) in [
        (WEST, None, None),
        (None, None, None),
        (WEST, Some("west.example"), None),
        (WEST, Some("north.example, west.example"), None),
        (WEST, Some("north.example"), Some(to_others)),
        (None, Some("west.example"), Some(unknown)),
        (WEST, Some(""), Some(empty)),
        (None, Some(""), Some(empty)),
    ] {
        for exported in [svc("web").exported(), svc("web").discovered()] {
            let state = with(own, to(exported, clusters));
            let made = plan(&state, &mirror());
            let outcome = why.unwrap_or("web-east");
            assert_eq!(reported(&made), [format!("web@east: {outcome}")]);
            assert_eq!(made.writes.is_empty(), why.is_some(), "{clusters:?}");
        }
        let state = with(own, to(svc("web").member(), clusters));
        let made = plan(&state, &federated());
        let outcome = why.unwrap_or("web-federated");
        assert_eq!(reported(&made), [format!("web@east: {outcome}")]);
        assert_eq!(made.writes.is_empty(), why.is_some(), "{clusters:?}");
    }
}

#[test]
fn consent_says_nothing_of_services_without_a_label() {
    let state = with(WEST, to(svc("web"), Some("")));
    for key in [mirror(), federated()] {
        for outcome in reported(&plan(&state, &key)) {
            assert_eq!(outcome, "web@east: absent");
        }
    }
}

#[test]
fn mirror_and_membership_go_like_those_of_a_service_that_is_not_exported_any_more() {
    for (key, service, gone) in [
        (
            mirror(),
            svc("web").exported(),
            &[
                "delete EndpointSlice ns/web-east-ipv4",
                "delete Service ns/web-east",
            ][..],
        ),
        (
            federated(),
            svc("web").member(),
            &["delete Service ns/web-federated"],
        ),
    ] {
        let asking = after(&key, service.clone(), true);
        assert_eq!(described(&asking.writes), [""; 0]);
        assert_eq!(asking.confirm.len(), 1, "{key:?}");
        let confirmed = after(&key, service, false);
        assert_eq!(described(&confirmed.writes), gone);
        assert!(
            reported(&confirmed)[0].starts_with("web@east: ExportedToOthers: "),
            "{key:?}"
        );
    }
}

#[test]
fn annotation_counts_also_if_the_others_are_too_large() {
    let service = to(svc("web").exported(), Some("north.example"));
    let heavy = service.annotation("other", &"x".repeat(200)).0.trimmed(100);
    assert!(heavy.is_trimmed);
    let taken = |service: Service| with(WEST, Svc(service)).mode(&target("east"), &heavy);
    assert_eq!(taken(heavy.clone()), None);
    let long = "west.example,".repeat(20) + "west.example";
    let long = to(svc("web").exported(), Some(&long)).0;
    assert!(
        with(WEST, Svc(long.clone()))
            .mode(&target("east"), &long)
            .is_some()
    );
    let long = long.trimmed(100);
    assert_eq!(
        with(WEST, Svc(long.clone())).mode(&target("east"), &long),
        None
    );
}
