//! The state of one Link in the engine, with its sessions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Client, ResourceExt as _};
use mirror_core::{
    api::{conditions::credentials_valid, link::Link},
    mirror::{
        Key, LinkEntryMut, RemoteState, State,
        link_status::{ConnectionLoss, Outcomes},
    },
};

use super::{sessions::CredentialsProblem, status::StatusState};
use crate::{
    gateway_tasks::GatewayWatch,
    metrics::{Metrics, ResourceKind},
    session::{HEARTBEAT_SOURCE, Session, Spec, UsableCredentials},
    trouble::{FailureLog, LogLimit, suppressed},
    watch::ConnectionStatus,
};

/// The state of a Link, except what is in the state of the core.
pub struct LinkState {
    pub link: Arc<Link>,
    /// The cluster that the Link names, or if it names none now, the last one that it named. There may be metrics with
    /// this name.
    pub named: Option<String>,
    /// The older Link that has the target cluster, if there is one. Then this one does nothing.
    pub duplicate_of: Option<String>,
    /// Whether it was logged that the target cluster is drained.
    pub is_drained: bool,
    pub outcomes: Outcomes,
    pub status: StatusState,
    /// The session whose objects are in the core's state.
    pub current: Option<TargetSession>,
    /// A session that is still listing, and that will replace the current one.
    pub next: Option<TargetSession>,
    /// A spec with unusable credentials, and the reason. It is not tried again unless it changes.
    pub rejected: Option<(Spec, String)>,
    /// Why the Link has no session, or goes on with one that it should not have any more, if that is because the Service
    /// that leads to its API server does not exist.
    pub no_service: Option<ConnectionLoss>,
    /// Why the target cluster is not connected, as it was logged.
    failure: FailureLog,
    log_limit: LogLimit,
    /// Keys of the first sync that have not been processed yet; `None` before the target cluster has been listed.
    pub first_sync: Option<BTreeSet<Key>>,
    /// Keys of later changes of the Link, or of what it selects, that have not been processed yet.
    pub changing: BTreeSet<Key>,
    /// The last generation of the Link of which everything is in effect.
    pub effective: Option<i64>,
    /// Whether the status keeps the Services that it had before this process started: until the first sync is complete.
    /// False once the Link has left its cluster, which this status is about.
    pub keeps_reports: bool,
    /// Resolves and probes the gateway.
    pub gateway: Option<GatewayWatch>,
    /// Resolves the gateway through which the API server is reached.
    pub api_gateway: Option<GatewayWatch>,
}

/// All that is known of a Link: its state in the engine, and what the core knows. A Link has both or neither.
pub fn record<'a>(
    links: &'a mut BTreeMap<String, LinkState>,
    state: &'a mut State,
    link: &str,
) -> Option<(&'a mut LinkState, LinkEntryMut<'a>)> {
    Some((links.get_mut(link)?, state.links.get_mut(link)?))
}

/// A session, and what it has reported.
pub struct TargetSession {
    pub session: Session,
    /// The credentials; `None` until they have proved usable.
    pub credentials: Option<UsableCredentials>,
    /// What it has listed, until that is in the core's state.
    pub remote: RemoteState,
    /// The watches that have not listed yet, by kind and number.
    pub unlisted: BTreeSet<(ResourceKind, usize)>,
    /// The connection status of each source.
    pub connections: BTreeMap<usize, ConnectionStatus>,
}

impl TargetSession {
    /// A session that was just started.
    pub fn new(session: Session) -> Self {
        let (services, slices) = (session.spec.services.len(), session.spec.slices.len());
        let watches = |kind, count| (0..count).map(move |number| (kind, number));
        let services_first = watches(ResourceKind::Service, services);
        Self {
            session,
            credentials: None,
            remote: RemoteState::of_watches(services, slices),
            unlisted: services_first
                .chain(watches(ResourceKind::EndpointSlice, slices))
                .collect(),
            connections: BTreeMap::new(),
        }
    }

