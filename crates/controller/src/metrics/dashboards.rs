//! Checks that the queries in `dashboards/` use only metrics and labels that exist.

use std::collections::{BTreeMap, BTreeSet};

use manifests::yaml::from_yaml;
use serde::Deserialize;
use serde_json::Value;

use super::tests::filled;

const DASHBOARD: &str = include_str!("../../../../dashboards/grafana.json");
const ALERTS: &str = include_str!("../../../../dashboards/alerts.yaml");
const TRAFFIC: &str = include_str!("../../../../dashboards/traffic.yaml");
/// What our queries read of the proxies of clients. The mesh suite compares it with a real one.
const OF_PROXIES: [&str; 2] = ["response_total", "response_latency_ms_bucket"];
/// The labels of these series that our queries read.
const LABELS_OF_PROXIES: [&str; 6] = [
    "authority",
    "classification",
    "direction",
    "dst_target_cluster",
    "dst_target_service",
    "dst_target_service_namespace",
];

/// Operators of the query language in our queries, which look like names of metrics.
const OPERATORS: [&str; 2] = ["and", "or"];
/// Keywords of the query language that labels in parentheses follow.
const GROUPINGS: [&str; 2] = ["by", "on"];

#[derive(Deserialize)]
struct AlertFile {
    groups: Vec<AlertGroup>,
}

#[derive(Deserialize)]
struct AlertGroup {
    rules: Vec<AlertRule>,
}

