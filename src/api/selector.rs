//! Parses label selectors such as `app=web,tier in (a, b),!canary`.
//!
//! The grammar is that of `kubectl -l`, without `<` and `>`, which a Link cannot hold.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Maximum lengths of a label's name and value, and of the prefix of a key.
const MAX_NAME: usize = 63;
const MAX_PREFIX: usize = 253;

/// Why a label selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An invalid key.
    #[error("invalid label key {0:?}")]
    Key(String),
    /// An invalid value.
    #[error("invalid label value {0:?} (up to 63 letters, digits, '-', '_' and '.')")]
    Value(String),
    /// `<` or `>`.
    #[error(
        "operator {0:?} is not supported in a Link (supported: =, ==, !=, in, notin, key, !key)"
    )]
    Operator(char),
    /// An unknown operator.
    #[error("unknown operator {found:?} after key {key:?} (supported: =, ==, !=, in, notin)")]
    NotAnOperator {
        /// The key before it.
        key: String,
        /// The text in place of an operator.
        found: String,
    },
    /// `in` or `notin` without its list.
    #[error("{0:?} requires a list of values, such as: key {0} (a, b)")]
    MissingList(String),
    /// An opening parenthesis without its closing one.
    #[error("missing closing parenthesis")]
    Unclosed,
    /// A comma with nothing before or after it.
    #[error("missing requirement before or after a comma")]
    Missing,
}

/// Reads a label selector. An empty text is a selector without requirements, which matches nothing in a Link.
pub fn parse_selector(text: &str) -> Result<LabelSelector, SelectorError> {
    let mut match_labels = BTreeMap::new();
    let mut expressions = Vec::new();
    if !text.trim().is_empty() {
        for part in split_requirements(text)? {
            match requirement(part.trim())? {
                Requirement::Equals(key, value) => {
                    // A key with two values matches nothing, so both are kept.
                    if match_labels.get(&key).is_some_and(|other| *other != value) {
                        expressions.push(expression(key, "In", vec![value]));
                    } else {
                        match_labels.insert(key, value);
                    }
                }
                Requirement::Expression(expression) => expressions.push(expression),
            }
        }
    }
    Ok(LabelSelector {
        match_labels: (!match_labels.is_empty()).then_some(match_labels),
        match_expressions: (!expressions.is_empty()).then_some(expressions),
    })
}

enum Requirement {
    Equals(String, String),
    Expression(LabelSelectorRequirement),
}

/// Splits at the commas that are not inside of a list.
fn split_requirements(text: &str) -> Result<Vec<&str>, SelectorError> {
    let (mut parts, mut start, mut in_list) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' => in_list = true,
            ')' => in_list = false,
            ',' if !in_list => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => (),
        }
    }
    if in_list {
        return Err(SelectorError::Unclosed);
    }
    parts.push(&text[start..]);
    if parts.iter().any(|part| part.trim().is_empty()) {
        return Err(SelectorError::Missing);
    }
    Ok(parts)
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    if let Some(operator) = text.chars().find(|c| matches!(c, '<' | '>')) {
        return Err(SelectorError::Operator(operator));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Ok(Requirement::Expression(expression(
            key(name.trim())?,
            "DoesNotExist",
            Vec::new(),
        )));
    }
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '('))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let (name, rest) = (key(name)?, rest.trim());
    if rest.is_empty() {
        return Ok(Requirement::Expression(expression(
            name,
            "Exists",
            Vec::new(),
        )));
    }
    if let Some(text) = rest.strip_prefix("!=") {
        return Ok(Requirement::Expression(expression(
            name,
            "NotIn",
            vec![value(text.trim())?],
        )));
    }
    if let Some(text) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        return Ok(Requirement::Equals(name, value(text.trim())?));
    }
    let word_end = rest
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(rest.len());
    let (word, list) = rest.split_at(word_end);
    let operator = match word {
        "in" => "In",
        "notin" => "NotIn",
        _ => {
            return Err(SelectorError::NotAnOperator {
                key: name,
                found: rest.to_owned(),
            });
        }
    };
    let values = list
        .trim()
        .strip_prefix('(')
        .and_then(|list| list.strip_suffix(')'))
        .ok_or_else(|| SelectorError::MissingList(word.to_owned()))?
        .split(',')
        .map(|text| value(text.trim()))
        .collect::<Result<_, _>>()?;
    Ok(Requirement::Expression(expression(name, operator, values)))
}

