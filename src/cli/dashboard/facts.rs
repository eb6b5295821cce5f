//! What is wrong now, from what the commands found. Pure.

use std::cmp::Reverse;

use dashboard::page::LOST;
use mirror_core::api::duration::utc;
use observe::{
    clusters::{service_rows::ServiceRow, topology::Topology},
    finding::Finding,
    traffic::TrafficRow,
};

use crate::cli::common::problems;

/// All problems, worst first: clusters that cannot be read, Links, federated Services that have failed over, Services that
/// lose requests, and what is between clusters.
pub fn problems(
    topology: &Topology,
    hints: &[String],
    services: &[ServiceRow],
    traffic: &[TrafficRow],
) -> Vec<Finding> {
    let several = topology
        .clusters
        .iter()
        .filter(|node| node.reachable.is_some());
    let several = several.count() > 1;
    let mut found: Vec<Finding> = Vec::new();
    for node in &topology.clusters {
        if let Some(error) = &node.error {
            let unread = Finding::from(format!("cannot list Links: {error}")).of(&node.name);
            found.push(unread.fixed_by(&node.flags.mc("check", &[])));
        }
    }
    found.extend(hints.iter().map(|hint| Finding::from(hint.as_str())));
    found.extend(problems::findings(topology, several, |_, _| true));
    let named = |context: &str, namespace: &str, name: &str| {
        let of = several.then(|| format!("{context}: "));
        format!("{}{namespace}/{name}", of.unwrap_or_default())
    };
    let diagnosed = |finding: Finding, context: &str, names: [&str; 2]| {
        let node = topology.clusters.iter().find(|node| node.name == context);
        match node {
            Some(node) => finding.fixed_by(&node.flags.mc("diagnose {}/{}", &names)),
            None => finding,
        }
    };
    for row in services.iter().filter(|row| row.preferred.has_failed_over) {
        let name = row.service.as_deref().unwrap_or_default();
        let at = |time| format!("at {}", utc(time));
        let Some(text) = row.preferred.absence(at, at) else {
            continue;
        };
        let since = row.preferred.failed_over.first().map(|away| away.since);
        let failed = Finding::warning(text)
            .of(&named(&row.context, &row.namespace, name))
            .since(since);
        found.push(diagnosed(failed, &row.context, [&row.namespace, name]));
    }
    for row in traffic {
        let Some(rate) = row.success_rate.filter(|rate| *rate < LOST) else {
            continue;
        };
        let by = match &row.served.cluster {
            Some(cluster) => format!("that {cluster} serves"),
            None if row.served.without_endpoint => "that got no endpoint".to_owned(),
            None => "that an unknown cluster serves".to_owned(),
        };
        let lost = format!(
            "{:.0} % of the requests {by} fail, of {:.1} per second",
            (1.0 - rate) * 100.0,
            row.requests_per_second
        );
        let lost = Finding::from(lost).of(&named(&row.context, &row.namespace, &row.service));
        let names = [row.namespace.as_str(), row.service.as_str()];
        found.push(diagnosed(lost, &row.context, names));
    }
    found.extend(topology.notes().into_iter().map(Finding::warning));
    found.sort_by_key(|finding| Reverse(finding.level));
    found
}

#[cfg(test)]
mod tests {
    use observe::{
        clusters::{fixtures, preference_status::PreferenceStatus},
        traffic::ServedBy,
    };

    use super::*;

    #[test]
    fn problems_are_worst_first_and_name_what_they_are_about() {
        let topology = Topology::of(&fixtures::snapshots());
        let service = ServiceRow {
            context: "west".to_owned(),
            namespace: "shop".to_owned(),
            service: Some("web-federated".to_owned()),
            preferred: PreferenceStatus::of(&fixtures::federated(
                "local,east",
                "local=2026-01-01T00:00:00Z/..",
            )),
            ..ServiceRow::default()
        };
        let traffic = TrafficRow {
            context: "west".to_owned(),
            namespace: "shop".to_owned(),
            service: "web-east".to_owned(),
            served: ServedBy {
                cluster: Some("east".to_owned()),
                without_endpoint: false,
            },
            success_rate: Some(0.5),
            requests_per_second: 4.0,
            ..TrafficRow::default()
        };
        let found = problems(&topology, &[], &[service], &[traffic]);
        let lines: Vec<String> = found.iter().map(Finding::told).collect();
        let at = |text: &str| lines.iter().position(|line| line.starts_with(text));
        let silent = at("south: cannot list Links: no answer: run `linkerd-mc");
        let lost = at(
            "west: shop/web-east: 50 % of the requests that east serves fail, of 4.0 per second: run `",
        );
        let failed = at(
            "west: shop/web-federated: prefers local,east; failed over to east: local became unavailable at",
        );
        let apart = at("north and west have different trust anchors");
        let found = [silent, lost, failed, apart];
        assert!(
            found.iter().all(Option::is_some) && found.is_sorted(),
            "{lines:#?}"
        );
    }
}
