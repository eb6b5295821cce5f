//! Whether an object has what is wanted of it. The API server adds defaults, and others add fields of their own.

use serde_json::Value;

use super::labels;

/// Whether an object has all that is wanted, except for the version that made it.
pub fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            key == labels::CREATED_BY || found.get(key).is_some_and(|found| covers(found, wanted))
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| covers(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}
