//! The main loop: events update the [`State`] and enqueue the keys that they concern, the writes of plans go to the API
//! server, and their results go into the status of Links.
//!
//! One task owns all state, and all other tasks send messages to it. It never waits for the network, so one pass takes
//! microseconds, even when clusters are slow. Plans are executed in separate tasks, in a limited number, and never two
//! for one key. Keys that wait for confirmations of target clusters do not count towards that limit.

mod addresses;
mod confirm;
mod denied;
mod federated;
mod finish;
mod first_lists;
mod foreign;
mod gateways;
mod link_state;
mod links;
mod local;
mod preferences;
mod problems;
mod remote;
mod report;
mod sessions;
mod state;
mod status;
mod stores;
mod wake;
mod work;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use client::timing;
use jiff::Timestamp;
use mirror_core::{budget::Budget, mirror::State};
use tokio::{
    sync::{mpsc, oneshot, watch as latest},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub use self::state::Settings;
use self::{
    addresses::Addresses, confirm::Confirmations, denied::Denied, federated::FederatedSeries,
    first_lists::FirstLists, foreign::Lookups, preferences::Preferences, problems::Problems,
    sessions::Sessions, state::Engine, wake::Timers,
};
use super::{
    admin::{Liveliness, Readiness},
    allowance::{Allowances, Allowed},
    apply::Writer,
    events,
    gateway_tasks::{GatewayEvent, GatewayTasks},
    lease::Fence,
    local::{LocalEvent, Needed},
    metrics::{Cache, LOCAL},
    pace::Paces,
    queue::{ConcurrencyLimit, Queue},
    session,
};

/// Maximum number of messages that wait for the engine. When it is reached, senders wait.
const INBOX: usize = 1024;
/// Maximum number of messages that are handled before the next look at the queue.
const BATCH: usize = 256;
/// Maximum number of Kubernetes Events that wait to be created; more are dropped.
const EVENT_REQUESTS: usize = 256;
/// Maximum time between two passes of the loop, which the liveness probe checks.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// The events of sessions, with the Link and the id of the session.
type SessionEvents = mpsc::Receiver<(String, u64, session::SessionEvent)>;
/// The events of gateways' tasks, with the Link and the id of its watch.
type GatewayEvents = mpsc::UnboundedReceiver<(String, u64, GatewayEvent)>;

/// The channels that the engine receives from.
struct Inbox {
    local: mpsc::Receiver<LocalEvent>,
    remote: SessionEvents,
    signals: GatewayEvents,
    elected: oneshot::Receiver<Fence>,
}

/// The health of the engine, for the admin port.
#[derive(Clone, Default)]
pub struct Health {
    /// Whether all local stores are synced.
    pub ready: Readiness,
    /// When the loop made its last pass.
    pub alive: Liveliness,
}

/// Runs the engine until `stop`. Each pass sets `ready` to whether all local stores are synced, and beats `alive`.
///
/// `local` receives the changes of the local cluster. Fails if its sender or that of `elected` is dropped, if a task
/// panics, or if the lease is lost. When this returns, its writes of objects and statuses have ended or are cancelled.
/// Sessions and the tasks of gateways have only been told to stop.
///
/// Until `elected` receives a fence, the engine is on standby: it watches the local cluster, and does nothing else.
/// Until the local cluster has been listed, it plans nothing. Target clusters are listed meanwhile, once the mirrors of
/// the local cluster are known.
pub async fn run(
    settings: Settings,
    writer: Writer,
    local: LocalInbox,
    elected: oneshot::Receiver<Fence>,
    health: &Health,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let (event_requests, requested) = mpsc::channel(EVENT_REQUESTS);
    let events = tokio::spawn(events::run(writer.client.clone(), requested));
    let (mut engine, remote, signals) = Engine::new(settings, writer, local.needed, event_requests);
    let mut inbox = Inbox {
        local: local.changes,
        remote,
        signals,
        elected,
    };
    let ended = engine.turn(&mut inbox, health, stop).await;
    engine.tasks.shutdown().await;
    events.abort();
    ended
}

/// The channels between the engine and the watches of the local cluster.
pub struct LocalInbox {
    changes: mpsc::Receiver<LocalEvent>,
    /// The optional kinds that have to be watched now.
    pub needed: latest::Sender<Needed>,
}

/// A channel for changes of the local cluster.
pub fn local_channel() -> (mpsc::Sender<LocalEvent>, LocalInbox) {
    let (outbox, changes) = mpsc::channel(INBOX);
    let inbox = LocalInbox {
        changes,
        needed: latest::Sender::default(),
    };
    (outbox, inbox)
}

impl Engine {
    /// An engine on standby that knows nothing yet, and the receivers for the events of its sessions and gateways.
    fn new(
        settings: Settings,
        writer: Writer,
        needed: latest::Sender<Needed>,
        event_requests: mpsc::Sender<events::EventRequest>,
    ) -> (Self, SessionEvents, GatewayEvents) {
        let (outbox, remote) = mpsc::channel(INBOX);
        let (signals, signalled) = mpsc::unbounded_channel();
        let shared = session::Shared {
            pages: settings.pages.clone(),
            bytes: Budget::new(settings.bytes),
            transport: settings.transport.clone(),
            runtime: settings.sessions.clone(),
        };
        let gateways = GatewayTasks {
            outbox: signals,
            transport: settings.transport.clone(),
            started: 0,
        };
        let services = u32::try_from(settings.limits.services).unwrap_or(u32::MAX);
        let queue = Queue::with_slots(settings.max_in_flight);
        let engine = Self {
            state: State {
                config: settings.config.clone(),
                ..State::default()
            },
            first_lists: FirstLists::default(),
            allowances: Allowances::new(settings.writes_each_second, services),
            paces: Paces::new(Instant::now()),
            settings,
            metrics: writer.metrics.clone(),
            gateways,
            writer,
            leading: false,
            queue,
            confirmations: Confirmations::default(),
            creating: BTreeMap::new(),
            links: BTreeMap::new(),
            tasks: JoinSet::new(),
            changed: BTreeMap::new(),
            lookups: Lookups::default(),
            problems: Problems::default(),
            preferences: Preferences::default(),
            federated: FederatedSeries::default(),
            denied: Denied::default(),
            addresses: Addresses::new(Instant::now()),
            throttled_until: Instant::now(),
            sessions: Sessions::new(shared, outbox),
            needed,
            event_requests,
        };
        (engine, remote, signalled)
    }

    async fn turn(
        &mut self,
        inbox: &mut Inbox,
        health: &Health,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let (mut local, mut remote, mut signals) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            health.alive.beat();
            health.ready.set(self.state.local.is_some());
            self.set_time(timing::now());
            if self.works() && self.throttled_until <= Instant::now() {
                self.dispatch();
                self.write_statuses();
                self.look_up_names();
            }
            self.measure();
            let wake = self.next_wake();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                fence = &mut inbox.elected, if !self.leading => {
                    self.on_elected(fence.context("leader election has ended")?);
                }
                Some(done) = self.tasks.join_next() => {
                    let done = done?;
                    if self.on_done(done) {
                        anyhow::bail!("the lease was lost");
                    }
                }
                count = inbox.local.recv_many(&mut local, BATCH) => {
                    anyhow::ensure!(count > 0, "the watches of the local cluster have ended");
                    local.drain(..).for_each(|event| self.on_local_event(event));
                }
                1.. = inbox.remote.recv_many(&mut remote, BATCH) => {
                    for (link, id, event) in remote.drain(..) {
                        self.on_session_event(&link, id, event);
                    }
                }
                1.. = inbox.signals.recv_many(&mut signals, BATCH) => {
                    for (link, id, signal) in signals.drain(..) {
                        self.on_gateway_event(&link, id, signal);
                    }
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Starts to write, to probe gateways, and to watch target clusters.
    fn on_elected(&mut self, fence: Fence) {
        self.writer.fence = fence;
        self.leading = true;
        let names = self.names();
        for name in &names {
            self.take_over(name);
            self.watch_gateway(name);
            self.watch_api_gateway(name);
            self.report_invalid(name);
        }
        self.check_links(&names);
        self.enqueue(self.state.keys());
    }

    /// Starts to process due keys, up to the limit.
    fn dispatch(&mut self) {
        let now = Instant::now();
        let mut next = self.denied.due(now);
        next.extend(self.addresses.due(now));
        self.enqueue(next);
        self.addresses.log(now);
        while self.queue.running() < self.settings.max_in_flight {
            self.enqueue_left_out();
            let all = self.settings.max_in_flight;
            let limit = |by: &str| match self.allowances.of(by, now) {
                Allowed::Added => ConcurrencyLimit::of(all, all.div_ceil(2)),
                Allowed::Much => ConcurrencyLimit::of(all.div_ceil(16), all.div_ceil(16)),
                Allowed::Little => ConcurrencyLimit::of(1, 1),
                Allowed::Nothing => ConcurrencyLimit::NONE,
            };
            let next = self.queue.pop(now, limit);
            let Some(key) = next else {
                break;
            };
            self.work(key);
        }
        self.ask_clusters();
    }

    /// Sets the state's time of day. A cluster whose drain has ended, or whose Link is not new any more, joins federated
    /// Services. A preferred cluster that has been available for long enough receives requests again.
    fn set_time(&mut self, now: Timestamp) {
        let (drained, returned) = self.state.advance(now);
        self.enqueue(returned);
        for (cluster, keys) in drained {
            let link = self.state.link(&cluster);
            let link = link.map(|(target, _)| target.link.clone());
            if let Some(state) = link.and_then(|link| self.links.get_mut(&link)) {
                state.status.mark_dirty();
            }
            self.enqueue_gradually(&cluster, keys);
        }
    }

    /// When [`Self::set_time`] has something to do next: a drain or a hold-down ends, or a new cluster joins.
    fn next_turn(&self, now: Instant) -> Option<Instant> {
        let left = self.state.next_turn()?.duration_since(self.state.now);
        now.checked_add(left.unsigned_abs())
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let statuses = self.links.values().filter_map(|state| state.status.next());
        let allowed = self.allowances.next_allowed(now);
        let timers = Timers {
            now,
            latest: now + LONGEST_SLEEP,
            works: self.works(),
            throttled: self.throttled_until,
            free_slot: self.queue.running() < self.settings.max_in_flight,
            key: [
                self.queue.next_due(),
                self.denied.next_due(),
                self.addresses.next_due(),
                allowed,
            ]
            .into_iter()
            .flatten()
            .min(),
            // Without the lease no status is written, and the process is about to end.
            status: statuses.min().filter(|_| self.writer.fence.holds()),
            lookup: self.lookups.next_due(),
            turn: self.next_turn(now),
        };
        timers.next()
    }

    fn measure(&self) {
        let waiting = self.queue.len() + self.confirmations.len();
        self.metrics.queue_depth(waiting);
        self.metrics.in_flight(self.queue.running());
        let Some(local) = &self.state.local else {
            return;
        };
        for (kind, size) in [
            (Cache::Services, local.mirrors.len()),
            (Cache::Endpoints, local.slices.len()),
            (Cache::Namespaces, local.namespaces.len()),
        ] {
            self.metrics.cache_size(kind, LOCAL, size);
        }
    }
}

#[cfg(test)]
mod tests;