    /// Whether the cluster answers, or the first error; `None` before the first answer or failure.
    fn connected(&self) -> Option<Result<(), ConnectionLoss>> {
        let losses = self.connections.values().filter_map(|status| match status {
            ConnectionStatus::Lost(loss) => Some(loss),
            ConnectionStatus::Alive => None,
        });
        let lost = ConnectionLoss::most_specific(losses).cloned().map(Err);
        let has_answered = !self.connections.is_empty() || self.unlisted.is_empty();
        match lost {
            None if has_answered => Some(Ok(())),
            lost => lost,
        }
    }

    /// The kind of objects that a source watches; `None` for the heartbeat.
    pub fn kind_of(&self, source: usize) -> Option<ResourceKind> {
        match source {
            HEARTBEAT_SOURCE => None,
            number if number < self.session.spec.services.len() => Some(ResourceKind::Service),
            _ => Some(ResourceKind::EndpointSlice),
        }
    }
}

impl LinkState {
    pub fn new(link: Arc<Link>) -> Self {
        Self {
            status: StatusState::seeded(&link),
            effective: link
                .status
                .as_ref()
                .and_then(|status| status.observed_generation),
            link,
            named: None,
            duplicate_of: None,
            is_drained: false,
            outcomes: Outcomes::default(),
            current: None,
            next: None,
            rejected: None,
            no_service: None,
            failure: FailureLog::default(),
            log_limit: LogLimit::default(),
            first_sync: None,
            changing: BTreeSet::new(),
            keeps_reports: true,
            gateway: None,
            api_gateway: None,
        }
    }

    /// The session with this id, unless it was replaced.
    pub fn session(&mut self, id: u64) -> Option<&mut TargetSession> {
        let mut sessions = self.current.iter_mut().chain(&mut self.next);
        sessions.find(|known| known.session.id == id)
    }

    /// The credentials of the current session. Before the first one, those of the next.
    pub fn credentials_in_use(&self) -> Option<&UsableCredentials> {
        let session = self.current.as_ref().or(self.next.as_ref());
        session?.credentials.as_ref()
    }

    /// A client of the target cluster.
    pub fn client(&self) -> Option<Client> {
        let credentials = self.current.as_ref()?.credentials.as_ref();
        credentials.map(|credentials| credentials.client.clone())
    }

    /// Whether the target cluster answers; `None` before the first answer or failure.
    pub fn connected(&self) -> Option<Result<(), ConnectionLoss>> {
        let session = self.current.as_ref().or(self.next.as_ref());
        let without = || self.no_service.clone().map(Err);
        session.map_or_else(without, TargetSession::connected)
    }

    /// Why the next session fails while there is a current one, and whether their credentials differ. If they do, the
    /// new credentials may be the cause. If not, it is a change of what the Link selects.
    fn next_failure(&self) -> Option<(bool, String)> {
        let (current, next) = (self.current.as_ref()?, self.next.as_ref()?);
        let is_changed = next.session.spec.kubeconfig != current.session.spec.kubeconfig;
        Some((is_changed, next.connected()?.err()?.why))
    }

    /// Why a change of the Link is not in effect.
    pub fn held_up(&self) -> Option<String> {
        let failing = self.next_failure().filter(|(is_changed, _)| !is_changed);
        let missing = || {
            self.current.as_ref()?;
            Some(self.no_service.as_ref()?.why.clone())
        };
        failing.map(|(_, why)| why).or_else(missing)
    }

    /// Whether the credentials can be used; `None` before they were tried. `missing`: why there are none.
    pub fn credentials(
        &self,
        missing: Option<CredentialsProblem>,
    ) -> Option<Result<(), CredentialsProblem>> {
        let unusable = || {
            let (_, why) = self.rejected.clone()?;
            Some((credentials_valid::CREDENTIALS_UNUSABLE, why))
        };
        let failing = || {
            let (_, why) = self.next_failure().filter(|(is_changed, _)| *is_changed)?;
            let what = format!("the new credentials do not work, still using the old ones: {why}");
            Some((credentials_valid::CREDENTIALS_FAIL, what))
        };
        let problem = missing.or_else(unusable).or_else(failing);
        let usable = self.credentials_in_use().map(|_| Ok(()));
        problem.map(Err).or(usable)
    }

