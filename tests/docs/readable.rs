//! Pages can be read: cells of tables are short, a page has one title, and the first screen of the README has
//! pictures and the commands.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::{book::documents, read};

/// The longest text in a cell of a table.
const CELL: usize = 200;
/// Words of the README, and lines of its first screen.
const WORDS: usize = 700;
const SCREEN: usize = 25;

/// The texts in the cells of all tables, without the addresses of links.
fn cells(text: &str) -> Vec<String> {
    let (mut found, mut cell) = (Vec::new(), None::<String>);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::TableCell) => cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => found.extend(cell.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(cell) = &mut cell {
                    cell.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn cells_of_tables_are_short() {
    let (mut found, mut long) = (0, BTreeMap::new());
    for path in documents() {
        let is_page = path.starts_with("docs") || path.as_os_str() == "README.md";
        for cell in cells(&read(&path)).into_iter().filter(|_| is_page) {
            found += 1;
            let length = cell.chars().count();
            if length > CELL {
                let begin: String = cell.chars().take(60).collect();
                long.insert(format!("{}: {begin}", path.display()), length);
            }
        }
    }
    assert!(found > 1000, "only {found} cells found");
    assert_eq!(long, BTreeMap::new(), "cells with over {CELL} characters");
    assert_eq!(cells("| a |\n| --- |\n| [b](c) `d` |\n"), ["a", "b d"]);
}

#[test]
fn each_page_has_one_title() {
    for path in documents() {
        if path.ends_with("SUMMARY.md") || !path.starts_with("docs") {
            continue;
        }
        let text = read(&path);
        let titles = Parser::new(&text).filter(|event| {
            matches!(
                event,
                Event::Start(Tag::Heading { level, .. }) if *level == HeadingLevel::H1
            )
        });
        assert_eq!(titles.count(), 1, "{}", path.display());
    }
}

#[test]
fn the_readme_is_short() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= WORDS, "the README has {words} words");
}

/// The pictures and the commands come before anybody scrolls.
#[test]
fn the_first_screen_of_the_readme_shows_how_the_program_is_used() {
    let text = read("README.md");
    let screen: Vec<&str> = text.lines().take(SCREEN).collect();
    let count = |begin: &str| screen.iter().filter(|line| line.starts_with(begin)).count();
    let version = format!("**Version {}, ", env!("CARGO_PKG_VERSION"));
    assert_eq!(count(&version), 1, "{version}");
    assert_eq!(count("!["), 2, "pictures");
    assert_eq!(count("```"), 2, "a block of commands");
}
