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
                ParsedRequirement::Equals(key, value) => {
                    // `a=b,a=c` matches nothing, so both values have to be kept.
                    if match_labels.get(&key).is_some_and(|other| *other != value) {
                        expressions.push(expression(key, "In", vec![value]));
                    } else {
                        match_labels.insert(key, value);
                    }
                }
                ParsedRequirement::Expression(expression) => expressions.push(expression),
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

enum ParsedRequirement {
    Equals(String, String),
    Expression(LabelSelectorRequirement),
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

fn requirement(text: &str) -> Result<ParsedRequirement, SelectorError> {
    if let Some(operator) = text.chars().find(|c| matches!(c, '<' | '>')) {
        return Err(SelectorError::Comparison(operator));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Ok(ParsedRequirement::Expression(expression(
            label_key(name.trim())?,
            "DoesNotExist",
            Vec::new(),
        )));
    }
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '('))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let (name, rest) = (label_key(name)?, rest.trim());
    if rest.is_empty() {
        return Ok(ParsedRequirement::Expression(expression(
            name,
            "Exists",
            Vec::new(),
        )));
    }
    if let Some(text) = rest.strip_prefix("!=") {
        return Ok(ParsedRequirement::Expression(expression(
            name,
            "NotIn",
            vec![label_value(text.trim())?],
        )));
    }
    if let Some(text) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        return Ok(ParsedRequirement::Equals(name, label_value(text.trim())?));
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
        .map(|text| label_value(text.trim()))
        .collect::<Result<_, _>>()?;
    Ok(ParsedRequirement::Expression(expression(
        name, operator, values,
    )))
}

fn expression(key: String, operator: &str, values: Vec<String>) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key,
        operator: operator.to_owned(),
        values: (!values.is_empty()).then_some(values),
    }
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
