//! Holds what the documents claim: that `tests/it/nightly.md` names only tests that exist, and that the README lists all
//! commands. It reads files and the help of the binary; it needs no cluster.
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

/// The long tests that run at night only, and what holds the same on each change.
const NIGHTLY: &str = "tests/it/nightly.md";

#[test]
fn nightly_tests_are_long_and_have_a_twin_that_exists_on_each_change() {
    let text = read(NIGHTLY);
    let rows: Vec<Vec<&str>> = rows(&text).collect();
    assert!(rows.len() > 20, "only {} rows found", rows.len());
    let of_column = |at: usize| -> BTreeSet<&str> {
        let cells = rows.iter();
        cells.flat_map(|cells| tests_in(cells[at])).collect()
    };
    let (nightly, twins) = (of_column(0), of_column(1));
    assert_eq!(
        nightly.len(),
        rows.len(),
        "a row names no test, or that of another"
    );
    let both = nightly.intersection(&twins).collect::<Vec<_>>();
    assert!(both.is_empty(), "{both:?} do not run on each change");
    let all = nightly.iter().chain(&twins);
    let missing: Vec<_> = all.filter(|test| !exists(test)).collect();
    assert_eq!(missing, [&""; 0], "named in {NIGHTLY}, and in no source");
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
