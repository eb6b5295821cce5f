//! What a session reports, and to whom.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;

use super::followed::Chunk;
use crate::{
    api::k8s::{EndpointSlice, Service},
    controller::watch::{ConnectionStatus, Event},
    mirror::target::tls::InsecureTls,
};

/// What a session reports.
pub(in crate::controller) enum SessionEvent {
    /// The credentials are good for a client, until their token expires, if it does; and whether the connection is safe.
    /// Says nothing about the cluster.
    Client(Client, Option<Timestamp>, Option<InsecureTls>),
    /// The credentials are good for nothing.
    Unusable(String),
    /// One of the things that the session does meets the cluster, or trouble.
    ConnectionStatus(usize, ConnectionStatus),
    /// A change of Services, from the watch of this number.
    Services(usize, Event<Service>),
    /// A change of EndpointSlices, from the watch of this number.
    Slices(usize, Event<EndpointSlice>),
    /// A change of slices of Services without a selector, from the watch of these Services. A list says all of each of
    /// them, and nothing of others.
    CustomSlices(Arc<Chunk>, Event<EndpointSlice>),
}

/// Reports, with the Link and session that they come from.
pub(in crate::controller) type Outbox = mpsc::Sender<(String, u64, SessionEvent)>;

/// Number of the heartbeat, for [`SessionEvent::ConnectionStatus`]: after the watches.
pub(in crate::controller) const HEARTBEAT_SOURCE: usize = usize::MAX;

/// Where the reports of one session go.
#[derive(Clone)]
pub(super) struct Reporter {
    pub(super) link: String,
    pub(super) id: u64,
    pub(super) outbox: Outbox,
}

impl Reporter {
    /// Hands a report over. `false`: nobody listens any more.
    pub(super) async fn send(&self, report: SessionEvent) -> bool {
        self.outbox
            .send((self.link.clone(), self.id, report))
            .await
            .is_ok()
    }
}

/// Passes changes of the state of one source on, and nothing else.
pub(super) struct Source {
    number: usize,
    /// What was said last: nothing yet, alive, or lost for a reason.
    last: Option<Result<(), String>>,
    pub(super) reporter: Reporter,
}

impl Source {
    pub(super) fn new(number: usize, reporter: &Reporter) -> Self {
        Self {
            number,
            last: None,
            reporter: reporter.clone(),
        }
    }

    pub(super) async fn on_connection(&mut self, connection: ConnectionStatus) {
        let now = match &connection {
            ConnectionStatus::Alive => Ok(()),
            ConnectionStatus::Lost(message) => Err(message.clone()),
        };
        if self.last.as_ref() != Some(&now) {
            self.last = Some(now);
            self.reporter
                .send(SessionEvent::ConnectionStatus(self.number, connection))
                .await;
        }
    }
}
