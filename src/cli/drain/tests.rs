//! Tests of what the status of a Link says about a drain, and of the limits of its duration.

use jiff::Timestamp;
use links::fleet::loaded::parse;
use mirror_core::api::link::Link;
use serde_json::json;

use super::{
    source::{has_left, is_back},
    *,
};

/// A Link whose status has these conditions, as type, reason and message, and this reason for its federated Service.
fn link(conditions: &[(&str, &str, &str)], federated: &str) -> Link {
    let conditions = conditions.iter().map(|(type_, reason, message)| {
        let status = if *type_ == "Ready" { "False" } else { "True" };
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    });
    serde_json::from_value(json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": "east" },
        "spec": { "targetClusterName": "east" },
        "status": {
            "conditions": conditions.collect::<Vec<_>>(),
            "federatedServices": [{
                "controllerName": "linkerd.io/service-mirror",
                "remoteRef": { "name": "web", "namespace": "shop" },
                "conditions": [{
                    "type": "Mirrored", "status": "True", "reason": federated, "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            }],
        },
    }))
    .unwrap()
}

#[test]
fn cluster_has_left_when_its_link_says_so_of_this_drain() {
    let end: Timestamp = "2026-01-31T12:00:00.7Z".parse().unwrap();
    let waits = |why: &str| Err(why.to_owned());
    let now = "until 2026-01-31T12:00:00Z";
    let leaving = "until 2026-01-31T12:00:00Z; federated Services to leave: 2";
    for (conditions, expected) in [
        (&[][..], waits("no status reported yet")),
        (&[("Drained", "Drained", now)], Ok(true)),
        (&[("Drained", "LastMember", now)], Ok(false)),
        (&[("Drained", "Leaving", leaving)], waits(leaving)),
        (
            &[("Drained", "Drained", "until 2026-01-31T11:00:00Z")],
            waits("no status reported yet"),
        ),
        (
            &[("Ready", "InvalidLink", "no port")],
            waits("InvalidLink: no port"),
        ),
    ] {
        assert_eq!(has_left(&[link(conditions, "Mirrored")], end), expected);
    }
    // The Link that does not serve the cluster says nothing about the drain.
    let both = [link(&[], ""), link(&[("Drained", "Drained", now)], "")];
    assert_eq!(has_left(&both, end), Ok(true));
}

#[test]
fn cluster_is_back_when_nothing_says_that_it_is_drained() {
    for (conditions, federated, expected) in [
        (&[][..], "Mirrored", Ok(())),
        (
            &[],
            "Drained",
            Err("federated Services left to rejoin: 1".to_owned()),
        ),
        (
            &[("Drained", "Drained", "until then")],
            "Mirrored",
            Err("drained until then".to_owned()),
        ),
    ] {
        assert_eq!(is_back(&[link(conditions, federated)]), expected);
    }
}

#[test]
fn ending_again_waits_until_the_status_shows_no_drain() {
    let drained = &[("Drained", "Annotated", "until then")][..];
    let annotated = |mut link: Link| {
        let annotations = link.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::DRAINED_UNTIL.to_owned(), String::new());
        link
    };
    for (links, expected) in [
        (vec![link(&[], "Mirrored")], None),
        (vec![annotated(link(&[], "Mirrored"))], Some(1)),
        (vec![annotated(link(drained, "Mirrored"))], Some(1)),
        (vec![link(drained, "Mirrored")], Some(0)),
        (vec![link(&[], "Drained")], Some(0)),
    ] {
        assert_eq!(to_rejoin(links).map(|links| links.len()), expected);
    }
}

#[test]
fn drain_lasts_a_minute_to_a_week() {
    let seconds = |seconds: u64| Some(Duration::from_secs(seconds));
    for (text, expected) in [
        ("1h", seconds(3600)),
        ("1m", seconds(60)),
        ("1h30m", seconds(5400)),
        ("2d", seconds(172_800)),
        ("7d", seconds(604_800)),
        ("168h", seconds(604_800)),
        ("59s", None),
        ("0s", None),
        ("8d", None),
        ("168h1s", None),
        ("-1h", None),
        ("1", None),
        ("soon", None),
        ("", None),
    ] {
        assert_eq!(span(text).ok(), expected, "{text:?}");
    }
}

#[test]
fn all_clusters_that_link_to_it_are_drained() {
    let text =
        "name: f\nclusters: [{name: a}, {name: b}, {name: c}]\nlinks: [{hub: a, spokes: all}]\n";
    let loaded = parse("fleet.yaml", text, std::path::Path::new(""), "linkerd").unwrap();
    let of = |name: &str| match sources(&loaded, &name.parse().unwrap()) {
        Ok(sources) => sources.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    assert_eq!(of("a"), ["b", "c"]);
    assert_eq!(of("b"), ["the file links no cluster to b"]);
    assert_eq!(of("d"), ["the file has no cluster d"]);
}
