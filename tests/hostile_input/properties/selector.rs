//! Label selectors, as Links hold them and as people type them.

use std::collections::BTreeMap;

use linkerd_mc::{
    api::{selector::Selector, selector_text::parse_selector},
    mirror::allowed_namespaces,
};
use serde_json::{Map, Value, json};

use super::draw::{Draw, is_one_line};

const KEYS: [&str; 12] = [
    "a", "b", "a.io/x", "in", "notin", "A_b", "a/b/c", "UP.io/a", "-a", "", "a b", "\u{1b}",
];
const VALUES: [&str; 10] = ["x", "y", "", "true", "in", "1.2", "-x", "x,y", "(", "\n"];
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", ""];
const WORDS: [&str; 18] = [
    "a",
    "b",
    "a.io/x",
    "=",
    "==",
    "!=",
    "!",
    " ",
    ",",
    "in",
    "notin",
    "(",
    ")",
    "x",
    "<",
    "a=x",
    " in (x,y)",
    "\n",
];

/// The input is a selector, or the error is one line. A selector matches as Kubernetes's does, and so does its query.
pub fn selector(data: &[u8]) {
    let mut draw = Draw(data);
    if draw.flip() {
        let text = if draw.flip() {
            String::from_utf8_lossy(draw.0).into_owned()
        } else {
            (0..draw.below(16)).map(|_| draw.text(&WORDS)).collect()
        };
        let allowed = allowed_namespaces(&text).map_err(|error| error.to_string());
        if let Err(error) = &allowed {
            is_one_line(error);
        }
        match parse_selector(&text) {
            Err(error) => {
                is_one_line(&error.to_string());
                assert!(allowed.is_err(), "{text:?}");
            }
            Ok(typed) => {
                let kept = Selector::parse(Some(&typed)).expect("a Link takes what a flag takes");
                assert_eq!(allowed.ok(), kept, "{text:?}");
                let empty = text.trim().is_empty();
                assert_eq!(kept.is_none(), empty, "{text:?}");
                judge(&mut draw, &serde_json::to_value(&typed).unwrap());
            }
        }
        return;
    }
    let mut labels = Map::new();
    for _ in 0..draw.below(3) {
        labels.insert(draw.text(&KEYS), draw.text(&VALUES).into());
    }
    let expressions: Vec<Value> = (0..draw.below(4))
        .map(|_| {
            let values: Vec<String> = (0..draw.below(3)).map(|_| draw.text(&VALUES)).collect();
            json!({ "key": draw.text(&KEYS), "operator": draw.text(&OPERATORS), "values": values })
        })
        .collect();
    judge(
        &mut draw,
        &json!({ "matchLabels": labels, "matchExpressions": expressions }),
    );
}

fn judge(draw: &mut Draw<'_>, wire: &Value) {
    let typed = serde_json::from_value(wire.clone()).unwrap();
    let selector = match Selector::parse(Some(&typed)) {
        Err(error) => return is_one_line(&error.to_string()),
        Ok(None) => return,
        Ok(Some(selector)) => selector,
    };
    let query = selector.query();
    let again = parse_selector(&query).expect("a query is a selector");
    let again = Selector::parse(Some(&again)).unwrap().unwrap();
    assert_eq!(again, selector, "{query}");
    assert_eq!(selector.union(&again), Some(again), "{query}");

    let of_interest = keys(wire);
    for _ in 0..4 {
        let mut labels = BTreeMap::new();
        for key in &of_interest {
            if draw.flip() {
                labels.insert(key.clone(), draw.text(&VALUES));
            }
        }
        assert_eq!(
            selector.matches(&labels.iter().collect()),
            selects(wire, &labels),
            "{query} on {labels:?}"
        );
    }
}

fn keys(wire: &Value) -> Vec<String> {
    let labels = wire["matchLabels"].as_object().into_iter().flatten();
    let expressions = wire["matchExpressions"].as_array().into_iter().flatten();
    labels
        .map(|(key, _)| key.clone())
        .chain(expressions.filter_map(|e| Some(e["key"].as_str()?.to_owned())))
        .collect()
}

/// What the API's reference says of a selector with requirements.
fn selects(wire: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = wire["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = wire["matchExpressions"].as_array().into_iter().flatten();
    let mut all_equal =
        equal.map(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    all_equal.all(|met| met)
        && expressions.all(|expression| {
            let value = labels.get(expression["key"].as_str().unwrap());
            let mut values = expression["values"].as_array().into_iter().flatten();
            let listed = value.is_some_and(|value| values.any(|one| one == value.as_str()));
            match expression["operator"].as_str().unwrap() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
}
