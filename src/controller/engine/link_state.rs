//! The state of one Link in the engine, and how sessions change it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Client, ResourceExt as _};

use super::{gateways::GatewayWatch, status::StatusState};
use crate::{
    api::{conditions::credentials_valid, link::Link},
    controller::{
        metrics::Metrics,
        session::{Session, Spec},
        trouble::{LastLogged, Ration, and_untold},
        watch::ConnectionStatus,
    },
    mirror::{
        Key, LinkEntryMut, RemoteState, State,
        link_status::{Expiry, Outcomes, StatusInputs},
    },
};

/// The state of a Link, except what is in the state of the core.
pub(super) struct LinkState {
    pub(super) link: Arc<Link>,
    /// The cluster that the Link names, or that it named last if it names none any more. Its metrics have series of it.
    pub(super) named: Option<String>,
    pub(super) facts: StatusInputs,
    pub(super) outcomes: Outcomes,
    pub(super) status: StatusState,
    /// The session whose objects are in the core's state.
    pub(super) current: Option<Session>,
    /// A session that is still listing, and that will replace the current one.
    pub(super) pending: Option<Pending>,
    /// Failures of the current session, by source.
    pub(super) failures: BTreeMap<usize, String>,
    /// The last logged reason why the target cluster is not connected.
    told: Option<LastLogged>,
    lines: Ration,
    /// Keys of the first sync that have not been processed yet.
    pub(super) outstanding: BTreeSet<Key>,
    /// Whether the status keeps the Services that it had before this process started: until the first sync is complete.
    /// False once the Link has left its cluster, which this status is about.
    pub(super) carried: bool,
    /// A spec with unusable credentials. It is not tried again unless it changes.
    pub(super) rejected: Option<Spec>,
    /// Resolves and probes the gateway.
    pub(super) watched: Option<GatewayWatch>,
}

/// All that is known of a Link: its state in the engine, and what the core knows. A Link has both or neither.
pub(super) fn record<'a>(
    links: &'a mut BTreeMap<String, LinkState>,
    state: &'a mut State,
    link: &str,
) -> Option<(&'a mut LinkState, LinkEntryMut<'a>)> {
    Some((links.get_mut(link)?, state.links.get_mut(link)?))
}

/// A session whose lists are not complete.
pub(super) struct Pending {
    pub(super) session: Session,
    /// What it has listed.
    pub(super) remote: RemoteState,
    /// Numbers of the watches that have not listed yet: first those of Services, then those of slices.
    pub(super) unlisted: BTreeSet<usize>,
    /// Its failures, by source. They become the Link's when the session is complete.
    pub(super) failures: BTreeMap<usize, String>,
}

impl Pending {
    /// A session that was started, and has not listed anything yet.
    pub(super) fn new(session: Session) -> Self {
        let (services, slices) = (session.spec.services.len(), session.spec.slices.len());
        Self {
            session,
            remote: RemoteState::of_watches(services, slices),
            unlisted: (0..services + slices).collect(),
            failures: BTreeMap::new(),
        }
    }
}

