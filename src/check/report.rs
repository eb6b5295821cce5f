//! Results → text. The table, the short form and the JSON are those of `linkerd multicluster check`.
//!
//! The text of the table always has colors. If they are not wanted, they are stripped when it is printed.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::rules::{CheckResult, Level};
use crate::api::text::{lines, one_line};

/// Name of the category of one cluster, or its prefix if there are several.
pub(crate) const CATEGORY: &str = "linkerd-multicluster";

/// The results of one cluster, or of all clusters together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Category {
    /// Its name.
    pub name: String,
    /// Its results, in order.
    pub results: Vec<CheckResult>,
}

/// The level of the worst result.
pub(crate) fn worst(categories: &[Category]) -> Level {
    let results = categories.iter().flat_map(|category| &category.results);
    let levels = results.map(|result| result.level);
    levels.max().unwrap_or(Level::Success)
}

/// All results, one line per check and more for those that fail.
pub(crate) fn table(categories: &[Category]) -> String {
    text(categories, |_| true)
}

/// Only warnings and errors.
pub(crate) fn short(categories: &[Category]) -> String {
    text(categories, |result| result.level != Level::Success)
}

fn text(categories: &[Category], wanted: impl Fn(&CheckResult) -> bool) -> String {
    let mut text = String::new();
    for category in categories {
        let results: Vec<_> = category.results.iter().filter(|r| wanted(r)).collect();
        if results.is_empty() {
            continue;
        }
        let name = one_line(&category.name);
        let rule = "-".repeat(name.chars().count());
        line(&mut text, &format!("{name}\n{rule}"));
        for result in results {
            let mark = mark(result.level);
            line(&mut text, &format!("{mark} {}", lines(&result.description)));
            for problem in lines(&result.error).lines() {
                line(&mut text, &format!("    {problem}"));
            }
            if let Some(hint) = &result.hint {
                line(&mut text, &format!("    see {hint} for hints"));
            }
        }
        text.push('\n');
    }
    let level = match worst(categories) {
        Level::Error => Level::Error,
        _ => Level::Success,
    };
    line(
        &mut text,
        &format!("Status check results are {}", mark(level)),
    );
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn mark(level: Level) -> String {
    let (mark, color) = match level {
        Level::Success => ("√", AnsiColor::Green),
        Level::Warning => ("‼", AnsiColor::Yellow),
        Level::Error => ("×", AnsiColor::Red),
    };
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{mark}{style:#}")
}

#[derive(Serialize)]
struct Output<'a> {
    success: bool,
    categories: Option<Vec<CategoryOutput<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CategoryOutput<'a> {
    category_name: &'a str,
    checks: Vec<CheckOutput<'a>>,
}

#[derive(Serialize)]
struct CheckOutput<'a> {
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    result: &'static str,
}

/// The JSON that `linkerd check` reads. `categories` is `null` if nothing was checked.
pub(crate) fn json(categories: &[Category]) -> anyhow::Result<String> {
    let outputs: Vec<_> = categories
        .iter()
        .map(|category| CategoryOutput {
            category_name: &category.name,
            checks: category.results.iter().map(check_output).collect(),
        })
        .collect();
    let output = Output {
        success: worst(categories) != Level::Error,
        categories: (!outputs.is_empty()).then_some(outputs),
    };
    Ok(serde_json::to_string_pretty(&output)? + "\n")
}

fn check_output(result: &CheckResult) -> CheckOutput<'_> {
    CheckOutput {
        description: &result.description,
        hint: result.hint.as_deref(),
        error: &result.error,
        result: match result.level {
            Level::Success => "success",
            Level::Warning => "warning",
            Level::Error => "error",
        },
    }
}

