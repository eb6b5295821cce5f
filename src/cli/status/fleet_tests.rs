//! What `status --file` shows.

use std::collections::BTreeMap;

use dialoguer::console::measure_text_width;
use observe::clusters::{
    fixtures::silent,
    link_state::LinkStanding,
    snapshot::{ClusterSnapshot, LinkSnapshot},
};
use serde_json::{Value, json};

use super::{
    fleet::{ClusterReport, FleetReport, LinkReport},
    matrix,
};
use crate::cli::fleet::FleetLinks;

/// The Link of `west` to a cluster, with this status.
fn link(target: &str, status: &Value) -> LinkSnapshot {
    let link = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": target, "namespace": "linkerd-multicluster" },
        "spec": {
            "targetClusterName": target, "gatewayAddress": "192.0.2.1", "gatewayPort": "4143",
            "probeSpec": { "path": "/ready", "port": "4191", "period": "3s" },
        },
        "status": status,
    });
    LinkSnapshot {
        link: serde_json::from_value(link).unwrap(),
        unreadable: None,
        credentials: None,
        target: None,
    }
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Why", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[test]
fn links_are_reported_worst_first() {
    let of_west = ["a", "b", "c", "d", "e", "f", "g"].map(|target| ("west", target));
    let pairs = of_west.into_iter().chain([("a", "west"), ("b", "a")]);
    let fleet = FleetLinks {
        name: "f".to_owned(),
        links: pairs.map(|(s, t)| (s.to_owned(), t.to_owned())).collect(),
        namespace: "linkerd-multicluster".to_owned(),
    };
    let ready = || condition("Ready", "True", "");
    let alive = json!({ "alive": true });
    let links = vec![
        link("a", &json!({ "conditions": [ready()], "gateway": alive })),
        link(
            "b",
            &json!({ "conditions": [condition("Ready", "False", "refused")] }),
        ),
        link(
            "c",
            &json!({ "conditions": [ready()], "gateway": { "alive": false } }),
        ),
        link(
            "d",
            &json!({ "conditions": [ready(), condition("CredentialsExpiring", "True", "expires soon")], "gateway": alive }),
        ),
        link(
            "e",
            &json!({ "conditions": [ready()], "gateway": alive, "mirrored": 1, "unhealthy": 1 }),
        ),
        link("f", &json!({})),
    ];
    let mut west = ClusterSnapshot::unreachable("west", &"".into());
    west.links = Ok(links);
    let report = |west: &ClusterSnapshot| {
        let a = ClusterSnapshot::unreachable("a", &"timed out".into());
        let versions = BTreeMap::from([("west".to_owned(), "0.1.0".to_owned())]);
        FleetReport::of(&fleet, &[west.clone(), a], &versions)
    };
    let shown = report(&west);
    let of_west = shown.links.iter().filter(|link| link.source == "west");
    let states: Vec<_> = of_west
        .map(|link| {
            (
                link.target.as_str(),
                link.state,
                link.problem.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        states,
        [
            ("g", LinkStanding::Missing, "there is no Link"),
            ("b", LinkStanding::NotReady, "refused"),
            (
                "c",
                LinkStanding::DeadGateway,
                "its gateway does not answer"
            ),
            (
                "f",
                LinkStanding::Unknown,
                "the controller has not reported it"
            ),
            ("d", LinkStanding::Expiring, "expires soon"),
            (
                "e",
                LinkStanding::Incomplete,
                "1 of 2 Services are not mirrored"
            ),
            ("a", LinkStanding::Ready, ""),
        ]
    );
    assert!(shown.has_problems());
    // Nobody reports any more.
    let controller = silent("2026-01-01T01:00:00Z");
    west.leaders
        .insert("linkerd-multicluster".to_owned(), Ok(Some(controller)));
    let old = report(&west);
    let mut of_a = old
        .links
        .iter()
        .filter(|link| link.source == "west" && link.target == "a");
    assert_eq!(of_a.next().unwrap().state, LinkStanding::Old);
}

/// A mesh of as many clusters, in which each tenth link is in one of the other states.
fn mesh(count: usize) -> FleetReport {
    let name = |at: usize| format!("cluster-with-a-long-name-{at}");
    let states = [
        LinkStanding::Missing,
        LinkStanding::NotReady,
        LinkStanding::DeadGateway,
        LinkStanding::Drained,
    ];
    let pairs = (0..count).flat_map(|source| (0..count).map(move |target| (source, target)));
    let pairs = pairs.filter(|(source, target)| source != target);
    let links = pairs.enumerate().map(|(at, (source, target))| {
        let state = if at % 10 == 0 {
            states[at / 10 % 4]
        } else {
            LinkStanding::Ready
        };
        LinkReport {
            source: name(source),
            target: name(target),
            state,
            problem: (state != LinkStanding::Ready).then(|| "a reason that is long ".repeat(10)),
        }
    });
    let clusters = (0..count).map(|at| ClusterReport {
        name: name(at),
        version: Some(if at == 0 { "0.1.0" } else { "0.2.0" }.to_owned()),
        error: None,
    });
    FleetReport {
        fleet: "f".to_owned(),
        clusters: clusters.collect(),
        links: links.collect(),
    }
}

#[test]
fn fifty_clusters_fit_into_80_columns() {
    let report = mesh(50);
    let text = anstream::adapter::strip_str(&matrix::text(&report, Some(80))).to_string();
    let (last, lines) = text
        .lines()
        .collect::<Vec<_>>()
        .split_last()
        .map(|(last, lines)| (*last, lines.to_vec()))
        .unwrap();
    for line in &lines {
        assert!(measure_text_width(line) <= 80, "{line}");
    }
    // Two lines of numbers, a line for each cluster, 20 problems, and how many more there are.
    assert_eq!(lines.len(), 2 + 50 + 20 + 1);
    assert_eq!(
        lines[1],
        format!(
            "{}{}",
            " ".repeat(24),
            "12345678901234567890123456789012345678901234567890"
        )
    );
    assert_eq!(
        lines[2],
        " 1 cluster-wi…ng-name-0 .-+++++++++x+++++++++g+++++++++d+++++++++-++++++++"
    );
    assert_eq!(lines[72], "… and 225 more; --output json has all");
    assert_eq!(
        last,
        "50 clusters, 2450 links: 2205 ready (+), 61 drained (d), 61 gateway dead (g), 61 not ready (x), 62 missing (-). \
         Controllers: 0.1.0 (1), 0.2.0 (49)."
    );
}

/// A terminal gets as many columns as it has, and the rest below. A pipe, which nobody can widen, gets all.
#[test]
fn matrix_of_many_clusters_has_all_numbers_and_fits() {
    let report = mesh(120);
    let plain = |width| anstream::adapter::strip_str(&matrix::text(&report, width)).to_string();
    let text = plain(Some(80));
    let lines: Vec<&str> = text.lines().collect();
    let (matrix, rest) = lines.split_at(3 * (3 + 120));
    for line in matrix.iter().chain(&rest[..21]) {
        assert!(measure_text_width(line) <= 80, "{line}");
    }
    assert!(rest[20].starts_with("… and "), "{}", rest[20]);
    let third = &matrix[2 * (3 + 120)..];
    let before = " ".repeat(25);
    assert_eq!(
        third[0],
        format!("{before}{}", "1".repeat(10) + &"1".repeat(0))
    );
    assert!(third[3].starts_with("  1 cluster-w"), "{}", third[3]);
    let piped = plain(None);
    let lines: Vec<&str> = piped.lines().collect();
    assert_eq!(lines[2], format!("{before}{}", "1234567890".repeat(12)));
    assert_eq!(
        lines[0],
        format!("{}{}", " ".repeat(25 + 99), "1".repeat(21))
    );
    // All problems, each in full.
    let problems = report.links.iter().filter(|link| link.problem.is_some());
    assert_eq!(lines.len(), 3 + 120 + problems.count() + 1);
    assert!(
        lines[3 + 120].ends_with("a reason that is long"),
        "{}",
        lines[123]
    );
}

#[test]
fn small_fleet_has_a_small_matrix() {
    let mut report = mesh(3);
    report.clusters[2].error = Some("timed out".to_owned());
    for (at, cluster) in report.clusters.iter_mut().enumerate() {
        let short = ["hub", "east", "west"][at];
        for link in &mut report.links {
            if link.source == cluster.name {
                short.clone_into(&mut link.source);
            }
            if link.target == cluster.name {
                short.clone_into(&mut link.target);
            }
        }
        short.clone_into(&mut cluster.name);
        cluster.version = None;
    }
    report.links.truncate(2);
    report.links[0].problem = Some("there is no Link".to_owned());
    assert_eq!(
        anstream::adapter::strip_str(&matrix::text(&report, Some(80))).to_string(),
        "        123\n 1 hub  .-+\n 2 east ...\n 3 west ...\nwest: not read: timed out\nhub → east: there is no Link\n3 clusters, \
         2 links: 1 ready (+), 1 missing (-). Controllers: unknown.\n"
    );
    report.clusters.truncate(1);
    report.links.truncate(1);
    let text = anstream::adapter::strip_str(&matrix::text(&report, Some(80))).to_string();
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("1 cluster, 1 link: 1 missing"), "{last}");
}
