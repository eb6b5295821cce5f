//! In which versions routes are read and written.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use mirror_core::api::route::RouteKind;

/// The versions in which the API server serves kinds of routes, as far as it was asked. The watch of a kind sets its
/// version before it sends the first event, so before anything is planned that is written in it.
#[derive(Clone, Debug, Default)]
pub struct RouteVersions(Arc<Mutex<BTreeMap<RouteKind, &'static str>>>);

impl RouteVersions {
    /// The version of a kind: the preferred one if the API server was not asked.
    pub fn of(&self, kind: RouteKind) -> &'static str {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&kind).copied().unwrap_or_else(|| kind.version())
    }

    /// Notes the version of a kind.
    pub fn set(&self, kind: RouteKind, version: &'static str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(kind, version);
    }
}
