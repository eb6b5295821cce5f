//! Results → text. The table, the short form and the JSON are those of `linkerd multicluster check`.
//!
//! The text of the table always has colors. If they are not wanted, they are stripped when it is printed.

use anstyle::{AnsiColor, Style};
use mirror_core::api::text::{lines, one_line};
use serde::Serialize;

use super::rules::CheckResult;
use crate::{
    finding::{Finding, Level, Remedy},
    junit::{self, JunitCase, JunitOutcome, JunitSuite},
};

/// Name of the category of one cluster, or its prefix if there are several.
pub const CATEGORY: &str = "linkerd-multicluster";

/// The results of one cluster or of a topic of it, or of all clusters together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// Its results, in order.
    pub results: Vec<CheckResult>,
    /// The cluster, for lines about its problems; `None` if `check` is asked about only one.
    pub cluster: Option<String>,
}

/// The level of the worst result; `None` if there is no problem.
pub fn worst(categories: &[Category]) -> Option<Level> {
    let results = categories.iter().flat_map(|category| &category.results);
    results.filter_map(|result| result.level).max()
}

/// All results of a category: one line per check, and more for those that fail.
pub fn rows(category: &Category) -> String {
    listed(&category.name, &category.results, |text, result| {
        problem(text, result);
        if let Some(hint) = &result.hint {
            line(text, &format!("    see {hint} for hints"));
        }
    })
}

/// The warnings and errors of a category, each with the commands that fix it.
pub fn short_rows(category: &Category) -> String {
    let failed = category
        .results
        .iter()
        .filter(|result| result.level.is_some());
    let failed: Vec<CheckResult> = failed.cloned().collect();
    listed(&category.name, &failed, |text, result| {
        problem(text, result);
        if let Some(hint) = &result.hint {
            line(text, &format!("    see {hint} for hints"));
        }
        remedies(text, result);
    })
}

