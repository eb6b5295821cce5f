//! The JSON schema of the file, for editors. Made of the same tables and flags as the reader.

use serde_json::{Map, Value, json};

use crate::fleet_file::{
    flags::{FlagShape, LinkFlags},
    keys::{FILE, FileKey, KINDS, KeyShape},
};

/// A DNS label, as the names of clusters are.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/// The schema.
pub fn schema(flags: &LinkFlags) -> Value {
    let mut schema = of_map(flags, FILE);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("A fleet of linkerd-mc: which clusters link to which");
    schema["required"] = json!(["name", "clusters", "links"]);
    schema["properties"]["clusters"]["items"]["oneOf"] = json!([
        { "required": ["name"] },
        { "required": ["contexts"], "properties": { "context": false } },
        { "required": ["clusterProfiles"], "properties": { "context": false } },
    ]);
    let profiles = &mut schema["properties"]["clusters"]["items"]["properties"]["clusterProfiles"];
    profiles["required"] = json!(["context", "namespace"]);
    let kinds = KINDS.map(|kind| json!({ "required": kind.required }));
    schema["properties"]["links"]["items"]["oneOf"] = json!(kinds);
    schema
}

fn of_map(flags: &LinkFlags, keys: &'static [FileKey]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), of_key(flags, key)))
        .collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn of_key(flags: &LinkFlags, key: &FileKey) -> Value {
    let name = json!({ "type": "string", "pattern": LABEL });
    let names = json!({ "type": "array", "items": name, "uniqueItems": true });
    let mut schema = match key.shape {
        KeyShape::Text => json!({ "type": "string" }),
        KeyShape::Bool => json!({ "type": "boolean" }),
        KeyShape::Name | KeyShape::Cluster => name,
        KeyShape::Clusters => json!({ "anyOf": [{ "const": "all" }, names] }),
        KeyShape::Groups => json!({ "type": "object", "additionalProperties": names }),
        KeyShape::Values => json!({ "type": "object" }),
        KeyShape::Map(keys) => of_map(flags, keys),
        KeyShape::List(keys) => json!({ "type": "array", "items": of_map(flags, keys) }),
        KeyShape::Flag => match flags.shape(key.name) {
            FlagShape::Bool => json!({ "type": "boolean" }),
            FlagShape::Number => json!({ "type": "integer", "minimum": 0, "maximum": u16::MAX }),
            FlagShape::Text => json!({ "type": "string" }),
            FlagShape::Words(words) => json!({ "enum": words }),
            FlagShape::List => {
                json!({ "type": ["array", "string"], "items": { "type": "string" } })
            }
        },
    };
    let doc = match key.shape {
        KeyShape::Flag => flags.doc(key.name),
        _ => key.doc.to_owned(),
    };
    schema["description"] = json!(doc);
    schema
}
