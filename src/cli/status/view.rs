//! What `status` shows: tables with notes below them, JSON, YAML. Pure.

mod links;
mod services;
mod shape;

use jiff::Timestamp;
use serde::Serialize;

pub(super) use self::{links::links, shape::TableShape};
use super::{
    args::{StatusArgs, StatusFormat},
    services::ServiceRow,
};
use crate::{
    api::text::one_line,
    cli::common::output,
    clusters::{cluster_client::KubeContext, topology::Topology},
};

/// All that `status` shows; its JSON is the documented output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct StatusView {
    /// Clusters and Links.
    #[serde(flatten)]
    pub(super) topology: Topology,
    /// Mirrors and federated Services, if they are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) services: Option<Vec<ServiceRow>>,
}

/// What is printed in place of an empty table.
pub(super) fn absent(args: &StatusArgs, status: &StatusView) -> Option<&'static str> {
    if !args.is_table() {
        None
    } else if status.topology.links.is_empty() {
        Some("no Links found")
    } else if status.services.as_ref().is_some_and(Vec::is_empty) {
        Some("no Services are mirrored or federated")
    } else {
        None
    }
}

/// The output for a status.
pub(super) fn render(
    args: &StatusArgs,
    contexts: &[KubeContext],
    status: &StatusView,
    now: Timestamp,
    width: Option<usize>,
) -> anyhow::Result<String> {
    match args.output {
        StatusFormat::Json => output::json(status),
        StatusFormat::Yaml => output::yaml(status),
        StatusFormat::Table | StatusFormat::Wide => {
            let shape = TableShape::of(args, contexts);
            Ok(StatusFrame::of(status, shape, now, width).text())
        }
    }
}

/// Tables and the notes below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusFrame {
    /// Their lines, each with its header first.
    pub(super) tables: Vec<Vec<String>>,
    pub(super) notes: Vec<String>,
}

impl StatusFrame {
    pub(super) fn of(
        status: &StatusView,
        shape: TableShape,
        now: Timestamp,
        width: Option<usize>,
    ) -> Self {
        let rows = status.services.as_deref();
        let mut tables = vec![links(&status.topology, shape, now)];
        tables.extend(rows.map(|rows| services::services(rows, shape)));
        tables.retain(|table| !table.is_empty());
        let mut notes = links::notes(&status.topology, shape, rows.is_some(), now);
        notes.extend(services::notes(rows.unwrap_or_default(), shape, now));
        Self {
            tables: tables.iter().map(|table| table.lines(width)).collect(),
            notes: notes.iter().map(|note| one_line(note)).collect(),
        }
    }

    /// All of it, with an empty line between its parts.
    fn text(&self) -> String {
        let parts = self.tables.iter().chain([&self.notes]);
        let parts: Vec<String> = parts
            .filter(|lines| !lines.is_empty())
            .map(|lines| lines.join("\n") + "\n")
            .collect();
        parts.join("\n")
    }

    /// As much of it as fits a terminal of this size: the header of each table, problems first, and how much is missing.
    pub(super) fn fitted(&self, height: usize, width: usize) -> String {
        let is_too_high =
            |text: &str| text.lines().map(|line| rows_of(line, width)).sum::<usize>() >= height;
        let whole = self.text();
        if !is_too_high(&whole) {
            return whole;
        }
        let (mut frame, mut missing) = (self.clone(), 0);
        // Rows go before notes, and those of the last table before those of the first.
        loop {
            let rows = frame.tables.iter_mut().rev().find(|table| table.len() > 2);
            let line = match rows {
                Some(rows) => rows.pop(),
                None => frame.notes.pop(),
            };
            if line.is_none() {
                break;
            }
            missing += 1;
            let text = frame.text() + &left_out(missing);
            if !is_too_high(&text) {
                return text;
            }
        }
        frame.text()
    }
}

fn left_out(lines: usize) -> String {
    format!("… and {lines} more lines: choose a SERVICE, a --namespace or a --cluster-name\n")
}

/// How many rows of a terminal a line takes.
fn rows_of(line: &str, width: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    plain.chars().count().div_ceil(width.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_does_not_fit_keeps_headers_and_problems() {
        let rows = |name: &str, count: usize| -> Vec<String> {
            let rows = (1..count).map(|n| format!("{name} {n}"));
            [name.to_uppercase()].into_iter().chain(rows).collect()
        };
        let frame = StatusFrame {
            tables: vec![rows("link", 3), rows("service", 40)],
            notes: vec!["x".repeat(30)],
        };
        assert_eq!(frame.fitted(100, 20), frame.text());
        let fitted = frame.fitted(14, 100);
        insta::assert_snapshot!(fitted, @r"
        LINK
        link 1
        link 2

        SERVICE
        service 1
        service 2
        service 3
        service 4
        service 5

        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        … and 34 more lines: choose a SERVICE, a --namespace or a --cluster-name
        ");
        assert!(fitted.lines().count() < 14);
        let tiny = frame.fitted(9, 20);
        assert!(tiny.starts_with("LINK\nlink 1\n"), "{tiny}");
    }
}
