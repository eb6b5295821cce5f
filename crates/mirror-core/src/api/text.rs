//! Texts of unknown origin, made safe for terminals, logs, statuses and Events.

use std::{borrow::Cow, fmt::Write as _};

/// Maximum number of characters of a server's message that are shown.
const BRIEF: usize = 500;

/// The text on one line, without control characters. It may come from an untrusted server or file, and must not change
/// the state of a terminal.
pub fn one_line(text: &str) -> String {
    one_line_of(text, usize::MAX)
}

/// A server's message, for logs, statuses, Events and errors: [`one_line`] with at most [`BRIEF`] characters.
pub fn in_brief(text: &str) -> String {
    one_line_of(text, BRIEF)
}

/// [`one_line`] with at most `longest` characters. A text that is cut ends in `…`. The rest of the text is not read.
pub fn one_line_of(text: &str, longest: usize) -> String {
    let (mut line, mut length, mut is_gap) = (String::new(), 0, false);
    for c in text.chars().filter(|c| !is_hidden(*c)) {
        if c.is_whitespace() || c.is_control() {
            is_gap = length > 0;
            continue;
        }
        for c in is_gap.then_some(' ').into_iter().chain([c]) {
            if length == longest {
                line.pop();
                line.push('…');
                return line;
            }
            line.push(c);
            length += 1;
        }
        is_gap = false;
    }
    line
}

/// A text of several lines. Each becomes [`indented_line`].
pub fn lines(text: &str) -> String {
    let lines = text.split('\n').map(indented_line);
    lines.collect::<Vec<_>>().join("\n")
}

/// [`one_line`], which keeps its indentation.
pub fn indented_line(text: &str) -> String {
    let words = text.trim_start_matches([' ', '\t']);
    let indent = &text[..text.len() - words.len()];
    format!("{indent}{}", one_line(words))
}

/// A text that a terminal may get: all control characters but line breaks, tabs and our own styles become escapes such as
/// `\u001b`, which JSON and YAML read as the same character. This is the last barrier: views show names and messages as
/// [`one_line`], which also removes line breaks.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(is_control) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let style = style_length(rest);
        shown.push_str(&rest[..style]);
        rest = &rest[style..];
        if style == 0 {
            let mut chars = rest.chars();
            if let Some(c) = chars.next() {
                let _ = write!(shown, "\\u{:04x}", u32::from(c));
            }
            rest = chars.as_str();
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The length of the sequence that a text begins with, if it sets one of the styles that we use: none, bold, dimmed,
/// underlined, red, green, yellow or cyan. Others could hide text.
fn style_length(text: &str) -> usize {
    let Some((codes, _)) = text
        .strip_prefix("\u{1b}[")
        .and_then(|rest| rest.split_once('m'))
    else {
        return 0;
    };
    let is_ours = |code| ["0", "1", "2", "4", "31", "32", "33", "36"].contains(&code);
    if codes.split(';').all(is_ours) {
        "\u{1b}[m".len() + codes.len()
    } else {
        0
    }
}

/// The beginning of a text, for an error that quotes it.
pub fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Whether a character has no width, or changes the direction of the text. With such characters, a text can look
/// different from what it is.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn untrusted_text_becomes_one_short_line() {
        let (long, cut) = ("x".repeat(10_000), "x".repeat(499) + "…");
        let (full, wide) = ("y".repeat(500), "ä".repeat(501));
        let cut_wide = "ä".repeat(499) + "…";
        let spaced = format!("{} z", "x".repeat(499));
        for (text, shown) in [
            ("", ""),
            (" \n\t ", ""),
            ("plain words", "plain words"),
            ("no\n\r\nway\u{2028}out\u{85}", "no way out"),
            ("\u{1b}[31mred\u{1b}[0m\u{7}", "[31mred [0m"),
            ("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\0f", "abcde f"),
            (&long, &cut),
            (&full, &full),
            (&wide, &cut_wide),
            (&spaced, &cut),
        ] {
            assert_eq!(in_brief(text), shown, "{text:.40?}");
        }
        assert_eq!(one_line(&long), long);
        assert_eq!(one_line_of("a b", 2), "a…");
    }

    #[test]
    fn only_our_styles_reach_a_terminal() {
        for (text, shown) in [
            ("plain\n\ttext ü", "plain\n\ttext ü"),
            (
                "\u{1b}[31m×\u{1b}[0m \u{1b}[1;4mx",
                "\u{1b}[31m×\u{1b}[0m \u{1b}[1;4mx",
            ),
            (
                "a\u{1b}[2Jb\u{1b}[8mc\u{1b}[",
                r"a\u001b[2Jb\u001b[8mc\u001b[",
            ),
            (
                "\u{1b}]52;c;eA==\u{7}\u{9b}1m\r\0",
                r"\u001b]52;c;eA==\u0007\u009b1m\u000d\u0000",
            ),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_visible_and_json_stays_the_same(text: String) {
            let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
            let shown = visible(&text);
            prop_assert_eq!(visible(&shown), &*shown);
            let codes = shown.split('\u{1b}').skip(1);
            let are_ours = codes.map(|code| ["\u{1b}", code].concat()).all(|code| style_length(&code) > 0);
            prop_assert!(are_ours, "{:?}", shown);
            let has_others = shown.replace('\u{1b}', "").contains(is_control);
            prop_assert!(!has_others, "{:?}", shown);
            let json = serde_json::to_string_pretty(&text).unwrap();
            let read: String = serde_json::from_str(&visible(&json)).unwrap();
            prop_assert_eq!(read, text);
        }
    }

    #[test]
    fn lines_are_kept_and_cleaned_one_by_one() {
        for (text, shown) in [
            ("", ""),
            ("one", "one"),
            (
                "all of\r\n\t* \u{1b}[2Jeast\n\n  * west ",
                "all of\n\t* [2Jeast\n\n  * west",
            ),
        ] {
            assert_eq!(lines(text), shown, "{text:?}");
        }
    }
}
