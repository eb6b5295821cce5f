//! Parses label selectors as people type them, such as `app=web,tier in (a, b),!canary`, into a `LabelSelector`.
//!
//! The grammar is that of `kubectl -l`, without `<` and `>`, which a Link cannot hold.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::selector::{Selector, SelectorError, label_key, label_value};

/// Reads a label selector. An empty text is a selector without requirements, which matches nothing in a Link.
pub fn parse_selector(text: &str) -> Result<LabelSelector, SelectorError> {
    let mut match_labels = BTreeMap::new();
    let mut expressions = Vec::new();
    if !text.trim().is_empty() {
        for part in split_requirements(text)? {
            match requirement(part.trim())? {
                // `a=b,a=c` matches nothing, so both values have to be kept.
                (key, Operator::Equals(value))
                    if match_labels.get(&key).is_none_or(|other| *other == value) =>
                {
                    match_labels.insert(key, value);
                }
                (key, operator) => expressions.push(operator.expression(key)),
            }
        }
    }
    Ok(LabelSelector {
        match_labels: (!match_labels.is_empty()).then_some(match_labels),
        match_expressions: (!expressions.is_empty()).then_some(expressions),
    })
}

/// Reads a label selector into one that can be matched, as [`Selector::parse`] does.
pub fn parse(text: &str) -> Result<Option<Selector>, SelectorError> {
    Selector::parse(Some(&parse_selector(text)?))
}

/// An operator with its values.
enum Operator {
    Equals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Operator {
    fn expression(self, key: String) -> LabelSelectorRequirement {
        let (operator, values) = match self {
            Self::Equals(value) => ("In", Some(vec![value])),
            Self::In(values) => ("In", Some(values)),
            Self::NotIn(values) => ("NotIn", Some(values)),
            Self::Exists => ("Exists", None),
            Self::DoesNotExist => ("DoesNotExist", None),
        };
        LabelSelectorRequirement {
            key,
            operator: operator.to_owned(),
            values,
        }
    }
}

/// Splits at the commas that are not inside a list.
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

/// The key of a requirement, and what it requires.
fn requirement(text: &str) -> Result<(String, Operator), SelectorError> {
    if let Some(operator) = text.chars().find(|c| matches!(c, '<' | '>')) {
        return Err(SelectorError::Comparison(operator));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Ok((label_key(name.trim())?, Operator::DoesNotExist));
    }
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '('));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let (key, rest) = (label_key(name)?, rest.trim());
    let operator = if rest.is_empty() {
        Operator::Exists
    } else if let Some(value) = rest.strip_prefix("!=") {
        Operator::NotIn(vec![label_value(value.trim())?])
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        Operator::Equals(label_value(value.trim())?)
    } else {
        let end = rest.find(|c: char| !c.is_alphanumeric());
        let (word, list) = rest.split_at(end.unwrap_or(rest.len()));
        match word {
            "in" => Operator::In(values(word, list)?),
            "notin" => Operator::NotIn(values(word, list)?),
            _ => {
                let found = rest.to_owned();
                return Err(SelectorError::NotAnOperator { key, found });
            }
        }
    };
    Ok((key, operator))
}

/// The values in a list such as `(a, b)`, which follows `operator`.
fn values(operator: &str, list: &str) -> Result<Vec<String>, SelectorError> {
    let list = list.trim().strip_prefix('(');
    let list = list.and_then(|list| list.strip_suffix(')'));
    let list = list.ok_or_else(|| SelectorError::MissingList(operator.to_owned()))?;
    list.split(',')
        .map(|text| label_value(text.trim()))
        .collect()
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
    fn invalid_selectors_are_errors_that_say_why() {
        type E = SelectorError;
        let key = |text: &str| E::Key(text.into());
        for (text, error) in [
            ("a>1", E::Comparison('>')),
            ("a < 1", E::Comparison('<')),
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
}
