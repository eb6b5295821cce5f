//! Whether an object has the metadata that are wanted of it. Pure.

use kube::Resource;
use mirror_core::api::covers::covers;
use serde_json::json;

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
