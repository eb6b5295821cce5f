//! One connection to one target cluster: its client, its watches, its heartbeat. It ends when it is told to.
//!
//! A session only reports. A cluster that is dead, slow or hostile delays its own session and nothing else.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use kube::{Api, Client, api::ListParams};
use tokio::{
    sync::{mpsc, watch as latest},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    apply::{Answer, request},
    clock::jitter,
    watch::{Change, Contact, Listener, Watched, explain, watch},
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        wire::Wire,
    },
    client::watcher_from_credentials,
};

/// What a session is made of. Another spec needs another session.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// Kubeconfig, from the Secret. Never printed.
    pub(super) kubeconfig: Arc<[u8]>,
    /// Label selectors of Services, one watch each.
    pub(super) services: Vec<String>,
    /// Label selector of EndpointSlices: that of gateway mode.
    pub(super) slices: Option<String>,
    /// Services beyond so many are left out.
    pub(super) limit: usize,
}

/// What a session reports.
pub(super) enum Report {
    /// The credentials are good for a client. Says nothing about the cluster.
    Client(Client),
    /// The credentials are good for nothing.
    Unusable(String),
    /// One of the things that the session does meets the cluster, or trouble.
    Contact(usize, Contact),
    /// A change of Services, from the watch of this number.
    Services(usize, Change<Service>),
    /// A change of EndpointSlices, from the watch of this number.
    Slices(usize, Change<EndpointSlice>),
}

/// Namespaces and names of Services.
pub(super) type Names = BTreeSet<(String, String)>;

/// A running session.
pub(super) struct Session {
    /// Tells its reports from those of a predecessor.
    pub(super) id: u64,
    /// What it was made of.
    pub(super) spec: Spec,
    /// Once the credentials proved usable.
    pub(super) client: Option<Client>,
    stop: CancellationToken,
    custom: latest::Sender<Option<Names>>,
}

/// Reports, with the Link and session that they come from.
pub(super) type Outbox = mpsc::Sender<(String, u64, Report)>;

/// Time between two heartbeats. With [`HEARTBEAT_LIMIT`], and the pings of the client, it bounds how long a
/// cluster that fell silent counts as connected.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time between two heartbeats of a cluster that does not answer: once it does, it is to be known soon.
const LOST_HEARTBEAT: Duration = Duration::from_secs(3);
/// Time that a heartbeat may take.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(15);
/// Time between two looks at the slices of Services without selectors, which no watch can select.
const CUSTOM: Duration = Duration::from_secs(30);
/// Slices of one such Service, at most.
const CUSTOM_SLICES: u32 = 100;
/// EndpointSlices per Service that a watch may hold, on average.
const SLICES_PER_SERVICE: usize = 10;

/// Numbers of what a session does, for [`Report::Contact`]: after the watches.
const HEARTBEAT_SOURCE: usize = usize::MAX;
const CUSTOM_SOURCE: usize = usize::MAX - 1;

/// Index of the store of polled slices, after that of the watch.
pub(super) const POLLED: usize = 1;

impl Session {
    /// Starts a session. Its reports begin with [`Report::Client`] or [`Report::Unusable`].
    pub(super) fn start(link: &str, id: u64, spec: Spec, outbox: Outbox) -> Self {
        let stop = CancellationToken::new();
        let (custom, names) = latest::channel(None);
        let (link, work, token) = (link.to_owned(), spec.clone(), stop.clone());
        tokio::spawn(async move {
            let reporter = Reporter { link, id, outbox };
            token
                .run_until_cancelled(Box::pin(run(work, names, reporter)))
                .await;
        });
        Self {
            id,
            spec,
            client: None,
            stop,
            custom,
        }
    }

    /// Says which exported Services have slices that the watch does not see.
    pub(super) fn poll_slices_of(&self, names: Names) {
        self.custom.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&names);
            *known = Some(names);
            changed
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Clone)]
struct Reporter {
    link: String,
    id: u64,
    outbox: Outbox,
}

impl Reporter {
    async fn tell(&self, report: Report) -> bool {
        self.outbox
            .send((self.link.clone(), self.id, report))
            .await
            .is_ok()
    }
}

async fn run(spec: Spec, names: latest::Receiver<Option<Names>>, reporter: Reporter) {
    let client = match watcher_from_credentials(&spec.kubeconfig).await {
        Ok(client) => client,
        Err(error) => {
            reporter.tell(Report::Unusable(error.to_string())).await;
            return;
        }
    };
    reporter.tell(Report::Client(client.clone())).await;
    let services = spec.services.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<Service>>::all(client.clone()))
            .labels(selector)
            .limit(spec.limit);
        watch(
            watched,
            Watching::new(index, index, Report::Services, &reporter),
        )
    });
    let services = pin!(futures::future::join_all(services));
    let slices = pin!(slices(&client, &spec, &reporter));
    let beat = pin!(heartbeat(client.clone(), &reporter));
    let poll = pin!(poll(client.clone(), names, &reporter));
    tokio::join!(services, slices, beat, poll);
}

