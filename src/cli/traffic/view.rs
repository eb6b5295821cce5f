//! What `traffic` shows: a table with notes below it, JSON, YAML. Pure.

use std::collections::BTreeMap;

use mirror_core::api::{metadata::ResourceId, text::one_line};
use observe::{
    clusters::{proxies::ProxyError, shown_mode::ShownMode},
    traffic::TrafficRow,
};
use serde::Serialize;

use super::observe::Observation;
use crate::cli::common::{
    frame::ScreenFrame,
    table::{Cell, Column, Table, Tone},
};

/// A note says so if more requests have no answer than this part of those that ended.
const UNANSWERED: f64 = 0.05;

/// All that `traffic` shows; its JSON is the documented output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrafficView {
    /// The clusters whose clients were read.
    clusters: Vec<ClientsView>,
    /// By cluster, namespace, Service and serving cluster.
    rows: Vec<TrafficRow>,
}

/// Of how many clients of a cluster the rows tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientsView {
    /// The cluster.
    context: String,
    /// Number of running Pods in the mesh.
    meshed_pods: usize,
    /// Number of those whose proxies were read twice.
    read: usize,
    /// Those that could not be read.
    unread: Vec<UnreadClient>,
    /// What else is not known.
    notes: Vec<String>,
    /// Why nothing is known; `null` if something is.
    problem: Option<String>,
    #[serde(skip)]
    services: usize,
    #[serde(skip)]
    errors: BTreeMap<ResourceId, ProxyError>,
}

/// A client that could not be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct UnreadClient {
    /// `namespace/name`.
    pod: String,
    /// Why.
    reason: String,
}

/// Why nothing is known about a cluster, and what to do.
pub struct TrafficProblem {
    pub message: String,
    pub hint: &'static str,
}

impl TrafficView {
    pub fn of(observations: Vec<Observation>) -> Self {
        let mut view = Self::default();
        for observation in observations {
            let unread = observation.unread.iter();
            view.clusters.push(ClientsView {
                context: observation.context,
                meshed_pods: observation.meshed,
                read: observation.read,
                unread: unread
                    .map(|(pod, error)| UnreadClient {
                        pod: pod.to_string(),
                        reason: error.to_string(),
                    })
                    .collect(),
                notes: observation.notes,
                problem: observation.problem,
                services: observation.services,
                errors: observation.unread,
            });
            view.rows.extend(observation.rows);
        }
        view
    }

    /// Whether nothing is known about one of the clusters.
    pub fn has_silent_cluster(&self) -> bool {
        self.clusters
            .iter()
            .any(|cluster| cluster.problem().is_some())
    }

    /// Whether no cluster could be read, so that there is nothing to count.
    pub fn is_silent(&self) -> bool {
        self.clusters
            .iter()
            .all(|cluster| cluster.problem.is_some())
    }

    /// Why nothing is known about the first cluster.
    pub fn problem(&self) -> Option<TrafficProblem> {
        self.clusters.first()?.problem()
    }

    /// Whether none of the wanted Services exists, as far as the clusters answer.
    pub fn is_without_services(&self) -> bool {
        self.clusters.iter().all(|cluster| cluster.services == 0)
    }

    /// The clusters about which nothing is known, a line each.
    pub fn errors(&self) -> Vec<String> {
        let silent = self.clusters.iter().filter_map(|cluster| {
            let problem = cluster.problem()?;
            Some(format!("{}: {}", cluster.context, problem.message))
        });
        silent.collect()
    }

    /// What is printed in place of an empty table.
    pub fn absent(&self) -> Option<&'static str> {
        if !self.rows.is_empty() || self.has_silent_cluster() {
            return None;
        }
        let mut clusters = self.clusters.iter();
        let are_all = clusters.all(|cluster| cluster.read == cluster.meshed_pods);
        Some(if are_all {
            "no client has sent requests to a mirror or federated Service"
        } else {
            "none of the Pods that were read has sent requests to a mirror or federated Service; others may have"
        })
    }

    /// Notes below the table.
    fn notes(&self) -> Vec<String> {
        let several = self.clusters.len() > 1;
        let unanswered = self
            .rows
            .iter()
            .filter(|row| row.unanswered >= 1.0 && row.unanswered > row.requests * UNANSWERED);
        let mut notes: Vec<String> = unanswered
            .map(|row| {
                let of = if several { format!("{}: ", row.context) } else { String::new() };
                let by = row.served.cluster.as_deref().unwrap_or("an unknown cluster");
                one_line(&format!(
                    "{of}{}/{}: {:.0} requests to {by} have no answer: they are under way, or their callers gave up",
                    row.namespace, row.service, row.unanswered
                ))
            })
            .collect();
        for cluster in &self.clusters {
            let of = if several {
                format!("{}: ", cluster.context)
            } else {
                String::new()
            };
            let own = cluster.notes().into_iter();
            notes.extend(own.map(|note| one_line(&format!("{of}{note}"))));
        }
        notes
    }
}

