//! A plan as text: short, or with all fields. Creations are green, deletions red, changes yellow.

use std::{collections::BTreeMap, fmt::Write as _};

use anstyle::{AnsiColor, Style};
use hints::prose::counted;
use serde_json::Value;

use super::changes::{PlanOfLink, PlannedChange, Preview};

/// Maximum number of names that the short form lists of one kind.
const LISTED: usize = 20;

/// A text of unknown origin on one line: what would not be visible, or could change the state of a terminal, is escaped.
fn printable(text: &str) -> String {
    let quotes = ['"', '\'', '\\'];
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if quotes.contains(&c) {
            line.push(c);
        } else {
            line.extend(c.escape_debug());
        }
    }
    line
}

/// The plans of several Links, each below its name.
pub fn of_all(planned: &[PlanOfLink], text: fn(&Preview) -> String) -> String {
    let texts = planned.iter().map(|plan| {
        let lines = text(&plan.preview);
        let lines = lines.lines().flat_map(|line| ["  ", line, "\n"]);
        lines.fold(printable(&plan.link) + "\n", |text, part| text + part)
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The changes with their fields.
pub fn diff(preview: &Preview) -> String {
    let mut text = String::new();
    for change in &preview.changes {
        let (mark, style) = mark(change.verb);
        let (kind, path) = (change.kind, path(change));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{style}{mark} {kind} {path}{style:#}");
        for (path, (before, after)) in &change.fields {
            let plain = |value: &Value| match value {
                Value::Null => "none".to_owned(),
                Value::String(text) => text.escape_debug().to_string(),
                other => printable(&other.to_string()),
            };
            let path = printable(path);
            let _ = match change.verb {
                "create" => writeln!(text, "    {path}: {}", plain(after)),
                _ => writeln!(text, "    {path}: {} → {}", plain(before), plain(after)),
            };
        }
    }
    text.push_str(&problems(preview));
    text.push_str(&summary(preview));
    text
}

/// How many objects of which kind are written, and their names.
pub fn short(preview: &Preview) -> String {
    let mut kinds: BTreeMap<(u8, &str, &str), Vec<String>> = BTreeMap::new();
    for change in &preview.changes {
        let order = match change.verb {
            "create" => 0,
            "patch" => 1,
            _ => 2,
        };
        let names = kinds.entry((order, change.verb, change.kind)).or_default();
        names.push(path(change));
    }
    let mut text = String::new();
    for ((_, verb, kind), names) in kinds {
        let (mark, style) = mark(verb);
        let count = names.len();
        let listed = names.iter().take(LISTED).map(String::as_str);
        let listed = listed.collect::<Vec<_>>().join(", ");
        let more = match count.saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(", … and {more} more"),
        };
        let counted = counted(count, kind);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{style}{mark} {counted}{style:#}: {listed}{more}");
    }
    text.push_str(&problems(preview));
    text.push_str(&summary(preview));
    if !preview.changes.is_empty() {
        text.push_str("Add --diff to see all fields.\n");
    }
    text
}

fn mark(verb: &str) -> (&'static str, Style) {
    let tone = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match verb {
        "create" => ("+", tone(AnsiColor::Green)),
        "delete" => ("-", tone(AnsiColor::Red)),
        _ => ("~", tone(AnsiColor::Yellow)),
    }
}

/// Namespace and name of the object.
fn path(change: &PlannedChange) -> String {
    let slash = if change.namespace.is_empty() { "" } else { "/" };
    let (namespace, name) = (printable(&change.namespace), printable(&change.name));
    format!("{namespace}{slash}{name}")
}

fn problems(preview: &Preview) -> String {
    let style = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let lines = preview.problems.iter().map(|problem| {
        let reason = problem.reason;
        let (service, message) = (printable(&problem.service), printable(&problem.message));
        format!("{style}‼ {service}{style:#}: {reason}: {message}\n")
    });
    lines.collect()
}

fn summary(preview: &Preview) -> String {
    if preview.changes.is_empty() {
        return "Nothing to do.\n".to_owned();
    }
    let count = |verb| {
        let changes = preview.changes.iter();
        changes.filter(|change| change.verb == verb).count()
    };
    format!(
        "{} to create, {} to change, {} to delete.\n",
        count("create"),
        count("patch"),
        count("delete")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::plan::changes::{PlanProblem, flatten};

    #[test]
    fn nothing_that_a_target_says_changes_the_terminal() {
        let evil = "a\u{1b}[2J\u{9b}1m\n\u{202e}b";
        let mut fields = BTreeMap::new();
        let after = json!({
            "metadata": { "labels": { evil: evil }, "annotations": { evil: null } },
            "spec": { "ports": [{ "name": evil, "port": 80 }] },
        });
        flatten(&mut fields, String::new(), &json!({}), &after);
        let change = PlannedChange {
            verb: "patch",
            kind: "Service",
            namespace: evil.into(),
            name: evil.into(),
            fields,
        };
        let problem = PlanProblem {
            service: evil.into(),
            reason: "Error",
            message: format!("it's {evil}"),
        };
        let preview = Preview {
            changes: vec![change],
            problems: vec![problem],
        };
        let plain = anstream::adapter::strip_str(&diff(&preview)).to_string();
        assert_eq!(plain.lines().count(), 5, "{plain}");
        let styled = diff(&preview);
        let hidden = |c: &char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(c);
        let mut hidden = plain.chars().filter(hidden).filter(|c| *c != '\n');
        assert_eq!(hidden.next(), None, "{plain:?}");
        assert!(!styled.contains("[2J\u{9b}"), "{styled:?}");
        let escaped = r"a\u{1b}[2J\u{9b}1m\n\u{202e}b";
        for line in [
            format!("~ Service {escaped}/{escaped}"),
            format!("    metadata.labels.{escaped}: none → {escaped}"),
            format!("‼ {escaped}: Error: it's {escaped}"),
        ] {
            assert!(plain.lines().any(|told| told == line), "{line}\n{plain}");
        }
    }

    #[test]
    fn a_diff_ends_with_a_summary() {
        let change = |verb, name: &str| PlannedChange {
            verb,
            kind: "Service",
            namespace: "ns".into(),
            name: name.into(),
            fields: [("spec.type".to_owned(), (Value::Null, json!("ClusterIP")))].into(),
        };
        let preview = Preview {
            changes: vec![
                change("create", "a"),
                change("patch", "b"),
                change("delete", "c"),
            ],
            problems: vec![PlanProblem {
                service: "ns/d".into(),
                reason: "NameConflict",
                message: "ns/d-east belongs to a user".into(),
            }],
        };
        let text = anstream::adapter::strip_str(&diff(&preview)).to_string();
        insta::assert_snapshot!(text, @r"
        + Service ns/a
            spec.type: ClusterIP
        ~ Service ns/b
            spec.type: none → ClusterIP
        - Service ns/c
            spec.type: none → ClusterIP
        ‼ ns/d: NameConflict: ns/d-east belongs to a user
        1 to create, 1 to change, 1 to delete.
        ");
        for text in [diff(&Preview::default()), short(&Preview::default())] {
            assert_eq!(text, "Nothing to do.\n");
        }
        let text = anstream::adapter::strip_str(&short(&preview)).to_string();
        insta::assert_snapshot!(text, @r"
        + 1 Service: ns/a
        ~ 1 Service: ns/b
        - 1 Service: ns/c
        ‼ ns/d: NameConflict: ns/d-east belongs to a user
        1 to create, 1 to change, 1 to delete.
        Add --diff to see all fields.
        ");
        let many = Preview {
            changes: (0..25)
                .map(|n| change("create", &format!("web-{n}")))
                .collect(),
            problems: vec![],
        };
        let text = short(&many);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("25 Service"), "{text}");
        assert!(text.contains("ns/web-19, … and 5 more\n"), "{text}");
    }
}
