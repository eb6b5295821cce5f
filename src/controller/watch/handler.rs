//! Who listens to a watch, and what is told.

use std::sync::Arc;

use crate::mirror::{LeftOut, Weight};

/// What a watch tells.
#[derive(Clone, Debug)]
pub(in crate::controller) enum Event<T> {
    /// All objects there are; what is not in it is not there.
    List {
        /// The objects.
        objects: Vec<Arc<T>>,
        /// What was left out because there were more than the limit.
        left_out: LeftOut,
    },
    /// An object is there, in this state.
    Apply(Arc<T>),
    /// An object is no longer there; its last known state.
    Delete(Arc<T>),
}

/// What a watch tells about itself.
#[derive(Clone, Debug)]
pub(in crate::controller) enum ConnectionStatus {
    /// The API server answers.
    Alive,
    /// It does not, or not as it should.
    Lost(String),
}

/// Who listens to a watch. Both calls may wait: a watch whose listener is slow is slow itself, and holds at
/// most one list in memory.
pub(in crate::controller) trait EventHandler<T>: Send {
    /// Takes a change. `false`: nobody listens any more.
    fn on_event(&mut self, change: Event<T>) -> impl Future<Output = bool> + Send;
    /// Takes what became of the connection.
    fn on_connection(&mut self, connection: ConnectionStatus) -> impl Future<Output = ()> + Send;
    /// Whether it wants to know of this object: what no selector can say.
    fn keeps(&self, _: &T) -> bool {
        true
    }
    /// What is held of an object.
    fn trimmed(&self, object: T) -> T {
        object
    }
    /// What an object takes of the limit, where there is one.
    fn weight(&self, _: &T) -> Weight {
        Weight::default()
    }
    /// Namespace and name of the Service that an object is, or belongs to: how it is called when it is left out.
    fn service(&self, _: &T) -> (String, String) {
        Default::default()
    }
}