impl ClientsView {
    fn problem(&self) -> Option<TrafficProblem> {
        let listing = "check that the cluster is up, and that you may list Services and Pods in all namespaces";
        if let Some(problem) = &self.problem {
            return Some(TrafficProblem {
                message: problem.clone(),
                hint: listing,
            });
        }
        let all_unread = self.read == 0 && !self.errors.is_empty();
        let (_, error) = self.errors.first_key_value().filter(|_| all_unread)?;
        let hint = match error {
            ProxyError::Forbidden(_) => {
                "this needs permission to `get` `pods/proxy`; see docs/permissions.md"
            }
            ProxyError::Denied(_) => {
                "the inbound policy of the Pods has to permit the API server; see docs/metrics.md"
            }
            _ => "check that the API server can connect to Pods, on port 4191",
        };
        Some(TrafficProblem {
            message: format!("no proxy could be read: {error}"),
            hint,
        })
    }

    fn notes(&self) -> Vec<String> {
        let (read, meshed) = (self.read, self.meshed_pods);
        let mut notes = vec![match meshed - meshed.min(read + self.unread.len()) {
            0 => format!("{read} of {meshed} Pods in the mesh were read"),
            left => format!(
                "{read} of {meshed} Pods in the mesh were read; {left} were left out, or are new (--max-clients, --client-namespace)"
            ),
        }];
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for UnreadClient { pod, reason } in &self.unread {
            by_reason.entry(reason).or_default().push(pod);
        }
        for (reason, pods) in by_reason {
            let others = match pods.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            notes.push(format!("{}{others}: {reason}", pods[0]));
        }
        notes.extend(self.notes.iter().cloned());
        notes
    }
}

/// A table, and the notes below it.
pub fn frame(view: &TrafficView, width: Option<usize>) -> ScreenFrame {
    let table = table(view);
    let lines = (!table.is_empty()).then(|| table.lines(width));
    ScreenFrame {
        tables: lines.into_iter().collect(),
        notes: view.notes(),
    }
}

fn table(view: &TrafficView) -> Table {
    let mut columns = vec![
        Column::elastic("NAMESPACE"),
        Column::key("SERVICE"),
        Column::new("MODE").spare(2),
        Column::key("SERVED-BY"),
        Column::number("RPS"),
        Column::number("SUCCESS"),
        Column::number("P50"),
        Column::number("P99"),
        Column::number("CONNECTIONS").spare(1),
        Column::number("CLIENTS").spare(3),
    ];
    let several = view.clusters.len() > 1;
    if several {
        columns.insert(0, Column::elastic("CONTEXT"));
    }
    let mut table = Table::new(columns);
    for row in &view.rows {
        let mut cells = vec![
            Cell::from(&row.namespace),
            Cell::from(&row.service),
            Cell::from(row.mode.map_or("local", ShownMode::as_str)),
            served_by(row),
            Cell::from(format!("{:.1}", row.requests_per_second)),
            success(row.success_rate),
            Cell::from(latency(row.p50_ms)),
            Cell::from(latency(row.p99_ms)),
            Cell::from(format!("{:.0}", row.open_connections)),
            Cell::from(row.clients.to_string()),
        ];
        if several {
            cells.insert(0, Cell::from(&row.context));
        }
        table.push(cells);
    }
    table
}

fn served_by(row: &TrafficRow) -> Cell {
    match &row.served.cluster {
        Some(cluster) => Cell::from(cluster),
        None if row.served.without_endpoint => Cell::toned("none", Tone::Bad),
        None => Cell::toned("unknown", Tone::Doubtful),
    }
}

/// The part of the requests that succeeded. It is rounded down, so that `100%` is all of them.
fn success(rate: Option<f64>) -> Cell {
    let Some(rate) = rate else {
        return Cell::from("-");
    };
    let tone = match rate {
        rate if rate >= 0.999 => Tone::Good,
        rate if rate >= 0.95 => Tone::Doubtful,
        _ => Tone::Bad,
    };
    let percent = (rate * 10_000.0).floor() / 100.0;
    Cell::toned(format!("{percent:.2}%"), tone)
}

