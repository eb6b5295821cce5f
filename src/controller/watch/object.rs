//! One object of a watch: how a limit knows it, and how it is kept.

use std::sync::Arc;

use kube::Resource;

use super::handler::EventHandler;
use crate::api::metadata::NEVER_KEPT;

/// The number by which a limit knows an object.
pub(super) fn number(object: &impl Resource, of: impl Fn(&str, &str) -> u64) -> u64 {
    let metadata = object.meta();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    of(namespace, metadata.name.as_deref().unwrap_or_default())
}

/// As it is kept, already while the rest of its list is on its way. Objects that are kept as they come lose what nobody
/// here reads and what can be as large as all the rest: who set which field, and a copy of the whole object.
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
