//! The settings and the state of the engine, the results of its tasks, and how keys are enqueued.

use std::{collections::BTreeMap, sync::Arc};

use client::ResponseLimits;
use kube::{Client, ResourceExt as _};
use mirror_core::{
    api::{k8s::Service, link::LinkStatus},
    mirror::{Config, Key, Limits, RemoteRef, ServiceOutcome, State},
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::Instant,
};

use super::{
    addresses::Addresses,
    confirm::{Answer, ConfirmationRequest, Confirmations, Precondition},
    denied::Denied,
    federated::FederatedSeries,
    first_lists::FirstLists,
    foreign::Lookups,
    link_state::LinkState,
    preferences::Preferences,
    problems::Problems,
    sessions::Sessions,
};
use crate::{
    allowance::Allowances,
    apply::{Failure, Writer, Written},
    events::{EventKind, EventRequest},
    gateway_tasks::GatewayTasks,
    local::Needed,
    metrics::Metrics,
    pace::{Content, Paces},
    queue::{LOCAL, Queue},
    transport::Transport,
};

/// The settings of the engine.
pub struct Settings {
    /// The settings of the core.
    pub config: Config,
    /// Whether headless Services are mirrored as headless, if a Link does not set this.
    pub headless: bool,
    /// Maximum number of keys that are processed concurrently.
    pub max_in_flight: usize,
    /// Limits on the objects that are kept of each target cluster.
    pub limits: Limits,
    /// Maximum size of the objects that are kept of all target clusters, in bytes.
    pub bytes: usize,
    /// Maximum sustained rate of writes per second for each target cluster.
    pub writes_each_second: u32,
    /// Limits on the size of API servers' responses.
    pub pages: ResponseLimits,
    /// Address at which gateways are probed instead of the probe Service, `host:port`.
    pub probe_address: Option<String>,
    /// How target clusters, gateways and DNS are reached.
    pub transport: Arc<dyn Transport>,
    /// The runtime of the sessions with target clusters. A separate runtime keeps the work on their responses, above
    /// all on large ones, off the engine's thread.
    pub sessions: Handle,
}

/// The whole state of the controller.
pub struct Engine {
    pub settings: Settings,
    pub writer: Writer,
    pub metrics: Metrics,
    /// Whether this replica is the leader.
    pub leading: bool,
    pub state: State,
    /// The first lists of the local cluster, until it is in the state.
    pub first_lists: FirstLists,
    pub queue: Queue,
    pub allowances: Allowances,
    pub paces: Paces,
    pub confirmations: Confirmations,
    /// Namespaces that are being created, with the target clusters whose limits they count towards, by the key whose plan
    /// creates one. They count before the API server has responded, so that the limit is not exceeded.
    pub creating: BTreeMap<Key, (String, String)>,
    pub links: BTreeMap<String, LinkState>,
    pub tasks: JoinSet<Done>,
    /// When a change in a target cluster was seen, for keys that have not been processed since.
    pub changed: BTreeMap<Key, Instant>,
    pub lookups: Lookups,
    pub problems: Problems,
    pub preferences: Preferences,
    pub federated: FederatedSeries,
    pub denied: Denied,
    pub addresses: Addresses,
    /// The API server asked for a pause until then: nothing is written.
    pub throttled_until: Instant,
    pub sessions: Sessions,
    pub gateways: GatewayTasks,
    /// Starts the watches that are not always needed.
    pub needed: latest::Sender<Needed>,
    pub event_requests: mpsc::Sender<EventRequest>,
}

impl Engine {
    /// Whether this replica processes keys: it is the leader, and has listed its cluster.
    pub fn works(&self) -> bool {
        self.leading && self.state.local.is_some()
    }

    /// Enqueues keys that a change in this target cluster concerns, and records the time of the change. If more keys wait
    /// than the cluster may have, new ones are left out: a cluster that creates and deletes Services with other names each
    /// time would fill the memory while it has no allowance.
    pub fn enqueue_changed(&mut self, cluster: &str, keys: Vec<Key>) {
        if !self.leading {
            return;
        }
        let (now, most) = (Instant::now(), self.most_keys());
        for key in keys {
            if self.queue.enqueue_up_to(most, key.clone(), cluster) {
                self.changed.entry(key).or_insert(now);
            }
        }
    }

