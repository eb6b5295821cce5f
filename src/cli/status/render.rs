//! What `status` prints: tables with notes below them, JSON, YAML. Pure.

use jiff::Timestamp;

use super::{
    args::{Format, StatusArgs},
    view::{self, Status},
};
use crate::{api::text::one_line, clusters::cluster_client::KubeContext, manifests::yaml};

/// What is printed in place of an empty table.
pub(super) fn absent(args: &StatusArgs, status: &Status) -> Option<&'static str> {
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
    status: &Status,
    now: Timestamp,
    width: Option<usize>,
) -> anyhow::Result<String> {
    Ok(match args.output {
        Format::Json => serde_json::to_string_pretty(status)? + "\n",
        Format::Yaml => yaml::to_yaml(status)?,
        Format::Table | Format::Wide => {
            let shape = args.shape(contexts);
            let table = match &status.services {
                Some(services) => view::services(services, shape),
                None => view::links(&status.topology, shape, now),
            };
            let mut text = if table.is_empty() {
                String::new()
            } else {
                table.render(width)
            };
            let services = status.services.as_deref().unwrap_or_default();
            let mut notes = view::absences(services, shape, now);
            notes.extend(view::notes(&status.topology, shape));
            if !notes.is_empty() && !text.is_empty() {
                text.push('\n');
            }
            for note in notes {
                text.push_str(&one_line(&note));
                text.push('\n');
            }
            text
        }
    })
}
