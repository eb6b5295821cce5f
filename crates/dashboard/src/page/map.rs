//! The map of clusters and Links, as SVG. Pure.
//!
//! A few clusters stand on an ellipse, with an arrow for each Link. Of many, arrows would hide each other: those are a matrix
//! with a row for each source cluster and a column for each target cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    f64::consts::{FRAC_PI_2, PI, TAU},
};

use mirror_core::api::text::one_line;
use observe::clusters::{link_state::LinkStanding, topology::Edge};
use serde::Serialize;
use serde_json::{Value, json};

use super::{clusters, shown::PageTone};
use crate::facts::PageFacts;

/// Clusters that are drawn with arrows.
const DRAWN: usize = 12;
/// Clusters whose arrows have labels.
const LABELLED: usize = 6;
/// Half the size of a cluster.
const HALF: Point = Point { x: 62.0, y: 19.0 };
/// How far an arrow bends aside, so that the one back has a way of its own.
const BEND: f64 = 0.12;
/// How far along its arrow a label is.
const LABEL: f64 = 0.38;
/// Characters of a name that fit.
const NAME: usize = 13;
/// Characters of a name beside the matrix.
const LONG_NAME: usize = 18;
/// Size of a cell of the matrix with its margin.
const CELL: f64 = 17.0;
/// Room for the names of the matrix.
const NAMES: f64 = 132.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    x: f64,
    y: f64,
}

/// An arrow.
#[derive(Debug, Serialize)]
struct Arrow {
    tone: PageTone,
    title: String,
    path: String,
    label: Option<String>,
    x: String,
    y: String,
}

/// A Link, for the map.
struct MapLine<'a> {
    source: &'a str,
    target: &'a str,
    tone: PageTone,
    state: LinkStanding,
    edge: Option<&'a Edge>,
}

/// The section.
pub fn view(facts: &PageFacts) -> Value {
    let lines = lines(facts);
    let names: Vec<&str> = facts
        .topology
        .clusters
        .iter()
        .map(|cluster| cluster.name.as_str())
        .collect();
    let mut counts: BTreeMap<LinkStanding, usize> = BTreeMap::new();
    for line in &lines {
        *counts.entry(line.state).or_default() += 1;
    }
    let is_matrix = names.len() > DRAWN;
    let legend: Vec<Value> = counts
        .iter()
        .map(|(state, count)| {
            let tone = PageTone::of(*state);
            let sign = sign(tone).filter(|_| is_matrix);
            json!({ "tone": tone, "count": count, "name": state.name(), "sign": sign })
        })
        .collect();
    let mut view = if is_matrix {
        matrix(&names, &lines)
    } else {
        drawing(facts, &names, &lines)
    };
    view["twin"] = json!(facts.flags.mc("status -o mermaid", &[]).line());
    view["legend"] = json!(legend);
    view["isEmpty"] = json!(lines.is_empty());
    view["absent"] = json!(facts.absent("No cluster is linked."));
    view["label"] =
        json!("Which cluster links to which. The table of Links below has the same in words.");
    if let [only] = facts.topology.clusters.as_slice()
        && !facts.is_silent()
    {
        view["link"] = json!(only.flags.link().line());
    }
    view
}

fn lines(facts: &PageFacts) -> Vec<MapLine<'_>> {
    let edges = facts.topology.links.iter().zip(&facts.states);
    let edges = edges.map(|(edge, (state, _))| MapLine {
        source: &edge.source,
        target: &edge.target,
        tone: PageTone::of(*state),
        state: *state,
        edge: Some(edge),
    });
    let missing = facts.topology.missing.iter().flatten();
    let missing = missing.map(|link| MapLine {
        source: &link.source,
        target: &link.target,
        tone: PageTone::of(LinkStanding::Missing),
        state: LinkStanding::Missing,
        edge: None,
    });
    edges.chain(missing).collect()
}

/// What the pointer shows.
fn title(line: &MapLine<'_>) -> String {
    let through = line.edge.and_then(|edge| edge.link.gateway.as_ref());
    let latency = through.and_then(|gateway| gateway.latency_ms);
    let latency = latency.map_or_else(String::new, |ms| format!(", gateway {ms} ms"));
    let MapLine {
        source,
        target,
        state,
        ..
    } = line;
    format!("{source} → {target}: {}{latency}", state.name())
}

