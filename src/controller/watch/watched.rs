//! The objects to watch.

use kube::{
    Api,
    api::{ListParams, WatchParams},
};
use tokio::sync::watch as latest;

use crate::mirror::Limit;

/// Objects of an API, with selectors and a limit.
pub(in crate::controller) struct Watched<K> {
    pub(in crate::controller) api: Api<K>,
    pub(in crate::controller) labels: Option<String>,
    pub(in crate::controller) fields: Option<String>,
    /// Objects beyond it are omitted.
    pub(in crate::controller) limit: Limit,
    /// Changes when the server recovers. Then pauses end early.
    pub(in crate::controller) recovered: Option<latest::Receiver<u64>>,
}

impl<K> Watched<K> {
    /// All objects of an API.
    pub(in crate::controller) fn all(api: Api<K>) -> Self {
        Self {
            api,
            labels: None,
            fields: None,
            limit: Limit::default(),
            recovered: None,
        }
    }

    /// Only objects that match this label selector.
    pub(in crate::controller) fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// Only objects within this limit.
    pub(in crate::controller) fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// The parameters of a list.
    pub(super) fn list_params(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    /// The parameters of a watch that ends after this number of seconds.
    pub(super) fn watch_params(&self, seconds: u32) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        }
    }

    /// Pauses end early when this changes.
    pub(in crate::controller) fn recovered(self, recovered: &latest::Receiver<u64>) -> Self {
        Self {
            recovered: Some(recovered.clone()),
            ..self
        }
    }
}
