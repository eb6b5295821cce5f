//! What `status` shows: tables with notes below them, JSON, YAML. Pure.

mod links;
mod services;
mod shape;

use jiff::Timestamp;
use mirror_core::api::text::one_line;
use observe::clusters::{kube_context::KubeContext, service_rows::ServiceRow, topology::Topology};
use serde::Serialize;

pub use self::{links::links, shape::TableShape};
use super::{
    args::{StatusArgs, StatusFormat},
    drawing::{dot, mermaid, tree},
};
use crate::cli::common::{frame::ScreenFrame, output};

/// All that `status` shows; its JSON is the documented output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusView {
    /// Clusters and Links.
    #[serde(flatten)]
    pub topology: Topology,
    /// Mirrors and federated Services, if they are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<ServiceRow>>,
    /// Why no controller runs, and what looks misspelled, a line each.
    #[serde(skip)]
    pub hints: Vec<String>,
}

/// What is printed in place of an empty table.
pub fn absent(args: &StatusArgs, status: &StatusView) -> Option<&'static str> {
    if !args.is_table() {
        return None;
    }
    let no_links = status.topology.links.is_empty();
    match &status.services {
        Some(services) if !services.is_empty() => None,
        _ if no_links => Some("no Links found"),
        Some(_) => Some("no Services are mirrored or federated"),
        None => None,
    }
}

/// The output for a status.
pub fn render(
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
            Ok(frame(status, shape, now, width).text())
        }
        StatusFormat::Tree => Ok(tree(&status.topology, contexts.len() > 1, width)),
        StatusFormat::Mermaid => Ok(mermaid(&status.topology)),
        StatusFormat::Dot => Ok(dot(&status.topology)),
    }
}

/// The tables of a status, and the notes below them.
pub fn frame(
    status: &StatusView,
    shape: TableShape,
    now: Timestamp,
    width: Option<usize>,
) -> ScreenFrame {
    let rows = status.services.as_deref();
    let mut tables = vec![links(&status.topology, shape, now)];
    tables.extend(rows.map(|rows| services::services(rows, shape)));
    tables.retain(|table| !table.is_empty());
    let mut notes = links::notes(&status.topology, shape, rows.is_some());
    notes.extend(services::notes(rows.unwrap_or_default(), shape, now));
    notes.extend(status.hints.iter().cloned());
    ScreenFrame {
        tables: tables.iter().map(|table| table.lines(width)).collect(),
        notes: notes.iter().map(|note| one_line(note)).collect(),
    }
}
