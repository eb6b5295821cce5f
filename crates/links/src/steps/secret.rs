//! Whether an object has what is wanted of it. Pure.

use kube::Resource;
use serde_json::{Value, json};

use mirror_core::api::labels;

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

/// Whether an object has the labels and annotations of the one that is wanted.
pub fn has_metadata_of<K: Resource>(found: &K, wanted: &K) -> bool {
    let metadata = |object: &K| {
        let (labels, annotations) = (&object.meta().labels, &object.meta().annotations);
        json!([
            labels.clone().unwrap_or_default(),
            annotations.clone().unwrap_or_default()
        ])
    };
    covers(&metadata(found), &metadata(wanted))
}
