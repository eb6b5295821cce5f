//! Holds what the documents claim: that `tests/it/README.md` has a row for each known weakness of Linkerd's mirror and
//! names only tests that exist, and that the README lists all commands. It reads files and the help of the binary; it needs
//! no cluster.
//!
//! [`book`] holds the documents together, [`reference`] writes and compares the reference, [`gitops`] and [`gitops_chart`]
//! hold what is said of GitOps tools, [`dashboard`] the page on metrics and alerts, [`figures`] that measurements have a
//! date, [`claims`] that tables of `status` are its own, [`readable`] the lengths of cells and of the README,
//! [`recipes`] what the objects on pages permit, and [`pictures`] what pictures show.

#![expect(clippy::panic, reason = "a test says why it failed")]

mod book;
mod claims;
mod dashboard;
mod figures;
mod gitops;
mod gitops_chart;
mod markdown;
mod pictures;
mod readable;
mod recipes;
mod reference;

use std::{collections::BTreeSet, fs, path::Path};

/// What happens in each situation, and which tests hold it.
const BEHAVIOUR: &str = "tests/it/README.md";
/// Numbers of the weaknesses of Linkerd's service mirror.
const WEAKNESSES: std::ops::RangeInclusive<u32> = 1..=69;

#[test]
fn each_weakness_has_a_row_that_says_what_holds_it() {
    let text = read(BEHAVIOUR);
    let rows: Vec<Vec<&str>> = rows(&text)
        .filter(|cells| cells[0].starts_with("W-"))
        .collect();
    let numbers: Vec<String> = rows.iter().map(|cells| cells[0].to_owned()).collect();
    let wanted: Vec<String> = WEAKNESSES.map(|number| format!("W-{number}")).collect();
    assert_eq!(numbers, wanted);
}

#[test]
fn each_row_names_tests_or_says_why_it_does_not_apply() {
    let text = read(BEHAVIOUR);
    let (mut found, mut empty) = (0, Vec::new());
    for cells in rows(&text) {
        let held = cells[2];
        found += 1;
        if tests_in(held).is_empty() && !held.starts_with("Does not apply: ") {
            empty.push(cells[0]);
        }
    }
    assert!(found > 100, "only {found} rows found");
    assert_eq!(empty, [""; 0], "rows without a test or a reason");
}

#[test]
fn each_test_that_is_named_exists() {
    let text = read(BEHAVIOUR);
    let named = tests_in(&text);
    assert!(named.len() > 80, "only {} tests are named", named.len());
    let missing: Vec<&str> = named.into_iter().filter(|test| !exists(test)).collect();
    assert_eq!(missing, [""; 0], "named in {BEHAVIOUR}, and in no source");
}

/// The commands in the README, in its order.
fn listed_commands() -> Vec<String> {
    let text = read("README.md");
    let (_, section) = text.split_once("\n## Commands\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let cells = rows(section).map(|cells| cells[1].to_owned());
    let names = cells.flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>());
    names
        .map(|name| name.trim_matches('`').to_owned())
        .collect()
}

#[test]
fn the_readme_lists_the_commands_that_there_are() {
    let listed = listed_commands();
    let defined = linkerd_mc::cli::command();
    let shown = defined.get_subcommands().filter(|sub| !sub.is_hide_set());
    let commands: BTreeSet<&str> = shown.map(clap::Command::get_name).collect();
    let names: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(names, commands);
    assert_eq!(listed.len(), commands.len(), "a command is listed twice");
}

/// The rows of all tables, without their heads: the cells of each.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &&str| line.starts_with("| ---");
    let heads: BTreeSet<usize> = (1..lines.len())
        .filter(|at| is_rule(&lines[*at]))
        .flat_map(|at| [at - 1, at])
        .collect();
    lines
        .into_iter()
        .enumerate()
        .filter(move |(at, line)| line.starts_with('|') && !heads.contains(at))
        .map(|(_, line)| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

/// What stands between backticks and looks like the path of a test.
fn tests_in(text: &str) -> Vec<&str> {
    let is_path = |text: &&str| {
        text.contains("::")
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
            && !text.ends_with("::name")
    };
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(is_path).collect()
}

/// Whether a source has a test of this path: `it::file::name` in `tests/it`, any other in a crate. The first module of a
/// path may be the name of its crate.
fn exists(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else {
        return false;
    };
    let files: &[String] = match module.strip_prefix("it::") {
        Some(inside) => &[format!("tests/it/{}", inside.replace("::", "/"))],
        None => &in_crates(&module.replace("::", "/")),
    };
    let has = |file: String| {
        let text = fs::read_to_string(root().join(file));
        text.is_ok_and(|text| has_test(&text, name))
    };
    // Tests beside the code: `a::tests` is in `a.rs`, `a/mod.rs` or `a/tests.rs`.
    files.iter().any(|file| {
        let outer = file.strip_suffix("/tests").unwrap_or(file);
        has(format!("{file}.rs")) || has(format!("{outer}.rs")) || has(format!("{outer}/mod.rs"))
    })
}

/// Where the sources of a module may be, without their ending.
fn in_crates(module: &str) -> Vec<String> {
    let (first, rest) = module.split_once('/').unwrap_or((module, "lib"));
    let own = [
        format!("src/{module}"),
        format!("crates/{first}/src/{rest}"),
    ];
    let others = ["mirror-core", "client", "observe", "links", "hints"];
    let others = others.map(|name| format!("crates/{name}/src/{module}"));
    own.into_iter().chain(others).collect()
}

/// Whether a source has a function of this name under an attribute that makes it a test.
fn has_test(text: &str, name: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let mut is_test = false;
    lines.any(|line| {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let found = is_test && rest.split(['(', '<']).next() == Some(name);
            is_test = false;
            return found;
        }
        false
    })
}

fn read(file: impl AsRef<Path>) -> String {
    let path = root().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_test_is_told_from_what_only_looks_like_one() {
    let text = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(x)]\nasync fn c() {}\n";
    let found: Vec<bool> = ["a", "b", "c", "d"].map(|name| has_test(text, name)).into();
    assert_eq!(found, [true, false, true, false]);
    assert!(exists(
        "it::mirroring::gateway_mode_mirror_has_what_linkerd_reads"
    ));
    assert!(!exists("it::mirroring::no_such_test"));
    assert!(!exists("mirror::no_such_module::tests::no_such_test"));
}