fn drawing(facts: &PageFacts, names: &[&str], lines: &[MapLine<'_>]) -> Value {
    let size = size(names.len());
    let places = places(names.len(), size);
    let at = |name: &str| Some(places[names.iter().position(|one| *one == name)?]);
    let arrows = lines.iter().filter_map(|line| {
        let (from, to) = (at(line.source)?, at(line.target)?);
        (from != to).then(|| arrow(line, from, to, names.len() <= LABELLED))
    });
    let mut arrows: Vec<Arrow> = arrows.collect();
    // What is wrong is on top.
    arrows.sort_by_key(|arrow| std::cmp::Reverse(arrow.tone));
    let nodes = facts.topology.clusters.iter().zip(&places);
    let nodes: Vec<Value> = nodes
        .map(|(cluster, at)| {
            let (state, tone) = clusters::state(cluster);
            json!({
                "name": cut(&cluster.name, NAME),
                "title": format!("{}: {state}", cluster.name),
                "tone": tone,
                "x": number(at.x - HALF.x), "y": number(at.y - HALF.y),
                "width": number(2.0 * HALF.x), "height": number(2.0 * HALF.y),
                "dotX": number(at.x - HALF.x + 15.0), "dotY": number(at.y),
                "textX": number(at.x + 8.0), "textY": number(at.y + 4.5),
            })
        })
        .collect();
    json!({
        "class": "drawing", "width": number(size.x), "height": number(size.y),
        "edges": arrows, "nodes": nodes,
    })
}

/// The size of a drawing.
fn size(clusters: usize) -> Point {
    match clusters {
        0..=2 => Point { x: 520.0, y: 150.0 },
        3 | 4 => Point { x: 520.0, y: 300.0 },
        5 | 6 => Point { x: 600.0, y: 380.0 },
        _ => Point { x: 760.0, y: 560.0 },
    }
}

/// Where clusters are: on an ellipse, two of them side by side.
#[expect(clippy::cast_precision_loss, reason = "a few clusters")]
fn places(count: usize, size: Point) -> Vec<Point> {
    let first = if count == 2 { PI } else { -FRAC_PI_2 };
    let (center, radius) = (
        Point {
            x: size.x / 2.0,
            y: size.y / 2.0,
        },
        Point {
            x: size.x / 2.0 - HALF.x - 4.0,
            y: size.y / 2.0 - HALF.y - 4.0,
        },
    );
    let place = |at: usize| {
        let angle = first + TAU * at as f64 / count as f64;
        Point {
            x: center.x + radius.x * angle.cos(),
            y: center.y + radius.y * angle.sin(),
        }
    };
    match count {
        1 => vec![center],
        count => (0..count).map(place).collect(),
    }
}

/// An arrow that bends to its left.
fn arrow(line: &MapLine<'_>, from: Point, to: Point, is_labelled: bool) -> Arrow {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let bend = Point {
        x: f64::midpoint(from.x, to.x) + dy * BEND,
        y: f64::midpoint(from.y, to.y) - dx * BEND,
    };
    let (start, end) = (border(from, bend, 3.0), border(to, bend, 5.0));
    // Nearer to the source, so that it is apart from that of the arrow back.
    let on = |from: f64, bend: f64, to: f64| {
        let rest = 1.0 - LABEL;
        rest * rest * from + 2.0 * LABEL * rest * bend + LABEL * LABEL * to
    };
    let label_at = Point {
        x: on(start.x, bend.x, end.x),
        y: on(start.y, bend.y, end.y),
    };
    let gateway = line.edge.and_then(|edge| edge.link.gateway.as_ref());
    let latency = gateway.and_then(|gateway| gateway.latency_ms);
    let label = match line.tone {
        PageTone::Good => latency.map(|ms| format!("{ms} ms")),
        _ => Some(line.state.name().to_owned()),
    };
    let [x1, y1, bx, by, x2, y2] = [start.x, start.y, bend.x, bend.y, end.x, end.y].map(number);
    Arrow {
        tone: line.tone,
        title: title(line),
        path: format!("M{x1} {y1}Q{bx} {by} {x2} {y2}"),
        label: label.filter(|_| is_labelled),
        x: number(label_at.x),
        y: number(label_at.y + 4.0),
    }
}

