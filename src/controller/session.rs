//! One connection to one target cluster: its client, its watches, its heartbeat. It ends when it is told to.
//!
//! A session only reports. A cluster that is dead, slow or hostile delays its own session and nothing else.

mod custom;
mod event;
mod followed;
mod slices;

use std::{pin::pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Api, Client, core::Status};
use tokio::{runtime::Handle, sync::watch as latest, time::sleep};
use tokio_util::sync::CancellationToken;

pub(super) use self::{
    event::{HEARTBEAT_SOURCE, Outbox, SessionEvent},
    followed::{Chunk, Followed},
    slices::service_of,
};
use self::{
    event::{Reporter, Source},
    slices::bare,
};

use super::{
    clock::jitter,
    watch::{ConnectionStatus, Event, EventHandler, Watched, watch},
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        wire::{Kept, Wire},
    },
    client::{
        Size, credentials_expiry, insecure_tls,
        requests::{RequestError, within},
        watcher_from_credentials,
    },
    mirror::{Budget, Grouped, Limit, Limits, Names, Room, Weight, target::tls::InsecureTls},
};

/// What a session is made of. Another spec needs another session.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// Kubeconfig, from the Secret. Never printed.
    pub(super) kubeconfig: Arc<[u8]>,
    /// Label selectors of Services, one watch each.
    pub(super) services: Vec<String>,
    /// Label selectors of EndpointSlices of Services behind the gateway, one watch each.
    pub(super) slices: Vec<String>,
    /// What is beyond these is left out.
    pub(super) limits: Limits,
}

/// What sessions share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// How large the answers of API servers may be.
    pub(super) pages: Size,
    /// Bytes of all that is taken in.
    pub(super) bytes: Budget,
    /// Where they run.
    pub(super) runtime: Handle,
}

/// A running session.
pub(super) struct Session {
    /// Tells its reports from those of a predecessor.
    pub(super) id: u64,
    /// What it was made of.
    pub(super) spec: Spec,
    /// Once the credentials proved usable.
    pub(super) client: Option<Client>,
    /// When the token expires, once that is known, and if it does.
    pub(super) expires: Option<Timestamp>,
    /// Bytes of what it has taken in.
    pub(super) bytes: Budget,
    /// Why the connection is not safe, once that is known, and if it is not.
    pub(super) insecure: Option<InsecureTls>,
    stop: CancellationToken,
    custom: latest::Sender<Followed>,
}

/// Time between two heartbeats. With [`HEARTBEAT_LIMIT`], and the pings of the client, it bounds how long a
/// cluster that fell silent counts as connected.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time between two heartbeats of a cluster that does not answer: once it does, it is to be known soon.
const LOST_HEARTBEAT: Duration = Duration::from_secs(3);
/// Time between two heartbeats, at most, of a cluster that asks to be left alone.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(60);
/// Time that a heartbeat may take.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(15);
/// EndpointSlices per Service that a watch may hold, on average.
const SLICES_PER_SERVICE: usize = 10;

impl Session {
    /// Starts a session. Its reports begin with [`SessionEvent::Client`] or [`SessionEvent::Unusable`].
    /// Where there are more Services than the limit, `first` are taken in first.
    pub(super) fn start(
        link: &str,
        id: u64,
        spec: Spec,
        first: Names,
        shared: &Shared,
        outbox: Outbox,
    ) -> Self {
        let stop = CancellationToken::new();
        let own = Room {
            bytes: shared.bytes.part(spec.limits.bytes),
            hosts: Budget::new(spec.limits.hosts),
        };
        let (bytes, pages) = (own.bytes.clone(), shared.pages.clone());
        let (custom, followed) = latest::channel(Followed::default());
        let (link, work, token) = (link.to_owned(), spec.clone(), stop.clone());
        shared.runtime.spawn(async move {
            let reporter = Reporter { link, id, outbox };
            token
                .run_until_cancelled(Box::pin(run(work, first, followed, (pages, own), reporter)))
                .await;
        });
        Self {
            id,
            spec,
            client: None,
            expires: None,
            bytes,
            insecure: None,
            stop,
            custom,
        }
    }

    /// Changes which Services have their slices followed although no selector finds them.
    pub(super) fn follow(&self, change: impl FnOnce(&mut Followed)) {
        self.custom
            .send_if_modified(|followed| followed.changes(change));
    }

