//! What a session reports to the engine.

use jiff::Timestamp;
use kube::Client;
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        tls::InsecureTls,
    },
    mirror::link_status::ConnectionLoss,
};
use tokio::sync::mpsc;

use crate::watch::{ConnectionStatus, Event};

/// An event of a session.
pub enum SessionEvent {
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
pub struct UsableCredentials {
    pub client: Client,
    /// When the token expires; `None` if it never does.
    pub expires: Option<Timestamp>,
    /// Why the connection is not secure; `None` if it is.
    pub insecure: Option<InsecureTls>,
}

/// The channel for events, with the Link and session that they come from.
pub type Outbox = mpsc::Sender<(String, u64, SessionEvent)>;

/// Number of the heartbeat, for [`SessionEvent::ConnectionStatus`]: after the watches.
pub const HEARTBEAT_SOURCE: usize = usize::MAX;

/// Sends the events of one session.
#[derive(Clone)]
pub struct Reporter {
    pub link: String,
    pub id: u64,
    pub outbox: Outbox,
}

impl Reporter {
    /// Sends an event. `false` if the receiver was dropped.
    pub async fn send(&self, report: SessionEvent) -> bool {
        self.outbox
            .send((self.link.clone(), self.id, report))
            .await
            .is_ok()
    }
}

/// Sends the connection status of one source when it changes.
pub struct Source {
    number: usize,
    /// The last status that was sent: none yet, alive, or lost for a reason.
    last: Option<Result<(), ConnectionLoss>>,
    pub reporter: Reporter,
}

impl Source {
    pub fn new(number: usize, reporter: &Reporter) -> Self {
        Self {
            number,
            last: None,
            reporter: reporter.clone(),
        }
    }

    pub async fn on_connection(&mut self, connection: ConnectionStatus) {
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
