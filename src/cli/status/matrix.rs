//! How the links of a fleet are doing, on one screen: a row for each source cluster with a sign for each target cluster,
//! then the problems, worst first, and a summary. Fifty clusters fit into 80 columns. A matrix that is wider than the
//! terminal has several parts.

use std::{collections::BTreeMap, fmt::Write as _};

use anstyle::{AnsiColor, Style};
use dialoguer::console::truncate_str;
use hints::prose::counted;
use mirror_core::api::text::one_line;
use observe::clusters::link_state::LinkStanding;

use super::fleet::{FleetReport, LinkReport};
use crate::cli::common::table::cut_middle;

/// Columns for the name of a cluster.
const NAME: usize = 20;
/// Maximum number of problems that are listed on a terminal.
const LISTED: usize = 20;
/// Fewest columns of the matrix that are shown side by side.
const SIDE_BY_SIDE: usize = 10;

/// The sign of a state in the matrix, and its color.
fn shown(state: LinkStanding) -> (char, AnsiColor) {
    match state {
        LinkStanding::Missing => ('-', AnsiColor::Red),
        LinkStanding::NotReady => ('x', AnsiColor::Red),
        LinkStanding::DeadGateway => ('g', AnsiColor::Red),
        LinkStanding::Old => ('o', AnsiColor::Yellow),
        LinkStanding::Unknown => ('?', AnsiColor::Yellow),
        LinkStanding::Expiring => ('e', AnsiColor::Yellow),
        LinkStanding::Incomplete => ('i', AnsiColor::Yellow),
        LinkStanding::Drained => ('d', AnsiColor::Yellow),
        LinkStanding::Ready => ('+', AnsiColor::Green),
    }
}

/// The whole screen, on a terminal of this width. Without one, nothing is cut or left out.
pub fn text(report: &FleetReport, width: Option<usize>) -> String {
    let mut text = matrix(report, width);
    let mut problems: Vec<String> = report
        .clusters
        .iter()
        .filter_map(|cluster| {
            Some(format!(
                "{}: not read: {}",
                cluster.name,
                cluster.error.as_ref()?
            ))
        })
        .collect();
    let of_link = |link: &LinkReport| {
        let problem = link.problem.as_ref()?;
        Some(format!("{} → {}: {problem}", link.source, link.target))
    };
    problems.extend(report.links.iter().filter_map(of_link));
    let listed = width.map_or(problems.len(), |_| LISTED);
    for problem in problems.iter().take(listed) {
        let line = one_line(problem);
        text.push_str(&truncate_str(&line, width.unwrap_or(usize::MAX), "…"));
        text.push('\n');
    }
    if let Some(more) = problems.len().checked_sub(listed).filter(|more| *more > 0) {
        let _ = writeln!(text, "… and {more} more; --output json has all");
    }
    text.push_str(&summary(report));
    text
}

/// A row for each source cluster. Columns have the numbers of the rows. What is wider than the terminal continues below.
fn matrix(report: &FleetReport, columns: Option<usize>) -> String {
    let names: Vec<&str> = report
        .clusters
        .iter()
        .map(|cluster| cluster.name.as_str())
        .collect();
    let states: BTreeMap<(&str, &str), LinkStanding> = report
        .links
        .iter()
        .map(|link| ((link.source.as_str(), link.target.as_str()), link.state))
        .collect();
    let longest = names
        .iter()
        .map(|name| name.len())
        .max()
        .unwrap_or_default();
    let width = longest.min(NAME);
    let digits = names.len().to_string().len().max(2);
    let before = digits + width + 2;
    let part = columns.map_or(names.len(), |columns| columns.saturating_sub(before));
    let part = part.max(SIDE_BY_SIDE);
    let mut text = String::new();
    for first in (0..names.len()).step_by(part) {
        let targets = &names[first..names.len().min(first + part)];
        let numbers = first + 1..=first + targets.len();
        for place in (0..digits).rev() {
            if place > 0 && names.len() < 10 {
                continue;
            }
            let line = numbers.clone().map(|number| digit(number, place));
            let line = format!("{:before$}{}", "", line.collect::<String>());
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for (at, source) in names.iter().enumerate() {
            let number = at + 1;
            let name = cut_middle(source, width);
            let _ = write!(text, "{number:digits$} {name:width$} ");
            for target in targets {
                match states.get(&(*source, *target)) {
                    Some(state) => {
                        let (sign, color) = shown(*state);
                        let style = Style::new().fg_color(Some(color.into()));
                        let _ = write!(text, "{style}{sign}{style:#}");
                    }
                    None => text.push('.'),
                }
            }
            text.push('\n');
        }
    }
    text
}

/// The digit of a number at a place, counted from the right; a space before its first one.
fn digit(number: usize, place: usize) -> char {
    let digits = number.to_string();
    digits.chars().rev().nth(place).unwrap_or(' ')
}

/// How many links are in which state, and which versions there are.
fn summary(report: &FleetReport) -> String {
    let mut counts: BTreeMap<LinkStanding, usize> = BTreeMap::new();
    for link in &report.links {
        *counts.entry(link.state).or_default() += 1;
    }
    let states = LinkStanding::ALL.iter().rev();
    let states = states.filter_map(|state| {
        let ((sign, _), name) = (shown(*state), state.name());
        Some(format!("{} {name} ({sign})", counts.get(state)?))
    });
    let states: Vec<String> = states.collect();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for cluster in &report.clusters {
        *versions
            .entry(cluster.version.as_deref().unwrap_or("unknown"))
            .or_default() += 1;
    }
    let versions: Vec<String> = match versions.len() {
        1 => versions
            .keys()
            .map(|version| (*version).to_owned())
            .collect(),
        _ => versions
            .iter()
            .map(|(version, count)| format!("{version} ({count})"))
            .collect(),
    };
    let clusters = counted(report.clusters.len(), "cluster");
    let links = counted(report.links.len(), "link");
    format!(
        "{clusters}, {links}: {}. Controllers: {}.\n",
        states.join(", "),
        versions.join(", ")
    )
}
