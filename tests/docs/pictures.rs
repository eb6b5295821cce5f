//! Pictures are small and private, fit a light and a dark page, break no word, and have texts for those who do not see
//! them.

use std::{collections::BTreeSet, fs, path::Path};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::{book::documents, read, root};

const FOLDER: &str = "docs/pictures";
/// The shortest text that says what is to be seen, in words.
const WORDS: usize = 12;

/// The names of all pictures.
fn names() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(FOLDER)).expect("there are pictures");
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// The names and contents of all drawings.
fn pictures() -> Vec<(String, String)> {
    // Those of the page are bitmaps, which its own tests draw and look at.
    let names = names().into_iter();
    let drawings = names.filter(|name| {
        Path::new(name)
            .extension()
            .is_some_and(|kind| kind == "svg")
    });
    let found: Vec<(String, String)> = drawings
        .map(|name| {
            let text = read(Path::new(FOLDER).join(&name));
            (name, text)
        })
        .collect();
    assert!(!found.is_empty(), "no pictures found");
    found
}

#[test]
fn pictures_are_small_and_show_nothing_of_the_machine_that_made_them() {
    for (name, text) in pictures() {
        assert!(text.len() <= 150_000, "{name} has {} bytes", text.len());
        for private in [
            "127.0.0.1",
            "localhost",
            "/tmp/",
            "/root/",
            "/home/",
            "eyJ",
            "<script",
            "https://",
        ] {
            assert!(!text.contains(private), "{name} has {private}");
        }
    }
}

#[test]
fn pictures_are_drawn_for_light_and_dark_pages() {
    let without = pictures().into_iter().filter(|(_, text)| {
        let text = text.replace(' ', "");
        !text.contains("@media(prefers-color-scheme:dark)")
    });
    let without: Vec<String> = without.map(|(name, _)| name).collect();
    assert_eq!(without, [""; 0]);
}

/// The pictures of a document: where they are, and the texts that stand for them.
fn images(text: &str) -> Vec<(String, String)> {
    let (mut found, mut inside) = (Vec::new(), None::<(String, String)>);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Image { dest_url, .. }) => {
                inside = Some((dest_url.into_string(), String::new()));
            }
            Event::End(TagEnd::Image) => found.extend(inside.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, said)) = &mut inside {
                    said.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn each_picture_is_shown_and_its_text_says_what_is_to_be_seen() {
    let (mut shown, mut short) = (BTreeSet::new(), Vec::new());
    for path in documents() {
        for (picture, said) in images(&read(&path)) {
            let name = Path::new(&picture).file_name().unwrap_or_default();
            shown.insert(name.to_string_lossy().into_owned());
            if said.split_whitespace().count() < WORDS {
                short.push(format!("{}: {picture}: {said:?}", path.display()));
            }
        }
    }
    assert_eq!(shown, names());
    assert_eq!(short, [""; 0]);
}

/// Margin beside the terminals in a recording, as in `examples/picture/svg.rs`.
const EDGE: f64 = 16.0;

/// A text in a recording of a terminal: its left edge, its right edge, its baseline, and what it says.
type Shown<'a> = (f64, f64, f64, &'a str);

/// The value of an attribute.
fn number(tag: &str, name: &str) -> Option<f64> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()?.parse().ok()
}

/// The texts in a recording of a terminal, which have a fixed width.
fn texts(svg: &str) -> Vec<Shown<'_>> {
    let all = svg.split("<text").skip(1).filter_map(|part| {
        let (tag, rest) = part.split_once('>')?;
        let (x, width) = (number(tag, "x")?, number(tag, "textLength")?);
        Some((x, x + width, number(tag, "y")?, rest.split('<').next()?))
    });
    all.collect()
}

/// Words that a terminal has broken at the end of a row.
fn broken(svg: &str) -> Vec<String> {
    let texts = texts(svg);
    let edge = number(svg, "width").unwrap_or_default() - EDGE;
    let mut found = Vec::new();
    for pair in texts.windows(2) {
        let [(_, end, above, first), (start, _, below, second)] = pair else {
            continue;
        };
        let is_next_row = *above < *below && *below < above + 20.0;
        let is_full = edge - end < 1.0 && *start < 20.0;
        let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if is_next_row && is_full && joins(first.chars().last()) && joins(second.chars().next()) {
            found.push(format!("{first} / {second}"));
        }
    }
    found
}

#[test]
fn no_picture_breaks_a_line_inside_a_word() {
    for (name, text) in pictures() {
        assert_eq!(broken(&text), [""; 0], "{name}");
    }
    let row = |y: u32, said: &str| {
        let width = said.len() * 8;
        format!("<text x=\"16\" y=\"{y}\" textLength=\"{width}\">{said}</text>")
    };
    let broken_in = |first, second| {
        let rows = row(51, first) + &row(69, second);
        broken(&format!("<svg width=\"112\">{rows}</svg>")).len()
    };
    assert_eq!(broken_in("it mirror ", "ed again"), 0);
    assert_eq!(broken_in("now mirror", "ed again"), 1);
    assert_eq!(broken_in("receives", "more of it"), 0);
}