    /// Number of keys that a target cluster may have: those of its Services, as mirrors and as members of federated
    /// Services, and those of objects that exist.
    fn most_keys(&self) -> usize {
        let local = self.state.local.as_ref();
        2 * self.settings.limits.services + local.map_or(0, |local| local.mirrors.len())
    }

    /// Enqueues all keys of the target clusters of which keys were left out, once no key of them waits any more.
    pub fn enqueue_left_out(&mut self) {
        for cluster in self.queue.drained() {
            let mut keys = self.state.keys_of_cluster(&cluster);
            let link = self.link_of(&cluster);
            if let Some(state) = link.and_then(|link| self.links.get(&link)) {
                // The reports of Services that are gone have to end.
                keys.extend(state.outcomes.keys(&cluster));
            }
            self.enqueue_all(&cluster, keys);
        }
    }

    /// Enqueues all keys of a cluster after a local change or its first list, and increases its allowance by the writes
    /// that they may need. Services that were deleted with its Link may be created again without delay.
    pub fn enqueue_gradually(&mut self, cluster: &str, keys: Vec<Key>) {
        if !keys.is_empty() {
            let now = Instant::now();
            self.allowances.adds(cluster, keys.len(), now);
            self.paces.may_create_again(cluster, now);
        }
        self.enqueue_all(cluster, keys);
    }

    /// Enqueues keys. `by` is the target cluster that caused it, or [`LOCAL`]. A replica on standby enqueues none: all
    /// keys are enqueued when it is elected.
    pub fn enqueue_all(&mut self, by: &str, keys: impl IntoIterator<Item = Key>) {
        if !self.leading {
            return;
        }
        keys.into_iter().for_each(|key| self.queue.enqueue(key, by));
    }

    /// Enqueues keys that no target cluster caused.
    pub fn enqueue(&mut self, keys: impl IntoIterator<Item = Key>) {
        self.enqueue_all(LOCAL, keys);
    }

    /// The name of the Link in charge of a cluster.
    pub fn link_of(&self, cluster: &str) -> Option<String> {
        let (target, _) = self.state.link(cluster)?;
        Some(target.link.clone())
    }

    /// Removes the metrics of a cluster, if no Link names it any more.
    pub fn forget_cluster(&self, cluster: &str) {
        if self.state.link(cluster).is_none() {
            self.metrics.remove_cluster(cluster);
        }
    }

    /// Requests an Event about a Link. If too many are requested, this one is dropped, and only the status reports the
    /// problem.
    pub fn request_event(&self, link: &str, kind: EventKind) {
        let uid = self.links.get(link).and_then(|state| state.link.uid());
        let _ = self.event_requests.try_send(EventRequest {
            link: (self.state.config.namespace.clone(), link.to_owned()),
            link_uid: uid,
            kind,
        });
    }

    /// The client of the local cluster.
    pub fn client(&self) -> Client {
        self.writer.client.clone()
    }
}

/// The result of a task.
pub enum Done {
    /// A plan was executed, or failed.
    Plan {
        key: Key,
        /// The number of Services with a `ClusterIP` that it creates.
        cluster_ips: usize,
        /// What it counts towards the allowance of its cluster.
        cost: usize,
        /// What it writes, to be compared with the next one.
        content: Content,
        report: Vec<ServiceOutcome>,
        /// The removals that it left out, because they are not confirmed.
        lacking: Vec<RemoteRef>,
        written: Vec<Written>,
        ended: Result<(), Failure>,
    },
    /// A Link's status was written, with the status that the API server returned, or the write failed.
    Status {
        link: String,
        uid: Option<String>,
        sent: Box<LinkStatus>,
        ended: Result<Box<LinkStatus>, String>,
    },
    /// A name that belonged to somebody else was looked up.
    LookedUp {
        name: (String, String),
        found: Result<Option<Box<Service>>, Failure>,
    },
    /// A target cluster was asked whether a Service is really not exported.
    Confirmed {
        request: ConfirmationRequest,
        precondition: Box<Precondition>,
        asked: Instant,
        answer: Answer,
    },
}
