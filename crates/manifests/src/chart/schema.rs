//! The JSON schema of the chart's values, from the keys of `install`'s values.
//!
//! Helm drops a key that is set to null, so keys with a default are required. The API server and the controller check
//! rules that a pattern cannot express.

use serde_json::{Map, Value, json};

use super::files::doc;
use crate::values::{Kind, OBSOLETE, OUR_LABELS, Replacement, Shape, Values, entries, keys, taken};

const NAME: &str = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?";
const LABEL_KEY: &str =
    "([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const LABEL_VALUE: &str = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?";
const DURATION: &str = "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)";
/// The key that Helm adds to the values of a chart.
const HELMS_OWN: &str = "global";

/// The schema as a file.
pub fn text() -> String {
    serde_json::to_string_pretty(&schema()).unwrap() + "\n"
}

fn schema() -> Value {
    let defaults = json!(Values::default());
    let mut schema = group("Values of linkerd-mc");
    for entry in entries().filter(|entry| matches!(entry.shape, Shape::Group(_))) {
        put(&mut schema, entry.path, group(entry.doc), true);
    }
    for (key, kind) in keys() {
        let default = defaults.pointer(&key.pointer());
        let required = !default.is_none_or(Value::is_null);
        put(
            &mut schema,
            key.path,
            describe(of_kind(kind), doc(key.doc)),
            required,
        );
    }
    for (path, replacement) in &OBSOLETE {
        let (mut value, doc) = match replacement {
            Replacement::Renamed(to) => {
                let (_, kind) = keys().find(|(key, _)| key.path == *to).unwrap();
                let empty = json!({ "enum": [null, "", [], {}] });
                (
                    json!({ "anyOf": [of_kind(kind), empty] }),
                    format!("Deprecated: use {to}"),
                )
            }
            Replacement::NoEffect(why) => (json!({}), format!("No effect: {why}")),
        };
        value["deprecated"] = json!(true);
        put_obsolete(&mut schema, path, &describe(value, &doc));
    }
    schema["properties"][HELMS_OWN] = json!({ "type": "object" });
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema
}

fn group(doc: &str) -> Value {
    describe(
        json!({ "type": "object", "additionalProperties": false, "required": [], "properties": {} }),
        doc,
    )
}

fn describe(mut schema: Value, doc: &str) -> Value {
    schema["description"] = json!(format!("{doc}."));
    schema
}

/// Puts a key into its group.
fn put(root: &mut Value, path: &str, schema: Value, required: bool) {
    let mut at = root;
    let mut rest = path;
    while let Some((group, below)) = rest.split_once('.') {
        at = &mut at["properties"][group];
        rest = below;
    }
    at["properties"][rest] = schema;
    if required {
        at["required"].as_array_mut().unwrap().push(json!(rest));
    }
}

/// Puts an obsolete key into its group. The group may be an obsolete key too, and comes after its keys.
fn put_obsolete(root: &mut Value, path: &str, schema: &Value) {
    let mut at = root;
    for name in path.split('.') {
        let properties = at.as_object_mut().unwrap().entry("properties");
        let properties = properties.or_insert_with(|| json!({}));
        at = properties
            .as_object_mut()
            .unwrap()
            .entry(name)
            .or_insert_with(|| json!({}));
    }
    let fields: Map<String, Value> = schema.as_object().unwrap().clone();
    at.as_object_mut().unwrap().extend(fields);
}

fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}

fn of_kind(kind: Kind) -> Value {
    let number = |min: u32, max: u32| json!({ "type": "integer", "minimum": min, "maximum": max });
    let text = |pattern: &str| json!({ "type": "string", "pattern": whole(pattern) });
    let texts = |pattern: Option<String>| {
        let mut items = json!({ "type": "string" });
        if let Some(pattern) = pattern {
            items["pattern"] = json!(pattern);
        }
        json!({ "type": "array", "items": items })
    };
    let map = |value: Value| {
        json!({
            "type": ["object", "null"],
            "propertyNames": { "pattern": whole(LABEL_KEY) },
            "additionalProperties": value,
        })
    };
    let label = json!({ "type": ["string", "null"], "pattern": whole(LABEL_VALUE) });
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Number(min) => number(min, u32::MAX),
        Kind::Range(min, max) => number(min, max),
        Kind::OptionalNumber => json!({
            "anyOf": [number(0, u32::MAX), { "type": "null" }, text("[0-9]*")],
        }),
        Kind::OptionalId => json!({ "anyOf": [number(1, u32::MAX), text("([1-9][0-9]*)?")] }),
        Kind::Port => number(1, u16::MAX.into()),
        Kind::OptionalPort => json!({ "anyOf": [number(0, u16::MAX.into()), { "type": "null" }] }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Word => json!({ "type": "string", "minLength": 1 }),
        Kind::OptionalAddress => json!({ "type": "string", "pattern": "^[0-9a-fA-F.:]*$" }),
        Kind::Name => text(NAME),
        Kind::OptionalName => text(&format!("({NAME})?")),
        Kind::UrlPath => json!({ "type": "string", "pattern": "^/" }),
        Kind::Duration => text(&format!("[-+]?(0|({DURATION})+)")),
        Kind::Selector => text(&selector()),
        Kind::OneOf(words) => json!({ "enum": words }),
        Kind::Labels => {
            let mut labels = map(label);
            let reserved: Vec<Value> = OUR_LABELS
                .map(|label| json!({ "required": [label] }))
                .into();
            labels["not"] = json!({ "anyOf": reserved });
            labels
        }
        Kind::NodeLabels => map(label),
        Kind::Annotations => map(json!({ "type": ["string", "null"] })),
        Kind::List => texts(None),
        Kind::TextOrList => json!({ "anyOf": [{ "type": "string" }, texts(None)] }),
        Kind::Namespaces => {
            let names = format!(" *({NAME})? *(, *({NAME})? *)*");
            json!({ "anyOf": [text(&names), texts(Some(whole(&format!("({NAME})?")))), { "type": "null" }] })
        }
        Kind::AccountNames => account_names(),
        Kind::Kubernetes(what, _) => of_kubernetes(what),
    }
}

/// Names of accounts, without those that others need.
fn account_names() -> Value {
    let taken: Vec<&str> = taken().collect();
    let in_text = format!("(^|,)\\s*({})\\s*(,|$)", taken.join("|"));
    json!({
        "anyOf": [
            { "type": "string", "not": { "pattern": in_text } },
            { "type": "array", "items": { "type": "string", "not": { "enum": taken } } },
        ],
    })
}

fn of_kubernetes(what: &str) -> Value {
    match what {
        "a list of ports" => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": 65535 } })
        }
        "requests and limits" => {
            let quantities = json!({ "type": "object", "additionalProperties": { "type": ["string", "number"] } });
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": { "limits": quantities, "requests": quantities },
            })
        }
        "a node affinity" => json!({ "type": ["object", "null"] }),
        _ => {
            assert!(what.starts_with("a list of "), "{what}");
            json!({ "type": "array", "items": { "type": "object" } })
        }
    }
}

/// A label selector as `kubectl` reads it, without comparisons of numbers.
fn selector() -> String {
    let values = format!("\\( *{LABEL_VALUE}( *, *{LABEL_VALUE})* *\\)");
    let requirement = format!(
        " *(! *{LABEL_KEY}|{LABEL_KEY}( *(=|==|!=) *{LABEL_VALUE}| +(in|notin) *{values})?) *"
    );
    format!("({requirement}(,{requirement})*)?")
}