#[derive(Deserialize)]
struct AlertRule {
    #[serde(default)]
    alert: String,
    /// The name of the series that a recording rule makes.
    #[serde(default)]
    record: String,
    expr: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Gauges that replicas on standby have too. Only those of the leader are meaningful.
const OF_THE_LEADER: [&str; 2] = ["linkerd_mc_queue_depth", "linkerd_mc_in_flight"];
/// The part of a query that excludes replicas on standby.
const LEADER_ONLY: &str = "and on (instance) linkerd_mc_leader == 1";

/// The names in a query.
#[derive(Debug, Default, PartialEq)]
struct Names {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
}

/// The names of all samples that the controller serves, of their labels, and of labels that Prometheus adds.
fn known() -> Names {
    let mut known = Names::default();
    for line in filled().render().lines().filter(|l| !l.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap();
        known.metrics.insert(line[..end].to_owned());
        if let Some((labels, _)) = line[end..]
            .strip_prefix('{')
            .and_then(|l| l.split_once('}'))
        {
            let names = labels.split(',').filter_map(|l| l.split_once('='));
            known.labels.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
    known.labels.insert("instance".to_owned());
    known.metrics.extend(OF_PROXIES.map(str::to_owned));
    known.labels.extend(LABELS_OF_PROXIES.map(str::to_owned));
    known
}

/// The metrics and labels of an expression. Understands the part of the query language that our queries use.
fn names(expression: &str) -> Names {
    let mut names = Names::default();
    let mut rest = expression;
    // The character that ends the current list of labels, if there is one.
    let mut labels_end = None;
    let mut grouping = false;
    while let Some(c) = rest.chars().next() {
        // Names of recorded series have colons.
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
        let word = &rest[..word.unwrap_or(rest.len())];
        let after = rest[word.len()..].trim_start();
        if !word.is_empty() {
            grouping = GROUPINGS.contains(&word);
            // `sum by (…) (…)` is a function too.
            let by = after.split([' ', '(']).next().unwrap();
            let is_name = !grouping
                && !GROUPINGS.contains(&by)
                && !word.starts_with(|c: char| c.is_ascii_digit())
                && !after.starts_with('(')
                && !OPERATORS.contains(&word);
            if labels_end.is_some() {
                names.labels.insert(word.to_owned());
            } else if is_name {
                names.metrics.insert(word.to_owned());
            }
            rest = &rest[word.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '{' => labels_end = Some('}'),
            '(' if grouping => labels_end = Some(')'),
            c if labels_end == Some(c) => labels_end = None,
            '"' => rest = rest.split_once('"').map_or("", |(_, after)| after),
            '[' => rest = rest.split_once(']').map_or("", |(_, after)| after),
            _ => {}
        }
        grouping &= c == ' ';
    }
    names
}

/// Fails if a query names a metric or label that does not exist, or no metric at all.
fn check(place: &str, expression: &str, known: &Names) {
    let names = names(expression);
    assert!(!names.metrics.is_empty(), "{place}: no metric in a query");
    let metrics: Vec<_> = names.metrics.difference(&known.metrics).collect();
    assert!(metrics.is_empty(), "{place}: no such metrics: {metrics:?}");
    let labels: Vec<_> = names.labels.difference(&known.labels).collect();
    assert!(labels.is_empty(), "{place}: no such labels: {labels:?}");
    let of_the_leader = |metric: &String| OF_THE_LEADER.contains(&metric.as_str());
    assert!(
        !names.metrics.iter().any(of_the_leader) || expression.contains(LEADER_ONLY),
        "{place}: a standby's queue counts: {expression}"
    );
}

#[test]
fn names_are_found_in_queries() {
    for (query, metrics, labels) in [
        ("a == 0", vec!["a"], vec![]),
        (
            r#"sum by (x, y) (rate(a_total{z="b{c",w!="d"}[5m])) > 1e3"#,
            vec!["a_total"],
            vec!["w", "x", "y", "z"],
        ),
        (
            "time() - max(a) or vector(0) and on (x) b",
            vec!["a", "b"],
            vec!["x"],
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(a_bucket[$__rate_interval])))",
            vec!["a_bucket"],
            vec!["le"],
        ),
    ] {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let expected = Names {
            metrics: owned(metrics),
            labels: owned(labels),
        };
        assert_eq!(names(query), expected, "{query}");
    }
}

/// The rules of a file.
fn rules(text: &str) -> Vec<AlertRule> {
    let file: AlertFile = from_yaml(text).unwrap();
    file.groups.into_iter().flat_map(|g| g.rules).collect()
}

#[test]
fn alerts_and_recorded_series_use_only_metrics_and_labels_that_exist() {
    let mut known = known();
    let (alerts, traffic) = (rules(ALERTS), rules(TRAFFIC));
    assert!(alerts.len() >= 7 && traffic.len() >= 4);
    let mut seen = BTreeSet::new();
    for rule in alerts.into_iter().chain(traffic) {
        if rule.alert.is_empty() {
            check(&rule.record, &rule.expr, &known);
            let is_new = known.metrics.insert(rule.record.clone());
            assert!(is_new && rule.record.contains(':'), "{}", rule.record);
            continue;
        }
        assert!(seen.insert(rule.alert.clone()), "{} twice", rule.alert);
        check(&rule.alert, &rule.expr, &known);
        let severity = rule.labels["severity"].as_str();
        assert!(matches!(severity, "warning" | "critical"), "{}", rule.alert);
        // The text of an alert may use only labels of the query's result.
        let queried = names(&rule.expr).labels;
        for key in ["summary", "description"] {
            let text = &rule.annotations[key];
            for used in text.split("$labels.").skip(1) {
                let end = used.find(' ').unwrap();
                assert!(queried.contains(&used[..end]), "{}: {text}", rule.alert);
            }
        }
    }
}

#[test]
fn alert_about_credentials_has_the_limit_of_the_condition() {
    let days = mirror_core::mirror::link_status::expiry::SOON.as_hours() / 24;
    let rule =
        format!("linkerd_mc_credentials_expiry_timestamp_seconds) - time() < {days} * 86400");
    assert!(ALERTS.contains(&rule), "{rule}");
}

#[test]
fn the_dashboard_uses_only_metrics_and_labels_that_exist() {
    let known = known();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let (mut ids, mut queries) = (BTreeSet::new(), 0);
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        if panel["type"] == "row" {
            continue;
        }
        assert!(
            panel["description"].is_string(),
            "{title} says not what it is"
        );
        for target in panel["targets"].as_array().unwrap() {
            check(title, target["expr"].as_str().unwrap(), &known);
            let legend = target["legendFormat"].as_str().unwrap();
            let grouped = names(target["expr"].as_str().unwrap()).labels;
            for used in legend.split("{{").skip(1) {
                let label = used.split("}}").next().unwrap();
                assert!(grouped.contains(label), "{title}: {legend}");
            }
            queries += 1;
        }
    }
    assert!(queries >= 20);
}