    /// Changes the sessions, and logs what this changes about the connection. Returns whether the cluster is connected
    /// again after a failure.
    pub fn change_sessions(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let (before, was_held_up) = (self.connected(), self.held_up().is_some());
        change(self);
        self.status.mark_dirty();
        let now = self.connected();
        if let Some(now) = now.as_ref().filter(|_| now != before) {
            self.log_connection(now);
        }
        if let Some(why) = self.held_up().filter(|_| !was_held_up) {
            let link = self.link.name_any();
            tracing::warn!(link, "the change of the Link is not in effect yet: {why}");
        }
        matches!((before, now), (Some(Err(_)), Some(Ok(()))))
    }

    /// Logs whether the cluster is connected. While it is not, the reason may differ with each try.
    fn log_connection(&mut self, now: &Result<(), ConnectionLoss>) {
        let link = self.link.name_any();
        let repeats = match now {
            Ok(()) => {
                self.failure.recovered();
                Some(0)
            }
            Err(loss) => self.failure.failed(&loss.why),
        };
        let Some((repeats, lines)) = repeats.and_then(|n| Some((n, self.log_limit.take()?))) else {
            return;
        };
        let suppressed = suppressed(repeats, lines);
        match now {
            Ok(()) => tracing::info!(link, "connected{suppressed}"),
            Err(why) => tracing::warn!(link, "not connected: {why}{suppressed}"),
        }
    }

    /// Ends the next session, and does not reject its spec any more.
    pub fn withdraw(&mut self, metrics: &Metrics) {
        (self.next, self.rejected) = (None, None);
        self.status.mark_dirty();
        self.measure_credentials(metrics);
    }

    /// Updates the metric of when the token in use expires.
    pub fn measure_credentials(&self, metrics: &Metrics) {
        let credentials = self.credentials_in_use();
        let expires = credentials.and_then(|credentials| credentials.expires);
        metrics.credentials_expire(&self.link.name_any(), expires);
    }

    /// Whether all keys of the first sync have been processed.
    pub fn is_synced(&self) -> bool {
        self.first_sync.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Records that keys have to be processed: those of the first sync, or of a later change.
    pub fn changes(&mut self, keys: &[Key], cluster: &str) {
        let own = |key: &&Key| !matches!(key, Key::Mirror { cluster: of, .. } if of != cluster);
        let keys = keys.iter().filter(own).cloned();
        if self.is_synced() {
            self.changing.extend(keys);
        } else {
            self.first_sync = Some(keys.collect());
        }
        self.status.mark_dirty();
    }

    /// Whether everything that the Link says is in effect. Records its generation if so.
    pub fn is_in_effect(&mut self) -> bool {
        let is = self.is_synced() && self.next.is_none() && self.changing.is_empty();
        if is {
            self.effective = self.link.metadata.generation;
        }
        is
    }

    /// Records that a key was processed. When all keys of the first sync are processed, the Link is synced.
    pub fn processed(&mut self, key: &Key) {
        if self.changing.remove(key) && self.changing.is_empty() {
            self.status.mark_dirty();
        }
        let missing = self.first_sync.as_mut();
        if missing.is_some_and(|missing| missing.remove(key)) && self.is_synced() {
            self.status.mark_dirty();
            tracing::info!(
                link = self.link.name_any(),
                "synced with the target cluster"
            );
        }
    }

    /// Ends the sessions, and forgets all that is known of the target cluster: the Link names another one now, or is not
    /// in charge of it any more. What remains is what is known of the Link itself.
    pub fn leave_cluster(&mut self) {
        (self.current, self.next, self.rejected) = (None, None, None);
        self.no_service = None;
        self.failure.recovered();
        self.first_sync = None;
        self.changing.clear();
        self.outcomes = Outcomes::default();
        self.keeps_reports = false;
        (self.gateway, self.api_gateway) = (None, None);
    }
}
