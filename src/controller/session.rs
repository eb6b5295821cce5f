//! One connection to one target cluster: its client, its watches, its heartbeat.
//!
//! A session only sends events to the engine. A cluster that is dead, slow or hostile delays only its own session.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Api, Client, core::Status};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc, watch as latest},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    transport::Transport,
    watch::{ConnectionStatus, Event, EventHandler, Watched, watch},
};
use crate::{
    api::{
        k8s::{EndpointConditions, EndpointSlice, Service},
        map::Map,
        text::in_brief,
        tls::InsecureTls,
        wire::{StoredObject, Wire},
    },
    budget::Budget,
    client::{
        ResponseLimits, credentials_expiry, insecure_tls,
        requests::{RequestError, within},
    },
    mirror::{
        Indexed, Limit, Limits, Names,
        link_status::{ConnectionLoss, LossCause},
    },
    timing::jitter,
};

/// An event of a session.
pub(super) enum SessionEvent {
    /// The credentials are usable. The cluster may still be unreachable.
    Usable(UsableCredentials),
    /// The credentials are not usable, for this reason.
    Unusable(String),
    /// The connection status of a watch or of the heartbeat, by its number.
    ConnectionStatus(usize, ConnectionStatus),
    /// A change of Services, from the watch of this number.
    Services(usize, Event<Service>),
    /// A change of EndpointSlices, from the watch of this number.
    Slices(usize, Event<EndpointSlice>),
}

/// Credentials from which a client could be made.
pub(super) struct UsableCredentials {
    /// The client.
    pub(super) client: Client,
    /// When the token expires; `None` if it never does.
    pub(super) expires: Option<Timestamp>,
    /// Why the connection is not secure; `None` if it is.
    pub(super) insecure: Option<InsecureTls>,
}

/// The channel for events, with the Link and session that they come from.
pub(super) type Outbox = mpsc::Sender<(String, u64, SessionEvent)>;

/// Number of the heartbeat, for [`SessionEvent::ConnectionStatus`]: after the watches.
pub(super) const HEARTBEAT_SOURCE: usize = usize::MAX;

/// Sends the events of one session.
#[derive(Clone)]
struct Reporter {
    link: String,
    id: u64,
    outbox: Outbox,
}

impl Reporter {
    /// Sends an event. `false` if the receiver was dropped.
    async fn send(&self, report: SessionEvent) -> bool {
        self.outbox
            .send((self.link.clone(), self.id, report))
            .await
            .is_ok()
    }
}

/// Sends the connection status of one source when it changes.
struct Source {
    number: usize,
    /// The last status that was sent: none yet, alive, or lost for a reason.
    last: Option<Result<(), ConnectionLoss>>,
    reporter: Reporter,
}

impl Source {
    fn new(number: usize, reporter: &Reporter) -> Self {
        Self {
            number,
            last: None,
            reporter: reporter.clone(),
        }
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        let now = match &connection {
            ConnectionStatus::Alive => Ok(()),
            ConnectionStatus::Lost(loss) => Err(loss.clone()),
        };
        if self.last.as_ref() != Some(&now) {
            self.last = Some(now);
            self.reporter
                .send(SessionEvent::ConnectionStatus(self.number, connection))
                .await;
        }
    }
}

/// The parameters of a session. A different spec needs a new session.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// Kubeconfig, from the Secret. Never printed.
    pub(super) kubeconfig: Arc<[u8]>,
    /// Where to connect to, if not to the server of the kubeconfig: the Service that leads through the gateway.
    pub(super) address: Option<SocketAddr>,
    /// Label selectors of Services, one watch each.
    pub(super) services: Vec<String>,
    /// Label selectors of EndpointSlices of Services behind the gateway, one watch each.
    pub(super) slices: Vec<String>,
    /// Objects beyond these limits are omitted.
    pub(super) limits: Limits,
}

/// Resources that all sessions share.
#[derive(Clone)]
pub(super) struct Shared {
    /// Limits on the size of API servers' responses.
    pub(super) pages: ResponseLimits,
    /// Budget for the bytes of all objects that are kept.
    pub(super) bytes: Budget,
    /// How target clusters are reached.
    pub(super) transport: Arc<dyn Transport>,
    /// The runtime that they run in.
    pub(super) runtime: Handle,
}

/// A running session.
pub(super) struct Session {
    /// Distinguishes its events from those of an earlier session.
    pub(super) id: u64,
    /// Its parameters.
    pub(super) spec: Spec,
    /// Bytes of the objects that it keeps.
    pub(super) bytes: Budget,
    /// Wakes the heartbeat.
    wake: Arc<Notify>,
    stop: CancellationToken,
}