/// Where the line from the middle of a cluster to a point leaves its box.
fn border(middle: Point, toward: Point, gap: f64) -> Point {
    let (dx, dy) = (toward.x - middle.x, toward.y - middle.y);
    let reach = |half: f64, way: f64| match way.abs() {
        0.0 => f64::INFINITY,
        way => (half + gap) / way,
    };
    let part = reach(HALF.x, dx).min(reach(HALF.y, dy)).min(1.0);
    Point {
        x: middle.x + dx * part,
        y: middle.y + dy * part,
    }
}

/// What a cell of the matrix has besides its color.
fn sign(tone: PageTone) -> Option<&'static str> {
    match tone {
        PageTone::Bad => Some("×"),
        PageTone::Warn => Some("!"),
        PageTone::Old => Some("?"),
        PageTone::Idle => Some("–"),
        PageTone::Good => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "some hundred clusters")]
fn matrix(names: &[&str], lines: &[MapLine<'_>]) -> Value {
    let targets: BTreeSet<&str> = lines.iter().map(|line| line.target).collect();
    let sources: BTreeSet<&str> = lines.iter().map(|line| line.source).collect();
    let in_order = |of: &BTreeSet<&str>| {
        let names = names.iter().copied();
        names.filter(|name| of.contains(name)).collect::<Vec<_>>()
    };
    let (targets, sources) = (in_order(&targets), in_order(&sources));
    let place = |at: usize| NAMES + at as f64 * CELL;
    let cells = lines.iter().filter_map(|line| {
        let x = place(targets.iter().position(|name| *name == line.target)?);
        let y = place(sources.iter().position(|name| *name == line.source)?);
        Some(json!({
            "tone": line.tone, "title": title(line),
            "x": number(x), "y": number(y),
            "textX": number(x + 7.0), "textY": number(y + 11.0),
            "sign": sign(line.tone),
        }))
    });
    let rows = sources.iter().enumerate().map(|(at, name)| {
        json!({
            "text": cut(name, LONG_NAME), "class": "row",
            "x": number(NAMES - 8.0), "y": number(place(at) + 11.0),
        })
    });
    let axes = json!({
        "text": "from ↓ to →", "class": "row",
        "x": number(NAMES - 8.0), "y": number(NAMES - 6.0),
    });
    let columns = targets.iter().enumerate().map(|(at, name)| {
        json!({
            "text": cut(name, LONG_NAME), "class": "column", "turned": true,
            "x": number(place(at) + 10.0), "y": number(NAMES - 6.0),
        })
    });
    json!({
        "class": "matrix",
        "width": number(place(targets.len()) + 70.0),
        "height": number(place(sources.len()) + 4.0),
        "cells": cells.collect::<Vec<_>>(),
        "labels": rows.chain(columns).chain([axes]).collect::<Vec<_>>(),
    })
}

/// A name that fits, cut in the middle: names of clusters often differ at their ends.
fn cut(name: &str, most: usize) -> String {
    let name = one_line(name);
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name;
    }
    let (before, after) = (most / 2, most - most / 2 - 1);
    let begin = letters[..before].iter();
    let end = letters[letters.len() - after..].iter();
    begin.chain(std::iter::once(&'…')).chain(end).collect()
}

/// A length, without digits that nobody sees.
fn number(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0")
        .map_or_else(|| text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_inside_of_the_drawing_and_apart() {
        for count in 1..=DRAWN {
            let size = size(count);
            let places = places(count, size);
            for (at, place) in places.iter().enumerate() {
                assert!(place.x >= HALF.x && place.x <= size.x - HALF.x, "{count}");
                assert!(place.y >= HALF.y && place.y <= size.y - HALF.y, "{count}");
                let is_apart = |other: &Point| {
                    (place.x - other.x).abs() > 2.0 * HALF.x
                        || (place.y - other.y).abs() > 2.0 * HALF.y
                };
                assert!(places[..at].iter().all(is_apart), "{count}: {at}");
            }
        }
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(cut("east", NAME), "east");
        assert_eq!(cut("production-eu-west-1", 13), "produc…west-1");
        assert_eq!(number(12.04), "12");
    }
}
