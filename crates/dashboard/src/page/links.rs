//! The table of Links. Pure.

use jiff::Timestamp;
use observe::clusters::{
    link_state::LinkStanding,
    link_summary::{GatewaySummary, LinkSummary},
    topology::Edge,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::shown::{PageTone, said};
use crate::facts::PageFacts;

/// A row of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkRow {
    id: String,
    pub source: String,
    pub target: String,
    /// The name of the cluster in the Link, if it is another one.
    also: Option<String>,
    pub state: &'static str,
    pub tone: PageTone,
    problem: Option<String>,
    /// Whether what it says may not be true any more.
    is_old: bool,
    /// When it was read, if the cluster does not answer now.
    read: Option<Timestamp>,
    api: String,
    pub gateway: String,
    gateway_since: Option<Timestamp>,
    mirrored: i64,
    federated: i64,
    unhealthy: i64,
    credentials: &'static str,
    expire: Option<Timestamp>,
    anchors: &'static str,
    change: Option<Timestamp>,
}

/// The section: worst first.
pub fn view(facts: &PageFacts) -> Value {
    let mut rows: Vec<LinkRow> = rows(facts).collect();
    rows.extend(missing(facts));
    rows.sort_by(|a, b| (a.tone, &a.source, &a.target).cmp(&(b.tone, &b.source, &b.target)));
    let ends = rows.iter().filter(|row| row.expire.is_some());
    json!({
        "twin": facts.flags.mc("status -o json", &[]).line(),
        "first": ends.min_by_key(|row| row.expire),
        "rows": rows,
        "absent": facts.absent("No Links found."),
    })
}

/// The rows of Links, in the order of the topology.
pub fn rows(facts: &PageFacts) -> impl Iterator<Item = LinkRow> {
    let states = facts.topology.links.iter().zip(&facts.states);
    states.map(|(edge, (state, problem))| row(facts, edge, *state, problem.clone()))
}

fn row(facts: &PageFacts, edge: &Edge, state: LinkStanding, problem: Option<String>) -> LinkRow {
    let link = &edge.link;
    let read = facts.unanswered.get(&edge.source).copied().flatten();
    LinkRow {
        id: format!("link-{}-{}-{}", edge.source, link.namespace, link.name),
        source: edge.source.clone(),
        target: edge.target.clone(),
        also: (link.cluster != edge.target).then(|| format!("as {}", link.cluster)),
        state: state.name(),
        tone: PageTone::of(state),
        problem,
        is_old: read.is_some() || link.is_old(),
        read,
        api: said(link.connected, "connected", "not connected").to_owned(),
        gateway: gateway(link),
        gateway_since: since(link.gateway.as_ref()),
        mirrored: link.mirrored,
        federated: link.federated,
        unhealthy: link.unhealthy,
        credentials: said(link.credentials_valid, "valid", "not valid"),
        expire: link.credentials_expire,
        anchors: said(edge.shares_trust_anchors, "the same", "different"),
        change: link.last_change,
    }
}

/// Links that the file of a fleet has and the clusters do not.
fn missing(facts: &PageFacts) -> impl Iterator<Item = LinkRow> {
    let missing = facts.topology.missing.iter().flatten();
    missing.map(|link| LinkRow {
        id: format!("link-{}-missing-{}", link.source, link.target),
        source: link.source.clone(),
        target: link.target.clone(),
        also: None,
        state: LinkStanding::Missing.name(),
        tone: PageTone::of(LinkStanding::Missing),
        problem: Some("the file of the fleet has it".to_owned()),
        is_old: false,
        read: None,
        api: "-".to_owned(),
        gateway: "-".to_owned(),
        gateway_since: None,
        mirrored: 0,
        federated: 0,
        unhealthy: 0,
        credentials: "-",
        expire: None,
        anchors: "-",
        change: None,
    })
}

fn gateway(link: &LinkSummary) -> String {
    let Some(gateway) = &link.gateway else {
        return "none".to_owned();
    };
    match (gateway.alive, gateway.latency_ms) {
        (Some(true), Some(latency)) => format!("alive, {latency} ms"),
        (Some(true), None) => "alive".to_owned(),
        (Some(false), _) => "dead".to_owned(),
        (None, _) => "unknown".to_owned(),
    }
}

/// Since when a gateway is dead.
fn since(gateway: Option<&GatewaySummary>) -> Option<Timestamp> {
    gateway
        .filter(|gateway| gateway.alive == Some(false))?
        .since
}
