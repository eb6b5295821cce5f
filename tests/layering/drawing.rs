//! The drawing of the modules in `docs/modules.md`: a box for each module, an arrow from each to those that it uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::{graph::Graph, source::Path};

/// Modules whose inner modules have boxes of their own.
const OPENED: [&str; 2] = ["mirror", "controller"];

/// Each box with those that it uses.
pub(crate) type Boxes = BTreeMap<String, BTreeSet<String>>;

/// The arrows between boxes.
pub(crate) fn boxes(graph: &Graph) -> Boxes {
    let mut found = Boxes::new();
    for (from, to) in graph.arrows() {
        let Some(from) = box_of(from) else { continue };
        let used = to.into_iter().filter_map(box_of);
        let others: Vec<String> = used.filter(|used| *used != from).collect();
        found.entry(from).or_default().extend(others);
    }
    found
}

/// The box of a module. `None` for those that only hand on what their inner modules define.
fn box_of(module: &Path) -> Option<String> {
    let first = module.first()?;
    if !OPENED.contains(&first.as_str()) {
        return Some(first.clone());
    }
    module.get(1).map(|second| format!("{first}/{second}"))
}

/// Only the arrows that no longer way replaces.
pub(crate) fn reduced(boxes: &Boxes) -> Boxes {
    let reaches = |from: &str, to: &str| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            for used in boxes.get(at).into_iter().flatten() {
                if used == to {
                    return true;
                }
                if seen.insert(used.as_str()) {
                    next.push(used);
                }
            }
        }
        false
    };
    let keep = |used: &BTreeSet<String>| -> BTreeSet<String> {
        let direct = |to: &&String| !used.iter().any(|other| other != *to && reaches(other, to));
        used.iter().filter(direct).cloned().collect()
    };
    boxes
        .iter()
        .map(|(from, used)| (from.clone(), keep(used)))
        .collect()
}

/// The drawing in Mermaid's language, with the lines of code of each box.
pub(crate) fn mermaid(boxes: &Boxes, lines: impl Fn(&str) -> usize) -> String {
    let id = |name: &str| name.replace('/', "_");
    let shown = boxes.keys().map(|name| {
        let label = name.rsplit('/').next().unwrap_or(name);
        let shown = format!("  {}[\"{label}<br/>{} lines\"]", id(name), lines(name));
        let inside = OPENED
            .iter()
            .find(|opened| name.starts_with(&format!("{opened}/")));
        match inside {
            Some(opened) => format!("  subgraph {opened}\n  {shown}\n  end"),
            None => shown,
        }
    });
    let arrows = boxes.iter().flat_map(|(from, used)| {
        used.iter()
            .map(move |to| format!("  {} --> {}", id(from), id(to)))
    });
    let lines: Vec<String> = shown.chain(arrows).collect();
    format!("```mermaid\nflowchart TD\n{}\n```\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_a_longer_way_replaces_are_left_out() {
        let used = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let boxes = Boxes::from([
            ("a".to_owned(), used(&["b", "c", "d"])),
            ("b".to_owned(), used(&["c"])),
            ("c".to_owned(), used(&[])),
            ("d".to_owned(), used(&[])),
        ]);
        let reduced = reduced(&boxes);
        assert_eq!(reduced["a"], used(&["b", "d"]));
        assert_eq!(mermaid(&reduced, |_| 7).lines().nth(6), Some("  a --> b"));
    }
}