fn expression(key: String, operator: &str, values: Vec<String>) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key,
        operator: operator.to_owned(),
        values: (!values.is_empty()).then_some(values),
    }
}

fn key(text: &str) -> Result<String, SelectorError> {
    if is_label_key(text) {
        Ok(text.to_owned())
    } else {
        Err(SelectorError::Key(text.to_owned()))
    }
}

fn value(text: &str) -> Result<String, SelectorError> {
    if is_label_value(text) {
        Ok(text.to_owned())
    } else {
        Err(SelectorError::Value(text.to_owned()))
    }
}

/// Whether `text` is a valid key of a label or annotation.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    !name.is_empty()
        && is_label_value(name)
        && prefix.is_none_or(|prefix| {
            prefix.len() <= MAX_PREFIX && prefix.split('.').all(is_dns_label_of_any_length)
        })
}

/// Whether `text` is a valid value of a label.
pub fn is_label_value(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= MAX_NAME
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether `text` is a DNS label: up to 63 lowercase letters, digits and `-`, starting and ending with a letter or digit.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_NAME && is_dns_label_of_any_length(text)
}

fn is_dns_label_of_any_length(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-');
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        for (text, expected) in [
            ("", json!({})),
            ("  ", json!({})),
            ("a=b", json!({ "matchLabels": { "a": "b" } })),
            ("a==b", json!({ "matchLabels": { "a": "b" } })),
            (" a = b ", json!({ "matchLabels": { "a": "b" } })),
            ("a=", json!({ "matchLabels": { "a": "" } })),
            (
                "mirror.linkerd.io/exported=true,x=y",
                json!({ "matchLabels": { "mirror.linkerd.io/exported": "true", "x": "y" } }),
            ),
            (
                "a=b,a=c",
                json!({
                    "matchLabels": { "a": "b" },
                    "matchExpressions": [{ "key": "a", "operator": "In", "values": ["c"] }],
                }),
            ),
            (
                "a!=b",
                json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": ["b"] }] }),
            ),
            (
                "a in (b, c),d notin(e)",
                json!({ "matchExpressions": [
                    { "key": "a", "operator": "In", "values": ["b", "c"] },
                    { "key": "d", "operator": "NotIn", "values": ["e"] },
                ] }),
            ),
            (
                "a,!b",
                json!({ "matchExpressions": [
                    { "key": "a", "operator": "Exists" },
                    { "key": "b", "operator": "DoesNotExist" },
                ] }),
            ),
            (
                "in in (notin)",
                json!({ "matchExpressions": [{ "key": "in", "operator": "In", "values": ["notin"] }] }),
            ),
        ] {
            let selector = parse_selector(text).unwrap();
            assert_eq!(
                serde_json::to_value(selector).unwrap(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_no_selector_says_why() {
        type E = SelectorError;
        let key = |text: &str| E::Key(text.into());
        for (text, error) in [
            ("a>1", E::Operator('>')),
            ("a < 1", E::Operator('<')),
            (",", E::Missing),
            ("a=b,", E::Missing),
            ("=b", key("")),
            ("!", key("")),
            (
                "a b",
                E::NotAnOperator {
                    key: "a".into(),
                    found: "b".into(),
                },
            ),
            ("a in b", E::MissingList("in".into())),
            ("a in", E::MissingList("in".into())),
            ("a in (b", E::Unclosed),
            ("-a=b", key("-a")),
            ("a/b/c=d", key("a/b/c")),
            ("/a=d", key("/a")),
            ("Up.er/a=d", key("Up.er/a")),
            ("a=b c", E::Value("b c".into())),
            ("a=b!", E::Value("b!".into())),
            ("a===b", E::Value("=b".into())),
            ("a in (b c)", E::Value("b c".into())),
        ] {
            assert_eq!(parse_selector(text), Err(error), "{text:?}");
        }
        let long = "v".repeat(64);
        assert_eq!(parse_selector(&format!("a={long}")), Err(E::Value(long)));
    }

    #[test]
    fn dns_labels_are_told_from_the_rest() {
        for good in ["a", "east", "east-1", "1", &"a".repeat(63)] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "East", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
