//! The state of the engine, and how keys are enqueued.

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::Instant,
};

use super::{
    addresses::Addresses, confirm::Confirmations, creating::Creating, done::Done, foreign::Lookups,
    gateways::GatewayEvent, link_state::LinkState, preferences::Preferences, problems::Problems,
    settings::Settings,
};
use crate::{
    controller::{
        apply::Writer, events::News, metrics::Metrics, pace::Pace, queue::Queue, session,
    },
    mirror::{Key, State},
};

/// The whole state of the controller.
pub(super) struct Engine {
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) metrics: Metrics,
    pub(super) leading: bool,
    pub(super) state: State,
    pub(super) queue: Queue,
    pub(super) pace: Pace,
    pub(super) confirmations: Confirmations,
    /// Namespaces that are being created, by the key whose plan creates one.
    pub(super) creating: BTreeMap<Key, Creating>,
    pub(super) links: BTreeMap<String, LinkState>,
    /// Kubeconfigs by name of their Secret; `None` until listed. The value is `None` if the Secret has no kubeconfig.
    pub(super) secrets: Option<BTreeMap<String, Option<Arc<[u8]>>>>,
    pub(super) tasks: JoinSet<Done>,
    /// When a change in a target cluster was seen, for keys that have not been processed since.
    pub(super) changed: BTreeMap<Key, Instant>,
    pub(super) lookups: Lookups,
    pub(super) problems: Problems,
    pub(super) preferences: Preferences,
    pub(super) addresses: Addresses,
    /// The API server asked for a pause until then: nothing is written.
    pub(super) throttled_until: Instant,
    pub(super) sessions: u64,
    pub(super) shared: session::Shared,
    /// Whether federated Services have slices, as the current sessions assume.
    pub(super) by_slices: bool,
    /// Set to true to start the watch of the slices of local members.
    pub(super) watch_members: latest::Sender<bool>,
    pub(super) outbox: session::Outbox,
    pub(super) signals: mpsc::UnboundedSender<(String, u64, GatewayEvent)>,
    pub(super) news: mpsc::Sender<News>,
}

impl Engine {
    /// Whether all objects of the local cluster have been listed.
    pub(super) fn is_complete(&self) -> bool {
        self.state.is_complete() && self.secrets.is_some()
    }

    /// Whether this replica processes keys: it is the leader, and has listed its cluster.
    pub(super) fn works(&self) -> bool {
        self.leading && self.is_complete()
    }

    /// Enqueues keys that a change in this target cluster concerns, and records the time of the change.
    pub(super) fn enqueue_changed(&mut self, cluster: &str, keys: Vec<Key>) {
        let now = Instant::now();
        for key in &keys {
            self.changed.entry(key.clone()).or_insert(now);
        }
        self.enqueue_all(cluster, keys);
    }

    /// Enqueues all keys of a cluster after a local change or its first list, and increases its allowance by the writes
    /// that they may need.
    pub(super) fn enqueue_gradually(&mut self, cluster: &str, keys: Vec<Key>) {
        self.pace.adds(cluster, keys.len(), Instant::now());
        self.enqueue_all(cluster, keys);
    }

    /// Enqueues keys. `by` is the target cluster that caused it, or [`LOCAL`](crate::controller::queue::LOCAL). A
    /// replica on standby enqueues none: all keys are enqueued when it is elected.
    pub(super) fn enqueue_all(&mut self, by: &str, keys: impl IntoIterator<Item = Key>) {
        if !self.leading {
            return;
        }
        keys.into_iter().for_each(|key| self.queue.enqueue(key, by));
    }

    /// The client of the local cluster.
    pub(super) fn client(&self) -> Client {
        self.writer.client.clone()
    }
}
