//! A diagnosis → text, or a document for scripts.
//!
//! The text always has colors. If they are not wanted, they are stripped when it is printed.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use mirror_core::api::{duration::utc, text::one_line};
use serde::Serialize;

use super::{diagnosis::Diagnosis, layer::LayerReport};
use crate::{
    finding::{
        Finding, Level, Remedy,
        causes::{Cause, Layer},
    },
    timeline::Timeline,
};

/// A diagnosis as a document. It is the documented output of `diagnose`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosisOutput {
    /// Whether no broken layer was found.
    success: bool,
    namespace: String,
    service: String,
    port: Option<u16>,
    /// What the Service is, in words.
    what: String,
    /// The layer of the first finding; `null` if nothing was found.
    layer: Option<&'static str>,
    /// The first finding: the cause of the others.
    finding: Option<Finding>,
    /// The layers up to the first broken one.
    layers: Vec<LayerOutput>,
    /// What happened in the clusters, newest first.
    timeline: Timeline,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LayerOutput {
    layer: &'static str,
    /// `ok`, `degraded`, `broken`, or `unknown` if nothing could be looked at.
    state: &'static str,
    seen: Vec<String>,
    /// What could not be looked at, and why.
    unseen: Vec<String>,
    findings: Vec<Finding>,
}

/// The document of a diagnosis.
pub fn document(diagnosis: &Diagnosis) -> DiagnosisOutput {
    let (layer, finding) = diagnosis.cause().unzip();
    DiagnosisOutput {
        success: !diagnosis.is_broken(),
        namespace: diagnosis.service.namespace.clone(),
        service: diagnosis.service.name.clone(),
        port: diagnosis.port,
        what: diagnosis.what.clone(),
        layer: layer.map(Layer::name),
        finding: finding.cloned(),
        layers: diagnosis.layers.iter().map(layer_output).collect(),
        timeline: diagnosis.timeline.clone(),
    }
}

fn layer_output(report: &LayerReport) -> LayerOutput {
    LayerOutput {
        layer: report.layer.name(),
        state: report.state(),
        seen: report.seen.iter().map(|line| one_line(line)).collect(),
        unseen: report.unseen.iter().map(|line| one_line(line)).collect(),
        findings: report.findings.clone(),
    }
}

/// The text of a diagnosis.
pub fn text(diagnosis: &Diagnosis) -> String {
    let port = diagnosis.port.map(|port| format!(":{port}"));
    let heading = format!(
        "{}{}: {}",
        diagnosis.service,
        port.unwrap_or_default(),
        diagnosis.what
    );
    let mut text = one_line(&heading) + "\n\n";
    conclusion(&mut text, diagnosis);
    text.push('\n');
    judgements(&mut text, diagnosis, |_| true);
    text
}

/// The conclusion, and the layers whose state or causes have changed. `None` if they are the same.
pub fn changes(before: &Diagnosis, now: &Diagnosis) -> Option<String> {
    let mut changes = String::new();
    let has_changed = |layer| before.outline(layer) != now.outline(layer);
    judgements(&mut changes, now, has_changed);
    if changes.is_empty() {
        return None;
    }
    let mut text = String::new();
    conclusion(&mut text, now);
    text.push('\n');
    Some(text + &changes)
}

/// What was found in these layers, and in one line, which were not judged.
fn judgements(text: &mut String, diagnosis: &Diagnosis, is_wanted: impl Fn(Layer) -> bool) {
    let mut left = Vec::new();
    for of in Layer::ALL.into_iter().filter(|layer| is_wanted(*layer)) {
        let mut judged = diagnosis.layers.iter();
        match judged.find(|report| report.layer == of) {
            Some(report) => layer(text, report),
            None => left.push(of.name()),
        }
    }
    if !left.is_empty() {
        let left = left.join(", ");
        let _ = writeln!(
            text,
            "- not judged, because a layer before is broken: {left}"
        );
    }
}

fn layer(text: &mut String, report: &LayerReport) {
    let (state, name) = (report.state(), report.layer.name());
    let found = report.findings.iter();
    let found = found.map(|found| format!("{}: {}", found.name(), found.evidence));
    let unseen = report.unseen.iter().map(|line| format!("not seen: {line}"));
    let lines: Vec<String> = found
        .chain(report.seen.iter().cloned())
        .chain(unseen)
        .collect();
    match lines.as_slice() {
        [] => row(text, state, name, "nothing to look at"),
        [first, rest @ ..] => {
            row(text, state, name, first);
            more(text, rest);
        }
    }
}

/// A line with the mark of a state.
pub fn row(text: &mut String, state: &str, name: &str, line: &str) {
    let (mark, color) = match state {
        "broken" => ("×", Some(AnsiColor::Red)),
        "degraded" => ("‼", Some(AnsiColor::Yellow)),
        "ok" => ("√", Some(AnsiColor::Green)),
        _ => ("-", None),
    };
    let style = Style::new().fg_color(color.map(Into::into));
    let _ = writeln!(text, "{style}{mark}{style:#} {name:10}{}", one_line(line));
}

/// Lines below that of a state.
pub fn more(text: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "{:12}{}", "", one_line(line));
    }
}

fn conclusion(text: &mut String, diagnosis: &Diagnosis) {
    let Some((layer, finding)) = diagnosis.cause() else {
        text.push_str("Nothing is wrong in what could be looked at.\n");
        if diagnosis
            .layers
            .iter()
            .any(|report| !report.unseen.is_empty())
        {
            text.push_str("What could not be looked at is listed below as `not seen`.\n");
        }
        return;
    };
    let heading = match finding.level {
        Level::Error => "Cause",
        Level::Warning => "Requests may be answered, but",
    };
    let _ = writeln!(text, "{heading}: {} ({})", finding.name(), layer.name());
    let info = finding.cause.map(Cause::info);
    if let Some(info) = &info {
        let _ = writeln!(text, "  {}", info.meaning);
    }
    let _ = writeln!(text, "  Evidence: {}", one_line(&finding.evidence));
    if let Some(since) = finding.since {
        let _ = writeln!(text, "  Since: {}", utc(since));
    }
    if let Some(info) = &info {
        let _ = writeln!(text, "Fix: {}", info.fix);
    }
    for Remedy { cluster, command } in &finding.actions {
        let place = cluster
            .as_ref()
            .map(|cluster| format!("in {}: ", one_line(cluster)));
        let _ = writeln!(
            text,
            "  {}{}",
            place.unwrap_or_default(),
            one_line(command.line())
        );
    }
}
