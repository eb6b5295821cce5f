//! The state of the engine, and how keys are enqueued.

use std::collections::BTreeMap;

use kube::Client;
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::Instant,
};

use super::{
    addresses::Addresses, confirm::Confirmations, creating::Creating, denied::Denied, done::Done,
    first_lists::FirstLists, foreign::Lookups, gateways::GatewayTasks, link_state::LinkState,
    local_event::Needed, preferences::Preferences, problems::Problems, sessions::Sessions,
    settings::Settings,
};
use crate::{
    controller::{
        apply::Writer, events::News, metrics::Metrics, pace::Pace, queue::Queue, repeats::Repeats,
    },
    mirror::{Key, State},
};

/// The whole state of the controller.
pub(super) struct Engine {
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) metrics: Metrics,
    /// Whether this replica is the leader.
    pub(super) leading: bool,
    pub(super) state: State,
    /// The first lists of the local cluster, until it is in the state.
    pub(super) first_lists: FirstLists,
    pub(super) queue: Queue,
    pub(super) pace: Pace,
    pub(super) repeats: Repeats,
    pub(super) confirmations: Confirmations,
    pub(super) creating: Creating,
    pub(super) links: BTreeMap<String, LinkState>,
    pub(super) tasks: JoinSet<Done>,
    /// When a change in a target cluster was seen, for keys that have not been processed since.
    pub(super) changed: BTreeMap<Key, Instant>,
    pub(super) lookups: Lookups,
    pub(super) problems: Problems,
    pub(super) preferences: Preferences,
    pub(super) addresses: Addresses,
    /// Keys with a write that the API server does not allow.
    pub(super) denied: Denied,
    /// The API server asked for a pause until then: nothing is written.
    pub(super) throttled_until: Instant,
    pub(super) sessions: Sessions,
    pub(super) gateways: GatewayTasks,
    /// Whether federated Services have slices, as the current sessions assume.
    pub(super) by_slices: bool,
    /// Starts the watches that are not always needed.
    pub(super) needed: latest::Sender<Needed>,
    pub(super) news: mpsc::Sender<News>,
}

impl Engine {
    /// Whether this replica processes keys: it is the leader, and has listed its cluster.
    pub(super) fn works(&self) -> bool {
        self.leading && self.state.local.is_some()
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
