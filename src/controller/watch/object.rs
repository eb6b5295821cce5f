//! One object of a watch: the number that identifies it for the limit, and what is kept of it in memory.

use std::sync::Arc;

use kube::Resource;

use super::handler::EventHandler;
use crate::api::metadata::NEVER_KEPT;

/// The number that identifies an object for a limit.
pub(super) fn number(object: &impl Resource, of: impl Fn(&str, &str) -> u64) -> u64 {
    let metadata = object.meta();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    of(namespace, metadata.name.as_deref().unwrap_or_default())
}

/// The form in which an object is kept, which is also used while the rest of its list is still arriving. Managed fields
/// and the annotation with a copy of the whole object are removed: they are not needed, and can be as large as the
/// rest.
pub(super) fn kept<K: Resource, T: From<K>>(
    mut object: K,
    handler: &impl EventHandler<T>,
) -> Arc<T> {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !NEVER_KEPT.contains(&key.as_str()));
    }
    Arc::new(handler.trimmed(object.into()))
}
