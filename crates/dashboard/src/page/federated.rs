//! The table of federated Services, and what is shown of any Service. Pure.

use hints::prose::counted;
use jiff::Timestamp;
use mirror_core::api::preference::LOCAL;
use observe::{
    clusters::{service_rows::ServiceRow, shown_mode::ShownMode},
    traffic::TrafficRow,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::shown::{PageTone, href};
use crate::facts::{NamedService, PageFacts, SAMPLES, Traffic};

/// Federated Services that are shown.
const SHOWN: usize = 100;
/// Width and height of a sparkline.
const SPARK: (f64, f64) = (90.0, 18.0);

/// A mirror or federated Service, as the page shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    id: String,
    href: String,
    cluster: String,
    namespace: String,
    name: String,
    mode: &'static str,
    /// What it mirrors.
    from: String,
    state: &'static str,
    tone: PageTone,
    message: Option<String>,
    endpoints: Option<String>,
    is_old: bool,
    members: Vec<MemberView>,
    prefers: Option<String>,
    serving: Vec<ServingView>,
    /// What is said if there are no requests.
    quiet: &'static str,
    /// The path of its diagnosis.
    diagnose: Option<String>,
}

/// A cluster that has a member.
#[derive(Debug, Serialize)]
struct MemberView {
    cluster: String,
    tone: PageTone,
    serves: bool,
    /// Since when it receives no requests, although it is preferred.
    away: Option<Timestamp>,
    returns: Option<Timestamp>,
}

/// What a cluster does with requests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServingView {
    cluster: String,
    rate: String,
    success: String,
    p99: String,
    is_lost: bool,
    spark: Option<String>,
    spark_label: String,
}

/// The section: worst first.
pub fn view(facts: &PageFacts) -> Value {
    let is_federated = |row: &&ServiceRow| row.mode == Some(ShownMode::Federated);
    let all = facts.services.iter().filter(is_federated);
    let mut all: Vec<ServiceView> = all.map(|row| ServiceView::of(facts, row)).collect();
    all.sort_by_key(|row| row.tone);
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let mirrors = facts.services.iter();
    let mirrors = mirrors.filter(|row| row.service.is_some() && !is_federated(row));
    json!({
        "twin": facts.flags.mc("status --services -o json", &[]).line(),
        "rows": all,
        "absent": facts.absent("No Service is federated."),
        "unseen": facts.traffic.unseen,
        "more": more,
        "mirrors": match mirrors.count() {
            0 if all.is_empty() => String::new(),
            0 => facts.absent("There are no other mirrors.").to_owned(),
            count => format!("{}: find them by name above.", counted(count, "other mirror")),
        },
    })
}

/// The Service and the cluster of `service@cluster`.
pub fn member(from: &str) -> (&str, &str) {
    let (service, cluster) = from.rsplit_once('@').unwrap_or((from, ""));
    // So that it is called as in preferences.
    (service, if cluster == "(local)" { LOCAL } else { cluster })
}

impl ServiceView {
    /// What is shown of a Service.
    pub fn of(facts: &PageFacts, row: &ServiceRow) -> Self {
        let name = row.service.clone().unwrap_or_default();
        let service = NamedService {
            cluster: row.context.clone(),
            namespace: row.namespace.clone(),
            name: name.clone(),
        };
        let (state, tone) = state(row);
        Self {
            id: format!("service-{}-{}-{name}", row.context, row.namespace),
            href: href(&service),
            cluster: service.cluster,
            namespace: service.namespace,
            name,
            mode: row.mode.map_or("", ShownMode::as_str),
            from: row.from.join(", "),
            state,
            tone,
            message: row.message.clone(),
            endpoints: row
                .endpoints
                .map(|count| format!("{} of {} endpoints ready", count.ready, count.total)),
            is_old: facts.unanswered.contains_key(&row.context),
            members: members(row),
            prefers: row.preferred.preference.clone(),
            serving: serving(&facts.traffic, row),
            quiet: match facts.traffic.rows {
                Some(_) => "no requests",
                None => "not counted yet",
            },
            diagnose: None,
        }
    }

    /// With a button that diagnoses it.
    pub fn with_diagnosis(self, path: String) -> Self {
        Self {
            diagnose: Some(path),
            ..self
        }
    }
}

fn state(row: &ServiceRow) -> (&'static str, PageTone) {
    let without = row.endpoints.is_some_and(|count| count.ready == 0);
    match row.healthy {
        Some(false) => ("not mirrored", PageTone::Bad),
        _ if row.preferred.has_failed_over => ("failed over", PageTone::Warn),
        _ if without => ("no endpoints", PageTone::Bad),
        Some(true) => ("healthy", PageTone::Good),
        None => ("unknown", PageTone::Old),
    }
}

fn members(row: &ServiceRow) -> Vec<MemberView> {
    let preferred = &row.preferred;
    let members = row.from.iter().map(|from| {
        let (_, cluster) = member(from);
        let away = preferred.failed_over.iter();
        let away = away.into_iter().find(|away| away.cluster == cluster);
        let serves = preferred.active.is_empty() || preferred.active.iter().any(|on| on == cluster);
        MemberView {
            cluster: cluster.to_owned(),
            tone: match (away, serves) {
                (Some(_), _) => PageTone::Bad,
                (None, true) => PageTone::Good,
                (None, false) => PageTone::Idle,
            },
            serves: serves && away.is_none(),
            away: away.map(|away| away.since),
            returns: away.and_then(|away| away.returns),
        }
    });
    members.collect()
}

fn serving(traffic: &Traffic, row: &ServiceRow) -> Vec<ServingView> {
    let is_it = |of: &&TrafficRow| {
        of.context == row.context
            && of.namespace == row.namespace
            && Some(&of.service) == row.service.as_ref()
    };
    let rows = traffic.rows.iter().flatten().filter(is_it);
    let rows = rows.map(|of| {
        let rates = traffic.rates.get(&Traffic::place(of));
        let rates: Vec<f64> = rates.into_iter().flatten().copied().collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        ServingView {
            cluster: match &of.served.cluster {
                Some(cluster) => cluster.clone(),
                None if of.served.without_endpoint => "nobody".to_owned(),
                None => "unknown".to_owned(),
            },
            rate: format!("{:.1}/s", of.requests_per_second),
            success: of.success_rate.map_or_else(
                || "-".to_owned(),
                |rate| format!("{:.1} %", (rate * 1000.0).floor() / 10.0),
            ),
            p99: of
                .p99_ms
                .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms")),
            is_lost: of.success_rate.is_some_and(|rate| rate < LOST),
            spark: (rates.len() > 1).then(|| spark(&rates, most)),
            spark_label: format!("at most {most:.1} requests per second in the last minutes"),
        }
    });
    rows.collect()
}

/// Below this part of requests that succeed, a row looks bad. Docs of `traffic` use the same.
pub const LOST: f64 = 0.99;

/// The points of a line, of which the last one is at the right.
#[expect(clippy::cast_precision_loss, reason = "there are few samples")]
fn spark(rates: &[f64], most: f64) -> String {
    let (width, height) = SPARK;
    let step = width / (SAMPLES - 1) as f64;
    let first = SAMPLES - rates.len();
    let points = rates.iter().enumerate().map(|(at, rate)| {
        let x = (first + at) as f64 * step;
        let y = (height - 1.0) - (rate / most.max(f64::MIN_POSITIVE)) * (height - 2.0);
        format!("{x:.1},{y:.1}")
    });
    points.collect::<Vec<_>>().join(" ")
}
