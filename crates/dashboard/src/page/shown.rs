//! What several sections show in the same way: tones, Services, requests. Also the header, and what happened. Pure.

use hints::prose::counted;
use jiff::SignedDuration;
use observe::{clusters::link_state::LinkStanding, finding::Level, timeline::Happened};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::{NamedService, PageFacts};

/// Entries of the time line that are shown.
const HAPPENED: usize = 30;
/// How far back the time line goes.
const LATELY: SignedDuration = SignedDuration::from_hours(24);

/// What a part of a path keeps as it is.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// How something looks: how bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PageTone {
    /// Something does not work.
    Bad,
    /// It may not work for long, or not all of it works.
    Warn,
    /// Nobody knows.
    Old,
    /// It is so because somebody wants it.
    Idle,
    /// All is well.
    Good,
}

impl PageTone {
    /// How a Link looks.
    pub fn of(state: LinkStanding) -> Self {
        match state {
            LinkStanding::Missing | LinkStanding::NotReady | LinkStanding::DeadGateway => Self::Bad,
            LinkStanding::Expiring | LinkStanding::Incomplete => Self::Warn,
            LinkStanding::Old | LinkStanding::Unknown => Self::Old,
            LinkStanding::Drained => Self::Idle,
            LinkStanding::Ready => Self::Good,
        }
    }
}

/// The part of a path that names a Service.
pub fn path(service: &NamedService) -> String {
    let parts = [&service.cluster, &service.namespace, &service.name];
    let parts = parts.map(|part| utf8_percent_encode(part, PART).to_string());
    parts.join("/")
}

/// The deep link to a Service.
pub fn href(service: &NamedService) -> String {
    format!("#service/{}", path(service))
}

/// A word for a fact that is perhaps unknown.
pub fn said(fact: Option<bool>, yes: &'static str, no: &'static str) -> &'static str {
    fact.map_or("unknown", |is| if is { yes } else { no })
}

/// The header.
pub fn header(facts: &PageFacts) -> Value {
    let errors = facts.problems.iter();
    let errors = errors.filter(|found| found.level == Level::Error).count();
    let warnings = facts.problems.len() - errors;
    let problems = match (errors, warnings) {
        (0, 0) => "nothing is wrong".to_owned(),
        (0, warnings) => counted(warnings, "warning"),
        (errors, 0) => counted(errors, "error"),
        (errors, warnings) => format!(
            "{}, {}",
            counted(errors, "error"),
            counted(warnings, "warning")
        ),
    };
    let clusters = counted(facts.topology.clusters.len(), "cluster");
    let links = counted(facts.topology.links.len(), "Link");
    json!({
        "read": facts.read.to_string(),
        "oldAfter": facts.old_after,
        "title": facts.title,
        "counts": format!("{clusters}, {links}"),
        "tab": format!("{problems} · linkerd-mc"),
    })
}

/// What happened lately.
pub fn happened(facts: &PageFacts) -> Value {
    let lately = facts.timeline.happened.iter();
    let lately = lately.take_while(|one| facts.read.duration_since(one.at) <= LATELY);
    let lately: Vec<&Happened> = lately.take(HAPPENED).collect();
    let first = facts.topology.links.first();
    let flags = first.map(|edge| facts.topology.flags_of(edge));
    json!({
        "twin": flags.map(|flags| flags.mc("diagnose -o json", &[]).line().to_owned()),
        "happened": lately,
        "absent": facts.absent("Nothing is known to have happened in the last 24 hours."),
        "unseen": facts.timeline.unseen,
    })
}
