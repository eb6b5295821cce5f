//! Tables of measurements say when they were measured, and on which commit; those of the mesh, with which Linkerd.

use k8s_openapi::jiff::civil::Date;

use crate::{book::documents, read};

/// How the heads of tables of measurements begin, and whether Linkerd's proxies took part.
const MEASURED: [(&str, bool); 5] = [
    ("| Scenario |", false),
    ("| Figure |", false),
    ("| Kubernetes |", false),
    ("| Case | Requests |", true),
    ("| Case | Taken out |", true),
];

/// The tables of a document: the text between a table and the heading or table before it, and its head.
fn tables(text: &str) -> Vec<(String, &str)> {
    let (mut found, mut above, mut inside) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        let is_row = line.starts_with('|');
        if is_row && !inside {
            found.push((std::mem::take(&mut above), line));
        } else if line.starts_with('#') {
            above.clear();
        } else if !is_row {
            above += line;
            above.push('\n');
        }
        inside = is_row;
    }
    found
}

/// What the text above a table lacks.
fn lacks(above: &str, linkerd: bool) -> Option<&'static str> {
    let Some((_, measured)) = above.split_once("Measured on ") else {
        return Some("`Measured on DATE, commit …`");
    };
    let date = measured.get(..10).map(str::parse::<Date>);
    let commit = measured.split('`').nth(1).unwrap_or_default();
    let is_commit = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if date.is_none_or(|date| date.is_err()) {
        Some("a date")
    } else if !is_commit || !measured.contains(", commit") {
        Some("a commit")
    } else if linkerd && !measured.contains("Linkerd edge-") {
        Some("a version of Linkerd")
    } else {
        None
    }
}

#[test]
fn tables_of_measurements_say_when_and_on_which_commit() {
    let (mut found, mut wrong) = (0, Vec::new());
    for path in documents() {
        let text = read(&path);
        for (above, head) in tables(&text) {
            let is_it = |(begins, _): &&(&str, bool)| head.starts_with(begins);
            let Some((begins, linkerd)) = MEASURED.iter().find(is_it) else {
                continue;
            };
            found += 1;
            if let Some(lacks) = lacks(&above, *linkerd) {
                wrong.push(format!("{}: {begins}: no {lacks} above it", path.display()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(found >= 5, "only {found} tables of measurements found");
}

#[test]
fn a_table_needs_the_line_between_itself_and_the_one_before() {
    let line = "Measured on 2026-11-24, commit `684c550`, with Linkerd edge-26.8.";
    for (text, missing) in [
        (format!("# A\n\n{line}\n\n| Case |\n| --- |\n"), None),
        (
            format!("{line}\n\n# A\n\n| Case |\n| --- |\n"),
            Some("`Measured on DATE, commit …`"),
        ),
        (
            format!("{line}\n\n| A |\n| --- |\n\n| Case |\n"),
            Some("`Measured on DATE, commit …`"),
        ),
        (
            line.replace("11-24", "13-24") + "\n| Case |\n",
            Some("a date"),
        ),
        (
            line.replace("684c550", "main") + "\n| Case |\n",
            Some("a commit"),
        ),
        (
            line.replace("edge-26.8", "of August") + "\n| Case |\n",
            Some("a version of Linkerd"),
        ),
    ] {
        let tables = tables(&text);
        let (above, head) = tables.last().unwrap();
        assert_eq!(*head, "| Case |", "{text}");
        assert_eq!(lacks(above, true), missing, "{text}");
    }
}
