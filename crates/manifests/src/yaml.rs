//! YAML in and out. Only this module and `located.rs` know which YAML crate is used.
//!
//! YAML 1.1 parsers (kubectl) and 1.2 parsers can read the output: the crate quotes what either would misread. Errors
//! of reading have no excerpts, because the text may contain a token.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use mirror_core::api::text::one_line;

/// Writes a value as one YAML document that ends in a newline.
pub fn to_yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! {
        // A long annotation or a certificate stays on one line, as kubectl prints it.
        folded_wrap_chars: usize::MAX,
        // `[]` and `{}` instead of nothing at all, which would read back as null.
        empty_as_braces: true,
    };
    let mut text = serde_saphyr::to_string_with_options(value, options)
        .context("failed to serialize to YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Writes a string as one YAML scalar on one line, quoted only where YAML needs it.
pub fn to_scalar(text: &str) -> anyhow::Result<String> {
    if text.contains('\n') {
        return to_flow(&text);
    }
    Ok(to_yaml(&text)?.trim_end().to_owned())
}

/// Writes a value as JSON on one line, which is YAML too.
pub fn to_flow(value: &impl Serialize) -> anyhow::Result<String> {
    let json = serde_json::to_string(value).context("failed to serialize to JSON")?;
    // JSON does not escape some characters that YAML 1.1 rejects or treats as line breaks.
    let odd = |c: char| {
        ('\u{7f}'..='\u{9f}').contains(&c)
            || matches!(
                c,
                '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
            )
    };
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if odd(c) {
            write!(text, "\\u{:04x}", u32::from(c)).context("failed to serialize to JSON")?;
        } else {
            text.push(c);
        }
    }
    Ok(text)
}

/// Reads one YAML document. The error has no excerpt of `text`.
pub fn from_yaml<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    serde_saphyr::from_str_with_options(text, quiet()).map_err(|error| explained(&error))
}

/// Reads all documents of a YAML stream, empty ones left out. The error has no excerpt of `text`.
pub fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, quiet())
        .map_err(|error| explained(&error))?;
    Ok(documents.into_iter().filter(|d| !d.is_null()).collect())
}

/// An error of the parser, in other words where its own would have to be looked up.
pub fn explained(error: &serde_saphyr::Error) -> anyhow::Error {
    let text = error.to_string();
    let what = match error {
        serde_saphyr::Error::DuplicateMappingKey { .. } => "a key occurs twice in one map",
        // By its text, because an error of an alias wraps that of a limit.
        _ if text.starts_with("budget breached") => "too many aliases, values or levels",
        _ => return anyhow::anyhow!("{}", one_line(&text)),
    };
    match error.location() {
        Some(at) => anyhow::anyhow!("{what}, at line {}", at.line()),
        None => anyhow::anyhow!("{what}"),
    }
}

/// Options of the parser whose errors show nothing of the text.
pub fn quiet() -> serde_saphyr::Options {
    serde_saphyr::options! { with_snippet: false }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_do_not_have_the_words_of_the_parser() {
        let bombs = "a: &a [x,x,x,x,x,x,x,x,x]\n";
        let bombs = ('b'..='i')
            .zip('a'..)
            .fold(bombs.to_owned(), |text, (next, last)| {
                format!(
                    "{text}{next}: &{next} [{}]\n",
                    vec![format!("*{last}"); 9].join(",")
                )
            });
        for (text, expected) in [
            (
                "gateway: 1\nother: 2\ngateway: 3\n",
                "a key occurs twice in one map, at line 3",
            ),
            (&bombs, "too many aliases, values or levels, at line "),
        ] {
            let error = from_yaml::<Value>(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_a_yaml_1_1_parser_would_misread_is_quoted() {
        for text in [
            "on",
            "off",
            "yes",
            "no",
            "y",
            "null",
            "~",
            "",
            "1",
            "1e3",
            "0x1f",
            "012",
            "1:30",
            "2001-01-01",
            "<<",
            "=",
            "- a",
            "a: b",
            "a #b",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "{a",
            "[a",
            "'a",
            "\"a",
            "true",
            "True",
            ".inf",
            " a",
            "a ",
            "line\nbreak",
            "\n",
            "\n\n ",
            "tab\tin",
            "\u{7}bell",
            "ü",
            "line\nand \u{7f} \u{85} \u{2028} \u{feff}",
            "---",
            "...",
            "? a",
            "| a",
            "> a",
        ] {
            let scalar = to_scalar(text).unwrap();
            assert!(
                !scalar.contains(['\n', '\u{85}', '\u{2028}']),
                "{text:?} → {scalar}"
            );
            let back: Value = from_yaml(&format!("key: {scalar}\n")).unwrap();
            assert_eq!(back, json!({ "key": text }), "{text:?} → {scalar}");
            let listed: Value = from_yaml(&to_yaml(&json!({ text: [text] })).unwrap()).unwrap();
            assert_eq!(listed, json!({ text: [text] }), "{text:?}");
        }
        assert_eq!(to_scalar("on").unwrap(), "\"on\"");
        assert_eq!(to_scalar("1:30").unwrap(), "\"1:30\"");
        assert_eq!(to_scalar("linkerd-gateway").unwrap(), "linkerd-gateway");
    }

    #[test]
    fn long_lines_stay_whole_and_empty_things_stay_what_they_are() {
        let long = "word ".repeat(60) + "end";
        let text =
            to_yaml(&json!({ "a": long, "empty": {}, "list": [], "nothing": null })).unwrap();
        insta::assert_snapshot!(text.replace(&long, "LONG"), @r"
        a: LONG
        empty: {}
        list: []
        nothing: null
        ");
    }

    #[test]
    fn errors_have_a_position_but_no_excerpt() {
        let error = from_yaml::<Value>("token: [s3cret\n")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("s3cret"), "{error}");
        let error = from_yaml::<std::collections::BTreeMap<String, u8>>("token: s3cret")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn streams_are_split_and_empty_documents_left_out() {
        let all = documents("---\na: 1\n---\n# nothing\n---\nb: 2\n").unwrap();
        assert_eq!(all, [json!({ "a": 1 }), json!({ "b": 2 })]);
        assert!(documents("a: 1\na: 2\n").is_err(), "a key twice");
    }
}
