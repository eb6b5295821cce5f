//! `status --watch`, and the watches that it and `--wait` use.

use std::io::IsTerminal as _;

use client::timing;
use hints::hint::fail;
use jiff::Timestamp;
use mirror_core::api::text::one_line;
use observe::clusters::{kube_context::KubeContext, topology::Edge};

use super::{
    args::{StatusArgs, StatusFormat},
    ask::ask,
    view::{self, TableShape, absent, render},
};
use crate::cli::common::{
    changes::{LinkChanges, link_changes, next_change},
    contexts::flags_of_all,
    output,
    table::terminal_size,
};

/// The changes of all Links of all clusters that have a client.
pub fn changes(contexts: &[KubeContext]) -> anyhow::Result<LinkChanges> {
    let clients = contexts.iter().map(|context| &context.client);
    let clients: Vec<_> = clients.flatten().collect();
    if clients.is_empty() {
        return Err(fail(
            "none of the clusters can be watched",
            format!(
                "run {} without --watch for details",
                flags_of_all(contexts).mc("status", &[])
            ),
        ));
    }
    Ok(link_changes(clients))
}

/// Shows the status repeatedly: on a terminal in place, elsewhere new lines for what has changed.
pub async fn show(args: &StatusArgs, contexts: &[KubeContext]) -> anyhow::Result<()> {
    let mut changes = changes(contexts)?;
    let in_place = std::io::stdout().is_terminal() && args.is_table();
    let mut log = Log::default();
    loop {
        let asked = ask(args, contexts).await;
        match asked {
            Ok(status) if in_place => output::screen(&frame(args, contexts, &status))?,
            Ok(status) => {
                output::data(&log.news(args, contexts, &status)?)?;
                for error in log.new_errors(args, &status) {
                    output::error(&anyhow::Error::msg(error));
                }
            }
            // On a terminal, the next update replaces it.
            Err(error) => output::error(&error),
        }
        next_change(&mut changes).await;
    }
}

/// What a terminal shows: no more than fits, so that nothing scrolls.
fn frame(args: &StatusArgs, contexts: &[KubeContext], status: &view::StatusView) -> String {
    let (height, width) = terminal_size().unwrap_or((usize::MAX, usize::MAX));
    let shape = TableShape::of(args, contexts);
    let mut frame = view::frame(status, shape, timing::now(), Some(width));
    if frame.tables.is_empty() {
        frame.notes.extend(absent(args, status).map(str::to_owned));
    }
    let errors = status.topology.errors();
    frame
        .notes
        .extend(errors.iter().map(|error| one_line(error)));
    frame.fitted(height, width)
}

/// What has been printed so far.
#[derive(Default)]
struct Log {
    links: Vec<Edge>,
    text: Option<String>,
    errors: Vec<String>,
}

impl Log {
    /// The errors of clusters that were not there last time. JSON and YAML have them too.
    fn new_errors(&mut self, args: &StatusArgs, status: &view::StatusView) -> Vec<String> {
        if !args.is_table() {
            return Vec::new();
        }
        let errors = status.topology.errors();
        let before = std::mem::replace(&mut self.errors, errors);
        let errors = self.errors.iter().filter(|error| !before.contains(error));
        errors.cloned().collect()
    }

    /// The text to print now: everything at first, then the rows of Links that have changed.
    fn news(
        &mut self,
        args: &StatusArgs,
        contexts: &[KubeContext],
        status: &view::StatusView,
    ) -> anyhow::Result<String> {
        let render = |now| render(args, contexts, status, now, None);
        // The text, and a key without ages: it is printed again only if the key has changed.
        let (text, key) = match args.output {
            StatusFormat::Json => (serde_json::to_string(status)? + "\n", None),
            StatusFormat::Yaml => (format!("---\n{}", manifests::yaml::to_yaml(status)?), None),
            StatusFormat::Table | StatusFormat::Wide if args.shows_services() => {
                (render(timing::now())?, Some(render(Timestamp::UNIX_EPOCH)?))
            }
            _ => {
                return Ok(self.rows(args, contexts, status));
            }
        };
        let key = Some(key.unwrap_or_else(|| text.clone()));
        if self.text == key {
            return Ok(String::new());
        }
        self.text = key;
        Ok(text)
    }