/// The warnings and errors of all categories, errors first, each with the commands that fix it; empty if there are none.
pub fn problems(categories: &[Category]) -> String {
    let of = |level| {
        let all = categories.iter();
        let all = all.flat_map(|category| category.results.iter().map(move |r| (category, r)));
        all.filter(move |(_, result)| result.level == Some(level))
    };
    let (errors, warnings) = (of(Level::Error).count(), of(Level::Warning).count());
    let counted = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let counts = [counted(errors, "error"), counted(warnings, "warning")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    heading(&mut text, &counts.join(", "));
    for (category, result) in of(Level::Error).chain(of(Level::Warning)) {
        let description = result.description.lines().next().unwrap_or_default();
        let mark = mark(result.level);
        let of = category
            .cluster
            .as_ref()
            .map(|cluster| format!("{}: ", one_line(cluster)));
        line(
            &mut text,
            &format!("{mark} {}{description}", of.unwrap_or_default()),
        );
        problem(&mut text, result);
        remedies(&mut text, result);
    }
    text.push('\n');
    text
}

/// The last line.
pub fn conclusion(categories: &[Category]) -> String {
    let level = worst(categories).filter(|level| *level == Level::Error);
    format!("Status check results are {}\n", mark(level))
}

fn listed(
    name: &str,
    results: &[CheckResult],
    below: impl Fn(&mut String, &CheckResult),
) -> String {
    let mut text = String::new();
    if results.is_empty() {
        return text;
    }
    heading(&mut text, &one_line(name));
    for result in results {
        let mark = mark(result.level);
        line(&mut text, &format!("{mark} {}", lines(&result.description)));
        below(&mut text, result);
    }
    text.push('\n');
    text
}

fn heading(text: &mut String, name: &str) {
    let rule = "-".repeat(name.chars().count());
    line(text, &format!("{name}\n{rule}"));
}

fn problem(text: &mut String, result: &CheckResult) {
    for problem in result.lines(Finding::line) {
        line(text, &format!("    {}", one_line(&problem)));
    }
}

fn remedies(text: &mut String, result: &CheckResult) {
    for Remedy { cluster, command } in &result.actions {
        let command = one_line(command.line());
        let remedy = match cluster {
            Some(cluster) => format!("run in {}: {command}", one_line(cluster)),
            None => format!("run: {command}"),
        };
        line(text, &format!("    {remedy}"));
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn mark(level: Option<Level>) -> String {
    let (mark, color) = match level {
        None => ("√", AnsiColor::Green),
        Some(Level::Warning) => ("‼", AnsiColor::Yellow),
        Some(Level::Error) => ("×", AnsiColor::Red),
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
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    result: &'static str,
}

/// The document that `linkerd check` reads. `categories` is `null` if nothing was checked.
pub fn document(categories: &[Category]) -> impl Serialize {
    let outputs: Vec<_> = categories
        .iter()
        .map(|category| CategoryOutput {
            category_name: &category.name,
            checks: category.results.iter().map(check_output).collect(),
        })
        .collect();
    Output {
        success: worst(categories) != Some(Level::Error),
        categories: (!outputs.is_empty()).then_some(outputs),
    }
}

fn check_output(result: &CheckResult) -> CheckOutput<'_> {
    CheckOutput {
        description: &result.description,
        hint: result.hint.as_deref(),
        error: result.text(),
        result: match result.level {
            None => "success",
            Some(Level::Warning) => "warning",
            Some(Level::Error) => "error",
        },
    }
}

/// `JUnit` XML: one suite per category, one case per check. A warning is a passed case with a text.
pub fn junit(categories: &[Category]) -> String {
    let suites = categories.iter().map(|category| JunitSuite {
        name: category.name.clone(),
        cases: category.results.iter().map(case).collect(),
        can_skip: false,
    });
    junit::document(&suites.collect::<Vec<_>>())
}

fn case(result: &CheckResult) -> JunitCase {
    let hint = result.hint.as_ref();
    let hint = hint.map_or_else(String::new, |hint| format!("\nsee {hint}"));
    let error = result.text();
    let text = format!("{error}{hint}");
    JunitCase {
        name: result
            .description
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        milliseconds: None,
        outcome: match result.level {
            None => JunitOutcome::Passed,
            Some(Level::Warning) => JunitOutcome::Noted(format!("warning: {text}")),
            Some(Level::Error) => JunitOutcome::Failed {
                message: error.lines().next().unwrap_or_default().to_owned(),
                text,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use hints::suggest::ClusterFlags;

    use super::*;

    fn result(
        description: &str,
        level: Option<Level>,
        findings: &[&str],
        hint: Option<&str>,
    ) -> CheckResult {
        CheckResult {
            description: description.into(),
            level,
            findings: findings.iter().map(|&text| text.into()).collect(),
            hint: hint.map(str::to_owned),
            ..CheckResult::default()
        }
    }

    fn categories() -> Vec<Category> {
        let all_well = Category {
            name: "linkerd-multicluster: west".into(),
            results: vec![result("Link CRD exists", None, &[], None)],
            ..Category::default()
        };
        let flags = ClusterFlags::of_context("east");
        let not_well = Category {
            name: "linkerd-multicluster: east".into(),
            cluster: Some("east".into()),
            results: vec![
                result("Link resources are valid\n\t* west", None, &[], None),
                result(
                    "Link and CLI versions match",
                    Some(Level::Warning),
                    &["Link a/b: \u{1b}[2Jold <&>"],
                    Some("https://x/#v"),
                ),
                CheckResult {
                    actions: vec![
                        Remedy {
                            cluster: None,
                            command: flags.mc("rotate {}", &["west"]),
                        },
                        Remedy {
                            cluster: Some("west".into()),
                            command: ClusterFlags::default().kubectl("get pods", &[]),
                        },
                    ],
                    ..result(
                        "clusters share trust anchors",
                        Some(Level::Error),
                        &["west: one", "west: \"two\", said `kubectl version`"],
                        None,
                    )
                },
            ],
        };
        vec![all_well, not_well]
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn rows_are_listed_by_category_and_problems_again_at_the_end() {
        let all = categories();
        let rows = all.iter().map(rows).collect::<String>();
        insta::assert_snapshot!(plain(&(rows + &problems(&all) + &conclusion(&all))), @r#"
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
            west: "two", said `kubectl version`

        1 error, 1 warning
        ------------------
        × east: clusters share trust anchors
            west: one
            west: "two", said `kubectl version`
            run: linkerd-mc --context east rotate west
            run in west: kubectl get pods
        ‼ east: Link and CLI versions match
            Link a/b: [2Jold <&>

        Status check results are ×
        "#);
        let short = all.iter().map(short_rows).collect::<String>();
        insta::assert_snapshot!(plain(&(short + &conclusion(&all))), @r#"
        linkerd-multicluster: east
        --------------------------
        ‼ Link and CLI versions match
            Link a/b: [2Jold <&>
            see https://x/#v for hints
        × clusters share trust anchors
            west: one
            west: "two", said `kubectl version`
            run: linkerd-mc --context east rotate west
            run in west: kubectl get pods

        Status check results are ×
        "#);
        let well = &all[..1];
        assert_eq!(problems(well), "");
        assert_eq!(plain(&conclusion(well)), "Status check results are √\n");
    }

    #[test]
    fn marks_are_coloured() {
        assert_eq!(mark(Some(Level::Error)), "\u{1b}[31m×\u{1b}[0m");
    }

    #[test]
    fn json_has_the_format_of_linkerd_multicluster_check() {
        insta::assert_json_snapshot!(document(&categories()[1..]), @r#"
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
                  "error": "Link a/b: [2Jold <&>",
                  "result": "warning"
                },
                {
                  "description": "clusters share trust anchors",
                  "error": "west: one\nwest: \"two\", said `kubectl version`",
                  "result": "error"
                }
              ]
            }
          ]
        }
        "#);
        insta::assert_json_snapshot!(document(&[]), @r#"
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
        west: &quot;two&quot;, said `kubectl version`</failure>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }
}
