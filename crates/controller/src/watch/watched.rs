//! The objects to watch, and whether their API server has recovered.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{ListParams, WatchParams},
};
use tokio::{sync::watch as latest, time::sleep};

use client::{
    requests::{RequestError, within},
    timing::jitter,
};
use mirror_core::mirror::Limit;

/// Time between two requests for `/version`. An outage between two of them goes unnoticed, but then the pauses of
/// watches are still short.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two requests while the server does not answer, or refuses. A server that has just started refuses for
/// some seconds, until it has loaded its RBAC roles.
const LOST_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout of a request.
const LIMIT: Duration = Duration::from_secs(5);

/// Objects of an API, with selectors and a limit.
pub struct Watched<K> {
    pub api: Api<K>,
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// Objects beyond it are omitted.
    pub limit: Limit,
    /// Changes when the server recovers. Then pauses end early.
    pub recovered: Option<latest::Receiver<u64>>,
}

impl<K> Watched<K> {
    /// All objects of an API.
    pub fn all(api: Api<K>) -> Self {
        Self {
            api,
            labels: None,
            fields: None,
            limit: Limit::default(),
            recovered: None,
        }
    }

    /// Only objects that match this label selector.
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// Only objects within this limit.
    pub fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// The parameters of a list.
    pub fn list_params(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    /// The parameters of a watch that ends after this number of seconds.
    pub fn watch_params(&self, seconds: u32) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        }
    }

    /// Pauses end early when this changes.
    pub fn recovered(self, recovered: &latest::Receiver<u64>) -> Self {
        Self {
            recovered: Some(recovered.clone()),
            ..self
        }
    }
}

/// Requests `/version` of an API server periodically, the cheapest request. Increments `recovered` when a request
/// succeeds after a failure, which ends the pauses of watches. Ends when no watch listens any more.
pub async fn notice_recovery(client: Client, recovered: latest::Sender<u64>) {
    let mut was_well = true;
    while !recovered.is_closed() {
        let is_well = within::<_, _, RequestError>(LIMIT, client.apiserver_version())
            .await
            .is_ok();
        if is_well && !was_well {
            recovered.send_modify(|times| *times += 1);
        }
        was_well = is_well;
        let pause = if is_well { INTERVAL } else { LOST_INTERVAL };
        sleep(pause + jitter(pause / 10)).await;
    }
}