    fn rows(
        &mut self,
        args: &StatusArgs,
        contexts: &[KubeContext],
        status: &view::StatusView,
    ) -> String {
        let first = self.text.is_none();
        self.text = Some(String::new());
        // Findings are in the notes, not in the rows.
        let without_notes = |edge: &Edge| {
            let mut edge = edge.clone();
            edge.link.findings.clear();
            edge
        };
        let edges: Vec<Edge> = status.topology.links.iter().map(without_notes).collect();
        let table = view::links(
            &status.topology,
            TableShape::of(args, contexts),
            timing::now(),
        )
        .lines(None);
        let header = table.first().filter(|_| first).cloned();
        let rows = table.iter().skip(1).zip(&edges);
        let news = rows
            .filter(|(_, edge)| !self.links.contains(edge))
            .map(|(row, _)| row.clone());
        let gone = self.links.iter().filter(|old| !is_there(old, &edges));
        let gone = gone.map(|edge| format!("{} (deleted)", one_line(&edge.link.cluster)));
        let lines: Vec<_> = header.into_iter().chain(news).chain(gone).collect();
        self.links = edges;
        lines
            .iter()
            .flat_map(|line| [line.as_str(), "\n"])
            .collect()
    }
}

fn is_there(edge: &Edge, links: &[Edge]) -> bool {
    let key = |edge: &Edge| {
        let link = &edge.link;
        (
            edge.source.clone(),
            link.namespace.clone(),
            link.name.clone(),
        )
    };
    links.iter().any(|other| key(other) == key(edge))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use observe::clusters::{
        fixtures::{federated, snapshots},
        preference_status::PreferenceStatus,
        service_rows::ServiceRow,
        topology::Topology,
    };

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn services_are_printed_again_only_when_they_have_changed() {
        let cli = Cli::try_parse_from(["linkerd-mc", "status", "--watch", "--services"]).unwrap();
        let Command::Status(args) = cli.command else {
            panic!("another command");
        };
        // The time is long ago, so its age changes with each update.
        let preferred = |away: &str| PreferenceStatus::of(&federated("local,east", away));
        let gone = "local=2026-01-01T00:00:00Z/..";
        let back = "local=2026-01-01T00:00:00Z/2026-01-01T00:05:20Z";
        let mut log = Log::default();
        for (away, is_news) in [("", true), (gone, true), (gone, false), (back, true)] {
            let row = ServiceRow {
                preferred: preferred(away),
                ..ServiceRow::default()
            };
            let status = view::StatusView {
                services: Some(vec![row]),
                ..view::StatusView::default()
            };
            let news = log.news(&args, &[], &status).unwrap();
            assert_eq!(!news.is_empty(), is_news, "{away}: {news}");
        }
    }

    #[test]
    fn row_is_printed_again_only_if_one_of_its_columns_changed() {
        let cli = Cli::try_parse_from(["linkerd-mc", "status", "--watch"]).unwrap();
        let Command::Status(args) = cli.command else {
            panic!("another command");
        };
        let (mut log, mut status) = (Log::default(), view::StatusView::default());
        status.topology = Topology::of(&snapshots());
        let lines = |log: &mut Log, status: &view::StatusView| {
            let news = log.news(&args, &[], status).unwrap();
            news.lines().count()
        };
        assert_eq!(lines(&mut log, &status), 5, "a header and four Links");
        status.topology.links[0].link.findings.clear();
        assert_eq!(lines(&mut log, &status), 0);
        status.topology.links[0].link.mirrored += 1;
        assert_eq!(lines(&mut log, &status), 1);
        for expected in [&["south: cannot list Links: no answer"][..], &[]] {
            assert_eq!(log.new_errors(&args, &status), expected);
        }
    }
}