async fn slices(client: &Client, spec: &Spec, reporter: &Reporter) {
    let Some(selector) = &spec.slices else {
        let objects = Vec::new();
        reporter
            .tell(Report::Slices(
                0,
                Change::List {
                    objects,
                    more: false,
                },
            ))
            .await;
        return;
    };
    let limit = spec.limit.saturating_mul(SLICES_PER_SERVICE);
    let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(client.clone()))
        .labels(selector)
        .limit(limit);
    watch(
        watched,
        Watching::new(spec.services.len(), 0, Report::Slices, reporter),
    )
    .await;
}

/// Passes changes of the state of one source on, and nothing else.
struct Source {
    number: usize,
    /// What was said last: nothing yet, alive, or lost for a reason.
    last: Option<Result<(), String>>,
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

    async fn contact(&mut self, contact: Contact) {
        let now = match &contact {
            Contact::Alive => Ok(()),
            Contact::Lost(message) => Err(message.clone()),
        };
        if self.last.as_ref() != Some(&now) {
            self.last = Some(now);
            self.reporter
                .tell(Report::Contact(self.number, contact))
                .await;
        }
    }
}

/// A watch whose changes become reports.
struct Watching<T> {
    index: usize,
    report: fn(usize, Change<T>) -> Report,
    source: Source,
}

impl<T> Watching<T> {
    fn new(
        source: usize,
        index: usize,
        report: fn(usize, Change<T>) -> Report,
        reporter: &Reporter,
    ) -> Self {
        Self {
            index,
            report,
            source: Source::new(source, reporter),
        }
    }
}

impl<T: Send + Sync> Listener<T> for Watching<T> {
    async fn tell(&mut self, change: Change<T>) -> bool {
        self.source
            .reporter
            .tell((self.report)(self.index, change))
            .await
    }

    async fn contact(&mut self, contact: Contact) {
        self.source.contact(contact).await;
    }
}

/// Asks the API server for its version, again and again: the cheapest thing that it answers.
async fn heartbeat(client: Client, reporter: &Reporter) {
    loop {
        let contact = match timeout(HEARTBEAT_LIMIT, client.apiserver_version()).await {
            // An answer is an answer, whatever it says: what may be read, the watches find out.
            Ok(Ok(_) | Err(kube::Error::Api(_))) => Contact::Alive,
            Ok(Err(error)) => Contact::Lost(explain(&error)),
            Err(_) => Contact::Lost(format!("no answer within {} s", HEARTBEAT_LIMIT.as_secs())),
        };
        let pause = match contact {
            Contact::Alive => HEARTBEAT,
            Contact::Lost(_) => LOST_HEARTBEAT,
        };
        // Also when nothing changed: it is the time of last contact.
        if !reporter
            .tell(Report::Contact(HEARTBEAT_SOURCE, contact))
            .await
        {
            return;
        }
        sleep(pause + jitter(pause / 10)).await;
    }
}

/// Lists the slices of the Services it is told of, now and then.
async fn poll(client: Client, mut names: latest::Receiver<Option<Names>>, reporter: &Reporter) {
    let mut source = Source::new(CUSTOM_SOURCE, reporter);
    loop {
        let wanted = names.borrow_and_update().clone();
        if let Some(wanted) = wanted {
            match list_slices(&client, &wanted).await {
                Ok(objects) => {
                    let change = Change::List {
                        objects,
                        more: false,
                    };
                    if !reporter.tell(Report::Slices(POLLED, change)).await {
                        return;
                    }
                    if !wanted.is_empty() {
                        source.contact(Contact::Alive).await;
                    }
                }
                Err(message) => source.contact(Contact::Lost(message)).await,
            }
            let nothing_to_poll = wanted.is_empty();
            let again = async {
                if nothing_to_poll {
                    std::future::pending::<()>().await;
                }
                sleep(CUSTOM + jitter(CUSTOM / 10)).await;
            };
            tokio::select! {
                changed = names.changed() => if changed.is_err() { return },
                () = again => {}
            }
        } else if names.changed().await.is_err() {
            return;
        }
    }
}

async fn list_slices(
    client: &Client,
    names: &BTreeSet<(String, String)>,
) -> Result<Vec<Arc<EndpointSlice>>, String> {
    let mut found = Vec::new();
    for (namespace, name) in names {
        let api: Api<Wire<EndpointSlice>> = Api::namespaced(client.clone(), namespace);
        let parameters = ListParams::default()
            .labels(&format!("{}={name}", l::SLICE_SERVICE))
            .limit(CUSTOM_SLICES);
        match request(api.list(&parameters)).await {
            Ok(list) => found.extend(list.items.into_iter().map(|slice| Arc::new(slice.into()))),
            Err(Answer::Status(status)) => return Err(status.message.clone()),
            Err(Answer::None(message)) => return Err(message),
        }
    }
    Ok(found)
}
