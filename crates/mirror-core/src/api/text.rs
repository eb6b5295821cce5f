//! Texts of unknown origin, made safe for terminals, logs, statuses and Events.

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

/// A text of several lines. Each becomes [`one_line`] and keeps its indentation.
pub fn lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let words = line.trim_start_matches([' ', '\t']);
        let indent = &line[..line.len() - words.len()];
        format!("{indent}{}", one_line(words))
    });
    lines.collect::<Vec<_>>().join("\n")
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
