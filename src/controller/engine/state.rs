//! All that the engine knows, and how keys are enqueued.

use std::collections::BTreeMap;

use kube::Client;
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::Instant,
};

use super::{
    addresses::Addresses, confirm::Confirmations, creating::Creating, done::Done, foreign::Lookups,
    gateways::GatewayTasks, link_state::LinkState, preferences::Preferences, problems::Problems,
    sessions::Sessions, settings::Settings,
};
use crate::{
    controller::{apply::Writer, events::News, metrics::Metrics, pace::Pace, queue::Queue},
    mirror::{Key, State},
};

/// All state of the controller.
pub(super) struct Engine {
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) metrics: Metrics,
    /// Whether this replica works on keys.
    pub(super) leading: bool,
    pub(super) state: State,
    pub(super) queue: Queue,
    pub(super) pace: Pace,
    pub(super) confirmations: Confirmations,
    pub(super) creating: Creating,
    pub(super) links: BTreeMap<String, LinkState>,
    pub(super) tasks: JoinSet<Done>,
    /// When a change in a target cluster was seen that has not been worked off yet.
    pub(super) changed: BTreeMap<Key, Instant>,
    pub(super) lookups: Lookups,
    pub(super) problems: Problems,
    pub(super) preferences: Preferences,
    pub(super) addresses: Addresses,
    /// Until then the API server wants to be left alone: nothing is written.
    pub(super) throttled_until: Instant,
    pub(super) sessions: Sessions,
    pub(super) gateways: GatewayTasks,
    /// Whether federated Services are made of slices, as sessions know it.
    pub(super) by_slices: bool,
    /// Has the slices of local members watched, from now on.
    pub(super) watch_members: latest::Sender<bool>,
    pub(super) news: mpsc::Sender<News>,
}

impl Engine {
    /// Enqueues keys that a change in this target cluster concerns, and takes the time.
    pub(super) fn enqueue_changed(&mut self, cluster: &str, keys: Vec<Key>) {
        let now = Instant::now();
        for key in &keys {
            self.changed.entry(key.clone()).or_insert(now);
        }
        self.enqueue_all(cluster, keys);
    }

    /// Enqueues all keys of a cluster that something here concerns, or its first list, and adds to its allowance what they may
    /// take.
    pub(super) fn enqueue_gradually(&mut self, cluster: &str, keys: Vec<Key>) {
        self.pace.adds(cluster, keys.len(), Instant::now());
        self.enqueue_all(cluster, keys);
    }

    /// Enqueues keys. `by` is the target cluster that brought it about, or [`LOCAL`](crate::controller::queue::LOCAL). A replica that stands by
    /// enqueues none: all keys are enqueued when it is elected.
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
