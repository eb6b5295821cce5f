//! Errors with hints for the user: an [`anyhow::Error`] may have one hint.
//!
//! All layers may use this module; it uses none of them.

use std::fmt;

/// A step of an error chain with a hint.
#[derive(Debug)]
struct Hinted {
    what: String,
    hint: String,
    source: Option<anyhow::Error>,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(AsRef::as_ref)
    }
}

/// An error that says what failed and what to do. Both are one sentence without a period.
pub fn fail(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Hinted {
        what: what.into(),
        hint: hint.into(),
        source: None,
    })
}

/// Maximum length of a server's message, in characters.
pub const BRIEF: usize = 500;

/// The text on one line, without control characters, because it may come from an untrusted server or file.
pub fn one_line(text: &str) -> String {
    one_line_of(text, usize::MAX)
}

/// A server's message for logs, statuses, Events and errors: [`one_line`], cut at [`BRIEF`] characters.
pub fn in_brief(text: &str) -> String {
    one_line_of(text, BRIEF)
}

/// [`one_line`], cut at `longest` characters with `…`. Reads no more of the text than necessary.
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

/// Whether a character has no width or changes the text direction, so that the text is displayed differently from its
/// content.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// Adds a message and a hint to an error.
pub trait HintExt<T> {
    /// Like [`anyhow::Context::with_context`], with a hint.
    fn hint(
        self,
        what: impl FnOnce() -> String,
        hint: impl FnOnce() -> String,
    ) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> HintExt<T> for Result<T, E> {
    fn hint(
        self,
        what: impl FnOnce() -> String,
        hint: impl FnOnce() -> String,
    ) -> anyhow::Result<T> {
        self.map_err(|error| {
            anyhow::Error::new(Hinted {
                what: what(),
                hint: hint(),
                source: Some(error.into()),
            })
        })
    }
}

/// The innermost hint of an error, which is nearest to the cause.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    error
        .chain()
        .filter_map(|step| step.downcast_ref::<Hinted>())
        .last()
        .map(|h| h.hint.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_becomes_one_short_line() {
        let (long, cut) = ("x".repeat(10_000), "x".repeat(499) + "…");
        let (full, wide) = ("y".repeat(500), "ä".repeat(501));
        let cut_wide = "ä".repeat(499) + "…";
        let spaced = format!("{} z", "x".repeat(499));
        for (said, told) in [
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
            assert_eq!(in_brief(said), told, "{said:.40?}");
        }
        assert_eq!(one_line(&long), long);
        assert_eq!(one_line_of("a b", 2), "a…");
    }

    #[test]
    fn the_innermost_hint_wins_and_the_chain_is_kept() {
        let inner: anyhow::Result<()> = Err(anyhow::anyhow!("refused"));
        let outer = inner
            .hint(|| "cannot reach east".into(), || "is it up?".into())
            .hint(|| "cannot link".into(), || "try again".into())
            .unwrap_err();
        assert_eq!(hint_of(&outer), Some("is it up?"));
        let chain: Vec<String> = outer.chain().map(ToString::to_string).collect();
        assert_eq!(chain, ["cannot link", "cannot reach east", "refused"]);
        assert_eq!(hint_of(&anyhow::anyhow!("plain")), None);
    }
}
