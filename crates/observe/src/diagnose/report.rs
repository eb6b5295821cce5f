//! A diagnosis → text, or a document for scripts.
//!
//! The text always has colors. If they are not wanted, they are stripped when it is printed.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use mirror_core::api::text::one_line;
use serde::Serialize;

use super::{diagnosis::Diagnosis, layer::LayerReport};
use crate::{
    finding::{
        Finding, Level, Remedy,
        causes::{Cause, Layer},
    },
    timeline::Timeline,
};

/// Where the causes are explained.
const REFERENCE: &str = "docs/reference/causes.md";

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
    let mut text = format!(
        "{}{}: {}\n\n",
        diagnosis.service,
        port.unwrap_or_default(),
        one_line(&diagnosis.what)
    );
    for layer in Layer::ALL {
        judgement(&mut text, diagnosis, layer);
    }
    text.push('\n');
    conclusion(&mut text, diagnosis);
    text
}

/// The layers whose state or causes have changed, and the conclusion. `None` if they are the same.
pub fn changes(before: &Diagnosis, now: &Diagnosis) -> Option<String> {
    let mut text = String::new();
    for layer in Layer::ALL {
        if before.outline(layer) != now.outline(layer) {
            judgement(&mut text, now, layer);
        }
    }
    if text.is_empty() {
        return None;
    }
    text.push('\n');
    conclusion(&mut text, now);
    Some(text)
}

/// What was found in a layer, or that it was not judged.
fn judgement(text: &mut String, diagnosis: &Diagnosis, of: Layer) {
    let mut judged = diagnosis.layers.iter();
    match judged.find(|report| report.layer == of) {
        Some(report) => layer(text, report),
        None => row(
            text,
            "unknown",
            of.name(),
            "not judged, because a layer before it is broken",
        ),
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
            text.push_str("What could not be looked at is listed above as `not seen`.\n");
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
        let since = since.strftime("%Y-%m-%d %H:%M:%S UTC");
        let _ = writeln!(text, "  Since: {since}");
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
    let _ = writeln!(text, "All causes: {REFERENCE}");
}