impl LinkState {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            status: StatusState::seeded(&link),
            link,
            named: None,
            facts: StatusInputs::default(),
            outcomes: Outcomes::default(),
            current: None,
            pending: None,
            failures: BTreeMap::new(),
            told: None,
            lines: Ration::default(),
            outstanding: BTreeSet::new(),
            carried: true,
            rejected: None,
            watched: None,
        }
    }

    /// A client of the target cluster.
    pub(super) fn client(&self) -> Option<Client> {
        self.current.as_ref()?.client.clone()
    }

    /// Records that a key was processed. When all keys of the first sync are processed, the Link is synced.
    pub(super) fn processed(&mut self, key: &Key) {
        if !self.facts.settled && self.outstanding.remove(key) && self.outstanding.is_empty() {
            self.facts.settled = true;
            self.status.touch();
            tracing::info!(
                link = self.link.name_any(),
                "synced with the target cluster"
            );
        }
    }

    /// Ends the sessions, and forgets all that is known of the target cluster: the Link names another one now, or is not
    /// in charge of it any more. What remains is what is known of the Link itself.
    pub(super) fn leave_cluster(&mut self) {
        self.current = None;
        self.pending = None;
        self.failures.clear();
        self.told = None;
        self.outstanding.clear();
        self.outcomes = Outcomes::default();
        self.carried = false;
        self.rejected = None;
        self.watched = None;
        self.facts = StatusInputs {
            invalid: self.facts.invalid.take(),
            duplicate_of: self.facts.duplicate_of.take(),
            drain: self.facts.drain.take(),
            ..StatusInputs::default()
        };
    }

    /// Ends the pending session, because its credentials are no longer those of the Link. The current session stays.
    pub(super) fn withdraw(&mut self, metrics: &Metrics) {
        self.pending = None;
        self.rejected = None;
        self.set_held_up(None);
        self.note_credentials(metrics);
    }

    /// Records when the token of the current session expires, and whether its connection is secure. Without a current
    /// session, those of the pending session.
    pub(super) fn note_credentials(&mut self, metrics: &Metrics) {
        let tried = self.pending.as_ref().map(|pending| &pending.session);
        let session = self.current.as_ref().or(tried);
        let insecure = session.and_then(|session| session.insecure);
        let expires = session.and_then(|session| session.expires);
        metrics.credentials_expire(&self.link.name_any(), expires);
        let expiry = expires.map(|at| Expiry {
            at,
            cluster: self.link.spec.target_cluster_name.clone(),
        });
        if (&self.facts.expiry, self.facts.insecure) != (&expiry, insecure) {
            (self.facts.expiry, self.facts.insecure) = (expiry, insecure);
            self.status.touch();
        }
    }

    /// Reports what fails in the pending session, beside a current one. If it has other credentials than the current one,
    /// they may be the cause; otherwise it is what the Link selects now.
    pub(super) fn evaluate_pending(&mut self) {
        let (Some(current), Some(pending)) = (&self.current, &self.pending) else {
            return;
        };
        let trouble = pending.failures.values().next().cloned();
        if pending.session.spec.kubeconfig == current.spec.kubeconfig {
            self.set_held_up(trouble);
        } else if let Some(message) = trouble {
            let what =
                format!("the new credentials do not work, still using the old ones: {message}");
            self.set_credentials(Some(Err((credentials_valid::CREDENTIALS_FAIL, what))));
        }
    }

    /// Updates why a change of the Link is not in effect.
    pub(super) fn set_held_up(&mut self, now: Option<String>) {
        if self.facts.held_up == now {
            return;
        }
        if let (None, Some(why)) = (&self.facts.held_up, &now) {
            let link = self.link.name_any();
            tracing::warn!(link, "the change of the Link is not in effect yet: {why}");
        }
        self.facts.held_up = now;
        self.status.touch();
    }

    /// Updates the state of the credentials.
    pub(super) fn set_credentials(&mut self, now: Option<Result<(), (&'static str, String)>>) {
        if self.facts.credentials != now {
            self.facts.credentials = now;
            self.status.touch();
        }
    }

    /// Records the connection status of one source, and updates whether the cluster is connected. Returns whether the
    /// cluster is connected again after a failure.
    pub(super) fn set_connection(&mut self, source: usize, connection: ConnectionStatus) -> bool {
        note(&mut self.failures, source, connection);
        self.evaluate_connection()
    }

    /// Takes over the failures of a session that is complete.
    pub(super) fn take_failures(&mut self, failures: BTreeMap<usize, String>) {
        self.failures = failures;
        self.evaluate_connection();
    }

    fn evaluate_connection(&mut self) -> bool {
        let now = match self.failures.values().next() {
            None => Ok(()),
            Some(message) => Err(message.clone()),
        };
        let again = now.is_ok() && matches!(self.facts.connected, Some(Err(_)));
        if self.facts.connected.as_ref() != Some(&now) {
            self.log_connection(&now);
            self.facts.connected = Some(now);
            self.status.touch();
        }
        again
    }

    /// Logs a change of whether the cluster is connected. While it is not, the reason may differ with each try.
    fn log_connection(&mut self, now: &Result<(), String>) {
        let link = self.link.name_any();
        let untold = match (now, &mut self.told) {
            (Err(why), Some(told)) => told.again(why),
            _ => Some(0),
        };
        let Some(untold) = untold else {
            return;
        };
        let left_out = self.lines.take();
        match (now, left_out) {
            (Ok(()), Some(n)) => tracing::info!(link, "connected{}", and_untold(0, n)),
            (Err(why), Some(n)) => {
                tracing::warn!(link, "not connected: {why}{}", and_untold(untold, n));
            }
            (_, None) => {}
        }
        self.told = now.as_ref().err().map(|why| LastLogged::new(why));
    }
}

/// Records the connection status of one source.
pub(super) fn note(
    failures: &mut BTreeMap<usize, String>,
    source: usize,
    connection: ConnectionStatus,
) {
    match connection {
        ConnectionStatus::Alive => failures.remove(&source),
        ConnectionStatus::Lost(message) => failures.insert(source, message),
    };
}
