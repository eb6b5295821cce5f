//! The events of a watch, the trait for their handlers, and what is kept of an object.

use std::sync::Arc;

use kube::Resource;

use mirror_core::{
    api::metadata::NEVER_KEPT,
    mirror::{Omitted, link_status::ConnectionLoss},
};

/// An event of a watch.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// All objects. Objects that are not in the list do not exist.
    List {
        objects: Vec<Arc<T>>,
        /// The objects that were omitted because of the limit.
        omitted: Omitted,
    },
    /// An object was created or changed; its current state.
    Apply(Arc<T>),
    /// An object was deleted, or is not wanted any more; its last state.
    Delete(Arc<T>),
}

/// The connection status of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// The API server responds.
    Alive,
    /// It does not respond, or with an error.
    Lost(ConnectionLoss),
}

/// The handler of a watch. Its async methods may wait: then the watch waits too, and holds at most one list in memory.
pub trait EventHandler<T>: Send {
    /// Handles an event. Returns `false` if the watch has to end.
    fn on_event(&mut self, change: Event<T>) -> impl Future<Output = bool> + Send;
    /// Handles a change of the connection status.
    fn on_connection(&mut self, connection: ConnectionStatus) -> impl Future<Output = ()> + Send;
    /// Whether this object is wanted, by criteria that no selector can express.
    fn keeps(&self, _: &T) -> bool {
        true
    }
    /// Removes the parts of an object that are not kept.
    fn trimmed(&self, object: T) -> T {
        object
    }
    /// The cost of an object for the limit in bytes, if there is a limit.
    fn cost(&self, _: &T) -> usize {
        0
    }
    /// Namespace and name of the Service that an object is, or belongs to. They name the object if it is omitted.
    fn service(&self, _: &T) -> (String, String) {
        Default::default()
    }
}

/// A handler that is used again after its watch was ended.
impl<T, H: EventHandler<T>> EventHandler<T> for &mut H {
    fn on_event(&mut self, change: Event<T>) -> impl Future<Output = bool> + Send {
        (**self).on_event(change)
    }

    fn on_connection(&mut self, connection: ConnectionStatus) -> impl Future<Output = ()> + Send {
        (**self).on_connection(connection)
    }

    fn keeps(&self, object: &T) -> bool {
        (**self).keeps(object)
    }

    fn trimmed(&self, object: T) -> T {
        (**self).trimmed(object)
    }

    fn cost(&self, object: &T) -> usize {
        (**self).cost(object)
    }

    fn service(&self, object: &T) -> (String, String) {
        (**self).service(object)
    }
}

/// The number that identifies an object for a limit.
pub fn number(object: &impl Resource, of: impl Fn(&str, &str) -> u64) -> u64 {
    let metadata = object.meta();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    of(namespace, metadata.name.as_deref().unwrap_or_default())
}

/// The form in which an object is kept, which is also used while the rest of its list is still arriving. Managed fields
/// and the annotation with a copy of the whole object are removed: they are not needed, and can be as large as the
/// rest.
pub fn kept<K: Resource, T: From<K>>(mut object: K, handler: &impl EventHandler<T>) -> Arc<T> {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !NEVER_KEPT.contains(&key.as_str()));
    }
    Arc::new(handler.trimmed(object.into()))
}