/// `JUnit` XML: one suite per category, one case per check. A warning is a passed case with a text.
pub(crate) fn junit(categories: &[Category]) -> String {
    let count =
        |results: &[CheckResult], level| results.iter().filter(|r| r.level == level).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for Category { name, results } in categories {
        let suite = escape(name);
        // Writing to a String cannot fail.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{suite}\" tests=\"{}\" failures=\"{}\">",
            results.len(),
            count(results, Level::Error)
        );
        for result in results {
            let case = escape(result.description.lines().next().unwrap_or_default());
            let _ = write!(xml, "    <testcase classname=\"{suite}\" name=\"{case}\"");
            let error = escape(&result.error);
            let first = error.lines().next().unwrap_or_default();
            let hint = result
                .hint
                .as_deref()
                .map_or(String::new(), |hint| format!("\nsee {}", escape(hint)));
            let _ = match result.level {
                Level::Success => writeln!(xml, "/>"),
                Level::Warning => writeln!(
                    xml,
                    ">\n      <system-out>warning: {error}{hint}</system-out>\n    </testcase>"
                ),
                Level::Error => writeln!(
                    xml,
                    ">\n      <failure message=\"{first}\">{error}{hint}</failure>\n    </testcase>"
                ),
            };
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in lines(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(description: &str, level: Level, error: &str, hint: Option<&str>) -> CheckResult {
        CheckResult {
            description: description.into(),
            level,
            error: error.into(),
            hint: hint.map(str::to_owned),
            retry: false,
        }
    }

    fn categories() -> Vec<Category> {
        let all_well = Category {
            name: "linkerd-multicluster: west".into(),
            results: vec![result("Link CRD exists", Level::Success, "", None)],
        };
        let not_well = Category {
            name: "linkerd-multicluster: east".into(),
            results: vec![
                result(
                    "Link resources are valid\n\t* west",
                    Level::Success,
                    "",
                    None,
                ),
                result(
                    "Link and CLI versions match",
                    Level::Warning,
                    "Link a/b: \u{1b}[2Jold <&>",
                    Some("https://x/#v"),
                ),
                result(
                    "clusters share trust anchors",
                    Level::Error,
                    "west: one\nwest: \"two\"",
                    None,
                ),
            ],
        };
        vec![all_well, not_well]
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn table_has_all_checks_and_short_form_only_failed_ones() {
        insta::assert_snapshot!(plain(&table(&categories())), @r#"
        linkerd-multicluster: west
        --------------------------
        √ Link CRD exists

        linkerd-multicluster: east
        --------------------------
        √ Link resources are valid
        	* west
        ‼ Link and CLI versions match
            Link a/b: [2Jold <&>
            see https://x/#v for hints
        × clusters share trust anchors
            west: one
            west: "two"

        Status check results are ×
        "#);
        insta::assert_snapshot!(plain(&short(&categories())), @r#"
        linkerd-multicluster: east
        --------------------------
        ‼ Link and CLI versions match
            Link a/b: [2Jold <&>
            see https://x/#v for hints
        × clusters share trust anchors
            west: one
            west: "two"

        Status check results are ×
        "#);
        insta::assert_snapshot!(plain(&short(&categories()[..1])), @"Status check results are √");
    }

    #[test]
    fn marks_are_coloured() {
        assert_eq!(mark(Level::Error), "\u{1b}[31m×\u{1b}[0m");
    }

    #[test]
    fn json_has_the_format_of_linkerd_multicluster_check() {
        insta::assert_snapshot!(json(&categories()[1..]).unwrap(), @r#"
        {
          "success": false,
          "categories": [
            {
              "categoryName": "linkerd-multicluster: east",
              "checks": [
                {
                  "description": "Link resources are valid\n\t* west",
                  "result": "success"
                },
                {
                  "description": "Link and CLI versions match",
                  "hint": "https://x/#v",
                  "error": "Link a/b: \u001b[2Jold <&>",
                  "result": "warning"
                },
                {
                  "description": "clusters share trust anchors",
                  "error": "west: one\nwest: \"two\"",
                  "result": "error"
                }
              ]
            }
          ]
        }
        "#);
        insta::assert_snapshot!(json(&[]).unwrap(), @r#"
        {
          "success": true,
          "categories": null
        }
        "#);
    }

    #[test]
    fn junit_counts_errors_and_mentions_warnings() {
        insta::assert_snapshot!(junit(&categories()), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="linkerd-multicluster: west" tests="1" failures="0">
            <testcase classname="linkerd-multicluster: west" name="Link CRD exists"/>
          </testsuite>
          <testsuite name="linkerd-multicluster: east" tests="3" failures="1">
            <testcase classname="linkerd-multicluster: east" name="Link resources are valid"/>
            <testcase classname="linkerd-multicluster: east" name="Link and CLI versions match">
              <system-out>warning: Link a/b: [2Jold &lt;&amp;&gt;
        see https://x/#v</system-out>
            </testcase>
            <testcase classname="linkerd-multicluster: east" name="clusters share trust anchors">
              <failure message="west: one">west: one
        west: &quot;two&quot;</failure>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }
}
