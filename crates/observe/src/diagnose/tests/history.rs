//! What happened on the way of a request, and since when something is wrong.

use serde_json::json;

use super::scene::{
    MC, condition, diagnosed, gateway_mirror, link, now, service_status, with_target,
};
use crate::{
    clusters::{request_path::PodState, snapshot::LinkCredentials},
    diagnose::{
        history::{of_source, of_target, query_of_source, query_of_target},
        report::{document, text},
    },
    timeline::Happened,
};

fn happened(what: &str) -> Vec<Happened> {
    vec![Happened {
        at: now(),
        what: what.to_owned(),
        ..Happened::default()
    }]
}

#[test]
fn cause_tells_since_when_it_is_so() {
    let dead = condition("GatewayAlive", "False", "ProbeFailed", "refused");
    let mut facts = gateway_mirror();
    facts.source.links = Ok(vec![link(&[dead], &[], &[])]);
    let diagnosis = diagnosed(&facts);
    assert!(text(&diagnosis).contains("\n  Since: 2026-11-26 00:00:00 UTC\n"));
    let shown = serde_json::to_value(document(&diagnosis)).unwrap();
    assert_eq!(shown["finding"]["since"], "2026-11-26T00:00:00Z");

    // Nothing tells since when a port is missing.
    let mut facts = gateway_mirror();
    facts.port = Some(81);
    let diagnosis = diagnosed(&facts);
    assert!(!text(&diagnosis).contains("Since"));
    let shown = serde_json::to_value(document(&diagnosis)).unwrap();
    assert_eq!(shown["finding"]["since"], json!(null));
}

#[test]
fn facts_tell_what_happened_to_the_links_of_the_service() {
    let mut facts = with_target(gateway_mirror());
    let mut east = link(
        &[],
        &[
            service_status("web", "False", "NameConflict"),
            service_status("db", "False", "NameConflict"),
        ],
        &[],
    );
    east.credentials = Some(Ok(LinkCredentials {
        expiry: Some(now()),
        ..LinkCredentials::default()
    }));
    let mut north = link(&[], &[], &[]);
    north.link.metadata.name = Some("north".to_owned());
    north.link.spec.target_cluster_name = "north".to_owned();
    facts.source.links = Ok(vec![east, north]);
    facts.source.history = happened("mirror");
    let pod = |what: &str| PodState {
        history: happened(what),
        ..PodState::default()
    };
    facts.source.destination_pods = Ok(vec![pod("destination")]);
    facts.source.controller_pods = Ok([
        (MC.to_owned(), vec![pod("controller")]),
        ("other".to_owned(), vec![pod("other controller")]),
    ]
    .into());
    let all = of_source(&facts);
    let told = |what: &str| all.iter().any(|one| one.what.contains(what));
    for what in [
        "mirror",
        "destination",
        "controller",
        "its token expired",
        "GatewayAlive became True",
        "shop/web: Mirrored became False: NameConflict",
    ] {
        assert!(told(what), "{what}: {all:#?}");
    }
    assert!(!told("shop/db") && !told("other controller"), "{all:#?}");
    assert!(!all.iter().any(|one| one.about.contains("north")));

    let target = facts.target.as_mut().unwrap();
    target.history = happened("exported");
    target.gateways.as_mut().unwrap()[0].pods = Ok(vec![pod("gateway")]);
    let told: Vec<_> = of_target(target).into_iter().map(|one| one.what).collect();
    assert_eq!(told, ["exported", "gateway"]);
}

#[test]
fn events_are_read_once_of_each_namespace_concerned() {
    let facts = with_target(gateway_mirror());
    let query = query_of_source(&facts);
    let namespaces: Vec<&str> = query.events.keys().map(String::as_str).collect();
    assert_eq!(namespaces, ["linkerd", MC, "shop"]);
    assert!(query.events[MC].contains("east"));
    let secrets: Vec<_> = query.secrets.iter().map(ToString::to_string).collect();
    assert_eq!(secrets, [format!("{MC}/cluster-credentials-east")]);
    let query = query_of_target(facts.target.as_ref().unwrap());
    let namespaces: Vec<&str> = query.events.keys().map(String::as_str).collect();
    assert_eq!(namespaces, ["linkerd", MC, "shop"]);
    assert!(query.policies.contains("shop") && query.events["shop"].contains("web"));
}