/// Time between two heartbeats. With [`HEARTBEAT_LIMIT`] and the pings of the client, it limits how long a cluster that
/// stopped responding counts as connected.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time between two heartbeats of a cluster that does not respond, to notice soon when it does.
const LOST_HEARTBEAT: Duration = Duration::from_secs(3);
/// Maximum time between two heartbeats of a cluster that asks for a pause.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(60);
/// Timeout of a heartbeat.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(15);
/// Maximum average number of EndpointSlices per Service in a watch.
const SLICES_PER_SERVICE: usize = 10;

/// The limit of the EndpointSlices in a watch.
pub(super) fn limit_of_slices(limits: Limits) -> Limit {
    Limit::of(limits.services.saturating_mul(SLICES_PER_SERVICE))
}

impl Session {
    /// Starts a session. Its first event is [`SessionEvent::Usable`] or [`SessionEvent::Unusable`]. If there are more
    /// Services than the limit, those in `first` have priority.
    pub(super) fn start(
        link: &str,
        id: u64,
        spec: Spec,
        first: Names,
        shared: &Shared,
        outbox: Outbox,
    ) -> Self {
        let stop = CancellationToken::new();
        let bytes = shared.bytes.part(spec.limits.bytes);
        let (own, shared) = (bytes.clone(), shared.clone());
        let runtime = shared.runtime.clone();
        let (link, work, token) = (link.to_owned(), spec.clone(), stop.clone());
        let wake = Arc::<Notify>::default();
        let woken = wake.clone();
        runtime.spawn(async move {
            let reporter = Reporter { link, id, outbox };
            token
                .run_until_cancelled(Box::pin(run(work, first, (shared, own), reporter, woken)))
                .await;
        });
        Self {
            id,
            spec,
            bytes,
            wake,
            stop,
        }
    }

    /// Sends a heartbeat now, because the cluster can probably be reached again.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Makes the client for the credentials, and reports whether they are usable; `None` if they are not.
async fn connect(spec: &Spec, shared: &Shared, reporter: &Reporter) -> Option<Client> {
    let pages = shared.pages.of_link();
    match shared
        .transport
        .client(&spec.kubeconfig, spec.address, pages)
        .await
    {
        Ok(client) => {
            let usable = UsableCredentials {
                client: client.clone(),
                expires: credentials_expiry(&spec.kubeconfig),
                insecure: insecure_tls(&spec.kubeconfig),
            };
            reporter.send(SessionEvent::Usable(usable)).await;
            Some(client)
        }
        Err(error) => {
            let unusable = SessionEvent::Unusable(error.to_string());
            reporter.send(unusable).await;
            None
        }
    }
}

async fn run(
    spec: Spec,
    first: Names,
    (shared, own): (Shared, Budget),
    reporter: Reporter,
    wake: Arc<Notify>,
) {
    let Some(client) = connect(&spec, &shared, &reporter).await else {
        return;
    };
    let (recovered, seen) = latest::channel(0);
    let limits = spec.limits;
    let services = spec.services.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<Service>>::all(client.clone()))
            .labels(selector)
            .limit(Limit::of(limits.services).within(own.clone()).first(&first))
            .recovered(&seen);
        let handler = Watching {
            index,
            report: SessionEvent::Services,
            service: |service: &Service| service.metadata.id(),
            limits,
            trim: Box::new(move |service: Service| service.trimmed(limits.metadata)),
            source: Source::new(index, &reporter),
        };
        watch(watched, handler)
    });
    let services = pin!(futures::future::join_all(services));
    let slices = spec.slices.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(client.clone()))
            .labels(selector)
            .limit(limit_of_slices(limits).within(own.clone()))
            .recovered(&seen);
        let handler = Watching {
            index,
            report: SessionEvent::Slices,
            service: service_of,
            limits,
            trim: Box::new(bare),
            source: Source::new(spec.services.len() + index, &reporter),
        };
        watch(watched, handler)
    });
    let slices = pin!(futures::future::join_all(slices));
    let beat = pin!(heartbeat(client.clone(), recovered, &reporter, &wake));
    tokio::join!(services, slices, beat);
}

/// Sends the changes of a watch as events of the session.
struct Watching<T> {
    index: usize,
    report: fn(usize, Event<T>) -> SessionEvent,
    service: fn(&T) -> (String, String),
    limits: Limits,
    /// Removes what is not kept of an object.
    trim: Box<dyn Fn(T) -> T + Send + Sync>,
    source: Source,
}

