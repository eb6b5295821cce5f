//! Services: the search, and the view of one. Pure.

use observe::clusters::service_rows::ServiceRow;
use serde_json::{Value, json};

use super::{
    federated::{ServiceView, member},
    links,
    shown::path,
};
use crate::facts::{NamedService, PageFacts};

/// Services that a search shows.
const HITS: usize = 50;

/// The Services that have a text in their names, or in those of what they mirror.
pub fn search(facts: &PageFacts, text: &str) -> Value {
    let text = text.trim().to_lowercase();
    let is_hit = |row: &&ServiceRow| {
        let own = format!(
            "{}/{}",
            row.namespace,
            row.service.as_deref().unwrap_or_default()
        );
        let names = std::iter::once(&own).chain(&row.from);
        row.service.is_some()
            && names
                .into_iter()
                .any(|name| name.to_lowercase().contains(&text))
    };
    let hits: Vec<&ServiceRow> = facts.services.iter().filter(is_hit).collect();
    let rows = hits.iter().take(HITS);
    let rows: Vec<ServiceView> = rows.map(|row| ServiceView::of(facts, row)).collect();
    json!({ "more": hits.len() - rows.len(), "rows": rows })
}

/// All about one Service.
pub fn view(facts: &PageFacts, service: &NamedService) -> Value {
    let is_it = |row: &&ServiceRow| {
        row.context == service.cluster
            && row.namespace == service.namespace
            && row.service.as_ref() == Some(&service.name)
    };
    let row = facts.services.iter().find(is_it);
    let clusters: Vec<&str> = row
        .iter()
        .flat_map(|row| row.from.iter().map(|from| member(from).1))
        .collect();
    let states = facts.topology.links.iter().zip(links::rows(facts));
    let links = states.filter(|(edge, _)| {
        edge.source == service.cluster && clusters.contains(&edge.link.cluster.as_str())
    });
    let links: Vec<_> = links.map(|(_, row)| row).collect();
    let mut nodes = facts.topology.clusters.iter();
    let flags = nodes
        .find(|node| node.name == service.cluster)
        .map(|node| &node.flags);
    let names: [&str; 2] = [&service.namespace, &service.name];
    let commands = flags.map(|flags| {
        [
            flags.mc("diagnose {}/{} -o json", &names),
            flags.mc("status {}/{} -o json", &names),
            flags.mc("traffic {}/{} -o json", &names),
        ]
        .map(|command| command.line().to_owned())
    });
    json!({
        "cluster": service.cluster,
        "namespace": service.namespace,
        "name": service.name,
        "row": row.map(|row| ServiceView::of(facts, row).with_diagnosis(path(service))),
        "links": links,
        "commands": commands,
    })
}
