//! Misspelt words in the documents, found by the list of common ones that `typos` has.

use unicase::UniCase;

use crate::{book::documents, markdown::Document, read};

/// Words that are meant as they stand.
const MEANT: [&str; 0] = [];

#[test]
fn documents_have_no_common_misspelling() {
    let mut found = Vec::new();
    for path in documents() {
        let prose = Document::parse(&read(&path)).prose;
        for (word, meant) in misspelt(&prose) {
            found.push(format!("{}: {word} (meant: {meant})", path.display()));
        }
    }
    assert_eq!(found, [""; 0]);
}

/// Words of a text that the list knows as wrong, and what is right.
fn misspelt(text: &str) -> Vec<(&str, String)> {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    let words = words.filter(|word| word.len() > 3 && !MEANT.contains(word));
    words
        .filter_map(|word| {
            let meant = typos_dict::WORD.find(&UniCase::new(word))?;
            Some((word, meant.join(", ")))
        })
        .collect()
}

#[test]
fn a_misspelt_word_is_found() {
    let found = misspelt("The Servcie is recieved, and mirrored.");
    let words: Vec<&str> = found.iter().map(|(word, _)| *word).collect();
    assert_eq!(words, ["Servcie", "recieved"]);
}