    /// The Services of a watch that have been followed ever since it was started.
    pub(super) fn followed_of(&self, chunk: &Chunk) -> Names {
        self.custom.borrow().still(chunk)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(
    spec: Spec,
    first: Names,
    followed: latest::Receiver<Followed>,
    (pages, own): (Size, Room),
    reporter: Reporter,
) {
    let client = match watcher_from_credentials(&spec.kubeconfig, pages.metered()).await {
        Ok(client) => client,
        Err(error) => {
            reporter
                .send(SessionEvent::Unusable(error.to_string()))
                .await;
            return;
        }
    };
    let expires = credentials_expiry(&spec.kubeconfig);
    let insecure = insecure_tls(&spec.kubeconfig);
    let usable = SessionEvent::Client(client.clone(), expires, insecure);
    reporter.send(usable).await;
    let (recovered, seen) = latest::channel(0);
    let limits = spec.limits;
    let services = spec.services.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<Service>>::all(client.clone()))
            .labels(selector)
            .limit(Limit::of(limits.services).within(own.clone()).first(&first))
            .recovered(seen.clone());
        let service = |service: &Service| service.metadata.id();
        watch(
            watched,
            Watching::new(index, index, SessionEvent::Services, service, &reporter)
                .trimming(move |service: Service| service.trimmed(limits.metadata)),
        )
    });
    let services = pin!(futures::future::join_all(services));
    let most = limits.services.saturating_mul(SLICES_PER_SERVICE);
    let slices = spec.slices.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(client.clone()))
            .labels(selector)
            .limit(Limit::of(most).within(own.clone()))
            .recovered(seen.clone());
        let number = spec.services.len() + index;
        watch(
            watched,
            Watching::new(number, index, SessionEvent::Slices, service_of, &reporter)
                .trimming(bare),
        )
    });
    let slices = pin!(futures::future::join_all(slices));
    let beat = pin!(heartbeat(client.clone(), recovered, &reporter));
    let custom = pin!(custom::run(client.clone(), followed, own, seen, &reporter));
    tokio::join!(services, slices, beat, custom);
}

/// A watch whose changes become reports.
struct Watching<T> {
    index: usize,
    report: fn(usize, Event<T>) -> SessionEvent,
    service: fn(&T) -> (String, String),
    trim: Box<dyn Fn(T) -> T + Send + Sync>,
    source: Source,
}

impl<T> Watching<T> {
    fn new(
        source: usize,
        index: usize,
        report: fn(usize, Event<T>) -> SessionEvent,
        service: fn(&T) -> (String, String),
        reporter: &Reporter,
    ) -> Self {
        Self {
            index,
            report,
            service,
            trim: Box::new(|object| object),
            source: Source::new(source, reporter),
        }
    }

    /// What is held of objects.
    fn trimming(self, trim: impl Fn(T) -> T + Send + Sync + 'static) -> Self {
        Self {
            trim: Box::new(trim),
            ..self
        }
    }
}

impl<T: Kept + Grouped + Send + Sync> EventHandler<T> for Watching<T> {
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

    fn weight(&self, object: &T) -> Weight {
        Weight::of(object)
    }

    fn service(&self, object: &T) -> (String, String) {
        (self.service)(object)
    }
}

/// Asks the API server for its version, again and again: the cheapest thing that it answers. Counts in `recovered` how
/// often it answered as it should after it had not: watches that wait need not wait any longer then.
async fn heartbeat(client: Client, recovered: latest::Sender<u64>, reporter: &Reporter) {
    let mut was_well = true;
    loop {
        let answer = within(HEARTBEAT_LIMIT, client.apiserver_version()).await;
        let is_well = answer.is_ok();
        let (connection, pause) = match answer {
            Ok(_) => (ConnectionStatus::Alive, HEARTBEAT),
            // An answer is an answer, whatever it says: what may be read, the watches find out.
            Err(RequestError::Status(status)) => (ConnectionStatus::Alive, after_refusal(&status)),
            Err(RequestError::Unanswered(why)) => (ConnectionStatus::Lost(why), LOST_HEARTBEAT),
        };
        if is_well && !was_well {
            recovered.send_modify(|times| *times += 1);
        }
        was_well = is_well;
        // Also when nothing changed: it is the time of the last answer.
        if !reporter
            .send(SessionEvent::ConnectionStatus(HEARTBEAT_SOURCE, connection))
            .await
        {
            return;
        }
        sleep(pause + jitter(pause / 10)).await;
    }
}

/// Time until the next heartbeat of a server that refused one: what it asked for, and soon if it is in trouble.
fn after_refusal(status: &Status) -> Duration {
    let wish = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    let wish = Duration::from_secs(wish.into());
    if status.code == 429 || status.code >= 500 {
        wish.clamp(LOST_HEARTBEAT, LONGEST_HEARTBEAT)
    } else {
        HEARTBEAT
    }
}