impl<T: StoredObject + Indexed + Send + Sync> EventHandler<T> for Watching<T> {
    async fn on_event(&mut self, change: Event<T>) -> bool {
        self.source
            .reporter
            .send((self.report)(self.index, change))
            .await
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        self.source.on_connection(connection).await;
    }

    fn trimmed(&self, object: T) -> T {
        (self.trim)(object)
    }

    fn cost(&self, object: &T) -> usize {
        self.limits.cost(object)
    }

    fn service(&self, object: &T) -> (String, String) {
        (self.service)(object)
    }
}

/// Requests the API server's version periodically, the cheapest request. Increments `recovered` when a request succeeds
/// after a failure, which ends the pauses of watches. `wake` ends its own pauses, and a request that has no answer yet.
async fn heartbeat(
    client: Client,
    recovered: latest::Sender<u64>,
    reporter: &Reporter,
    wake: &Notify,
) {
    let mut was_well = true;
    loop {
        let answer = tokio::select! {
            answer = within(HEARTBEAT_LIMIT, client.apiserver_version()) => answer,
            () = wake.notified() => continue,
        };
        let is_well = answer.is_ok();
        let (connection, pause) = match answer {
            Ok(_) => (ConnectionStatus::Alive, HEARTBEAT),
            Err(RequestError::Status(status)) => (refused(&status), after_refusal(&status)),
            Err(RequestError::Unanswered(why)) => {
                (ConnectionStatus::Lost(why.into()), LOST_HEARTBEAT)
            }
        };
        if is_well && !was_well {
            recovered.send_modify(|times| *times += 1);
        }
        was_well = is_well;
        // Also without a change, to update the time of the last response.
        if !reporter
            .send(SessionEvent::ConnectionStatus(HEARTBEAT_SOURCE, connection))
            .await
        {
            return;
        }
        tokio::select! {
            () = sleep(pause + jitter(pause / 10)) => {}
            () = wake.notified() => {}
        }
    }
}

/// What an error response means for the connection.
fn refused(status: &Status) -> ConnectionStatus {
    if status.code != 401 {
        // The server is reachable. The watches find out what they may read.
        return ConnectionStatus::Alive;
    }
    // The token was revoked, or has expired. Watches that are open go on for minutes, and all other requests are refused.
    ConnectionStatus::Lost(ConnectionLoss {
        why: format!(
            "the API server refuses the token: {}",
            in_brief(&status.message)
        ),
        cause: LossCause::Token,
    })
}

/// Time until the next heartbeat after an error response. A server that is overloaded or has a problem is asked again
/// soon, unless it asks for a longer pause.
fn after_refusal(status: &Status) -> Duration {
    let wish = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    let wish = Duration::from_secs(wish.into());
    if status.code == 429 || status.code >= 500 {
        wish.clamp(LOST_HEARTBEAT, LONGEST_HEARTBEAT)
    } else {
        HEARTBEAT
    }
}

/// A slice without what is not needed of slices in target clusters: annotations, the Pods of endpoints with their nodes
/// and zones, and conditions other than `ready`.
pub(super) fn bare(mut slice: EndpointSlice) -> EndpointSlice {
    slice.metadata.annotations = Map::default();
    for endpoint in &mut slice.endpoints {
        endpoint.pod = None;
        let EndpointConditions { ready, .. } = endpoint.conditions;
        endpoint.conditions = EndpointConditions {
            ready,
            ..EndpointConditions::default()
        };
    }
    slice
}

/// Namespace and name of the Service that a slice belongs to.
pub(in crate::controller) fn service_of(slice: &EndpointSlice) -> (String, String) {
    let service = slice.group().unwrap_or_default();
    (slice.metadata.namespace().to_owned(), service.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use kube::client::Body;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn heartbeat_that_is_woken_asks_at_once_although_the_last_request_has_no_answer() {
        let asked = Arc::<AtomicUsize>::default();
        let count = asked.clone();
        let never = tower::service_fn(move |_: http::Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        });
        let (recovered, _) = latest::channel(0);
        let (outbox, mut events) = mpsc::channel(1);
        let reporter = Reporter {
            link: "east".to_owned(),
            id: 1,
            outbox,
        };
        let wake = Notify::new();
        let woken = async {
            for expected in 1..5 {
                sleep(Duration::from_millis(1)).await;
                assert_eq!(asked.load(Ordering::Relaxed), expected);
                wake.notify_one();
            }
        };
        tokio::select! {
            () = heartbeat(Client::new(never, "default"), recovered, &reporter, &wake) => {}
            () = woken => {}
        }
        assert!(events.try_recv().is_err(), "no answer, and no failure yet");
    }
}