fn latency(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1}ms"),
        Some(ms) if ms < 10_000.0 => format!("{ms:.0}ms"),
        Some(ms) => format!("{:.1}s", ms / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(service: &str, mode: Option<ShownMode>, cluster: Option<&str>) -> TrafficRow {
        let mut row = TrafficRow {
            context: "west".to_owned(),
            namespace: "shop".to_owned(),
            service: service.to_owned(),
            mode,
            requests: 205.0,
            requests_per_second: 20.5,
            success_rate: Some(1.0),
            p50_ms: Some(3.25),
            p99_ms: Some(187.6),
            open_connections: 2.0,
            clients: 1,
            ..TrafficRow::default()
        };
        row.served.cluster = cluster.map(str::to_owned);
        row
    }

    fn observation() -> Observation {
        let mut lost = TrafficRow {
            success_rate: Some(0.0),
            p50_ms: None,
            p99_ms: None,
            open_connections: 0.0,
            ..row("gated-east", Some(ShownMode::Gateway), None)
        };
        lost.served.without_endpoint = true;
        let refused = ProxyError::Unanswered("timed out after 10 s".to_owned());
        let pod = |name: &str| ResourceId::new("shop", name);
        Observation {
            context: "west".to_owned(),
            meshed: 7,
            read: 3,
            unread: [(pod("a"), refused.clone()), (pod("b"), refused)].into(),
            services: 3,
            rows: vec![
                TrafficRow {
                    success_rate: Some(0.999_99),
                    p99_ms: Some(12_345.0),
                    ..row("gated-east", Some(ShownMode::Gateway), Some("east"))
                },
                lost,
                TrafficRow {
                    success_rate: None,
                    requests: 0.0,
                    unanswered: 42.0,
                    requests_per_second: 0.0,
                    ..row("web-federated", Some(ShownMode::Federated), None)
                },
                row("web", None, Some("local")),
            ],
            notes: vec!["cannot read the EndpointSlices of north: forbidden".to_owned()],
            problem: None,
        }
    }

    #[test]
    fn table_says_who_serves_and_of_how_many_clients_it_tells() {
        let view = TrafficView::of(vec![observation()]);
        let text = anstream::adapter::strip_str(&frame(&view, None).text()).to_string();
        insta::assert_snapshot!(text, @r"
        NAMESPACE  SERVICE        MODE       SERVED-BY   RPS  SUCCESS    P50    P99  CONNECTIONS  CLIENTS
        shop       gated-east     gateway    east       20.5   99.99%  3.2ms  12.3s            2        1
        shop       gated-east     gateway    none       20.5    0.00%      -      -            0        1
        shop       web-federated  federated  unknown     0.0        -  3.2ms  188ms            2        1
        shop       web            local      local      20.5  100.00%  3.2ms  188ms            2        1

        shop/web-federated: 42 requests to an unknown cluster have no answer: they are under way, or their callers gave up
        3 of 7 Pods in the mesh were read; 2 were left out, or are new (--max-clients, --client-namespace)
        shop/a and 1 more: timed out after 10 s
        cannot read the EndpointSlices of north: forbidden
        ");
        assert!(view.problem().is_none() && view.absent().is_none());
        let narrow = frame(&view, Some(60)).tables.concat();
        assert!(narrow[0].contains("SERVED-BY"), "{narrow:?}");
        assert!(!narrow[0].contains("CLIENTS"), "{narrow:?}");
    }

    #[test]
    fn rows_and_clients_are_the_documented_json() {
        let mut observation = observation();
        observation.rows.truncate(1);
        observation.unread.pop_last();
        let view = TrafficView::of(vec![observation]);
        insta::assert_snapshot!(serde_json::to_string_pretty(&view).unwrap(), @r#"
        {
          "clusters": [
            {
              "context": "west",
              "meshedPods": 7,
              "read": 3,
              "unread": [
                {
                  "pod": "shop/a",
                  "reason": "timed out after 10 s"
                }
              ],
              "notes": [
                "cannot read the EndpointSlices of north: forbidden"
              ],
              "problem": null
            }
          ],
          "rows": [
            {
              "context": "west",
              "namespace": "shop",
              "service": "gated-east",
              "mode": "gateway",
              "cluster": "east",
              "withoutEndpoint": false,
              "requests": 205.0,
              "unanswered": 0.0,
              "requestsPerSecond": 20.5,
              "successRate": 0.99999,
              "p50Ms": 3.25,
              "p99Ms": 12345.0,
              "openConnections": 2.0,
              "clients": 1
            }
          ]
        }
        "#);
    }

    #[test]
    fn silent_clusters_are_errors_and_the_hint_fits_the_cause() {
        let denied = ProxyError::Denied(http::StatusCode::FORBIDDEN);
        for (error, hint) in [
            (ProxyError::Forbidden("no".to_owned()), "permission"),
            (denied, "inbound policy"),
            (ProxyError::Unanswered("no".to_owned()), "4191"),
        ] {
            let unread = [(ResourceId::new("shop", "a"), error.clone())].into();
            let view = TrafficView::of(vec![Observation {
                context: "west".to_owned(),
                meshed: 1,
                unread,
                ..Observation::default()
            }]);
            let problem = view.problem().unwrap();
            assert!(problem.hint.contains(hint), "{error}: {}", problem.hint);
            let expected = format!("west: no proxy could be read: {error}");
            assert_eq!(view.errors(), [expected]);
            assert!(view.has_silent_cluster());
        }
        let quiet = |read, meshed| {
            let view = TrafficView::of(vec![Observation {
                meshed,
                read,
                ..Observation::default()
            }]);
            assert!(!view.has_silent_cluster());
            view.absent().unwrap()
        };
        assert!(quiet(7, 7).starts_with("no client has sent"));
        assert!(quiet(500, 5000).starts_with("none of the Pods that were read"));
    }
}
